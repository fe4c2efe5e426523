// A worker loses its peer when both have all means of a step that is not sealed yet: it computes
// the step again and reports it once. The test drives the peer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "common/base/status_util.h"
#include "common/rpc/channel.h"
#include "coordinator/run/coordinator.h"
#include "gradwire/v1/status.grpc.pb.h"
#include "tests/support/sockets.h"
#include "tests/support/temp_dir.h"
#include "worker/data/dataset.h"
#include "worker/ddp/model_layout.h"
#include "worker/options/worker_option_parser.h"
#include "worker/run/from_options.h"
#include "worker/run/worker.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kRedoneSteps[] = "5";
constexpr Step kLostIn = Step(2);

WorkerOptions OptionsOfRank(int rank, const std::string& coordinator, const std::string& folder) {
  return ParseWorkerOptions({"--rank",           std::to_string(rank),
                             "--coordinator",    coordinator,
                             "--model",          "lenet",
                             "--dataset",        "synthetic",
                             "--batch-size",     "2",
                             "--threads",        "1",
                             "--iterations",     kRedoneSteps,
                             "--print-every",    "0",
                             "--sync",           "all-reduce",
                             "--backend",        "ring",
                             "--check-replicas", "0",
                             "--metrics",        "off",
                             "--log-jsonl",      folder + "/rank{rank}.jsonl",
                             "--summary",        folder + "/rank{rank}.json"},
                            {})
      .value()
      .options;
}

// Rank 1: what it contributes is 0.
class DrivenPeer {
 public:
  explicit DrivenPeer(const WorkerOptions& options) : options_(options) {}

  absl::Status Join() {
    const auto dataset = LoadDataset(options_.dataset, options_.data_dir, Split::kTrain);
    if (!dataset.ok()) return dataset.status();
    model_ = PrepareModel(ModelOptionsOf(options_, (*dataset)->classes)).value();
    auto created = RunMember::Create(MemberOptionsOf(options_, nullptr).value());
    if (!created.ok()) return created.status();
    member_ = *std::move(created);
    const auto view = member_->Join(MakeHello(options_, (*dataset)->size()));
    if (!view.ok()) return view.status();
    worker_ = view->Carrier(Rank(0)).address;
    const auto options = TrainerOptionsOf(options_, {view->world_size, 1, 1}, nullptr);
    if (!options.ok()) return options.status();
    buckets_ = Trainer::Create(model_, *options).value()->reducer().BucketSpecs();
    const auto layout = member_->Declare(options_.model, LayoutOf(*model_), buckets_);
    if (!layout.ok()) return layout.status();
    layout_ = *layout;
    return member_->Connect(*view);
  }

  // Until it has all means of the step, to which the worker has then contributed all.
  absl::Status Average(Step step) {
    Exchange& exchange = member_->exchange();
    std::vector<std::promise<absl::Status>> done(buckets_.size());
    std::vector<std::vector<uint8_t>> means;
    for (const BucketSpec& bucket : buckets_) means.emplace_back(bucket.bytes);
    const std::vector<std::vector<uint8_t>> terms = means;
    for (size_t i = 0; i < buckets_.size(); ++i) {
      const BucketKey key{layout_, step, Bucket(static_cast<int>(i))};
      exchange.Expect(key, absl::MakeSpan(means[i]), SteadyNow() + absl::Seconds(60),
                      [&done, i](const absl::Status& status) { done[i].set_value(status); });
      exchange.Contribute(key, Rank(1), terms[i]);
    }
    absl::Status status;
    for (std::promise<absl::Status>& one : done) status.Update(one.get_future().get());
    return status;
  }

  absl::Status Seal(Step step) {
    member_->ReportReady(step, /*last=*/false);
    return member_->AwaitSealed(step);
  }

  const std::string& worker() const { return worker_; }
  // What the worker says of itself.
  absl::StatusOr<v1::StatusReply> AskWorker() const {
    grpc::ClientContext context;
    context.set_deadline(ToGrpcDeadline(SteadyNow() + absl::Seconds(60)));
    v1::StatusReply reply;
    const grpc::Status asked = v1::Status::NewStub(MakeChannel(worker_))->Get(&context, {}, &reply);
    if (!asked.ok()) return FromGrpc(asked);
    return reply;
  }

 private:
  const WorkerOptions options_;
  std::string worker_;  // its address
  std::shared_ptr<Model> model_;
  std::vector<BucketSpec> buckets_;
  LayoutId layout_;
  std::unique_ptr<RunMember> member_;
};

class RedoneStepTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<testing::TempDir>();
    CoordinatorOptions options;
    options.listen = "127.0.0.1:0";
    options.metrics = "off";
    options.world_size = 2;
    const auto coordinator = Coordinator::Start(options).value();
    WorkerOptions of_worker = OptionsOfRank(0, coordinator->address(), folder_->path());
    of_worker.metrics = testing::UnusedAddress();
    Worker worker(of_worker);
    auto ended = std::async(std::launch::async, [&] { return worker.Run(); });
    EXPECT_EQ(BePeer(coordinator->address()), absl::OkStatus());
    EXPECT_EQ(ended.get(), 0);
    const auto metrics = testing::HttpGet(of_worker.metrics, "/metrics");
    metrics_ = metrics.ok() ? metrics->body : metrics.status().ToString();
    const auto ready = testing::HttpGet(of_worker.metrics, "/readyz");
    ready_ = ready.ok() ? ready->code : 0;
  }
  static void TearDownTestSuite() {
    folder_.reset();
    told_.reset();
  }

  static absl::Status BePeer(const std::string& coordinator) {
    DrivenPeer peer(OptionsOfRank(1, coordinator, folder_->path()));
    absl::Status status = peer.Join();
    for (Step step; status.ok() && step < kLostIn; ++step) {
      status = peer.Average(step);
      if (status.ok()) status = peer.Seal(step);
    }
    if (status.ok()) status = peer.Average(kLostIn);
    // The worker contributes the step behind it when it has ended this one, and takes no mean of
    // that before this one is sealed.
    if (status.ok()) status = peer.Average(Step(kLostIn.value() + 1));
    if (!status.ok()) return status;
    absl::StatusOr<v1::StatusReply> told = peer.AskWorker();
    if (!told.ok()) return told.status();
    told_ = std::make_unique<v1::StatusReply>(*std::move(told));
    worker_ = peer.worker();
    return absl::OkStatus();
  }

  static nlohmann::json SummaryOf(int rank) {
    return nlohmann::json::parse(
        testing::ReadFile(folder_->File("rank" + std::to_string(rank) + ".json")));
  }
  static std::vector<nlohmann::json> LogOf(int rank) {
    std::vector<nlohmann::json> lines;
    const std::string text =
        testing::ReadFile(folder_->File("rank" + std::to_string(rank) + ".jsonl"));
    for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      lines.push_back(nlohmann::json::parse(std::string(line)));
    }
    return lines;
  }
  static std::vector<int> StepsOf(int rank) {
    std::vector<int> steps;
    for (const nlohmann::json& line : LogOf(rank)) {
      if (!line.contains("kind")) steps.push_back(line["step"]);
    }
    return steps;
  }

  static std::unique_ptr<testing::TempDir> folder_;
  static std::unique_ptr<v1::StatusReply> told_;  // by the worker, just before the loss
  static std::string worker_;                     // its address
  static std::string metrics_;                    // of the worker, at the end
  static int ready_;                              // code of its /readyz, at the end
};
std::unique_ptr<testing::TempDir> RedoneStepTest::folder_;
std::unique_ptr<v1::StatusReply> RedoneStepTest::told_;
std::string RedoneStepTest::worker_;
std::string RedoneStepTest::metrics_;
int RedoneStepTest::ready_ = 0;

TEST_F(RedoneStepTest, Log_HasEachStepOnceInOrder) {
  EXPECT_THAT(StepsOf(0), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(StepsOf(1), ElementsAre(2, 3, 4));  // the peer has none
}

TEST_F(RedoneStepTest, Summary_CountsEachStepOnce) {
  EXPECT_EQ(SummaryOf(0)["iterations"], 5);
  EXPECT_EQ(SummaryOf(0)["samples"]["seen"], 10);
  EXPECT_EQ(SummaryOf(1)["iterations"], 3);
  EXPECT_EQ(SummaryOf(0)["trained_parameters"], 62006);
}

// It has ended the step that is lost, but that is not sealed.
TEST_F(RedoneStepTest, Status_BeforeTheLoss_CountsSealedSteps) {
  ASSERT_NE(told_, nullptr);
  EXPECT_EQ(told_->program(), "gradwire-worker");
  EXPECT_EQ(told_->state(), "running");
  EXPECT_EQ(told_->run_id().size(), 16u);
  EXPECT_EQ(told_->epoch(), 1u);
  EXPECT_EQ(told_->generation(), 1u);
  EXPECT_EQ(told_->world_size(), 2u);
  ASSERT_EQ(told_->ranks_size(), 1);
  EXPECT_EQ(told_->ranks(0).rank(), 0u);
  EXPECT_EQ(told_->ranks(0).address(), worker_);
  EXPECT_EQ(told_->ranks(0).steps_done(), kLostIn.value());
  EXPECT_EQ(told_->ranks(0).last_step().step(), kLostIn.value() - 1);
}

TEST_F(RedoneStepTest, Metrics_AtTheEnd_HaveTheViewWithoutThePeer) {
  EXPECT_THAT(metrics_, HasSubstr("\ngradwire_generation 2\n"));
  EXPECT_THAT(metrics_, HasSubstr("\ngradwire_workers 1\n"));
  EXPECT_THAT(metrics_, HasSubstr("\ngradwire_iterations_total 5\n"));
}

TEST_F(RedoneStepTest, Ready_OnceItHasItsView) { EXPECT_EQ(ready_, 200); }

TEST_F(RedoneStepTest, Recovery_BeginsWithTheStepThatIsNotSealed) {
  const nlohmann::json recoveries = SummaryOf(0)["failures"]["recoveries"];
  ASSERT_EQ(recoveries.size(), 1u);
  EXPECT_EQ(recoveries[0]["first_step"], kLostIn.value());
  EXPECT_EQ(recoveries[0]["adopted"], std::vector<int>{1});
  const auto heard = recoveries[0]["heard"].get<double>();
  const auto gone_on = recoveries[0]["gone_on"].get<double>();
  EXPECT_LE(heard, gone_on);
  EXPECT_GT(heard, gone_on - 60);
  for (const nlohmann::json& seconds : recoveries[0]["seconds_lost_by_phase"]) {
    EXPECT_GT(seconds.get<double>(), 0);
  }
}

}  // namespace
}  // namespace gradwire
