#include "worker/run/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "tests/support/oracle.h"
#include "tests/worker/run/recorded_exchange.h"
#include "tests/worker/run/training.h"
#include "worker/ddp/model_layout.h"

namespace gradwire {
namespace {

using testing::Batches;
using testing::ExpectNear;
using testing::HashOf;
using testing::PlainModel;
using testing::RunTrainer;
using testing::StagedModel;
using testing::Training;
using testing::TrainRanks;

constexpr int kRanks = 4;

// kRanks ranks of the plain model with a barrier.
Training Plain(const std::string& backend, int64_t steps, double cap_bytes) {
  Training training{"gather-scatter", backend, kRanks, steps, {}, nullptr};
  training.options.reducer.bucket_cap_bytes = cap_bytes;
  training.make = [] { return std::make_shared<PlainModel>(); };
  return training;
}

std::shared_ptr<Model> TrainAlone(int64_t steps, const TrainerOptions& options = {}) {
  auto model = std::make_shared<PlainModel>();
  const auto trainer = Trainer::Create(model, options).value();
  const absl::Status status =
      RunTrainer(*trainer, Batches(steps, 4 * kRanks, 0, 4 * kRanks), nullptr);
  EXPECT_TRUE(status.ok()) << status;
  return model;
}

TEST(TrainerTest, Run_RanksThroughCoordinator_EqualOneProcessWithAllSamples) {
  ExpectNear(*TrainRanks(Plain("coordinator", 5, 0)), *TrainAlone(5), 1e-5);
}

TEST(TrainerTest, Run_Ring_BitsOfTheCoordinator) {
  EXPECT_EQ(HashOf(*TrainRanks(Plain("ring", 5, 0))),
            HashOf(*TrainRanks(Plain("coordinator", 5, 0))));
}

TEST(TrainerTest, Run_AnyBucketCap_SameBits) {
  const std::string hash = HashOf(*TrainRanks(Plain("coordinator", 3, 0)));
  for (const double cap : {100.0, 2000.0, 1e9}) {
    EXPECT_EQ(HashOf(*TrainRanks(Plain("coordinator", 3, cap))), hash) << cap;
  }
}

// One optimiser a bucket is the same mathematics as one for all.
TEST(TrainerTest, Run_Alone_BitsOfOneOptimizerForAll) {
  PlainModel expected;
  torch::optim::SGD optimizer(expected.parameters(),
                              torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(1e-4));
  Batches batches(3, 4 * kRanks, 0, 4 * kRanks);
  for (auto batch = batches.Next(); batch.ok(); batch = batches.Next()) {
    optimizer.zero_grad();
    torch::nn::functional::cross_entropy(expected.forward(batch->images), batch->labels).backward();
    optimizer.step();
  }
  TrainerOptions options;
  options.reducer.bucket_cap_bytes = 0;
  EXPECT_EQ(HashOf(*TrainAlone(3, options)), HashOf(expected));
}

// The learning rate is that of the step whose gradient is applied, however late.
TEST(TrainerTest, Run_AdamOnASchedule_LateUpdatesGiveTheBitsOfABarrier) {
  Training training = Plain("coordinator", 4, 0);
  training.options.update.optimizer = {"adam", 0, 1e-2, false};
  training.options.learning_rate = [](Step step) {
    return 0.01 / static_cast<double>(1 + step.value());
  };
  const std::string expected = HashOf(*TrainRanks(training));
  training.sync = "ddp";
  training.backend = "sharded";
  EXPECT_EQ(HashOf(*TrainRanks(training)), expected);
}

TEST(TrainerTest, Run_AdamOnASchedule_AloneBitsOfTorch) {
  PlainModel expected;
  torch::optim::Adam optimizer(expected.parameters(), torch::optim::AdamOptions());
  Batches batches(3, 4 * kRanks, 0, 4 * kRanks);
  const auto rate = [](Step step) { return 0.01 / static_cast<double>(1 + step.value()); };
  for (auto batch = batches.Next(); batch.ok(); batch = batches.Next()) {
    optimizer.zero_grad();
    MeanSquaredError(expected.forward(batch->images), batch->labels, false).backward();
    optimizer.param_groups()[0].options().set_lr(rate(batch->step));
    optimizer.step();
  }
  TrainerOptions options;
  options.update.optimizer = {"adam", 0, 0, false};
  options.loss = &MeanSquaredError;
  options.learning_rate = rate;
  EXPECT_EQ(HashOf(*TrainAlone(3, options)), HashOf(expected));
}

TEST(TrainerTest, Run_Schedule_EachStepReportsItsLearningRate) {
  TrainerOptions options;
  options.learning_rate = [](Step step) { return static_cast<double>(step.value()); };
  const auto trainer = Trainer::Create(std::make_shared<PlainModel>(), options).value();
  std::vector<double> rates;
  const auto on_step = [&](absl::Span<const StepRecord> reports) {
    rates.push_back(reports[0].lr);
  };
  ASSERT_TRUE(RunTrainer(*trainer, Batches(3, 4, 0, 4), nullptr, on_step).ok());
  EXPECT_THAT(rates, ::testing::ElementsAre(0, 1, 2));
}

TEST(TrainerTest, Run_PiecesOfABatch_ReportTheSamplesGotRight) {
  PlainModel model;
  Batches ahead(1, 16, 0, 16);
  const Batch batch = *ahead.Next();
  const int64_t expected =
      model.forward(batch.images).argmax(1).eq(batch.labels).sum().item<int64_t>();
  TrainerOptions options;
  options.micro_batch = 3;
  const auto trainer = Trainer::Create(std::make_shared<PlainModel>(), options).value();
  int64_t correct = -1;
  const absl::Status status =
      RunTrainer(*trainer, Batches(1, 16, 0, 16), nullptr,
                 [&](absl::Span<const StepRecord> reports) { correct = reports[0].correct; });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(correct, expected);
}

// As a copy of the state for a checkpoint, which is no wait for a batch.
TEST(TrainerTest, Run_BeforeStep_EachStepAndTheEndInNoPhase) {
  std::vector<uint64_t> steps;
  std::vector<absl::Time> done, data;
  TrainerOptions options;
  options.before_step = [&](Step step) {
    steps.push_back(step.value());
    done.push_back(SteadyNow());
  };
  options.on_span = [&](const TraceSpan& span) {
    if (std::string(span.name) == "data") data.push_back(span.begin);
  };
  TrainAlone(2, options);
  EXPECT_THAT(steps, ::testing::ElementsAre(0, 1, 2));
  ASSERT_EQ(data.size(), 2u);
  for (size_t i = 0; i < data.size(); ++i) EXPECT_GE(data[i], done[i]);
}

// The last of the six pieces is one sample.
TEST(TrainerTest, Run_PiecesOfABatch_ReportTheMeanLossOfItsSamples) {
  PlainModel model;
  const Batch batch = *Batches(1, 16, 0, 16).Next();
  const double expected =
      CrossEntropy(model.forward(batch.images), batch.labels, false).item<double>();
  TrainerOptions options;
  options.micro_batch = 3;
  const auto trainer = Trainer::Create(std::make_shared<PlainModel>(), options).value();
  double loss = 0;
  const absl::Status status =
      RunTrainer(*trainer, Batches(1, 16, 0, 16), nullptr,
                 [&](absl::Span<const StepRecord> reports) { loss = reports[0].loss; });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_NEAR(loss, expected, 1e-5);
}

// Draws a number in each forward pass, as dropout does.
class DrawingModel : public PlainModel {
 public:
  torch::Tensor forward(torch::Tensor images) override {
    drawn.insert(torch::rand({1}).item<float>());
    return PlainModel::forward(std::move(images));
  }

