// A worker's part in a run, against a real coordinator in this process.
#include "worker/run/participation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <vector>

#include "common/base/clock.h"
#include "common/session/session.h"
#include "coordinator/run/coordinator.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;

constexpr int kWorkers = 2;
constexpr uint64_t kBytes = 4000;
constexpr auto kSoon = std::chrono::seconds(20);

const Layout kTensors = {{"weight", {kBytes / 4}, "float32", false}};

WorkerOptions Options(const std::string& coordinator) {
  WorkerOptions options;
  options.coordinator = coordinator;
  options.backend = "ring";
  options.listen = "127.0.0.1:0";
  options.model = "lenet";
  return options;
}

v1::Hello HelloOf(int rank) {
  v1::Hello hello;
  hello.add_ranks(static_cast<uint32_t>(rank));
  return hello;
}

struct TestWorker {
  Stopper stopper;
  std::unique_ptr<Participation> participation;
};

// Two workers on a ring, connected. Their streams stay open whatever happens to the run, so that
// nothing but the coordinator tells them of its end.
class ParticipationTest : public ::testing::Test {
 protected:
  ParticipationTest() {
    CoordinatorOptions options;
    options.listen = "127.0.0.1:0";
    options.metrics = "off";
    options.world_size = kWorkers;
    options.on_loss = kStop;
    coordinator_ = Coordinator::Start(options).value();
    std::vector<std::future<absl::Status>> connected;
    for (int rank = 0; rank < kWorkers; ++rank) {
      workers_.push_back(std::make_unique<TestWorker>());
      connected.push_back(
          std::async(std::launch::async, [this, rank] { return Connect(rank, *workers_[rank]); }));
    }
    for (auto& worker : connected) EXPECT_EQ(worker.get(), absl::OkStatus());
  }

  absl::Status Connect(int rank, TestWorker& worker) {
    auto created = Participation::Create(Options(coordinator_->address()), &worker.stopper, nullptr,
                                         [] { return v1::StatusReply(); });
    if (!created.ok()) return created.status();
    worker.participation = *std::move(created);
    const absl::StatusOr<View> view = worker.participation->Join(HelloOf(rank));
    if (!view.ok()) return view.status();
    return worker.participation->Connect(*view, kTensors, {{kBytes, v1::DTYPE_FLOAT32}}).status();
  }

  // Rank 0 waits for rank 1's gradients, which do not come within an hour.
  std::future<absl::Status> WaitForMean() {
    const BucketKey key{LayoutId(0), Step(0), Bucket(0)};
    Exchange& exchange = workers_[0]->participation->exchange();
    exchange.Expect(key, absl::MakeSpan(mean_), SteadyNow() + absl::Hours(1),
                    [this](absl::Status status) { done_.set_value(std::move(status)); });
    exchange.Contribute(key, Rank(0), terms_);
    return done_.get_future();
  }
  // A stopper's guard ends a process that stays for a second after that: let the workers go first.
  std::future<void> StopRun() {
    return std::async(std::launch::async,
                      [this] { coordinator_->Stop("the operator stopped it"); });
  }
  // As Cancelled if it does not come; then the exchange is ended for the test's sake.
  absl::Status EndOf(std::future<absl::Status> transfer) {
    if (transfer.wait_for(kSoon) == std::future_status::ready) return transfer.get();
    workers_[0]->participation->exchange().Cancel(absl::CancelledError("it did not end"));
    return transfer.get();
  }

  // Longer than the workers, which may write to them.
  const std::vector<uint8_t> terms_ = std::vector<uint8_t>(kBytes, 1);
  std::vector<uint8_t> mean_ = std::vector<uint8_t>(kBytes);
  std::promise<absl::Status> done_;
  std::unique_ptr<Coordinator> coordinator_;
  std::vector<std::unique_ptr<TestWorker>> workers_;
};

TEST_F(ParticipationTest, RunIsAborted_TransferUnderWay_EndsWithTheReason) {
  std::future<absl::Status> transfer = WaitForMean();
  const std::future<void> stopping = StopRun();
  const absl::Status status = EndOf(std::move(transfer));
  workers_.clear();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("the operator stopped it"));
}

TEST_F(ParticipationTest, RunIsAborted_StopperHearsTheReason) {
  const std::future<void> stopping = StopRun();
  ASSERT_TRUE(workers_[1]->stopper.WaitForRequest(SteadyNow() + absl::Seconds(20)));
  EXPECT_THAT(std::string(workers_[1]->stopper.reason().message()),
              HasSubstr("the operator stopped it"));
  workers_.clear();
}

TEST_F(ParticipationTest, Stop_TransferUnderWay_EndsWithItsReasonAndOthersHearIt) {
  std::future<absl::Status> transfer = WaitForMean();
  const absl::Status reason = absl::CancelledError("signal 15");
  workers_[0]->participation->Stop(reason);
  EXPECT_EQ(EndOf(std::move(transfer)), reason);
  ASSERT_TRUE(workers_[1]->stopper.WaitForRequest(SteadyNow() + absl::Seconds(20)));
  EXPECT_THAT(std::string(workers_[1]->stopper.reason().message()),
              HasSubstr("was lost in step 0: it left: signal 15"));
}

