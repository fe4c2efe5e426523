// A worker's part in a run, against a real coordinator in this process.
#include "worker/member/member.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/host.h"
#include "common/rpc/grpc_server.h"
#include "common/session/session.h"
#include "coordinator/run/coordinator.h"
#include "tests/support/sockets.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;

constexpr int kWorkers = 2;
constexpr uint64_t kBytes = 4000;
constexpr auto kSoon = std::chrono::seconds(20);

const Layout kTensors = {{"weight", {kBytes / 4}, "float32", false}};

MemberOptions Options(const std::string& coordinator) {
  MemberOptions options;
  options.endpoint.coordinator = coordinator;
  options.endpoint.listen = "127.0.0.1:0";
  options.backend = "ring";
  return options;
}

absl::Status DeclareAndConnect(RunMember& member, const View& view) {
  const auto layout = member.Declare("lenet", kTensors, {{kBytes, v1::DTYPE_FLOAT32}});
  return layout.ok() ? member.Connect(view) : layout.status();
}

v1::Hello HelloOf(int rank) {
  v1::Hello hello;
  hello.add_ranks(static_cast<uint32_t>(rank));
  return hello;
}

struct TestWorker {
  std::promise<absl::Status> end;  // as the coordinator tells it
  std::unique_ptr<RunMember> member;
};

absl::StatusOr<std::unique_ptr<RunMember>> MakeMember(const std::string& coordinator,
                                                      TestWorker& worker) {
  MemberHooks hooks;
  hooks.on_end = [&worker](const absl::Status& end) { worker.end.set_value(end); };
  return RunMember::Create(Options(coordinator), hooks);
}

// As the coordinator told it; DeadlineExceeded if it does not.
absl::Status ToldEnd(TestWorker& worker) {
  std::future<absl::Status> end = worker.end.get_future();
  const bool came = end.wait_for(kSoon) == std::future_status::ready;
  return came ? end.get() : absl::DeadlineExceededError("the worker did not hear of the end");
}

bool EndsSoon(const RunMember& member) {
  const absl::Time deadline = SteadyNow() + absl::FromChrono(kSoon);
  while (member.ended().ok() && SteadyNow() < deadline) absl::SleepFor(absl::Milliseconds(1));
  return !member.ended().ok();
}

// Two workers on a ring, connected. Their streams stay open whatever happens to the run, so that
// nothing but the coordinator tells them of its end.
class MemberTest : public ::testing::Test {
 protected:
  MemberTest() {
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
    auto created = MakeMember(coordinator_->address(), worker);
    if (!created.ok()) return created.status();
    worker.member = *std::move(created);
    const absl::StatusOr<View> view = worker.member->Join(HelloOf(rank));
    return view.ok() ? DeclareAndConnect(*worker.member, *view) : view.status();
  }

  // Rank 0 waits for rank 1's gradients, which do not come within an hour.
  std::future<absl::Status> WaitForMean() {
    const BucketKey key{LayoutId(0), Step(0), Bucket(0)};
    Exchange& exchange = workers_[0]->member->exchange();
    exchange.Expect(key, absl::MakeSpan(mean_), SteadyNow() + absl::Hours(1),
                    [this](absl::Status status) { done_.set_value(std::move(status)); });
    exchange.Contribute(key, Rank(0), terms_);
    return done_.get_future();
  }
  std::future<void> StopRun() {
    return std::async(std::launch::async,
                      [this] { coordinator_->Stop("the operator stopped it"); });
  }
  // As Cancelled if it does not come; then the exchange is ended for the test's sake.
  absl::Status EndOf(std::future<absl::Status> transfer) {
    if (transfer.wait_for(kSoon) == std::future_status::ready) return transfer.get();
    workers_[0]->member->exchange().Cancel(absl::CancelledError("it did not end"));
    return transfer.get();
  }

  // Longer than the workers, which may write to them.
  const std::vector<uint8_t> terms_ = std::vector<uint8_t>(kBytes, 1);
  std::vector<uint8_t> mean_ = std::vector<uint8_t>(kBytes);
  std::promise<absl::Status> done_;
  std::unique_ptr<Coordinator> coordinator_;
  std::vector<std::unique_ptr<TestWorker>> workers_;
};

