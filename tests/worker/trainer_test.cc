#include "worker/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "tests/cluster/backend_cluster.h"
#include "tests/worker/oracle.h"
#include "worker/hash.h"
#include "worker/sync/barrier_sync.h"
#include "worker/sync/no_sync.h"

namespace gradwire {
namespace {

constexpr int kRanks = 4;

// A small model whose loss over a batch is the mean of the samples' losses: no
// BatchNorm, so N ranks are exactly one process with all samples.
class PlainModel : public Model {
 public:
  PlainModel() {
    torch::manual_seed(5);
    conv_ = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 3)));
    linear_ = register_module("linear", torch::nn::Linear(4 * 6 * 6, 10));
  }
  torch::Tensor forward(torch::Tensor images) override {
    return linear_(torch::relu(conv_(images)).flatten(1));
  }
  ImageShape image_shape() const override { return {3, 8, 8}; }

 private:
  torch::nn::Conv2d conv_{nullptr};
  torch::nn::Linear linear_{nullptr};
};

// `steps` batches of `size` samples in a row of a fixed random stream, from
// sample `first` of each step's `stride` samples.
class Batches {
 public:
  Batches(int64_t steps, int64_t stride, int64_t first, int64_t size)
      : steps_(steps), stride_(stride), first_(first), size_(size) {
    torch::Generator generator = at::detail::createCPUGenerator(9);
    images_ = torch::randn({steps * stride, 3, 8, 8}, generator);
    labels_ = torch::randint(0, 10, {steps * stride}, generator, torch::kInt64);
  }

  absl::StatusOr<Batch> Next() {
    if (next_ == steps_) return absl::OutOfRangeError("done");
    const int64_t begin = next_ * stride_ + first_;
    return Batch{Step(static_cast<uint64_t>(next_++)), 0, 0, images_.narrow(0, begin, size_),
                 labels_.narrow(0, begin, size_)};
  }

 private:
  int64_t steps_, stride_, first_, size_;
  int64_t next_ = 0;
  torch::Tensor images_, labels_;
};

absl::Status RunTrainer(Trainer& trainer, Batches batches, Synchronizer& sync) {
  return trainer.Run([&] { return batches.Next(); }, sync, [](const StepReport&) {},
                     [] { return false; });
}

// Trains kRanks ranks on their shares; returns rank 0's model, all being equal.
std::shared_ptr<Model> TrainRanks(const std::string& backend, int64_t steps, double cap_bytes) {
  TrainerOptions options;
  options.bucket_cap_bytes = cap_bytes;
  std::vector<std::shared_ptr<Model>> models;
  std::vector<std::unique_ptr<Trainer>> trainers;
  for (int rank = 0; rank < kRanks; ++rank) {
    models.push_back(std::make_shared<PlainModel>());
    trainers.push_back(std::make_unique<Trainer>(models.back(), options));
  }
  BackendCluster cluster(backend, kRanks, trainers[0]->BucketSpecs());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      BarrierSync sync(&cluster.backend(rank));
      const absl::Status status =
          RunTrainer(*trainers[rank], Batches(steps, 4 * kRanks, 4 * rank, 4), sync);
      EXPECT_TRUE(status.ok()) << status;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& model : models) {
    EXPECT_EQ(Sha256(model->parameters()), Sha256(models[0]->parameters()));
  }
  return models[0];
}

std::shared_ptr<Model> TrainAlone(int64_t steps) {
  auto model = std::make_shared<PlainModel>();
  Trainer trainer(model, TrainerOptions());
  NoSync sync;
  const absl::Status status = RunTrainer(trainer, Batches(steps, 4 * kRanks, 0, 4 * kRanks), sync);
  EXPECT_TRUE(status.ok()) << status;
  return model;
}

void ExpectNear(const Model& got, const Model& expected, double relative) {
  const auto a = got.parameters(), b = expected.parameters();
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = (a[i] - b[i]).norm().item<double>();
    EXPECT_LE(difference, relative * b[i].norm().item<double>()) << "parameter " << i;
  }
}

TEST(TrainerTest, Run_RanksThroughCoordinator_EqualOneProcessWithAllSamples) {
  ExpectNear(*TrainRanks("coordinator", 5, 0), *TrainAlone(5), 1e-5);
}

TEST(TrainerTest, Run_Ring_NearTheFoldAfterFiveSteps) {
  ExpectNear(*TrainRanks("ring", 5, 0), *TrainRanks("coordinator", 5, 0), 1e-5);
}

