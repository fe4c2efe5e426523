// A gradient that is scaled down before the update: torch's clip_grad_norm_ is the oracle.
#include "worker/learning/clip_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/worker/run/training.h"
#include "worker/run/from_options.h"

namespace gradwire {
namespace {

using testing::Batches;
using testing::HashOf;
using testing::PlainModel;
using testing::Training;
using testing::TrainRanks;

constexpr int64_t kClippedSteps = 4;
constexpr int kClippedSamples = 6;
constexpr double kNorm = 0.3;  // less than the gradients' of most steps

// One process with torch's optimizer, as a script has it.
std::shared_ptr<PlainModel> TrainWithTorch(int64_t samples, int* clipped) {
  auto model = std::make_shared<PlainModel>();
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  Batches batches(kClippedSteps, samples, 0, samples);
  for (int64_t step = 0; step < kClippedSteps; ++step) {
    const Batch batch = batches.Next().value();
    optimizer.zero_grad();
    CrossEntropy(model->forward(batch.images), batch.labels, /*sum=*/false).backward();
    const double norm = torch::nn::utils::clip_grad_norm_(model->parameters(), kNorm);
    *clipped += norm > kNorm ? 1 : 0;
    optimizer.step();
  }
  return model;
}

TrainerOptions ClippedOptions(double bucket_cap_bytes) {
  TrainerOptions options;
  options.update.optimizer = {"sgd", 0.9, 0, false};
  options.update.clip_norm = kNorm;
  options.reducer.bucket_cap_bytes = bucket_cap_bytes;
  options.learning_rate = [](Step) { return 0.1; };
  return options;
}

class ClipNormBuckets : public ::testing::TestWithParam<double> {};

TEST_P(ClipNormBuckets, Alone_BitsOfTorch) {
  auto model = std::make_shared<PlainModel>();
  const auto trainer = Trainer::Create(model, ClippedOptions(GetParam())).value();
  Batches batches(kClippedSteps, kClippedSamples, 0, kClippedSamples);
  ASSERT_EQ(testing::RunTrainer(*trainer, std::move(batches), nullptr), absl::OkStatus());
  int clipped = 0;
  EXPECT_EQ(HashOf(*model), HashOf(*TrainWithTorch(kClippedSamples, &clipped)));
  EXPECT_GT(clipped, 0);
}

INSTANTIATE_TEST_SUITE_P(Caps, ClipNormBuckets, ::testing::Values(0, 1 << 20));

std::string HashOfRanks(const std::string& sync, const std::vector<std::vector<int>>& deal,
                        double clip_norm = kNorm) {
  Training training;
  training.sync = sync;
  training.ranks = 3;
  training.steps = kClippedSteps;
  training.deal = deal;
  training.options = ClippedOptions(0);
  training.options.update.clip_norm = clip_norm;
  training.make = [] { return std::make_shared<PlainModel>(); };
  training.barrier = true;
  return HashOf(*TrainRanks(training));
}

TEST(ClipNorm, AnyNumberOfProcesses_SameBits) {
  const std::string expected = HashOfRanks("ddp", {});
  EXPECT_EQ(HashOfRanks("ddp", {{0, 2}, {1}}), expected);
  EXPECT_EQ(HashOfRanks("gather-scatter", {{0, 1, 2}}), expected);
  EXPECT_NE(HashOfRanks("ddp", {}, 0), expected);
}

TEST(ClipNorm, ModelsOfTheirOwn_EachRankClipsItsGradient) {
  Training training;
  training.sync = "local-sgd:2";
  training.ranks = 1;
  training.steps = kClippedSteps;
  training.options = ClippedOptions(0);
  training.make = [] { return std::make_shared<PlainModel>(); };
  int clipped = 0;
  testing::ExpectNear(*TrainRanks(training), *TrainWithTorch(4, &clipped), 1e-6);
  EXPECT_GT(clipped, 0);
}

TEST(ClipNorm, ScaleIsThatOfTheNormOfAllTogether) {
  const std::vector<torch::Tensor> gradients = {torch::tensor({3.0F}), torch::tensor({0.0F, 4.0F})};
  EXPECT_FLOAT_EQ(ClipScale(gradients, 2.5), 0.5F);
  EXPECT_EQ(ClipScale(gradients, 6), 1.0F);
  EXPECT_EQ(ClipScale(gradients, 1e9), 1.0F);
}

TEST(ClipNorm, NotFinite_ScaleSaysSo) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(ClipScale({torch::tensor({infinity})}, 1), 0.0F);
  EXPECT_TRUE(std::isnan(ClipScale({torch::tensor({std::nanf("")})}, 1)));
}

// Its norm is known when all of a gradient is there.
TEST(TrainerOptionsOf, ClipNorm_UpdatesWaitForTheWholeGradient) {
  WorkerOptions options;
  options.sync = "ddp";
  const TrainingSize size = {2, 10, 10};
  EXPECT_TRUE(TrainerOptionsOf(options, size, nullptr)->updates_late);
  options.clip_norm = kNorm;
  EXPECT_FALSE(TrainerOptionsOf(options, size, nullptr)->updates_late);
  EXPECT_EQ(TrainerOptionsOf(options, size, nullptr)->update.clip_norm, kNorm);
}

// What was clipped is undone like any other update.
TEST(ClipNorm, Skip_LeavesParametersAndOptimizer) {
  TrainerOptions options = ClippedOptions(0);
  options.update.on_nonfinite = Nonfinite::kSkip;
  auto model = std::make_shared<PlainModel>();
  const std::string before = HashOf(*model);
  const auto trainer = Trainer::Create(model, options).value();
  Batches batches(1, kClippedSamples, 0, kClippedSamples);
  const auto next = [&]() -> absl::StatusOr<Batch> {
    absl::StatusOr<Batch> batch = batches.Next();
    if (batch.ok()) batch->images[0].fill_(std::numeric_limits<float>::infinity());
    return batch;
  };
  const auto on_step = [](absl::Span<const StepRecord> reports) {
    EXPECT_TRUE(reports[0].skipped);
  };
  ASSERT_EQ(trainer->Run(next, nullptr, on_step, [] { return false; }), absl::OkStatus());
  EXPECT_EQ(HashOf(*model), before);
}

}  // namespace
}  // namespace gradwire
