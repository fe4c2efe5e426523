// Training with overlap gives the bits of training without, whatever is missing
// from a step; and ends well when a transfer does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/run/training.h"
#include "tests/worker/sync/fake_backend.h"
#include "worker/ddp/hash.h"
#include "worker/sync/barrier_sync.h"
#include "worker/sync/ddp_sync.h"
#include "worker/sync/no_sync.h"

namespace gradwire {
namespace {

using testing::Batches;
using ::testing::ElementsAre;
using testing::ExpectNear;
using testing::FakeBackend;
using testing::HashOf;
using testing::PlainModel;
using testing::RunTrainer;
using testing::StagedModel;
using testing::Training;
using testing::TrainRanks;

class DdpOfRanksTest : public ::testing::TestWithParam<int> {};

TEST_P(DdpOfRanksTest, Run_AnyBucketCap_BitsOfTheBarrier) {
  Training training;
  training.ranks = GetParam();
  training.sync = "gather-scatter";
  const std::string expected = HashOf(*TrainRanks(training));
  training.sync = "ddp";
  for (const double cap : {0.0, 100.0, 500.0, 5000.0, 1e9}) {
    training.options.bucket_cap_bytes = cap;
    EXPECT_EQ(HashOf(*TrainRanks(training)), expected) << cap;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, DdpOfRanksTest, ::testing::Values(1, 2, 3));

TEST(DdpTest, Run_Barrier_SameBits) {
  Training training;
  training.options.bucket_cap_bytes = 0;
  const std::string overlapped = HashOf(*TrainRanks(training));
  training.options.barrier = true;
  EXPECT_EQ(HashOf(*TrainRanks(training)), overlapped);
}

TEST(DdpTest, Run_ModelWithoutStages_BitsOfTheBarrier) {
  Training training;
  training.make = [] { return std::make_shared<PlainModel>(); };
  const std::string overlapped = HashOf(*TrainRanks(training));
  training.sync = "gather-scatter";
  EXPECT_EQ(HashOf(*TrainRanks(training)), overlapped);
}

TEST(DdpTest, Run_BuffersNotBroadcast_EveryRankKeepsItsOwn) {
  Training training;
  training.ranks = 1;
  const std::string broadcast = HashOf(*TrainRanks(training));
  training.options.broadcast_buffers = false;
  EXPECT_EQ(HashOf(*TrainRanks(training)), broadcast);
}

TEST(DdpTest, Run_Ring_RanksEqualAndNearTheFold) {
  Training training;
  const auto fold = TrainRanks(training);
  training.backend = "ring";
  ExpectNear(*TrainRanks(training), *fold, 1e-4);
}

TEST(DdpTest, Run_Sharded_BitsOfTheCoordinator) {
  Training training;
  const std::string expected = HashOf(*TrainRanks(training));
  training.backend = "sharded";
  EXPECT_EQ(HashOf(*TrainRanks(training)), expected);
}

TEST(DdpTest, Run_FrozenParameter_Unchanged) {
  const auto model = TrainRanks(Training());
  EXPECT_TRUE(static_cast<StagedModel*>(model.get())->frozen.equal(torch::ones({5})));
}

TEST(DdpTest, Run_MicroBatches_NearOneBatch) {
  Training training;
  training.make = [] { return std::make_shared<PlainModel>(); };
  const auto whole = TrainRanks(training);
  for (const int64_t size : {1, 2, 3}) {
    training.options.micro_batch = size;
    ExpectNear(*TrainRanks(training), *whole, 1e-5);
  }
}

TEST(DdpTest, Run_MicroBatches_BitsOfTheBarrier) {
  Training training;
  training.options.micro_batch = 2;
  const std::string overlapped = HashOf(*TrainRanks(training));
  training.sync = "gather-scatter";
  EXPECT_EQ(HashOf(*TrainRanks(training)), overlapped);
}

TEST(DdpTest, Run_MicroBatchesAlone_NearOneBatch) {
  NoSync sync;
  auto whole = std::make_shared<PlainModel>(), pieces = std::make_shared<PlainModel>();
  Trainer at_once(whole, TrainerOptions());
  ASSERT_TRUE(RunTrainer(at_once, Batches(3, 8, 0, 8), sync).ok());
  TrainerOptions options;
  options.micro_batch = 3;
  Trainer in_pieces(pieces, options);
  ASSERT_TRUE(RunTrainer(in_pieces, Batches(3, 8, 0, 8), sync).ok());
  ExpectNear(*pieces, *whole, 1e-5);
}

// One rank on a back end whose transfers the test ends.
class LateUpdateTest : public ::testing::Test {
 protected:
  LateUpdateTest() { options_.bucket_cap_bytes = 0; }

  absl::Status Run(int64_t steps) {
    Trainer trainer(model_, options_);
    buckets_ = static_cast<int>(trainer.BucketSpecs().size());
    return RunTrainer(trainer, Batches(steps, 4, 0, 4), sync_,
                      [this](const StepReport& report) { reports_.push_back(report); });
  }
  std::vector<uint64_t> ReportedSteps() const {
    std::vector<uint64_t> steps;
    for (const StepReport& report : reports_) steps.push_back(report.step.value());
    return steps;
  }
  // Ends every transfer at once, but that of `step` and `bucket` with `status`.
  void EndAllBut(Step step, int bucket, const absl::Status& status) {
    backend_.on_hand_in = [=](const ReduceKey& key) {
      const bool chosen = key.step == step && key.bucket.value() == bucket;
      backend_.End(key.bucket.value(), chosen ? status : absl::OkStatus());
    };
  }

  TrainerOptions options_;
  std::shared_ptr<StagedModel> model_ = std::make_shared<StagedModel>();
  FakeBackend backend_;
  DdpSync sync_{&backend_};
  std::vector<StepReport> reports_;
  int buckets_ = 0;
};

TEST_F(LateUpdateTest, Run_ThreeSteps_EachReportedOnceInOrder) {
  EndAllBut(Step(99), 0, absl::OkStatus());
  ASSERT_TRUE(Run(3).ok());
  EXPECT_THAT(ReportedSteps(), ElementsAre(0, 1, 2));
}

// Step 1 does not use it.
TEST_F(LateUpdateTest, Run_ParameterUnusedInAStep_ItsGradientIsZero) {
  options_.momentum = options_.weight_decay = 0;
  EndAllBut(Step(99), 0, absl::OkStatus());
  Trainer trainer(model_, options_);
  std::vector<torch::Tensor> values;
  const auto keep = [&](const StepReport&) { values.push_back(model_->sometimes.clone()); };
  ASSERT_TRUE(RunTrainer(trainer, Batches(2, 4, 0, 4), sync_, keep).ok());
  EXPECT_FALSE(values[0].equal(torch::ones({20})));
  EXPECT_TRUE(values[1].equal(values[0]));
}

TEST_F(LateUpdateTest, Run_TransferFails_ItsErrorAndOnlyCompleteStepsReported) {
  EndAllBut(Step(1), 2, absl::UnavailableError("rank 1 is gone"));
  EXPECT_EQ(Run(5), absl::UnavailableError("rank 1 is gone"));
  EXPECT_THAT(ReportedSteps(), ElementsAre(0));
  EXPECT_EQ(backend_.under_way(), 0u);
}

TEST_F(LateUpdateTest, Run_TransferOfTheLastStepFails_ItsError) {
  EndAllBut(Step(2), 0, absl::DataLossError("wrong checksum"));
  EXPECT_EQ(Run(3), absl::DataLossError("wrong checksum"));
  EXPECT_THAT(ReportedSteps(), ElementsAre(0, 1));
}

// The others would otherwise go on reading and writing what Run's caller frees.
TEST_F(LateUpdateTest, Run_TransferFailsWhileOthersAreUnderWay_AllEndBeforeItReturns) {
  backend_.on_hand_in = [this](const ReduceKey& key) {
    if (key.bucket.value() == 3) backend_.End(3, absl::UnavailableError("rank 1 is gone"));
  };
  EXPECT_EQ(Run(2), absl::UnavailableError("rank 1 is gone"));
  EXPECT_EQ(backend_.under_way(), 0u);
  EXPECT_EQ(backend_.cancelled(), absl::UnavailableError("rank 1 is gone"));
}

TEST_F(LateUpdateTest, Run_StoppedWhileTransfersAreUnderWay_CancelledAndAllEnd) {
  Trainer trainer(model_, options_);
  Batches batches(3, 4, 0, 4);
  const absl::Status status =
      trainer.Run([&] { return batches.Next(); }, sync_, [](const StepReport&) {},
                  [&] { return backend_.under_way() > 1; });
  EXPECT_EQ(status, absl::CancelledError("the worker was told to stop"));
  EXPECT_EQ(backend_.under_way(), 0u);
}

TEST_F(LateUpdateTest, Run_ModelThrowsWhileTransfersAreUnderWay_InternalAndAllEnd) {
  Trainer trainer(model_, options_);
  backend_.on_hand_in = [this](const ReduceKey& key) { backend_.End(key.bucket.value()); };
  int64_t step = 0;
  auto next = [&]() -> absl::StatusOr<Batch> {
    const int64_t channels = step == 1 ? 1 : 3;
    return Batch{Step(static_cast<uint64_t>(step++)), 0, 0, torch::zeros({2, channels, 8, 8}),
                 torch::zeros({2}, torch::kInt64)};
  };
  const absl::Status status = trainer.Run(
      next, sync_, [](const StepReport&) {}, [] { return false; });
  EXPECT_THAT(std::string(status.message()), ::testing::StartsWith("step 1: torch: "));
  EXPECT_EQ(backend_.under_way(), 0u);
}

TEST_F(LateUpdateTest, Run_BatchesEndInAnError_LastStepCompletedFirst) {
  EndAllBut(Step(99), 0, absl::OkStatus());
  Trainer trainer(model_, options_);
  Batches batches(2, 4, 0, 4);
  const absl::Status status = trainer.Run(
      [&] {
        absl::StatusOr<Batch> batch = batches.Next();
        return batch.ok() ? batch : absl::DataLossError("unreadable image");
      },
      sync_, [this](const StepReport& report) { reports_.push_back(report); },
      [] { return false; });
  EXPECT_EQ(status, absl::DataLossError("unreadable image"));
  EXPECT_THAT(ReportedSteps(), ElementsAre(0, 1));
}

// Tells of each stage before it runs.
class ToldModel : public StagedModel {
 public:
  explicit ToldModel(std::function<void(size_t)> on_stage) : on_stage_(std::move(on_stage)) {}
  std::vector<Stage> stages() override {
    std::vector<Stage> stages = StagedModel::stages();
    for (size_t i = 0; i < stages.size(); ++i) {
      stages[i].forward = [this, i, forward = stages[i].forward](torch::Tensor x) {
        on_stage_(i);
        return forward(std::move(x));
      };
    }
    return stages;
  }

 private:
  std::function<void(size_t)> on_stage_;
};

// What the last stage reads ends only when the front ones have run again.
TEST_F(LateUpdateTest, Run_LastStageNotThereYet_FrontStagesRunAhead) {
  int forward_passes = 0;
  // Buckets 0 and 1 are the last stage's.
  auto told = std::make_shared<ToldModel>([&](size_t stage) {
    if (stage != 1 || ++forward_passes != 2) return;
    EXPECT_EQ(backend_.under_way(), 2u);
    backend_.End(0);
    backend_.End(1);
  });
  backend_.on_hand_in = [&](const ReduceKey& key) {
    const bool held = key.step == Step(0) && key.bucket.value() < 2;
    if (!held) backend_.End(key.bucket.value());
  };
  Trainer trainer(told, options_);
  EXPECT_TRUE(RunTrainer(trainer, Batches(2, 4, 0, 4), sync_).ok());
  EXPECT_EQ(forward_passes, 2);
}

TEST_F(LateUpdateTest, Run_OneTransferNeverEnds_DeadlineExceeded) {
  options_.step_timeout = -absl::Seconds(10);
  backend_.on_hand_in = [&](const ReduceKey& key) {
    if (key.bucket.value() > 0) backend_.End(key.bucket.value());
  };
  EXPECT_EQ(Run(2), absl::DeadlineExceededError("step 0: a neighbour takes no more data"));
}

}  // namespace
}  // namespace gradwire