TEST_F(MemberTest, RunIsAborted_TransferUnderWay_EndsWithTheReason) {
  std::future<absl::Status> transfer = WaitForMean();
  const std::future<void> stopping = StopRun();
  const absl::Status status = EndOf(std::move(transfer));
  workers_.clear();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("the operator stopped it"));
}

TEST_F(MemberTest, RunIsAborted_TheHookHearsTheReasonAndItIsKept) {
  const std::future<void> stopping = StopRun();
  const absl::Status end = ToldEnd(*workers_[1]);
  EXPECT_THAT(std::string(end.message()), HasSubstr("the operator stopped it"));
  EXPECT_TRUE(EndsSoon(*workers_[1]->member));  // it ends after the hook has heard
  workers_[1]->member->Stop(absl::CancelledError("later"));
  EXPECT_EQ(workers_[1]->member->ended(), end);
  workers_.clear();
}

TEST_F(MemberTest, Stop_TransferUnderWay_EndsWithItsReasonAndOthersHearIt) {
  std::future<absl::Status> transfer = WaitForMean();
  const absl::Status reason = absl::CancelledError("signal 15");
  workers_[0]->member->Stop(reason);
  EXPECT_EQ(EndOf(std::move(transfer)), reason);
  EXPECT_EQ(workers_[0]->member->ended(), reason);
  EXPECT_THAT(std::string(ToldEnd(*workers_[1]).message()),
              HasSubstr("was lost in step 0: it left: signal 15"));
}

absl::optional<v1::Work> WaitsIn(uint64_t generation) {
  v1::Work work;
  work.set_phase("wait");
  work.set_waits(true);
  work.set_generation(generation);
  return work;
}

