// What becomes of steps whose mean gradient is not finite.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "tests/worker/run/recorded_exchange.h"
#include "tests/worker/run/training.h"
#include "worker/learning/clip_norm.h"

namespace gradwire::nonfinite_test {
namespace {

using testing::Batches;
using ::testing::ElementsAre;
using testing::FoldingExchange;
using testing::HashOf;
using testing::PlainModel;
using testing::Recording;
using testing::RunTrainer;
using testing::Training;
using testing::TrainRanks;

constexpr int kSamples = 4;
constexpr int64_t kSteps = 5;
constexpr uint64_t kPoisoned = 2;

bool IsFinite(const Model& model) {
  for (const torch::Tensor& parameter : model.parameters()) {
    if (!AllFinite(parameter.detach().contiguous())) return false;
  }
  return true;
}

// Of some batches, whichever rank has them.
torch::Tensor SometimesInfinite(const torch::Tensor& scores, const torch::Tensor& labels,
                                bool sum) {
  const torch::Tensor loss = CrossEntropy(scores, labels, sum);
  return labels.sum().item<int64_t>() % 4 == 0 ? loss * std::numeric_limits<float>::infinity()
                                               : loss;
}

class NonfiniteTest : public ::testing::TestWithParam<const char*> {
 protected:
  TrainerOptions OptionsFor(Nonfinite what) {
    TrainerOptions options;
    options.update.optimizer.name = GetParam();
    options.reducer.bucket_cap_bytes = 0;
    options.learning_rate = [](Step) { return 0.01; };
    options.update.on_nonfinite = what;
    return options;
  }

  // Alone, all steps but `left_out`; one image of step kPoisoned is infinite.
  absl::Status Train(const TrainerOptions& options, uint64_t left_out = kSteps) {
    const auto trainer = Trainer::Create(model_, options).value();
    return TrainFrom(0, *trainer, left_out);
  }
  absl::Status TrainFrom(uint64_t first, Trainer& trainer, uint64_t left_out = kSteps) {
    Batches batches(kSteps, kSamples, 0, kSamples);
    for (uint64_t step = 0; step < first; ++step) batches.Next().value();
    const auto next = [&]() -> absl::StatusOr<Batch> {
      absl::StatusOr<Batch> batch = batches.Next();
      if (batch.ok() && batch->step == Step(left_out)) batch = batches.Next();
      if (!batch.ok() || batch->step != Step(kPoisoned)) return batch;
      batch->images = batch->images.clone();
      batch->images[0].fill_(std::numeric_limits<float>::infinity());
      return batch;
    };
    const auto on_step = [this](absl::Span<const StepRecord> reports) {
      if (reports[0].skipped) skipped_.push_back(reports[0].step.value());
    };
    return trainer.Run(next, nullptr, on_step, [] { return false; });
  }