  std::set<float> drawn;
};

TEST(TrainerTest, Run_PiecesOfABatch_EachDrawsNumbersOfItsOwn) {
  const auto model = std::make_shared<DrawingModel>();
  TrainerOptions options;
  options.micro_batch = 2;
  const auto trainer = Trainer::Create(model, options).value();
  const absl::Status status = RunTrainer(*trainer, Batches(2, 6, 0, 6), nullptr);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(model->drawn, ::testing::SizeIs(2 * 3));
}

TEST(TrainerTest, Run_Stopped_Cancelled) {
  const auto trainer = Trainer::Create(std::make_shared<PlainModel>(), TrainerOptions()).value();
  Batches batches(5, 4, 0, 4);
  const absl::Status status =
      trainer->Run([&] { return batches.Next(); }, nullptr, [](absl::Span<const StepRecord>) {},
                   [] { return true; });
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
}

TEST(TrainerTest, Run_ImagesOfAnotherShape_InternalNamesStep) {
  const auto trainer = Trainer::Create(std::make_shared<PlainModel>(), TrainerOptions()).value();
  auto next = [] {
    return absl::StatusOr<Batch>(
        Batch{Step(3), 0, 0, 0, torch::zeros({2, 1, 8, 8}), torch::zeros({2}, torch::kInt64)});
  };
  const absl::Status status = trainer->Run(
      next, nullptr, [](absl::Span<const StepRecord>) {}, [] { return false; });
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), ::testing::StartsWith("step 3: torch: "));
}

