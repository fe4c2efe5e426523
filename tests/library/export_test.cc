// The optimizer of a program's checkpoint, as PyTorch continues with it.
#include "common/state/export.h"

#include <gmock/gmock.h>
#include <gradwire/ddp.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

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
#include "tests/support/temp_dir.h"
#include "tests/worker/models/oracle.h"

namespace gradwire::testing {
namespace {

constexpr int64_t kSteps = 3;

struct TwoLayersImpl : torch::nn::Module {
  Linear first = register_module("first", Linear(3, 4));
  Linear last = register_module("last", Linear(4, 2));
};
TORCH_MODULE(TwoLayers);

using Groups = std::vector<torch::optim::OptimizerParamGroup>;

// Two groups, the last layer first; without `all`, its bias is in none.
Groups GroupsOf(TwoLayers& net, bool all) {
  Groups groups = {{{net->last->weight}}, {{net->first->bias, net->first->weight}}};
  if (all) groups[0].params().push_back(net->last->bias);
  return groups;
}

// Makes an optimizer whose groups have other learning rates.
template <typename Optimizer, typename Options>
std::unique_ptr<torch::optim::Optimizer> MakeOptimizer(TwoLayers& net, bool all,
                                                       const Options& options) {
  auto optimizer = std::make_unique<Optimizer>(GroupsOf(net, all), options);
  optimizer->param_groups()[1].options().set_lr(0.004);
  return optimizer;
}

struct Kind {
  std::string name;  // in PyTorch
  bool all = true;
  std::function<std::unique_ptr<torch::optim::Optimizer>(TwoLayers&, bool)> make;
};

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
      const auto optimizer = GetParam().make(net, GetParam().all);
      ddp.attach(*optimizer);
      for (int64_t step = ddp.resume(); step < kSteps; ++step) {
        net->zero_grad();
        net->last->forward(torch::tanh(net->first->forward(torch::ones({2, 3}) * (step + 1))))
            .square()
            .sum()
            .backward();
        optimizer->step();
        ddp.end_step();
      }
      group->close();
      const torch::NoGradGuard values_only;
      for (const auto& one : optimizer->param_groups()) {
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
  ASSERT_EQ(sums.size(), GetParam().all ? 4u : 3u);
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
        Kind{"SGD", false,
             [](TwoLayers& net, bool all) {
               return MakeOptimizer<torch::optim::SGD>(
                   net, all,
                   torch::optim::SGDOptions(0.01).momentum(0.8).dampening(0.3).weight_decay(0.1));
             }},
        Kind{"Adam", true,
             [](TwoLayers& net, bool all) {
               return MakeOptimizer<torch::optim::Adam>(
                   net, all,
                   torch::optim::AdamOptions(0.01).betas({0.7, 0.6}).eps(1e-3).amsgrad(true));
             }},
        Kind{"AdamW", true,
             [](TwoLayers& net, bool all) {
               return MakeOptimizer<torch::optim::AdamW>(
                   net, all, torch::optim::AdamWOptions(0.01).weight_decay(0.2));
             }},
        Kind{"RMSprop", true,
             [](TwoLayers& net, bool all) {
               return MakeOptimizer<torch::optim::RMSprop>(
                   net, all,
                   torch::optim::RMSpropOptions(0.01).alpha(0.5).momentum(0.4).centered(true));
             }},
        Kind{"Adagrad", true,
             [](TwoLayers& net, bool all) {
               return MakeOptimizer<torch::optim::Adagrad>(
                   net, all, torch::optim::AdagradOptions(0.01).lr_decay(0.5).eps(1e-2));
             }}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace gradwire::testing
