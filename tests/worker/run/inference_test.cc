#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/run/training.h"
#include "worker/ddp/model_layout.h"
#include "worker/run/evaluator.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::PlainModel;
using testing::RandomModel;

constexpr int64_t kSide = 8;
constexpr int64_t kSamples = 10;

class Broken : public PlainModel {
 public:
  torch::Tensor forward(torch::Tensor) override { TORCH_CHECK(false, "broken"); }
};

// Of 4, 4 and 2 samples.
std::unique_ptr<const EvaluationBatches> MakeBatches() {
  Dataset dataset;
  dataset.name = "made";
  dataset.channels = 3;
  dataset.height = dataset.width = kSide;
  dataset.classes = 10;
  dataset.mean = {0.5f, 0.5f, 0.5f};
  dataset.std_dev = {0.25f, 0.25f, 0.25f};
  for (int64_t i = 0; i < kSamples; ++i) dataset.labels.push_back(static_cast<uint8_t>(i));
  for (int64_t i = 0; i < kSamples * 3 * kSide * kSide; ++i) {
    dataset.pixels.push_back(static_cast<uint8_t>(i * 37));
  }
  return EvaluationBatches::Create(std::make_shared<const Dataset>(std::move(dataset)),
                                   {3, kSide, kSide}, 4)
      .value();
}

std::vector<StepRecord> RecordsOf(Model& model, int64_t steps, std::string* hash = nullptr,
                                  Loss loss = &CrossEntropy) {
  std::vector<StepRecord> records;
  const auto result = Infer(
      model, *MakeBatches(), loss, steps,
      [&](const StepRecord& record) { records.push_back(record); }, [] { return false; });
  EXPECT_TRUE(result.ok()) << result.status();
  if (hash != nullptr) *hash = *result;
  return records;
}

TEST(Infer, MoreStepsThanBatches_BeginsAgainInTheNextEpoch) {
  PlainModel model;
  std::vector<int64_t> samples, epochs;
  std::vector<uint64_t> steps;
  for (const StepRecord& record : RecordsOf(model, 5)) {
    steps.push_back(record.step.value());
    samples.push_back(record.samples);
    epochs.push_back(record.epoch);
  }
  EXPECT_THAT(samples, ElementsAre(4, 4, 2, 4, 4));
  EXPECT_THAT(epochs, ElementsAre(0, 0, 0, 1, 1));
  EXPECT_THAT(steps, ElementsAre(0, 1, 2, 3, 4));
}

TEST(Infer, TwoPasses_HashIsOfTheScoresOfTheFirst) {
  PlainModel model;
  std::string hash;
  RecordsOf(model, 5, &hash);
  const auto batches = MakeBatches();
  std::vector<torch::Tensor> scores;
  for (int64_t i = 0; i < 3; ++i) scores.push_back(model.forward(batches->Make(i).images));
  EXPECT_EQ(hash, Sha256(scores));
}

TEST(Infer, Batch_LossIsTheMeanOfItsSamples) {
  PlainModel model;
  const Batch batch = MakeBatches()->Make(1);
  const auto loss = torch::nn::functional::cross_entropy(model.forward(batch.images), batch.labels);
  EXPECT_DOUBLE_EQ(RecordsOf(model, 2)[1].loss, loss.item<double>());
}

TEST(Infer, Batch_CorrectAreThoseWithTheHighestScoreAtTheirLabel) {
  PlainModel model;
  {
    const torch::NoGradGuard values_only;
    torch::Tensor bias = model.named_parameters()["linear.bias"];
    bias[2] = 1e6;
    bias[9] = -1e6;
  }
  std::vector<int64_t> correct;
  for (const StepRecord& record : RecordsOf(model, 3)) correct.push_back(record.correct);
  EXPECT_THAT(correct, ElementsAre(1, 0, 0));  // the labels are 0 to 9
}

TEST(Infer, OtherLoss_IsTheRecords) {
  PlainModel model;
  const Batch batch = MakeBatches()->Make(0);
  const auto loss = MeanSquaredError(model.forward(batch.images), batch.labels, /*sum=*/false);
  EXPECT_DOUBLE_EQ(RecordsOf(model, 1, nullptr, &MeanSquaredError)[0].loss, loss.item<double>());
}

TEST(Infer, ModelWithDropout_DrawsNothing) {
  RandomModel model(0.5);
  EXPECT_EQ(RecordsOf(model, 1)[0].loss, RecordsOf(model, 1)[0].loss);
}

TEST(Infer, Batch_HasTimesOfDataAndForward) {
  PlainModel model;
  const StepRecord record = RecordsOf(model, 1)[0];
  EXPECT_GT(record.phases[Phase::kData], absl::ZeroDuration());
  EXPECT_GT(record.phases[Phase::kForward], absl::ZeroDuration());
  EXPECT_GE(record.iteration, record.phases[Phase::kData] + record.phases[Phase::kForward]);
}

TEST(Infer, Stopped_Cancelled) {
  PlainModel model;
  int asked = 0;
  const auto result = Infer(
      model, *MakeBatches(), &CrossEntropy, 3, [](const StepRecord&) {},
      [&] { return ++asked > 1; });
  EXPECT_TRUE(absl::IsCancelled(result.status()));
}

TEST(Infer, ModelThrows_InternalSaysWhat) {
  Broken model;
  const auto result = Infer(
      model, *MakeBatches(), &CrossEntropy, 1, [](const StepRecord&) {}, [] { return false; });
  EXPECT_TRUE(absl::IsInternal(result.status()));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("inference: torch: broken"));
}

}  // namespace
}  // namespace gradwire
