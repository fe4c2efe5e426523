#include "common/state/optimizer_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/tensors/pickle_writer.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ManifestOptimizer GroupsOf(std::vector<int64_t> first, std::vector<int64_t> second) {
  return {"sgd", {{{{"lr", 0.1}}, std::move(first)}, {{{"lr", 0.2}}, std::move(second)}}};
}

TEST(OptimizerGroups, Make_ParametersInTwoGroups_NumberedGroupByGroup) {
  const auto made = MakeOptimizerGroups(GroupsOf({2, 0}, {3}), 4);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(made->numbers, ElementsAre(1, -1, 0, 2));
}

TEST(OptimizerGroups, Make_ParameterInBothGroups_InvalidArgumentNamesIt) {
  const auto made = MakeOptimizerGroups(GroupsOf({0, 1}, {1}), 2);
  EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("parameter 1 of its optimizer"));
}

TEST(OptimizerGroups, Make_ParameterThatThereIsNot_InvalidArgumentNamesIt) {
  const auto made = MakeOptimizerGroups(GroupsOf({0}, {2}), 2);
  EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("parameter 2 of its optimizer"));
}

// As PyTorch itself has them.
TEST(OptimizerGroups, Make_OptionsThatTheRunDoesNotTell_AreTheDefaultsOfTorch) {
  const auto groups_of = [](const std::string& optimizer) {
    const auto made = MakeOptimizerGroups({optimizer, {{{{"lr", 0.1}}, {}}}}, 1);
    EXPECT_TRUE(made.ok()) << made.status();
    return made->param_groups;
  };
  const auto option = [](const char* name, double value) {
    return HasSubstr(PickledText(name) + PickledReal(value));
  };
  EXPECT_THAT(groups_of("adam"), option("weight_decay", 0));
  EXPECT_THAT(groups_of("adamw"), option("weight_decay", 0.01));
  EXPECT_THAT(groups_of("adamw"), HasSubstr(PickledText("betas") +
                                            PickledTuple({PickledReal(0.9), PickledReal(0.999)})));
  EXPECT_THAT(groups_of("rmsprop"), option("alpha", 0.99));
  EXPECT_THAT(groups_of("rmsprop"), option("eps", 1e-8));
  EXPECT_THAT(groups_of("adagrad"), option("eps", 1e-10));
}

}  // namespace
}  // namespace gradwire
