// Training with overlap gives the bits of training without, whatever is missing
// from a step; and ends well when a transfer does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/worker/ddp/fake_exchange.h"
#include "tests/worker/run/training.h"
#include "worker/ddp/model_layout.h"

namespace gradwire {
namespace {

using testing::Batches;
using ::testing::ElementsAre;
using testing::ExpectNear;
using testing::FakeExchange;
using testing::HashOf;
using testing::PlainModel;
using testing::RunTrainer;
using testing::StagedModel;
using testing::TrainAllRanks;
using testing::Training;
using testing::TrainRanks;

class LateUpdateOfRanksTest : public ::testing::TestWithParam<int> {};

TEST_P(LateUpdateOfRanksTest, Run_AnyBucketCap_BitsOfTheBarrier) {
  Training training;
  training.ranks = GetParam();
  training.sync = "gather-scatter";
  const std::string expected = HashOf(*TrainRanks(training));
  training.sync = "ddp";
  for (const double cap : {0.0, 100.0, 500.0, 5000.0, 1e9}) {
    training.options.reducer.bucket_cap_bytes = cap;
    EXPECT_EQ(HashOf(*TrainRanks(training)), expected) << cap;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, LateUpdateOfRanksTest, ::testing::Values(1, 2, 3),
                         [](const auto& info) { return "Ranks" + std::to_string(info.param); });

TEST(LateUpdate, Run_Barrier_SameBits) {
  Training training;
  training.options.reducer.bucket_cap_bytes = 0;
  const std::string overlapped = HashOf(*TrainRanks(training));
  training.barrier = true;
  EXPECT_EQ(HashOf(*TrainRanks(training)), overlapped);
}

TEST(LateUpdate, Run_ModelWithoutStages_BitsOfTheBarrier) {
  Training training;
  training.make = [] { return std::make_shared<PlainModel>(); };
  const std::string overlapped = HashOf(*TrainRanks(training));
  training.sync = "gather-scatter";
  EXPECT_EQ(HashOf(*TrainRanks(training)), overlapped);
}

TEST(LateUpdate, Run_OneRank_BuffersAreItsOwnEitherWay) {
  Training training;
  training.ranks = 1;
  const std::string broadcast = HashOf(*TrainRanks(training));
  training.options.reducer.broadcast_buffers = false;
  EXPECT_EQ(HashOf(*TrainRanks(training)), broadcast);
}

TEST(LateUpdate, Run_BuffersNotBroadcast_EveryRankKeepsItsOwn) {
  Training training;
  training.options.reducer.broadcast_buffers = false;
  std::set<std::string> parameters, buffers;
  for (const auto& model : TrainAllRanks(training)) {
    parameters.insert(Sha256(model->parameters()));
    buffers.insert(Sha256(model->buffers()));
  }
  EXPECT_EQ(parameters.size(), 1u);
  EXPECT_EQ(buffers.size(), 3u);
}

TEST(LateUpdate, Run_ShardedOrRing_BitsOfTheCoordinator) {
  Training training;
  const std::string expected = HashOf(*TrainRanks(training));
  for (const char* backend : {"sharded", "ring"}) {
    training.backend = backend;
    EXPECT_EQ(HashOf(*TrainRanks(training)), expected) << backend;
  }
}

TEST(LateUpdate, Run_FrozenParameter_Unchanged) {
  const auto model = TrainRanks(Training());
  EXPECT_TRUE(static_cast<StagedModel*>(model.get())->frozen.equal(torch::ones({5})));
}

TEST(LateUpdate, Run_MicroBatches_NearOneBatch) {
  Training training;
  training.make = [] { return std::make_shared<PlainModel>(); };
  const auto whole = TrainRanks(training);
  for (const int64_t size : {1, 2, 3}) {
    training.options.micro_batch = size;
    ExpectNear(*TrainRanks(training), *whole, 1e-5);
  }
}

TEST(LateUpdate, Run_MicroBatches_BitsOfTheBarrier) {
  Training training;
  training.options.micro_batch = 2;
  const std::string overlapped = HashOf(*TrainRanks(training));
  training.sync = "gather-scatter";
  EXPECT_EQ(HashOf(*TrainRanks(training)), overlapped);
}

TEST(LateUpdate, Run_MicroBatchesAlone_NearOneBatch) {
  auto whole = std::make_shared<PlainModel>(), pieces = std::make_shared<PlainModel>();
  const auto at_once = Trainer::Create(whole, TrainerOptions()).value();
  ASSERT_TRUE(RunTrainer(*at_once, Batches(3, 8, 0, 8), nullptr).ok());
  TrainerOptions options;
  options.micro_batch = 3;
  const auto in_pieces = Trainer::Create(pieces, options).value();
  ASSERT_TRUE(RunTrainer(*in_pieces, Batches(3, 8, 0, 8), nullptr).ok());
  ExpectNear(*pieces, *whole, 1e-5);
}

// One rank on a back end whose transfers the test ends.
class LateUpdateTest : public ::testing::Test {
 protected:
  LateUpdateTest() {
    options_.reducer.bucket_cap_bytes = 0;
    options_.updates_late = true;
  }
  void Make(const std::shared_ptr<Model>& model) {
    trainer_ = Trainer::Create(model, options_).value();
    trainer_->reducer().Attach(&exchange_, LayoutId(0), {Rank(0)});
    sync_ = MakeSynchronizer("ddp", &trainer_->reducer()).value();
  }
  absl::Status Run(int64_t steps) {
    Make(model_);
    return RunTrainer(*trainer_, Batches(steps, 4, 0, 4), sync_.get(), Remember());
  }
  Trainer::OnStep Remember() {
    return [this](absl::Span<const StepRecord> reports) { reports_.push_back(reports[0]); };
  }
  std::vector<uint64_t> ReportedSteps() const {
    std::vector<uint64_t> steps;
    for (const StepRecord& report : reports_) steps.push_back(report.step.value());
    return steps;
  }
  // Ends every transfer at once, but that of `step` and `bucket` with `status`.
  void EndAllBut(Step step, int bucket, const absl::Status& status) {
    exchange_.on_contribute = [=](const BucketKey& key) {
      const bool chosen = key.step == step && key.bucket.value() == bucket;
      exchange_.End(key.bucket.value(), chosen ? status : absl::OkStatus());
    };
  }

  TrainerOptions options_;
  std::shared_ptr<StagedModel> model_ = std::make_shared<StagedModel>();
  FakeExchange exchange_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<Synchronizer> sync_;
  std::vector<StepRecord> reports_;
};

TEST_F(LateUpdateTest, Run_ThreeSteps_EachReportedOnceInOrder) {
  EndAllBut(Step(99), 0, absl::OkStatus());
  ASSERT_TRUE(Run(3).ok());
  EXPECT_THAT(ReportedSteps(), ElementsAre(0, 1, 2));
}

// Step 1 does not use it.
TEST_F(LateUpdateTest, Run_ParameterUnusedInAStep_ItsGradientIsZero) {
  options_.update.optimizer = {"sgd", 0, 0, false};
  EndAllBut(Step(99), 0, absl::OkStatus());
  Make(model_);
  std::vector<torch::Tensor> values;
  const auto keep = [&](absl::Span<const StepRecord>) {
    values.push_back(model_->sometimes.clone());
  };
  ASSERT_TRUE(RunTrainer(*trainer_, Batches(2, 4, 0, 4), sync_.get(), keep).ok());
  EXPECT_FALSE(values[0].equal(torch::ones({20})));
  EXPECT_TRUE(values[1].equal(values[0]));
}

TEST_F(LateUpdateTest, Run_TransferFails_ItsErrorAndOnlyCompleteStepsReported) {
  EndAllBut(Step(1), 2, absl::UnavailableError("rank 1 is gone"));
  EXPECT_EQ(Run(5), absl::UnavailableError("rank 1 is gone"));
  EXPECT_THAT(ReportedSteps(), ElementsAre(0));
  EXPECT_EQ(exchange_.under_way(), 0u);
}

// A checkpoint is copied before the next step, so it needs all updates of this one.
TEST_F(LateUpdateTest, Run_BorderAfterAStep_ItsUpdatesAreDoneBeforeTheNextBatch) {
  EndAllBut(Step(99), 0, absl::OkStatus());
  options_.is_border = [](Step step) { return step == Step(1); };
  Make(model_);
  Batches batches(3, 4, 0, 4);
  std::vector<size_t> done;  // steps, before each batch and before the end
  const absl::Status status = trainer_->Run(
      [&] {
        done.push_back(reports_.size());
        return batches.Next();
      },
      sync_.get(), Remember(), [] { return false; });
  EXPECT_EQ(status, absl::OkStatus());
  EXPECT_THAT(done, ElementsAre(0, 0, 2, 2));
  EXPECT_THAT(ReportedSteps(), ElementsAre(0, 1, 2));
}

// What broke off is named by it, although the next step is already computed.
TEST_F(LateUpdateTest, Run_TransferFails_CurrentStepIsTheOneThatIsNotComplete) {
  EndAllBut(Step(2), 2, absl::UnavailableError("rank 1 is gone"));
  EXPECT_EQ(Run(5), absl::UnavailableError("rank 1 is gone"));
  EXPECT_EQ(trainer_->current_step(), Step(2));
}

TEST_F(LateUpdateTest, Run_TransferOfTheLastStepFails_ItsError) {
  EndAllBut(Step(2), 0, absl::DataLossError("wrong checksum"));
  EXPECT_EQ(Run(3), absl::DataLossError("wrong checksum"));
  EXPECT_THAT(ReportedSteps(), ElementsAre(0, 1));
}

// The others would otherwise go on reading and writing what Run's caller frees.
TEST_F(LateUpdateTest, Run_TransferFailsWhileOthersAreUnderWay_AllEndBeforeItReturns) {
  exchange_.on_contribute = [this](const BucketKey& key) {
    if (key.bucket.value() == 3) exchange_.End(3, absl::UnavailableError("rank 1 is gone"));
  };
  EXPECT_EQ(Run(2), absl::UnavailableError("rank 1 is gone"));
  EXPECT_EQ(exchange_.under_way(), 0u);
  EXPECT_EQ(exchange_.cancelled(), absl::UnavailableError("rank 1 is gone"));
}

TEST_F(LateUpdateTest, Run_StoppedWhileTransfersAreUnderWay_CancelledAndAllEnd) {
  Make(model_);
  Batches batches(3, 4, 0, 4);
  const absl::Status status =
      trainer_->Run([&] { return batches.Next(); }, sync_.get(),
                    [](absl::Span<const StepRecord>) {}, [&] { return exchange_.under_way() > 1; });
  EXPECT_EQ(status, absl::CancelledError("the worker was told to stop"));
  EXPECT_EQ(exchange_.under_way(), 0u);
}

TEST_F(LateUpdateTest, Run_ModelThrowsWhileTransfersAreUnderWay_InternalAndAllEnd) {
  Make(model_);
  exchange_.on_contribute = [this](const BucketKey& key) { exchange_.End(key.bucket.value()); };
  int64_t step = 0;
  auto next = [&]() -> absl::StatusOr<Batch> {
    const int64_t channels = step == 1 ? 1 : 3;
    return Batch{Step(static_cast<uint64_t>(step++)), 0, 0, 0, torch::zeros({2, channels, 8, 8}),
                 torch::zeros({2}, torch::kInt64)};
  };
  const absl::Status status = trainer_->Run(
      next, sync_.get(), [](absl::Span<const StepRecord>) {}, [] { return false; });
  EXPECT_THAT(std::string(status.message()), ::testing::StartsWith("step 1: torch: "));
  EXPECT_EQ(exchange_.under_way(), 0u);
}

TEST_F(LateUpdateTest, Run_BatchesEndInAnError_LastStepCompletedFirst) {
  EndAllBut(Step(99), 0, absl::OkStatus());
  Make(model_);
  Batches batches(2, 4, 0, 4);
  const absl::Status status = trainer_->Run(
      [&] {
        absl::StatusOr<Batch> batch = batches.Next();
        return batch.ok() ? batch : absl::DataLossError("unreadable image");
      },
      sync_.get(), Remember(), [] { return false; });
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
    EXPECT_EQ(exchange_.under_way(), 2u);
    exchange_.End(0);
    exchange_.End(1);
  });
  exchange_.on_contribute = [&](const BucketKey& key) {
    const bool held = key.step == Step(0) && key.bucket.value() < 2;
    if (!held) exchange_.End(key.bucket.value());
  };
  Make(told);
  EXPECT_TRUE(RunTrainer(*trainer_, Batches(2, 4, 0, 4), sync_.get()).ok());
  EXPECT_EQ(forward_passes, 2);
}

TEST_F(LateUpdateTest, Run_OneTransferNeverEnds_DeadlineExceeded) {
  options_.step_timeout = -absl::Seconds(10);
  exchange_.on_contribute = [&](const BucketKey& key) {
    if (key.bucket.value() > 0) exchange_.End(key.bucket.value());
  };
  EXPECT_EQ(Run(2), absl::DeadlineExceededError("step 0: a neighbor takes no more data"));
}

}  // namespace
}  // namespace gradwire
