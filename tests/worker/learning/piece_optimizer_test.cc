// What trains a served model gives the bits of the worker's optimisers.
#include <gtest/gtest.h>

#include "common/parameter_server/optimizer_module.h"
#include "worker/learning/sliced_optimizer.h"
#include "worker/options/choices.h"

namespace gradwire {
namespace {

constexpr int64_t kElements = 70001;
constexpr double kRate = 0.1;

v1::Serving ServingOf(const OptimizerOptions& options) {
  v1::Serving serving;
  serving.set_optimizer(options.name);
  serving.set_momentum(options.momentum);
  serving.set_weight_decay(options.weight_decay);
  serving.set_nesterov(options.nesterov);
  return serving;
}

// Trains two tensors of the same values, one as a worker does, one in pieces of whole cache lines.
void ExpectSameBits(const OptimizerOptions& options) {
  torch::manual_seed(1);
  const torch::Tensor expected = torch::randn({kElements});
  const torch::Tensor served = expected.clone();
  SlicedOptimizer optimizer({expected}, FindOptimizer(options).value());
  const absl::StatusOr<MakePieceOptimizer> make = LoadPieceOptimizers(ServingOf(options));
  ASSERT_TRUE(make.ok()) << make.status();
  auto* parameters = served.data_ptr<float>();
  constexpr int64_t kCut = 34000;
  const auto first = (*make)({parameters, kCut});
  const auto second = (*make)({parameters + kCut, kElements - kCut});
  for (int step = 0; step < 3; ++step) {
    const torch::Tensor gradient = torch::randn({kElements});
    optimizer.Step(gradient, kRate / (1 + step));
    first->Step(gradient.data_ptr<float>(), kRate / (1 + step));
    second->Step(gradient.data_ptr<float>() + kCut, kRate / (1 + step));
  }
  EXPECT_TRUE(torch::equal(expected, served)) << options.name;
}

TEST(PieceOptimizer, EveryOptimizer_BitsOfTheWorkers) {
  for (const NamedChoice& row : OptimizerChoices()) ExpectSameBits({row.name, 0.9, 1e-2, false});
  ExpectSameBits({"sgd", 0.9, 1e-4, true});
  ExpectSameBits({"sgd", 0, 0, false});
}

TEST(PieceOptimizer, UnknownName_SaysSo) {
  const auto made = LoadPieceOptimizers(ServingOf({"sgd2", 0.9, 0, false}));
  EXPECT_EQ(made.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(made.status().message().find("optimizer 'sgd2' does not exist"), std::string::npos);
}

TEST(PieceOptimizer, WhatTorchRefuses_SaysWhy) {
  const auto made = LoadPieceOptimizers(ServingOf({"sgd", -1, 0, false}));
  EXPECT_EQ(made.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(made.status().message().find("momentum"), std::string::npos) << made.status();
}

}  // namespace
}  // namespace gradwire