  std::shared_ptr<PlainModel> model_ = std::make_shared<PlainModel>();
  std::vector<uint64_t> skipped_;
};

TEST_P(NonfiniteTest, Ignore_TheModelTakesIt) {
  EXPECT_TRUE(Train(OptionsFor(Nonfinite::kIgnore)).ok());
  EXPECT_FALSE(IsFinite(*model_));
  EXPECT_THAT(skipped_, ElementsAre());
}

TEST_P(NonfiniteTest, Stop_NamesStepParameterAndRank) {
  const absl::Status status = Train(OptionsFor(Nonfinite::kStop));
  EXPECT_TRUE(IsOfAll(status)) << status;
  EXPECT_EQ(
      status.message(),
      "step 2: the mean gradient of linear.bias is not finite, because of the gradient of rank 0");
}

TEST_P(NonfiniteTest, Skip_BitsOfARunWithoutTheStep) {
  EXPECT_TRUE(Train(OptionsFor(Nonfinite::kSkip)).ok());
  EXPECT_THAT(skipped_, ElementsAre(kPoisoned));
  const std::string skipped = HashOf(*model_);
  model_ = std::make_shared<PlainModel>();
  EXPECT_TRUE(Train(OptionsFor(Nonfinite::kIgnore), kPoisoned).ok());
  EXPECT_EQ(HashOf(*model_), skipped);
}

TEST_P(NonfiniteTest, Skip_SealedSteps_AreReadyAllTheSame) {
  TrainerOptions options = OptionsFor(Nonfinite::kSkip);
  std::vector<uint64_t> ready, compared;
  options.seal.ready = [&](Step step, absl::Span<const TensorDigest> digests) {
    ready.push_back(step.value());
    if (!digests.empty()) compared.push_back(step.value());
  };
  options.seal.await = [](Step) { return absl::OkStatus(); };
  options.update.compare_every = 1;
  EXPECT_TRUE(Train(options).ok());
  EXPECT_THAT(ready, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(compared, ElementsAre(0, 1, 3, 4));
  EXPECT_TRUE(IsFinite(*model_));
}

// A worker is lost before the step that was skipped is sealed.
TEST_P(NonfiniteTest, Skip_StepIsRewound_SkippedAgainWithTheBitsOfTheUndisturbedRun) {
  TrainerOptions options = OptionsFor(Nonfinite::kSkip);
  EXPECT_TRUE(Train(options).ok());
  const std::string undisturbed = HashOf(*model_);
  skipped_.clear();
  model_ = std::make_shared<PlainModel>();
  Step lost(kPoisoned);
  options.seal.ready = [](Step, absl::Span<const TensorDigest>) {};
  options.seal.await = [&lost](Step step) {
    return step == lost ? absl::AbortedError("a worker was lost") : absl::OkStatus();
  };
  const auto trainer = Trainer::Create(model_, options).value();
  EXPECT_TRUE(absl::IsAborted(TrainFrom(0, *trainer)));
  lost = Step(1000);
  trainer->Rewind(Step(kPoisoned));
  EXPECT_TRUE(TrainFrom(kPoisoned, *trainer).ok());
  EXPECT_THAT(skipped_, ElementsAre(kPoisoned, kPoisoned));
  EXPECT_EQ(HashOf(*model_), undisturbed);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, NonfiniteTest, ::testing::Values("sgd", "adam"),
                         [](const auto& info) { return info.param; });

// Two ranks on one worker, whose gradients `hook` changes for one parameter within the only bucket;
// it is called for rank 0, then for rank 1.
absl::Status StopOfTwoRanks(const std::function<torch::Tensor(const torch::Tensor&)>& hook) {
  auto model = std::make_shared<PlainModel>();
  for (const auto& parameter : model->named_parameters()) {
    if (parameter.key() == "conv.bias") parameter.value().register_hook(hook);
  }
  TrainerOptions options;
  options.update.on_nonfinite = Nonfinite::kStop;
  const auto trainer = Trainer::Create(model, options).value();
  const auto sync = MakeSynchronizer("all-reduce", &trainer->reducer()).value();
  Recording recording;
  FoldingExchange exchange(2, &recording);
  exchange.AddLayout(LayoutId(0), sync->BucketSpecs());
  sync->Attach(&exchange, LayoutId(0), {Rank(0), Rank(1)});
  return RunTrainer(*trainer, Batches(1, 2, {Rank(0), Rank(1)}), sync.get());
}

TEST(NonfiniteOfTwoRanks, Stop_OneOfThem_NamesItAndTheParameterWithinTheBucket) {
  int passes = 0;
  const auto hook = [&passes](const torch::Tensor& gradient) -> torch::Tensor {
    if (passes++ == 0) return gradient;
    return torch::full_like(gradient, std::numeric_limits<float>::infinity());
  };
  EXPECT_EQ(StopOfTwoRanks(hook).message(),
            "step 0: the mean gradient of conv.bias is not finite, because of the gradient of "
            "rank 1");
  EXPECT_EQ(passes, 2);
}

TEST(NonfiniteOfTwoRanks, Stop_SumOfFiniteGradients_NamesNoRank) {
  const auto hook = [](const torch::Tensor& gradient) {
    return torch::full_like(gradient, 0.75F * std::numeric_limits<float>::max());
  };
  EXPECT_EQ(StopOfTwoRanks(hook).message(), "step 0: the mean gradient of conv.bias is not finite");
}

class NonfiniteRanksTest : public ::testing::TestWithParam<const char*> {};

// TrainRanks fails if workers do not end with the same.
TEST_P(NonfiniteRanksTest, Skip_AllWorkersDoTheSame) {
  Training training{"ddp", GetParam(), 3, 6, {}, nullptr, true};
  training.make = [] { return std::make_shared<PlainModel>(); };
  training.options.loss = &SometimesInfinite;
  training.options.update.on_nonfinite = Nonfinite::kSkip;
  EXPECT_TRUE(IsFinite(*TrainRanks(training)));
  training.options.update.on_nonfinite = Nonfinite::kIgnore;
  training.steps = 6;
  EXPECT_FALSE(IsFinite(*TrainRanks(training))) << "nothing was infinite, so nothing was tested";
}

INSTANTIATE_TEST_SUITE_P(Backends, NonfiniteRanksTest,
                         ::testing::Values("coordinator", "sharded", "ring"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace gradwire::nonfinite_test