TEST(TrainerTest, Run_OtherExceptionThanTorchs_InternalNamesStep) {
  TrainerOptions options;
  options.loss = [](const torch::Tensor&, const torch::Tensor&, bool) -> torch::Tensor {
    throw std::runtime_error("no room");
  };
  const auto trainer = Trainer::Create(std::make_shared<PlainModel>(), options).value();
  auto next = [] {
    return absl::StatusOr<Batch>(
        Batch{Step(3), 0, 0, 0, torch::zeros({2, 3, 8, 8}), torch::zeros({2}, torch::kInt64)});
  };
  const absl::Status status = trainer->Run(
      next, nullptr, [](absl::Span<const StepRecord>) {}, [] { return false; });
  EXPECT_EQ(status, absl::InternalError("step 3: no room"));
}

TEST(TrainerTest, BucketSpecs_Vgg11At25Mb_BucketsOfDistributedDataParallel) {
  torch::manual_seed(744);
  const auto trainer = Trainer::Create(MakeModel("vgg11", 10).value(), TrainerOptions()).value();
  std::vector<uint64_t> bytes;
  for (const BucketSpec& bucket : trainer->reducer().BucketSpecs()) bytes.push_back(bucket.bytes);
  // 9.03, 25.90 and 0.29 MiB of gradients, and the buffers.
  EXPECT_THAT(bytes, ::testing::ElementsAre(9463848, 27156480, 304128, 22080));
}

// Sums that tests/oracle/mean_gradient.py prints of each parameter.
std::vector<std::vector<double>> SumsOf(const std::vector<torch::Tensor>& gradients) {
  std::vector<std::vector<double>> sums;
  for (const torch::Tensor& gradient : gradients) {
    const torch::Tensor flat = gradient.to(torch::kDouble).flatten();
    const torch::Tensor weights = torch::arange(flat.numel()).remainder(7).to(torch::kDouble);
    sums.push_back({flat.sum().item<double>(), flat.square().sum().item<double>(),
                    (flat * weights).sum().item<double>()});
  }
  return sums;
}

// By parameter, in the model's order.
std::vector<torch::Tensor> MeansOf(const Reducer& reducer) {
  std::vector<torch::Tensor> means;
  for (size_t bucket = 0; bucket < reducer.gradient_buckets(); ++bucket) {
    const size_t parameters = reducer.ParametersOf(bucket).size();
    for (size_t i = 0; i < parameters; ++i) means.push_back(reducer.mean(bucket, i));
  }
  std::reverse(means.begin(), means.end());
  return means;
}

TEST(TrainerTest, Exchange_FourRanksOfVgg11_MeanGradientOfPyTorch) {
  const auto answer = testing::AskOracle("mean_gradient.py", {"744", "4", "2"});
  ASSERT_TRUE(answer.ok()) << answer.status();
  torch::manual_seed(744);
  const std::shared_ptr<Model> model = MakeModel("vgg11", 10).value();
  ReducerOptions options;
  options.broadcast_buffers = false;
  const auto reducer = Reducer::Create(model->parameters(), model->buffers(), options).value();
  testing::Recording recording;
  testing::FoldingExchange exchange(kRanks, &recording);
  exchange.AddLayout(LayoutId(0), reducer->BucketSpecs());
  reducer->Attach(&exchange, LayoutId(0), {Rank(0), Rank(1), Rank(2), Rank(3)});
  reducer->BeginStep(Step(0), absl::InfiniteDuration());
  for (const Rank rank : reducer->ranks()) {
    const torch::Tensor images = torch::randn({2, 3, 32, 32});
    const torch::Tensor labels = torch::randint(0, 10, {2}, torch::kInt64);
    const torch::Tensor scores = model->forward(images);
    reducer->BeginPass(rank, {});
    torch::nn::functional::cross_entropy(scores, labels).backward();
    ASSERT_TRUE(reducer->EndPass().ok());
    reducer->ContributeRest({rank});
  }
  const auto got = SumsOf(MeansOf(*reducer));
  const auto expected = answer->get<std::vector<std::vector<double>>>();
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    // A bias in front of BatchNorm has no gradient, but rounding.
    constexpr double kRounding = 1e-10;
    if (expected[i][1] < kRounding) {
      EXPECT_LT(got[i][1], kRounding) << "parameter " << i;
      continue;
    }
    // Sums of n elements of norm s are known to about s · √n · 1e-6.
    const double scale = std::sqrt(expected[i][1] * model->parameters()[i].numel());
    EXPECT_NEAR(got[i][0], expected[i][0], 1e-4 * scale) << "parameter " << i;
    EXPECT_NEAR(got[i][1] / expected[i][1], 1, 1e-3) << "parameter " << i;
    EXPECT_NEAR(got[i][2], expected[i][2], 6e-4 * scale) << "parameter " << i;
  }
}

}  // namespace
}  // namespace gradwire
