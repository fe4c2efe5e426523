// The optimizer of a program's checkpoint, as PyTorch continues with it.
#include "common/state/export.h"

#include <gmock/gmock.h>
#include <gradwire/ddp.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/state/checkpoint_reader.h"
#include "tests/library/models.h"
#include "tests/library/ranks.h"
#include "tests/support/oracle.h"
#include "tests/support/temp_dir.h"

namespace gradwire::testing {
namespace {

constexpr int64_t kSteps = 3;

// The first of its parameters has no elements.
struct TwoLayersImpl : torch::nn::Module {
  torch::Tensor empty = register_parameter("empty", torch::empty({0, 8}));
  Linear first = register_module("first", Linear(3, 4));
  Linear last = register_module("last", Linear(4, 2));
};
TORCH_MODULE(TwoLayers);

using Tensors = std::vector<torch::Tensor>;
using Groups = std::vector<torch::optim::OptimizerParamGroup>;

enum class Grouped { kAll, kWithoutABias, kEmptyGroup, kTwice, kWithoutElements };

// Two groups, the last layer first.
Groups GroupsOf(TwoLayers& net, Grouped grouped) {
  Tensors last = {net->last->weight};
  Tensors first = {net->first->bias, net->first->weight};
  if (grouped != Grouped::kWithoutABias) last.push_back(net->last->bias);
  if (grouped == Grouped::kWithoutElements) first.insert(first.begin() + 1, net->empty);
  if (grouped == Grouped::kTwice) first.push_back(net->first->bias);  // as of tied weights
  Groups groups;
  groups.emplace_back(last);
  groups.emplace_back(first);
  if (grouped == Grouped::kEmptyGroup) groups.emplace_back(Tensors());
  return groups;
}

// Makes an optimizer whose groups have other learning rates.
template <typename Optimizer, typename Options>
std::unique_ptr<torch::optim::Optimizer> MakeOptimizer(TwoLayers& net, Grouped grouped,
                                                       const Options& options) {
  auto optimizer = std::make_unique<Optimizer>(GroupsOf(net, grouped), options);
  optimizer->param_groups()[1].options().set_lr(0.004);
  return optimizer;
}

std::unique_ptr<torch::optim::Optimizer> MakeAdam(TwoLayers& net, Grouped grouped) {
  return MakeOptimizer<torch::optim::Adam>(
      net, grouped, torch::optim::AdamOptions(0.01).betas({0.7, 0.6}).eps(1e-3).amsgrad(true));
}

struct Kind {
  std::string name;  // in PyTorch
  Grouped grouped = Grouped::kAll;
  std::function<std::unique_ptr<torch::optim::Optimizer>(TwoLayers&, Grouped)> make;
  std::string what = {};  // in the name of the test
};

// PyTorch lists a tensor once.
void DropRepeats(Tensors* parameters) {
  Tensors once;
  for (const torch::Tensor& parameter : *parameters) {
    const auto same = [&](const torch::Tensor& other) { return other.is_same(parameter); };
    if (std::none_of(once.begin(), once.end(), same)) once.push_back(parameter);
  }
  *parameters = once;
}

class OptimizerExportTest : public ::testing::TestWithParam<Kind> {
 protected:
  OptimizerExportTest() { setenv("GRADWIRE_RUN_DIR", folder_.path().c_str(), 1); }
  ~OptimizerExportTest() override { unsetenv("GRADWIRE_RUN_DIR"); }

