// What becomes of steps whose mean gradient is not finite.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/worker/run/training.h"
#include "worker/learning/clip_norm.h"

namespace gradwire::nonfinite_test {
namespace {

using testing::Batches;
using ::testing::ElementsAre;
using testing::HashOf;
using testing::PlainModel;
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
    Batches batches(kSteps, kSamples, 0, kSamples);
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
    return trainer->Run(next, nullptr, on_step, [] { return false; });
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

INSTANTIATE_TEST_SUITE_P(Optimizers, NonfiniteTest, ::testing::Values("sgd", "adam"),
                         [](const auto& info) { return info.param; });

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
