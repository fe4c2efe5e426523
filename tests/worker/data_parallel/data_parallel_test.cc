#include "worker/data_parallel/data_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/worker/run/training.h"
#include "worker/run/trainer.h"

namespace gradwire::data_parallel_test {
namespace {

using testing::Batches;
using ::testing::HasSubstr;
using testing::PlainModel;
using testing::RandomModel;
using testing::RunTrainer;
using testing::StagedModel;

constexpr double kRounding = 1e-5;

// Throws if the first value of an image is `kBad`, in forward or else in backward.
class Fragile : public PlainModel {
 public:
  explicit Fragile(bool backward = false) : backward_(backward) {}
  torch::Tensor forward(torch::Tensor images) override {
    const bool bad = images.select(1, 0).select(1, 0).select(1, 0).eq(kBad).any().item<bool>();
    TORCH_CHECK(!bad || backward_, "bad image");
    torch::Tensor scores = PlainModel::forward(images);
    if (bad) scores.register_hook([](const torch::Tensor&) { TORCH_CHECK(false, "bad gradient"); });
    return scores;
  }
  static constexpr float kBad = 7;

 private:
  const bool backward_;
};

// Adds `bonus` to the scores of a share whose first value is `kRich`.
class Choosy : public PlainModel {
 public:
  Choosy() { bonus = register_parameter("bonus", torch::ones({10})); }
  torch::Tensor forward(torch::Tensor images) override {
    const bool rich = images.flatten()[0].item<float>() == kRich;
    const torch::Tensor scores = PlainModel::forward(std::move(images));
    return rich ? scores + bonus : scores;
  }
  static constexpr float kRich = 7;
  torch::Tensor bonus;
};

torch::Tensor Images(int64_t count) {
  return torch::randn({count, 3, 8, 8}, at::detail::createCPUGenerator(3));
}

// With replicas whose own weights are no good.
std::shared_ptr<DataParallel> Divide(std::shared_ptr<Model> model, int devices,
                                     const std::function<std::shared_ptr<Model>()>& make,
                                     Replication replication = Replication::kNative) {
  const auto make_replica = [&make]() -> absl::StatusOr<std::shared_ptr<Model>> {
    const torch::NoGradGuard values_only;
    std::shared_ptr<Model> replica = make();
    for (torch::Tensor& tensor : replica->parameters()) tensor.fill_(-1);
    for (torch::Tensor& tensor : replica->buffers()) tensor.fill_(9);
    return replica;
  };
  return DataParallel::Create(std::move(model), make_replica, devices, 1, replication).value();
}

template <typename M>
std::shared_ptr<DataParallel> Divided(std::shared_ptr<M> model, int devices,
                                      Replication replication = Replication::kNative) {
  return Divide(
      std::move(model), devices, [] { return std::make_shared<M>(); }, replication);
}

// Of the mean of the scores' squares; undefined ones are those of unused parameters.
std::vector<torch::Tensor> GradientsOf(Model& model, const torch::Tensor& images) {
  model.forward(images).square().mean().backward();
  std::vector<torch::Tensor> gradients;
  for (torch::Tensor& parameter : model.parameters()) {
    gradients.push_back(parameter.grad().defined() ? parameter.grad().clone() : torch::Tensor());
    parameter.mutable_grad().reset();
  }
  return gradients;
}

void ExpectNear(const torch::Tensor& got, const torch::Tensor& expected) {
  ASSERT_EQ(got.defined(), expected.defined());
  if (!got.defined()) return;
  ASSERT_EQ(got.sizes(), expected.sizes());
  EXPECT_TRUE(torch::allclose(got, expected, kRounding, 1e-6)) << got << expected;
}

struct Case {
  Replication replication;
  int devices;
  int64_t samples;
};

class DataParallelTest : public ::testing::TestWithParam<Case> {
 protected:
  std::shared_ptr<DataParallel> Make() {
    return Divided(model_, GetParam().devices, GetParam().replication);
  }
  const std::shared_ptr<PlainModel> model_ = std::make_shared<PlainModel>();
  const torch::Tensor images_ = Images(GetParam().samples);
};

TEST_P(DataParallelTest, Forward_AnyDevices_ScoresOfOne) {
  ExpectNear(Make()->forward(images_), model_->forward(images_));
}

TEST_P(DataParallelTest, Backward_AnyDevices_GradientsOfOne) {
  const std::vector<torch::Tensor> divided = GradientsOf(*Make(), images_);
  const std::vector<torch::Tensor> alone = GradientsOf(*model_, images_);
  for (size_t i = 0; i < alone.size(); ++i) ExpectNear(divided[i], alone[i]);
}

TEST_P(DataParallelTest, Forward_WeightsChanged_ReplicasFollow) {
  const std::shared_ptr<DataParallel> divided = Make();
  divided->forward(images_);
  {
    const torch::NoGradGuard values_only;
    for (torch::Tensor& parameter : model_->parameters()) parameter.mul_(1.5);
  }
  ExpectNear(divided->forward(images_), model_->forward(images_));
}

std::string NameOf(const ::testing::TestParamInfo<Case>& info) {
  return (info.param.replication == Replication::kNative ? "Native" : "Vanilla") +
         std::to_string(info.param.devices) + "Devices" + std::to_string(info.param.samples) +
         "Samples";
}

INSTANTIATE_TEST_SUITE_P(Cases, DataParallelTest,
                         ::testing::Values(Case{Replication::kNative, 2, 8},
                                           Case{Replication::kNative, 4, 10},  // 3, 3, 3, 1
                                           Case{Replication::kNative, 4, 5},   // 2, 2, 1
                                           Case{Replication::kNative, 3, 1},
                                           Case{Replication::kVanilla, 2, 8},
                                           Case{Replication::kVanilla, 4, 5}),
                         NameOf);

TEST(DataParallel, Forward_Vanilla_BitsOfNative) {
  const torch::Tensor images = Images(6);
  const auto model = std::make_shared<StagedModel>();
  model->eval();
  EXPECT_TRUE(torch::equal(Divided(model, 3, Replication::kVanilla)->forward(images),
                           Divided(model, 3, Replication::kNative)->forward(images)));
}

// The second pass does not use one of them, and one is frozen.
TEST(DataParallel, Backward_UnusedParameters_HaveNoGradient) {
  const auto model = std::make_shared<StagedModel>();
  const std::shared_ptr<DataParallel> divided = Divided(model, 2);
  divided->forward(Images(4));
  divided->forward(Images(4)).sum().backward();
  EXPECT_FALSE(model->sometimes.grad().defined());
  EXPECT_FALSE(model->frozen.grad().defined());
  EXPECT_TRUE(model->unnamed.grad().defined());
}

// Device 0 does not use it; of three shares of two samples, the last one does, or the last two.
TEST(DataParallel, Backward_ParameterOfLaterDevicesOnly_HasTheSumOfTheirGradients) {
  for (const int64_t first : {4, 2}) {
    const auto model = std::make_shared<Choosy>();
    torch::Tensor images = Images(6);
    for (int64_t i = first; i < 6; i += 2) images[i].fill_(Choosy::kRich);
    Divided(model, 3)->forward(images).sum().backward();
    ASSERT_TRUE(model->bonus.grad().defined()) << first;
    ExpectNear(model->bonus.grad(), torch::full({10}, static_cast<float>(6 - first)));
  }
}

// Else the other devices would go on with the statistics of the evaluation.
TEST(DataParallel, Train_AfterEval_EveryDeviceTrainsAgain) {
  const torch::Tensor images = Images(4);
  const std::vector<torch::Tensor> shares = images.chunk(2);
  const std::shared_ptr<DataParallel> divided = Divided(std::make_shared<StagedModel>(), 2);
  divided->eval();
  divided->forward(images);
  divided->forward(images);  // every other pass leaves a parameter out
  divided->train();
  const torch::Tensor first = std::make_shared<StagedModel>()->forward(shares[0]);
  const torch::Tensor second = std::make_shared<StagedModel>()->forward(shares[1]);
  ExpectNear(divided->forward(images), torch::cat({first, second}));
}

TEST(DataParallel, Forward_BatchNorm_EachShareIsNormalisedByItself) {
  const torch::Tensor images = Images(4);
  const std::vector<torch::Tensor> shares = images.chunk(2);
  const torch::Tensor scores = Divided(std::make_shared<StagedModel>(), 2)->forward(images);
  const torch::Tensor first = std::make_shared<StagedModel>()->forward(shares[0]);
  const torch::Tensor second = std::make_shared<StagedModel>()->forward(shares[1]);
  ExpectNear(scores, torch::cat({first, second}));
}

TEST(DataParallel, Forward_BatchNorm_StatisticsAreOfDeviceZero) {
  for (const Replication replication : {Replication::kNative, Replication::kVanilla}) {
    const auto model = std::make_shared<StagedModel>(), first = std::make_shared<StagedModel>();
    const std::shared_ptr<DataParallel> divided = Divided(model, 2, replication);
    for (int64_t pass = 0; pass < 2; ++pass) {
      const torch::Tensor images = Images(4 + 2 * pass);
      divided->forward(images);
      first->forward(images.chunk(2)[0]);
    }
    for (size_t i = 0; i < model->buffers().size(); ++i) {
      EXPECT_TRUE(torch::equal(model->buffers()[i], first->buffers()[i])) << "buffer " << i;
    }
  }
}

TEST(DataParallel, Eval_Dropout_IsOffOnAllDevices) {
  const torch::Tensor images = Images(4);
  const auto make = [] { return std::make_shared<RandomModel>(0.5); };
  const auto model = make();
  const std::shared_ptr<DataParallel> divided = Divide(model, 2, make);
  divided->forward(images);
  divided->eval();
  ExpectNear(divided->forward(images), model->forward(images));
}

TEST(DataParallel, Forward_NoGrad_NoGraphOnAnyDevice) {
  const torch::NoGradGuard no_grad;
  EXPECT_FALSE(Divided(std::make_shared<PlainModel>(), 2)->forward(Images(4)).requires_grad());
}

TEST(DataParallel, Parameters_Always_ThoseOfTheModelInItsOrder) {
  const auto model = std::make_shared<StagedModel>();
  const std::vector<torch::Tensor> parameters = Divided(model, 3)->parameters();
  ASSERT_EQ(parameters.size(), model->parameters().size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_TRUE(parameters[i].is_same(model->parameters()[i]));
  }
}

uint64_t BytesOf(const std::vector<torch::Tensor>& tensors) {
  uint64_t bytes = 0;
  for (const torch::Tensor& tensor : tensors) bytes += tensor.nbytes();
  return bytes;
}

// Of images and scores there and back 3 of 5 samples are on other devices, of gradients all.
TEST(DataParallel, BytesMoved_OnePass_WhatOtherDevicesGetAndGive) {
  const auto model = std::make_shared<PlainModel>();
  const uint64_t parameters = BytesOf(model->parameters());
  const uint64_t pieces = 3 * (3 * 8 * 8 + 10 + 10) * sizeof(float);
  for (const Replication replication : {Replication::kNative, Replication::kVanilla}) {
    const std::shared_ptr<DataParallel> divided = Divided(model, 4, replication);
    GradientsOf(*divided, Images(5));
    const uint64_t copied = replication == Replication::kVanilla ? 2 * parameters : 0;
    EXPECT_EQ(divided->bytes_moved(), pieces + 2 * parameters + copied);
  }
}

TEST(DataParallel, BytesMoved_SecondPass_IsAdded) {
  for (const Replication replication : {Replication::kNative, Replication::kVanilla}) {
    const auto divided = Divided(std::make_shared<PlainModel>(), 4, replication);
    GradientsOf(*divided, Images(5));
    const uint64_t once = divided->bytes_moved();
    GradientsOf(*divided, Images(5));
    EXPECT_EQ(divided->bytes_moved(), 2 * once);
  }
}

TEST(DataParallel, BytesMoved_NativeWithStatistics_TheseAreCopied) {
  const auto model = std::make_shared<StagedModel>();
  const std::shared_ptr<DataParallel> divided = Divided(model, 2);
  divided->forward(Images(2));
  EXPECT_EQ(divided->bytes_moved(), BytesOf(model->buffers()) + (3 * 8 * 8 + 10) * sizeof(float));
}

TEST(DataParallel, TakeTimes_AfterAPass_MovesThemFromComputationToCommunication) {
  const std::shared_ptr<DataParallel> divided = Divided(std::make_shared<PlainModel>(), 2);
  GradientsOf(*divided, Images(4));
  const PhaseTimes times = divided->TakeTimes();
  EXPECT_LT(times[Phase::kForward], absl::ZeroDuration());
  EXPECT_LT(times[Phase::kBackward], absl::ZeroDuration());
  EXPECT_EQ(times[Phase::kCommunication], -times[Phase::kForward] - times[Phase::kBackward]);
  EXPECT_EQ(times[Phase::kExposedCommunication], times[Phase::kCommunication]);
  EXPECT_EQ(divided->TakeTimes()[Phase::kCommunication], absl::ZeroDuration());
}

// One of two samples is on each device.
TEST(DataParallel, MeanBarrier_SeveralSteps_NotOfTheFirst) {
  const std::shared_ptr<DataParallel> divided = Divided(std::make_shared<PlainModel>(), 2);
  GradientsOf(*divided, Images(2));
  divided->TakeTimes();
  EXPECT_EQ(divided->mean_barrier(), absl::ZeroDuration());
  GradientsOf(*divided, Images(2));
  divided->TakeTimes();
  const absl::Duration once = divided->mean_barrier();
  EXPECT_GT(once, absl::ZeroDuration());
  divided->TakeTimes();  // no device computed
  EXPECT_EQ(divided->mean_barrier(), once / 2);
}

std::shared_ptr<Model> Train(std::shared_ptr<Model> model, const std::shared_ptr<Model>& trained) {
  const auto trainer = Trainer::Create(trained, TrainerOptions()).value();
  EXPECT_TRUE(RunTrainer(*trainer, Batches(4, 6, 0, 6), nullptr).ok());
  return model;
}

TEST(DataParallel, Train_SeveralSteps_ParametersOfOneDevice) {
  for (const Replication replication : {Replication::kNative, Replication::kVanilla}) {
    const auto divided = std::make_shared<PlainModel>(), alone = std::make_shared<PlainModel>();
    testing::ExpectNear(*Train(divided, Divided(divided, 4, replication)), *Train(alone, alone),
                        kRounding);
  }
}

// Of four samples the last one is bad, which is on device 1.
absl::Status TrainOnBadImage(bool backward) {
  const auto make = [backward] { return std::make_shared<Fragile>(backward); };
  const auto trainer = Trainer::Create(Divide(make(), 2, make), TrainerOptions()).value();
  const auto next = [done = false]() mutable -> absl::StatusOr<Batch> {
    if (std::exchange(done, true)) return absl::OutOfRangeError("done");
    torch::Tensor images = Images(4);
    images[3].fill_(Fragile::kBad);
    return Batch{Step(0), 0, 0, 0, images, torch::zeros({4}, torch::kInt64)};
  };
  return trainer->Run(
      next, nullptr, [](absl::Span<const StepRecord>) {}, [] { return false; });
}

TEST(DataParallel, Train_OneDeviceThrowsInForward_StatusNamesIt) {
  EXPECT_THAT(std::string(TrainOnBadImage(/*backward=*/false).message()),
              HasSubstr("step 0: torch: device 1: bad image"));
}

TEST(DataParallel, Train_OneDeviceThrowsInBackward_StatusNamesIt) {
  EXPECT_THAT(std::string(TrainOnBadImage(/*backward=*/true).message()),
              HasSubstr("step 0: torch: device 1: bad gradient"));
}

TEST(DataParallel, Create_ReplicaFails_ItsError) {
  const auto make = []() -> absl::StatusOr<std::shared_ptr<Model>> {
    return absl::NotFoundError("no such model");
  };
  EXPECT_EQ(DataParallel::Create(std::make_shared<PlainModel>(), make, 2, 1, Replication::kNative)
                .status(),
            absl::NotFoundError("no such model"));
}

}  // namespace
}  // namespace gradwire::data_parallel_test
