#include "worker/run/evaluator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <ostream>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include "absl/strings/str_format.h"
#include "common/base/clock.h"
#include "tests/cluster/backend_cluster.h"
#include "tests/worker/ddp/fake_exchange.h"
#include "tests/worker/run/recorded_exchange.h"
#include "tests/worker/run/training.h"

namespace gradwire::evaluator_test {
namespace {

using testing::PlainModel;
using testing::StagedModel;

constexpr int64_t kSamples = 46;
constexpr int64_t kBatch = 5;  // 10 batches, the last one of one sample

std::shared_ptr<const Dataset> MakeDataset() {
  Dataset dataset;
  dataset.name = "made";
  dataset.channels = 3;
  dataset.height = dataset.width = 8;
  dataset.classes = 10;
  dataset.mean = dataset.std_dev = {0.5f, 0.5f, 0.5f};
  torch::Generator generator = at::detail::createCPUGenerator(3);
  const torch::Tensor bytes =
      torch::randint(0, 256, {kSamples, 3 * 8 * 8}, generator, torch::kUInt8);
  dataset.pixels.assign(bytes.data_ptr<uint8_t>(), bytes.data_ptr<uint8_t>() + bytes.numel());
  for (int64_t i = 0; i < kSamples; ++i) dataset.labels.push_back(i % 10);
  return std::make_shared<const Dataset>(std::move(dataset));
}

bool NeverStopped() { return false; }

// A worker's part in an evaluation.
struct EvaluatingWorker {
  EvaluatingWorker(std::shared_ptr<Model> m, std::vector<Rank> ranks, bool broadcast_buffers,
                   Loss loss = &CrossEntropy)
      : model(std::move(m)) {
    ReducerOptions options;
    options.broadcast_buffers = broadcast_buffers;
    reducer = Reducer::Create(model->parameters(), model->trained_buffers(), options).value();
    reducer->Attach(nullptr, LayoutId(0), std::move(ranks));
    evaluator = std::make_unique<Evaluator>(
        model.get(), reducer.get(),
        EvaluationBatches::Create(MakeDataset(), model->image_shape(), kBatch).value(), loss);
  }

  std::shared_ptr<Model> model;
  std::unique_ptr<Reducer> reducer;
  std::unique_ptr<Evaluator> evaluator;
};

Evaluation Alone(Loss loss = &CrossEntropy) {
  EvaluatingWorker worker(std::make_shared<PlainModel>(), {Rank(0)}, true, loss);
  return worker.evaluator->Run(NeverStopped).value().at(0);
}

struct Case {
  const char* name;
  const char* backend;
  Deal deal;

  friend std::ostream& operator<<(std::ostream& out, const Case& one) { return out << one.name; }
};

class DividedEvaluationTest : public ::testing::TestWithParam<Case> {
 protected:
  DividedEvaluationTest() {
    for (const std::vector<int>& ranks : GetParam().deal) {
      world_size_ += static_cast<int>(ranks.size());
      workers_.emplace_back(std::make_shared<PlainModel>(),
                            std::vector<Rank>(ranks.begin(), ranks.end()), true);
    }
    cluster_ = std::make_unique<BackendCluster>(GetParam().backend, GetParam().deal,
                                                workers_[0].evaluator->BucketSpecs(world_size_),
                                                BackendCluster::Settings());
    View view;
    view.world_size = world_size_;
    for (size_t i = 0; i < workers_.size(); ++i) {
      workers_[i].evaluator->Divide(&cluster_->exchange(static_cast<int>(i)), LayoutId(0), view,
                                    absl::Seconds(60));
    }
  }
  // Of each rank, worker after worker.
  std::vector<Evaluation> Run(const std::function<bool()>& stopped = NeverStopped) {
    std::vector<std::vector<Evaluation>> of_workers(workers_.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < workers_.size(); ++i) {
      threads.emplace_back([&, i] { of_workers[i] = workers_[i].evaluator->Run(stopped).value(); });
    }
    for (std::thread& thread : threads) thread.join();
    std::vector<Evaluation> all;
    for (const auto& some : of_workers) all.insert(all.end(), some.begin(), some.end());
    return all;
  }

