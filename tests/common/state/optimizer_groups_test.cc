#include "common/state/optimizer_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/tensors/pickle_writer.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

ManifestOptimizer GroupsOf(std::vector<int64_t> first, std::vector<int64_t> second) {
  return {"sgd", {{{{"lr", 0.1}}, std::move(first)}, {{{"lr", 0.2}}, std::move(second)}}};
}

TEST(OptimizerGroups, Make_ParametersInTwoGroups_NumberedGroupByGroup) {
  const auto made = MakeOptimizerGroups(GroupsOf({2, 0}, {3}), 4);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(made->numbers, ElementsAre(Pair(0, 1), Pair(2, 0), Pair(3, 2)));
}

TEST(OptimizerGroups, Make_OnlyGroupListsNone_HasAll) {
  const auto made = MakeOptimizerGroups({"sgd", {{{{"lr", 0.1}}, {}}}}, 2);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(made->numbers, ElementsAre(Pair(0, 0), Pair(1, 1)));
}

TEST(OptimizerGroups, Make_OneOfTwoGroupsListsNone_HasNone) {
  const auto made = MakeOptimizerGroups(GroupsOf({}, {1, 0}), 2);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(made->numbers, ElementsAre(Pair(0, 1), Pair(1, 0)));
  EXPECT_THAT(made->param_groups, HasSubstr(PickledText("params") + PickledList({})));
}

TEST(OptimizerGroups, Make_ParameterInBothGroups_InvalidArgumentNamesIt) {
  const auto made = MakeOptimizerGroups(GroupsOf({0, 1}, {1}), 2);
  EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("parameter 1 of its optimizer"));
}

TEST(OptimizerGroups, Make_EachRankHasItsOwn_SaysSo) {
  const auto made = MakeOptimizerGroups({"", {}}, 2);
  EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("because each rank has its own"));
}

TEST(OptimizerGroups, Make_OptimizerThatPyTorchLacksOrWithoutARate_IsRefused) {
  const auto error_of = [](const ManifestOptimizer& optimizer) {
    return std::string(MakeOptimizerGroups(optimizer, 1).status().message());
  };
  EXPECT_THAT(error_of({"lion", {{{{"lr", 0.1}}, {}}}}),
              HasSubstr("got 'lion', expected sgd, adam"));
  EXPECT_THAT(error_of({"sgd", {{{{"momentum", 0.9}}, {}}}}),
              HasSubstr("no 'lr' of its optimizer"));
}

// Its place is after those of the checkpoint's tensors.
TEST(OptimizerGroups, Make_ParameterWithoutElements_HasANumber) {
  const auto made = MakeOptimizerGroups(GroupsOf({2, 0}, {1}), 2);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(made->numbers, ElementsAre(Pair(0, 1), Pair(1, 2), Pair(2, 0)));
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
  for (const char* name : {"momentum", "dampening", "weight_decay"}) {
    EXPECT_THAT(groups_of("sgd"), option(name, 0)) << name;
  }
  EXPECT_THAT(groups_of("adam"), option("weight_decay", 0));
  EXPECT_THAT(groups_of("adam"), option("eps", 1e-8));
  EXPECT_THAT(groups_of("adam"), HasSubstr(PickledText("betas") +
                                           PickledTuple({PickledReal(0.9), PickledReal(0.999)})));
  EXPECT_THAT(groups_of("adamw"), option("eps", 1e-8));
  EXPECT_THAT(groups_of("adamw"), option("weight_decay", 0.01));
  EXPECT_THAT(groups_of("adamw"), HasSubstr(PickledText("betas") +
                                            PickledTuple({PickledReal(0.9), PickledReal(0.999)})));
  EXPECT_THAT(groups_of("rmsprop"), option("alpha", 0.99));
  EXPECT_THAT(groups_of("rmsprop"), option("eps", 1e-8));
  EXPECT_THAT(groups_of("adagrad"), option("eps", 1e-10));
}

}  // namespace
}  // namespace gradwire