TEST(TrainerTest, Run_AnyBucketCap_SameBits) {
  const std::string hash = Sha256(TrainRanks("coordinator", 3, 0)->parameters());
  for (const double cap : {100.0, 2000.0, 1e9}) {
    EXPECT_EQ(Sha256(TrainRanks("coordinator", 3, cap)->parameters()), hash) << cap;
  }
}

TEST(TrainerTest, Run_Stopped_Cancelled) {
  Trainer trainer(std::make_shared<PlainModel>(), TrainerOptions());
  NoSync sync;
  Batches batches(5, 4, 0, 4);
  const absl::Status status = trainer.Run([&] { return batches.Next(); }, sync,
                                          [](const StepReport&) {}, [] { return true; });
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
}

TEST(TrainerTest, Run_ImagesOfAnotherShape_InternalNamesStep) {
  Trainer trainer(std::make_shared<PlainModel>(), TrainerOptions());
  NoSync sync;
  auto next = [] {
    return absl::StatusOr<Batch>(
        Batch{Step(3), 0, 0, torch::zeros({2, 1, 8, 8}), torch::zeros({2}, torch::kInt64)});
  };
  const absl::Status status = trainer.Run(
      next, sync, [](const StepReport&) {}, [] { return false; });
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), ::testing::StartsWith("step 3: torch: "));
}

TEST(TrainerTest, BucketSpecs_Vgg11At25Mb_BucketsOfDistributedDataParallel) {
  torch::manual_seed(744);
  Trainer trainer(MakeModel("vgg11", 10).value(), TrainerOptions());
  std::vector<uint64_t> bytes;
  for (const BucketSpec& bucket : trainer.BucketSpecs()) bytes.push_back(bucket.bytes);
  // 9.03, 25.90 and 0.29 MiB of gradients, and the buffers.
  EXPECT_THAT(bytes, ::testing::ElementsAre(9463848, 27156480, 304128, 22080));
}

// Sums that tests/oracle/mean_gradient.py prints of each parameter.
std::vector<std::vector<double>> SumsOf(const std::vector<torch::Tensor>& parameters) {
  std::vector<std::vector<double>> sums;
  for (const torch::Tensor& parameter : parameters) {
    const torch::Tensor flat = parameter.grad().to(torch::kDouble).flatten();
    const torch::Tensor weights = torch::arange(flat.numel()).remainder(7).to(torch::kDouble);
    sums.push_back({flat.sum().item<double>(), flat.square().sum().item<double>(),
                    (flat * weights).sum().item<double>()});
  }
  return sums;
}

TEST(TrainerTest, Exchange_FourRanksOfVgg11_MeanGradientOfPyTorch) {
  const auto answer = testing::AskOracle("mean_gradient.py", {"744", "4", "2"});
  ASSERT_TRUE(answer.ok()) << answer.status();
  torch::manual_seed(744);
  const std::shared_ptr<Model> model = MakeModel("vgg11", 10).value();
  std::vector<std::unique_ptr<FlatGradient>> gradients;
  for (int rank = 0; rank < kRanks; ++rank) {
    gradients.push_back(std::make_unique<FlatGradient>(model->parameters(), 25 << 20));
    gradients.back()->StartLocal();
    const torch::Tensor images = torch::randn({2, 3, 32, 32});
    const torch::Tensor labels = torch::randint(0, 10, {2}, torch::kInt64);
    torch::nn::functional::cross_entropy(model->forward(images), labels).backward();
  }
  BackendCluster cluster("coordinator", kRanks, gradients[0]->Specs());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      StepBuckets buckets;
      for (size_t i = 0; i < gradients[rank]->bucket_count(); ++i) {
        buckets.gradients.push_back({gradients[rank]->local(i), gradients[rank]->mean(i)});
      }
      BarrierSync sync(&cluster.backend(rank));
      EXPECT_TRUE(sync.BeforeOptimizer(Step(0), buckets, absl::InfiniteFuture()).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  gradients[3]->ShowMean();
  const auto got = SumsOf(model->parameters());
  const auto expected = answer->get<std::vector<std::vector<double>>>();
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    // Sums of n elements of norm s are known to about s · √n · 1e-6.
    const double scale = std::sqrt(expected[i][1] * model->parameters()[i].numel());
    EXPECT_NEAR(got[i][0], expected[i][0], 1e-4 * scale) << "parameter " << i;
    EXPECT_NEAR(got[i][1] / expected[i][1], 1, 1e-3) << "parameter " << i;
    EXPECT_NEAR(got[i][2], expected[i][2], 6e-4 * scale) << "parameter " << i;
  }
}

}  // namespace
}  // namespace gradwire
