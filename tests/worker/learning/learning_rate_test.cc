#include "worker/learning/learning_rate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <ostream>
#include <vector>

namespace gradwire {
namespace {

// Four ranks of 32 samples, 10 steps an epoch, 20 epochs; lr 0.1.
struct Case {
  const char* name;
  void (*set)(WorkerOptions*);
  std::vector<std::pair<uint64_t, double>> rates;  // of steps

  friend std::ostream& operator<<(std::ostream& out, const Case& one) { return out << one.name; }
};

double HalfCosine(double share) { return (1 + std::cos(M_PI * share)) / 2; }

std::vector<Case> Cases() {
  return {
      {"Constant", [](WorkerOptions*) {}, {{0, 0.1}, {57, 0.1}, {199, 0.1}}},
      {"Step",
       [](WorkerOptions* options) {
         options->lr_schedule = "step";
         options->lr_step_epochs = 3;
         options->lr_gamma = 0.5;
       },
       {{0, 0.1}, {29, 0.1}, {30, 0.05}, {59, 0.05}, {60, 0.025}, {199, 0.1 / 64}}},
      {"Cosine",
       [](WorkerOptions* options) { options->lr_schedule = "cosine"; },
       {{0, 0.1}, {50, 0.1 * HalfCosine(0.25)}, {100, 0.05}, {199, 0.1 * HalfCosine(0.995)}}},
      {"Scaled", [](WorkerOptions* options) { options->scale_lr = true; }, {{0, 0.05}, {9, 0.05}}},
      {"ScaledFromOtherBase",
       [](WorkerOptions* options) {
         options->scale_lr = true;
         options->base_batch = 32;
         options->accumulate = 2;
       },
       {{0, 0.8}}},
      // Goyal et al. 2017: from the lr of the base batch up to the scaled one.
      {"ScaledWithWarmUp",
       [](WorkerOptions* options) {
         options->scale_lr = true;
         options->base_batch = 32;
         options->warmup_epochs = 2;
       },
       {{0, 0.1}, {1, 0.115}, {10, 0.25}, {19, 0.385}, {20, 0.4}, {199, 0.4}}},
      {"WarmUpAlone",
       [](WorkerOptions* options) { options->warmup_epochs = 2; },
       {{0, 0.005}, {1, 0.01}, {19, 0.1}, {20, 0.1}}},
      {"StepCountsWarmUp",
       [](WorkerOptions* options) {
         options->lr_schedule = "step";
         options->lr_step_epochs = 3;
         options->warmup_epochs = 2;
       },
       {{19, 0.1}, {29, 0.1}, {30, 0.01}}},
      {"CosineBehindWarmUp",
       [](WorkerOptions* options) {
         options->lr_schedule = "cosine";
         options->warmup_epochs = 2;
       },
       {{19, 0.1}, {20, 0.1}, {110, 0.05}, {199, 0.1 * HalfCosine(179.0 / 180)}}},
  };
}

WorkerOptions Options() {
  WorkerOptions options;
  options.lr = 0.1;
  options.batch_size = 32;
  return options;
}

class LearningRateTest : public ::testing::TestWithParam<Case> {};

TEST_P(LearningRateTest, MakeLearningRate_Steps_AsTheFormula) {
  WorkerOptions options = Options();
  GetParam().set(&options);
  const LearningRate rate = MakeLearningRate(options, {4, 10, 200}).value();
  for (const auto& [step, expected] : GetParam().rates) {
    EXPECT_NEAR(rate(Step(step)), expected, 1e-12) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, LearningRateTest, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return std::string(info.param.name); });

// Not even a rounding may come between what is asked for and what is used.
TEST(LearningRate, MakeLearningRate_Constant_ExactlyTheOption) {
  WorkerOptions options = Options();
  options.lr = 0.1234567890123456789;
  EXPECT_EQ(MakeLearningRate(options, {3, 7, 50}).value()(Step(13)), options.lr);
}

// The checkpoint behind the last step has the rate of the step that would come next.
TEST(LearningRate, MakeLearningRate_WarmUpIsTheWholeRun_RateBehindItIsFinite) {
  WorkerOptions options;
  options.lr = 0.1;
  options.warmup_epochs = 2;
  options.lr_schedule = "cosine";
  const LearningRate rate = MakeLearningRate(options, {4, 10, 20}).value();
  EXPECT_DOUBLE_EQ(rate(Step(19)), 0.1);
  EXPECT_DOUBLE_EQ(rate(Step(20)), 0);
}

TEST(LearningRate, MakeLearningRate_UnknownSchedule_ListsThoseThatExist) {
  WorkerOptions options = Options();
  options.lr_schedule = "linear";
  EXPECT_EQ(MakeLearningRate(options, {}).status(),
            absl::NotFoundError(
                "schedule 'linear' does not exist; expected one of: constant step cosine"));
}

}  // namespace
}  // namespace gradwire