// Of a worker that declares what it exchanges, and takes no part in anything else.
absl::StatusOr<std::unique_ptr<Session>> Declare(
    const std::string& coordinator, int rank = 1,
    std::function<absl::optional<v1::Work>()> work = nullptr,
    Session::OnAbort on_abort = [](const absl::Status&) {}) {
  SessionOptions options;
  options.coordinator = coordinator;
  options.work = std::move(work);
  auto session = Session::Open(options, std::move(on_abort));
  if (!session.ok()) return session.status();
  v1::Hello hello = HelloOf(rank);
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

// A worker that waits beside peers that the test drives.
class MemberLateTest : public ::testing::Test {
 protected:
  void StartCoordinator(int world_size) {
    CoordinatorOptions options;
    options.listen = "127.0.0.1:0";
    options.metrics = "127.0.0.1:0";
    options.world_size = world_size;
    coordinator_ = Coordinator::Start(options).value();
  }
  absl::Status StartWorker() {
    MemberOptions options = Options(coordinator_->address());
    options.backend = "coordinator";  // which does not need the others
    options.step_timeout = step_timeout_;
    MemberHooks hooks;
    hooks.work = work_;
    auto created = RunMember::Create(options, hooks);
    if (!created.ok()) return created.status();
    member_ = *std::move(created);
    const absl::StatusOr<View> view = member_->Join(HelloOf(0));
    return view.ok() ? DeclareAndConnect(*member_, *view) : view.status();
  }
  // Starts it beside two peers, which do nothing: rank 1, which tells nothing of itself, and rank
  // 2, which tells `work`.
  void StartBesideTwo(std::function<absl::optional<v1::Work>()> work) {
    StartCoordinator(3);
    std::vector<std::future<absl::StatusOr<std::unique_ptr<Session>>>> declared;
    for (int rank = 1; rank <= 2; ++rank) {
      declared.push_back(std::async(std::launch::async, [this, rank, work] {
        return Declare(coordinator_->address(), rank, rank == 1 ? nullptr : work,
                       [this, rank](const absl::Status& end) { ends_[rank].set_value(end); });
      }));
    }
    ASSERT_EQ(StartWorker(), absl::OkStatus());
    for (auto& peer : declared) {
      auto session = peer.get();
      ASSERT_TRUE(session.ok()) << session.status();
      peers_.push_back(*std::move(session));
    }
  }
  // Likewise, but rank 2 does its part in the first view.
  void StartBesideTwoThatStop() {
    ASSERT_NO_FATAL_FAILURE(StartBesideTwo([] { return WaitsIn(1); }));
    v1::Ready ready;
    ready.set_generation(1);
    peers_[1]->ReportReady(ready);
  }
  // The next view, after the worker awaited a seal that does not come.
  NextView AwaitLoss() {
    member_->ReportReady(Step(0), /*last=*/false);
    const absl::Status sealed = member_->AwaitSealed(Step(0));
    EXPECT_TRUE(absl::IsAborted(sealed)) << sealed;
    return member_->AwaitNextView(sealed, Step(0));
  }

  // How rank 0's bucket ends, to which nobody else adds anything within the step timeout.
  absl::Status WaitForMean() {
    const std::vector<uint8_t> terms(kBytes, 1);
    std::vector<uint8_t> mean(kBytes);
    std::promise<absl::Status> done;
    const BucketKey key{LayoutId(0), Step(0), Bucket(0)};
    member_->exchange().Expect(key, absl::MakeSpan(mean), SteadyNow() + step_timeout_,
                               [&done](const absl::Status& status) { done.set_value(status); });
    member_->exchange().Contribute(key, Rank(0), terms);
    return done.get_future().get();
  }

  absl::Duration step_timeout_ = absl::Milliseconds(100);  // of the worker
  std::atomic<uint64_t> generation_{1};                    // which the worker says it waits in
  // What it says of itself; empty: nothing, as a program on the library does not.
  std::function<absl::optional<v1::Work>()> work_ = [this] { return WaitsIn(generation_); };
  std::unique_ptr<Coordinator> coordinator_;
  std::promise<absl::Status> ends_[3];  // by rank, as the coordinator tells it
  std::vector<std::unique_ptr<Session>> peers_;
  std::unique_ptr<RunMember> member_;
};

TEST_F(MemberLateTest, AwaitSealed_AnotherDoesNothing_ItIsLostAndTheWaitEnds) {
  StartCoordinator(2);
  auto peer = std::async(std::launch::async, [this] { return Declare(coordinator_->address()); });
  ASSERT_EQ(StartWorker(), absl::OkStatus());
  const auto session = peer.get();
  ASSERT_TRUE(session.ok()) << session.status();
  const NextView next = AwaitLoss();
  ASSERT_EQ(next.kind, NextView::kGoOn);
  EXPECT_EQ(next.view.OwnRanks(), std::vector<Rank>({Rank(0), Rank(1)}));
}

// They may take one for what they do before they wait for a mean, and one to get it.
TEST_F(MemberLateTest, AwaitSealed_AnotherDoesNothing_ItHasTwoStepTimeoutsBeforeItIsLost) {
  step_timeout_ = absl::Seconds(2);  // longer than the coordinator looks into what it is told
  StartCoordinator(2);
  auto peer = std::async(std::launch::async, [this] { return Declare(coordinator_->address()); });
  ASSERT_EQ(StartWorker(), absl::OkStatus());
  const auto session = peer.get();
  ASSERT_TRUE(session.ok()) << session.status();
  const absl::Time begun = SteadyNow();
  ASSERT_EQ(AwaitLoss().kind, NextView::kGoOn);
  EXPECT_GE(SteadyNow() - begun, 2 * step_timeout_);
}

TEST_F(MemberLateTest, AwaitSealed_ASecondDoesNothingInTheNextView_ItIsLostToo) {
  ASSERT_NO_FATAL_FAILURE(StartBesideTwoThatStop());
  NextView next = AwaitLoss();
  ASSERT_EQ(next.kind, NextView::kGoOn);
  ASSERT_EQ(next.view.members.size(), 2u);
  ASSERT_EQ(member_->Connect(next.view), absl::OkStatus());
  generation_ = next.view.generation.value();
  next = AwaitLoss();
  ASSERT_EQ(next.kind, NextView::kGoOn);
  EXPECT_EQ(next.view.OwnRanks(), std::vector<Rank>({Rank(0), Rank(1), Rank(2)}));
}

// A transfer that a loss ended may report a fault of its own, after the next view has come.
TEST_F(MemberLateTest, AwaitNextView_InternalFaultAfterALoss_GoesOnAndWithoutOneEnds) {
  ASSERT_NO_FATAL_FAILURE(StartBesideTwo(nullptr));
  const absl::Status fault = absl::InternalError("the transfer still holds memory");
  EXPECT_EQ(member_->AwaitNextView(fault, Step(0)).kind, NextView::kEnd);
  peers_.front().reset();
  const absl::Time deadline = SteadyNow() + absl::FromChrono(kSoon);
  while (member_->EndedOrChanged().ok() && SteadyNow() < deadline) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(member_->AwaitNextView(fault, Step(0)).kind, NextView::kGoOn);
}

TEST_F(MemberLateTest, AwaitNextView_PartsOfTwoAreMissing_BothAreLost) {
  work_ = nullptr;  // then the coordinator takes for late only those that are named
  ASSERT_NO_FATAL_FAILURE(StartBesideTwo(nullptr));
  const absl::Status late = WaitForMean();
  ASSERT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  EXPECT_EQ(member_->AwaitNextView(late, Step(0)).kind, NextView::kGoOn);
  for (const int rank : {1, 2}) {
    std::future<absl::Status> told = ends_[rank].get_future();
    ASSERT_EQ(told.wait_for(kSoon), std::future_status::ready) << rank;
    EXPECT_THAT(std::string(told.get().message()), HasSubstr("waited in vain for its part"));
  }
}

// Who waits for a seal transfers the next step already. It does not wait for two step timeouts.
TEST_F(MemberLateTest, AwaitSealed_PartOfTheNextStepIsMissing_ItsWorkerIsLostInThatStep) {
  step_timeout_ = absl::Minutes(1);
  StartCoordinator(2);
  auto peer = std::async(std::launch::async, [this] {
    return Declare(coordinator_->address(), 1, nullptr,
                   [this](const absl::Status& end) { ends_[1].set_value(end); });
  });
  ASSERT_EQ(StartWorker(), absl::OkStatus());
  const auto session = peer.get();
  ASSERT_TRUE(session.ok()) << session.status();
  step_timeout_ = absl::Milliseconds(100);
  ASSERT_TRUE(absl::IsDeadlineExceeded(WaitForMean()));
  member_->ReportReady(Step(0), /*last=*/false);
  const absl::Status sealed = member_->AwaitSealed(Step(0));
  EXPECT_TRUE(absl::IsAborted(sealed)) << sealed;
  std::future<absl::Status> told = ends_[1].get_future();
  ASSERT_EQ(told.wait_for(kSoon), std::future_status::ready);
  EXPECT_THAT(std::string(told.get().message()),
              HasSubstr("waited in vain for its part of step 1: "));
}

TEST_F(MemberLateTest, TellLost_TwiceBeforeReportReady_CoordinatorHearsTheSum) {
  StartCoordinator(2);
  auto peer = std::async(std::launch::async, [this] { return Declare(coordinator_->address()); });
  ASSERT_EQ(StartWorker(), absl::OkStatus());
  const auto session = peer.get();
  ASSERT_TRUE(session.ok()) << session.status();
  const NextView next = AwaitLoss();
  ASSERT_EQ(next.kind, NextView::kGoOn);
  ASSERT_EQ(member_->Connect(next.view), absl::OkStatus());
  member_->TellLost({absl::Seconds(1), absl::ZeroDuration(), absl::ZeroDuration()});
  member_->TellLost({absl::Seconds(2), absl::Seconds(4), absl::Seconds(8)});
  member_->ReportReady(Step(0), /*last=*/false);
  ASSERT_EQ(member_->AwaitSealed(Step(0)), absl::OkStatus());
  const auto reply = testing::HttpGet(coordinator_->metrics_address(), "/metrics");
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_THAT(reply->body, HasSubstr("\ngradwire_lost_seconds_total 15\n"));
}

TEST_F(MemberLateTest, TellLost_OfTwoLosses_CoordinatorHearsOfEachOnce) {
  ASSERT_NO_FATAL_FAILURE(StartBesideTwoThatStop());
  for (const int seconds : {1, 2}) {
    const NextView next = AwaitLoss();
    ASSERT_EQ(next.kind, NextView::kGoOn);
    ASSERT_EQ(member_->Connect(next.view), absl::OkStatus());
    generation_ = next.view.generation.value();
    member_->TellLost({absl::Seconds(seconds), absl::ZeroDuration(), absl::ZeroDuration()});
  }
  member_->ReportReady(Step(0), /*last=*/false);
  ASSERT_EQ(member_->AwaitSealed(Step(0)), absl::OkStatus());
  const auto reply = testing::HttpGet(coordinator_->metrics_address(), "/metrics");
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_THAT(reply->body, HasSubstr("\ngradwire_lost_seconds_total 3\n"));
}

// A coordinator that takes nobody in, and keeps what it was told.
class RefusingService final : public v1::Membership::Service {
 public:
  grpc::Status Session(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::WorkerMessage>* stream) override {
    v1::WorkerMessage message;
    stream->Read(&message);
    hello = message.hello();
    return {grpc::StatusCode::INVALID_ARGUMENT, "nobody is taken in"};
  }

  v1::Hello hello;
};

TEST(MemberHelloTest, Join_SaysWhichProcessItIsAndWhereItServes) {
  RefusingService service;
  GrpcServer server = StartGrpcServer("127.0.0.1:0", {&service}).value();
  const auto member = RunMember::Create(Options(server.address)).value();
  const absl::Status refused = member->Join(HelloOf(3)).status();
  server.Shutdown();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
  EXPECT_FALSE(member->joined());
  EXPECT_EQ(service.hello.ranks(0), 3u);
  EXPECT_EQ(service.hello.address(), member->address());
  EXPECT_EQ(service.hello.pid(), static_cast<uint32_t>(getpid()));
  EXPECT_EQ(service.hello.host(), CoresId());
  EXPECT_EQ(service.hello.cores(), static_cast<uint32_t>(UsableCores()));
}

TEST(MemberHelloTest, Join_WithAndWithoutSharedMemory_SaysWhichAndItsLimitsOrNeither) {
  for (const bool shares : {true, false}) {
    RefusingService service;
    GrpcServer server = StartGrpcServer("127.0.0.1:0", {&service}).value();
    MemberOptions options = Options(server.address);
    options.endpoint.shares_memory = shares;
    const auto member = RunMember::Create(options).value();
    EXPECT_FALSE(member->Join(HelloOf(0)).ok());
    server.Shutdown();
    EXPECT_EQ(service.hello.memory(), shares ? MemoryId() : "");
    EXPECT_EQ(service.hello.has_memory_limits(), !service.hello.memory().empty());
  }
}

TEST(MemberHelloTest, Join_AfterStop_SaysNothingAndGivesTheReason) {
  RefusingService service;
  GrpcServer server = StartGrpcServer("127.0.0.1:0", {&service}).value();
  const auto member = RunMember::Create(Options(server.address)).value();
  const absl::Status reason = absl::CancelledError("signal 15");
  member->Stop(reason);
  EXPECT_EQ(member->Join(HelloOf(3)).status(), reason);
  server.Shutdown();
  EXPECT_EQ(member->ended(), reason);
  EXPECT_EQ(service.hello.ranks_size(), 0);
}

TEST(MemberLossTest, PeerLostWhileConnecting_ReconnectsWithWhatWasDeclared) {
  CoordinatorOptions options;
  options.listen = "127.0.0.1:0";
  options.metrics = "off";
  options.world_size = 2;
  const auto coordinator = Coordinator::Start(options).value();
  auto peer = std::async(std::launch::async, ComeAndGo, coordinator->address());
  const auto member = RunMember::Create(Options(coordinator->address())).value();
  const View view = member->Join(HelloOf(0)).value();
  const absl::Status lost = DeclareAndConnect(*member, view);
  EXPECT_EQ(peer.get(), absl::OkStatus());
  const NextView next = member->AwaitNextView(lost, Step(0));
  ASSERT_EQ(next.kind, NextView::kGoOn) << lost;
  ASSERT_EQ(member->Connect(next.view), absl::OkStatus());

  // Both ranks are carried here now, and the bucket is known.
  const std::vector<float> terms(kBytes / 4, 3);
  std::vector<float> mean(kBytes / 4);
  const auto bytes = [](auto& floats) {
    return absl::MakeSpan(reinterpret_cast<uint8_t*>(const_cast<float*>(floats.data())), kBytes);
  };
  std::promise<absl::Status> done;
  const BucketKey key{LayoutId(0), Step(0), Bucket(0)};
  member->exchange().Expect(key, bytes(mean), SteadyNow() + absl::Seconds(20),
                            [&](const absl::Status& status) { done.set_value(status); });
  for (const Rank rank : {Rank(0), Rank(1)}) {
    member->exchange().Contribute(key, rank, bytes(terms));
  }
  EXPECT_EQ(done.get_future().get(), absl::OkStatus());
  EXPECT_EQ(mean, terms);
}

}  // namespace
}  // namespace gradwire