  int world_size_ = 0;
  std::vector<EvaluatingWorker> workers_;
  std::unique_ptr<BackendCluster> cluster_;
};

TEST_P(DividedEvaluationTest, Run_OnWait_HearsOnceOfEachWorker) {
  std::atomic<int> waits{0};
  std::vector<std::thread> threads;
  for (EvaluatingWorker& worker : workers_) {
    threads.emplace_back(
        [&] { worker.evaluator->Run(NeverStopped, [&waits] { ++waits; }).value(); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(waits, static_cast<int>(workers_.size()));
}

TEST_P(DividedEvaluationTest, Run_Twice_BitsOfOneProcessOnEveryRank) {
  const Evaluation expected = Alone();
  for (int time = 0; time < 2; ++time) {
    const std::vector<Evaluation> evaluations = Run();
    ASSERT_EQ(evaluations.size(), static_cast<size_t>(world_size_));
    for (const Evaluation& got : evaluations) {
      EXPECT_EQ(got.loss, expected.loss);
      EXPECT_EQ(got.accuracy, expected.accuracy);
      EXPECT_EQ(got.samples, kSamples);
    }
  }
}

// `stopped` is asked once before each batch.
TEST_P(DividedEvaluationTest, Run_AllRanks_EachBatchIsComputedOnce) {
  std::atomic<int> computed{0};
  Run([&computed] {
    ++computed;
    return false;
  });
  EXPECT_EQ(computed, 10);
}

INSTANTIATE_TEST_SUITE_P(Deals, DividedEvaluationTest,
                         ::testing::Values(Case{"Coordinator1", "coordinator", {{0}}},
                                           Case{"Coordinator2", "coordinator", {{0}, {1}}},
                                           Case{"Sharded3", "sharded", {{0}, {1}, {2}}},
                                           Case{"Sharded4On2", "sharded", {{0, 1, 2}, {3}}},
                                           Case{"Ring4", "ring", {{0}, {1}, {2}, {3}}},
                                           Case{"Ring4On2", "ring", {{0}, {1, 2, 3}}}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(EvaluationSteps, After_AnyStep_NextMultipleOrTheLast) {
  const EvaluationSteps steps{10, 25};
  for (const auto& [from, next] : std::map<int64_t, int64_t>{
           {0, 10}, {9, 10}, {10, 20}, {13, 20}, {19, 20}, {20, 25}, {24, 25}}) {
    EXPECT_EQ(steps.After(from), next) << from;
    EXPECT_TRUE(steps.Has(next)) << next;
  }
  EXPECT_FALSE(steps.Has(13));
  const EvaluationSteps last{0, 25};
  EXPECT_EQ(last.After(3), 25);
  EXPECT_FALSE(last.Has(10));
  EXPECT_TRUE(last.Has(25));
}

TEST(Evaluator, Run_NotDivided_EachRankWithItsBuffers) {
  const auto model = std::make_shared<StagedModel>();
  EvaluatingWorker worker(model, {Rank(0), Rank(1)}, /*broadcast_buffers=*/false);
  worker.reducer->BeginForward(Rank(1));
  model->buffers()[0].fill_(3);  // running mean
  worker.reducer->EndForward(Rank(1));
  const std::vector<Evaluation> evaluations = worker.evaluator->Run(NeverStopped).value();
  ASSERT_EQ(evaluations.size(), 2u);
  EXPECT_NE(evaluations[0].loss, evaluations[1].loss);
}

// The steps of a layout count from the first of each view, also of one after a loss.
TEST(Evaluator, Run_InLaterViews_StepsCountFromTheFirstOfEach) {
  EvaluatingWorker worker(std::make_shared<PlainModel>(), {Rank(0)}, true);
  testing::Recording recording;
  View view;
  view.world_size = 1;
  for (const uint64_t first : {5, 12}) {
    testing::FoldingExchange exchange(1, &recording);
    exchange.AddLayout(LayoutId(0), worker.evaluator->BucketSpecs(1));
    view.first_step = Step(first);
    worker.evaluator->Divide(&exchange, LayoutId(0), view, absl::Seconds(60));
    for (int time = 0; time < 2; ++time) EXPECT_TRUE(worker.evaluator->Run(NeverStopped).ok());
  }
  std::set<uint64_t> steps;
  for (const auto& [key, entry] : recording.entries) steps.insert(key.step.value());
  EXPECT_THAT(steps, ::testing::ElementsAre(5, 6, 12, 13));
}

TEST(Evaluator, Run_OtherLoss_MeanOfIt) {
  PlainModel model;
  const auto batches = EvaluationBatches::Create(MakeDataset(), model.image_shape(), 46).value();
  const Batch all = batches->Make(0);
  const double expected =
      MeanSquaredError(model.forward(all.images), all.labels, false).item<double>();
  EXPECT_NEAR(Alone(&MeanSquaredError).loss, expected, 1e-5);
}

TEST(Evaluator, Run_Stopped_CancelledAndInTrainingAgain) {
  EvaluatingWorker worker(std::make_shared<PlainModel>(), {Rank(0)}, true);
  EXPECT_EQ(worker.evaluator->Run([] { return true; }).status(),
            absl::CancelledError("the evaluation was stopped"));
  EXPECT_TRUE(worker.model->is_training());
}

// The other worker shares nothing.
TEST(Evaluator, Run_RunIsLostWhileItIsShared_EndsWithTheReasonAndInTrainingAgain) {
  const absl::Status lost = absl::AbortedError("rank 1 was lost in step 0");
  for (const char* backend : {"coordinator", "sharded", "ring", "tree"}) {
    EvaluatingWorker worker(std::make_shared<PlainModel>(), {Rank(0)}, true);
    BackendCluster cluster(backend, 2, worker.evaluator->BucketSpecs(2));
    View view;
    view.world_size = 2;
    worker.evaluator->Divide(&cluster.exchange(0), LayoutId(0), view, absl::Seconds(60));
    int to_compute = 5;
    std::promise<void> last_batch;
    auto evaluated = std::async(std::launch::async, [&] {
      return worker.evaluator->Run([&] {
        if (--to_compute == 0) last_batch.set_value();
        return false;
      });
    });
    last_batch.get_future().wait();
    cluster.exchange(0).Cancel(lost);
    EXPECT_EQ(evaluated.get().status(), lost) << backend;
    EXPECT_TRUE(worker.model->is_training());
  }
}

TEST(Evaluator, Run_Divided_OthersHaveAsLongAsItWasSaid) {
  constexpr absl::Duration kTimeout = absl::Minutes(3);
  EvaluatingWorker worker(std::make_shared<PlainModel>(), {Rank(0)}, true);
  testing::FakeExchange exchange;
  exchange.on_contribute = [&exchange](const BucketKey& key) { exchange.End(key.bucket.value()); };
  View view;
  view.world_size = 1;
  worker.evaluator->Divide(&exchange, LayoutId(0), view, kTimeout);
  const absl::Time begun = SteadyNow();
  EXPECT_TRUE(worker.evaluator->Run(NeverStopped).ok());
  const absl::Time ended = SteadyNow();
  ASSERT_EQ(exchange.expected().size(), 2u);
  for (const testing::FakeExchange::Expected& bucket : exchange.expected()) {
    EXPECT_GE(bucket.deadline, begun + kTimeout);
    EXPECT_LE(bucket.deadline, ended + kTimeout);
  }
}

// As one that is stuck in a write to another worker.
TEST(Evaluator, Run_ExchangeIsSilentPastTheDeadline_IsCancelled) {
  EvaluatingWorker worker(std::make_shared<PlainModel>(), {Rank(0)}, true);
  testing::FakeExchange exchange;
  View view;
  view.world_size = 2;
  worker.evaluator->Divide(&exchange, LayoutId(0), view, -absl::Seconds(10));
  const absl::Status silent = absl::DeadlineExceededError("a peer takes no more data");
  EXPECT_EQ(worker.evaluator->Run(NeverStopped).status(), silent);
  EXPECT_EQ(exchange.cancelled(), silent);
  EXPECT_EQ(exchange.under_way(), 0u);
}

TEST(Evaluator, Run_AnyModel_LogHasLossAndAccuracyInPercent) {
  ::testing::internal::CaptureStdout();
  const Evaluation alone = Alone();
  const std::string log = ::testing::internal::GetCapturedStdout();
  const double right = alone.accuracy * static_cast<double>(kSamples);
  EXPECT_THAT(log, ::testing::HasSubstr(
                       absl::StrFormat("test loss %.4f, accuracy %.2f %% (%.0f of %d)", alone.loss,
                                       100 * alone.accuracy, right, kSamples)));
}

TEST(Evaluator, Run_OtherExceptionThanTorchs_InternalSaysWhat) {
  EvaluatingWorker worker(std::make_shared<PlainModel>(), {Rank(0)}, true,
                          [](const torch::Tensor&, const torch::Tensor&, bool) -> torch::Tensor {
                            throw std::runtime_error("no room");
                          });
  EXPECT_EQ(worker.evaluator->Run(NeverStopped).status(),
            absl::InternalError("evaluation: no room"));
  EXPECT_TRUE(worker.model->is_training());
}

TEST(Evaluator, Run_TorchThrows_InternalSaysSo) {
  EvaluatingWorker worker(
      std::make_shared<PlainModel>(), {Rank(0)}, true,
      [](const torch::Tensor& scores, const torch::Tensor&, bool) { return scores.view({-2}); });
  const absl::Status status = worker.evaluator->Run(NeverStopped).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), ::testing::StartsWith("evaluation: torch: "));
}

}  // namespace
}  // namespace gradwire::evaluator_test