// Of a worker that declares what it exchanges, and takes no part in anything else.
absl::StatusOr<std::unique_ptr<Session>> Declare(const std::string& coordinator) {
  SessionOptions options;
  options.coordinator = coordinator;
  auto session = Session::Open(options, [](const absl::Status&) {});
  if (!session.ok()) return session.status();
  v1::Hello hello = HelloOf(1);
  hello.set_address("127.0.0.1:1");
  const absl::StatusOr<View> view = (*session)->Join(hello);
  if (!view.ok()) return view.status();
  v1::Layout layout = ToProto(kTensors, {{kBytes, v1::DTYPE_FLOAT32}});
  layout.set_name("lenet");
  const absl::Status declared = (*session)->DeclareLayout(layout).status();
  if (!declared.ok()) return declared;
  return session;
}

// A worker that is gone before anybody has reached it.
absl::Status ComeAndGo(const std::string& coordinator) { return Declare(coordinator).status(); }

TEST(ParticipationLateTest, AwaitSealed_AnotherDoesNothing_ItIsLostAndTheWaitEnds) {
  CoordinatorOptions coordinator_options;
  coordinator_options.listen = "127.0.0.1:0";
  coordinator_options.metrics = "off";
  coordinator_options.world_size = 2;
  const auto coordinator = Coordinator::Start(coordinator_options).value();
  auto peer = std::async(std::launch::async, Declare, coordinator->address());
  WorkerOptions options = Options(coordinator->address());
  options.backend = "coordinator";  // which does not need the other one
  options.step_timeout_seconds = 0.1;
  TestWorker worker;
  worker.participation = Participation::Create(
                             options, &worker.stopper, nullptr, [] { return v1::StatusReply(); },
                             [] {
                               v1::Work work;
                               work.set_phase("wait");
                               work.set_waits(true);
                               work.set_generation(1);
                               return absl::make_optional(work);
                             })
                             .value();
  Participation& participation = *worker.participation;
  const View view = participation.Join(HelloOf(0)).value();
  ASSERT_TRUE(participation.Connect(view, kTensors, {{kBytes, v1::DTYPE_FLOAT32}}).ok());
  const auto session = peer.get();
  ASSERT_TRUE(session.ok()) << session.status();
  participation.ReportReady(Step(0), /*last=*/false);
  const absl::Status sealed = participation.AwaitSealed(Step(0));
  EXPECT_TRUE(absl::IsAborted(sealed)) << sealed;
  const absl::optional<View> next = participation.AwaitView(sealed, Step(0));
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->OwnRanks(), std::vector<Rank>({Rank(0), Rank(1)}));
}

TEST(ParticipationLossTest, PeerLostWhileConnecting_ReconnectsWithWhatWasDeclared) {
  CoordinatorOptions options;
  options.listen = "127.0.0.1:0";
  options.metrics = "off";
  options.world_size = 2;
  const auto coordinator = Coordinator::Start(options).value();
  auto peer = std::async(std::launch::async, ComeAndGo, coordinator->address());
  TestWorker worker;
  worker.participation =
      Participation::Create(Options(coordinator->address()), &worker.stopper, nullptr, [] {
        return v1::StatusReply();
      }).value();
  Participation& participation = *worker.participation;
  const View view = participation.Join(HelloOf(0)).value();
  const absl::Status lost =
      participation.Connect(view, kTensors, {{kBytes, v1::DTYPE_FLOAT32}}).status();
  EXPECT_EQ(peer.get(), absl::OkStatus());
  const absl::optional<View> next = participation.AwaitView(lost, Step(0));
  ASSERT_TRUE(next.has_value()) << lost;
  ASSERT_EQ(participation.Reconnect(*next), absl::OkStatus());

  // Both ranks are carried here now, and the bucket is known.
  const std::vector<float> terms(kBytes / 4, 3);
  std::vector<float> mean(kBytes / 4);
  const auto bytes = [](auto& floats) {
    return absl::MakeSpan(reinterpret_cast<uint8_t*>(const_cast<float*>(floats.data())), kBytes);
  };
  std::promise<absl::Status> done;
  const BucketKey key{LayoutId(0), Step(0), Bucket(0)};
  participation.exchange().Expect(key, bytes(mean), SteadyNow() + absl::Seconds(20),
                                  [&](const absl::Status& status) { done.set_value(status); });
  for (const Rank rank : {Rank(0), Rank(1)}) {
    participation.exchange().Contribute(key, rank, bytes(terms));
  }
  EXPECT_EQ(done.get_future().get(), absl::OkStatus());
  EXPECT_EQ(mean, terms);
}

}  // namespace
}  // namespace gradwire