  // Trains, and returns the sums of the parameters after one more step of the optimizer, in the
  // order of its groups: from parameters of 1 and gradients of 0.5.
  std::vector<double> Train(nlohmann::json* shapes) const {
    std::vector<double> sums;
    RunRanksWell(1, [&](const std::shared_ptr<ProcessGroup>& group) {
      TwoLayers net;
      DistributedDataParallel ddp(net, group);
      const auto optimizer = GetParam().make(net, GetParam().grouped);
      ddp.attach(*optimizer);
      for (int64_t step = ddp.resume(); step < kSteps; ++step) {
        net->zero_grad();
        const torch::Tensor hidden = net->first->forward(torch::ones({2, 3}) * (step + 1));
        (net->last->forward(torch::tanh(hidden)).square().sum() + net->empty.sum()).backward();
        optimizer->step();
        ddp.end_step();
      }
      group->close();
      const torch::NoGradGuard values_only;
      for (auto& one : optimizer->param_groups()) {
        DropRepeats(&one.params());
        nlohmann::json of_group = nlohmann::json::array();
        for (torch::Tensor parameter : one.params()) {
          of_group.push_back(parameter.sizes().vec());
          parameter.fill_(1);
          parameter.mutable_grad() = torch::full_like(parameter, 0.5);
        }
        shapes->push_back(of_group);
      }
      optimizer->step();
      for (const auto& one : optimizer->param_groups()) {
        for (const torch::Tensor& parameter : one.params()) {
          sums.push_back(parameter.to(torch::kDouble).sum().item<double>());
        }
      }
    });
    return sums;
  }

  TempDir folder_;
};

TEST_P(OptimizerExportTest, PyTorch_ContinuesEachGroup) {
  nlohmann::json shapes = nlohmann::json::array();
  const std::vector<double> sums = Train(&shapes);
  const auto checkpoint = CheckpointReader::Open(folder_.File("step-000000000003"));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const std::string file = folder_.File("optimizer.pt");
  const absl::Status exported = ExportOptimizer(**checkpoint, file);
  ASSERT_TRUE(exported.ok()) << exported;
  const auto answer = AskOracle("optimizer.py", {file, GetParam().name, shapes.dump()});
  if (absl::IsFailedPrecondition(answer.status())) GTEST_SKIP() << answer.status().message();
  ASSERT_TRUE(answer.ok()) << answer.status();
  const auto continued = answer->get<std::vector<double>>();
  ASSERT_EQ(continued.size(), sums.size());
  for (size_t i = 0; i < sums.size(); ++i) EXPECT_NEAR(continued[i], sums[i], 1e-5) << i;
}

INSTANTIATE_TEST_SUITE_P(
    All, OptimizerExportTest,
    ::testing::Values(
        Kind{"SGD", Grouped::kWithoutABias,
             [](TwoLayers& net, Grouped grouped) {
               return MakeOptimizer<torch::optim::SGD>(
                   net, grouped,
                   torch::optim::SGDOptions(0.01).momentum(0.8).dampening(0.3).weight_decay(0.1));
             }},
        Kind{"Adam", Grouped::kAll, MakeAdam},
        Kind{"Adam", Grouped::kEmptyGroup, MakeAdam, "EmptyGroup"},
        Kind{"Adam", Grouped::kTwice, MakeAdam, "ParameterTwice"},
        Kind{"Adam", Grouped::kWithoutElements, MakeAdam, "ParameterWithoutElements"},
        Kind{"AdamW", Grouped::kAll,
             [](TwoLayers& net, Grouped grouped) {
               return MakeOptimizer<torch::optim::AdamW>(
                   net, grouped, torch::optim::AdamWOptions(0.01).weight_decay(0.2));
             }},
        Kind{"RMSprop", Grouped::kAll,
             [](TwoLayers& net, Grouped grouped) {
               return MakeOptimizer<torch::optim::RMSprop>(
                   net, grouped,
                   torch::optim::RMSpropOptions(0.01).alpha(0.5).momentum(0.4).centered(true));
             }},
        Kind{"Adagrad", Grouped::kAll,
             [](TwoLayers& net, Grouped grouped) {
               return MakeOptimizer<torch::optim::Adagrad>(
                   net, grouped, torch::optim::AdagradOptions(0.01).lr_decay(0.5).eps(1e-2));
             }}),
    [](const auto& info) { return info.param.name + info.param.what; });

}  // namespace
}  // namespace gradwire::testing
