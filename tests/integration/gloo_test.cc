// Whole runs on PyTorch's engine: what the workers agree on, and how they end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/support/launch.h"
#include "tests/support/param_name.h"
#include "worker/options/traits.h"

namespace gradwire::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const Options kGloo = {"--backend", "gloo"};

class GlooTest : public ::testing::TestWithParam<const char*> {};

TEST_P(GlooTest, Sync_ThreeSteps_RanksEndEqualAndNearTheFold) {
  const Options run = TinyRun(3) + Options{"--sync", GetParam()};
  const LaunchResult fold = RunLaunch(2, run + Options{"--backend", "coordinator"});
  const LaunchResult gloo = RunLaunch(2, run + kGloo);
  ASSERT_THAT(fold.ranks, SizeIs(2)) << fold.err;
  ASSERT_THAT(gloo.ranks, SizeIs(2)) << gloo.err;
  EXPECT_EQ(gloo.ranks[0]["backend"], "gloo");
  EXPECT_THAT(gloo.Distinct("parameters_sha256"), SizeIs(1));
  EXPECT_THAT(gloo.Distinct("buffers_sha256"), SizeIs(1));
  const auto expected = fold.ranks[0]["losses"].get<std::vector<double>>();
  const auto got = gloo.ranks[0]["losses"].get<std::vector<double>>();
  ASSERT_THAT(got, SizeIs(expected.size()));
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-4 * expected[i]);
}

std::vector<const char*> SyncsThatExchange() {
  std::vector<const char*> syncs;
#define GRADWIRE_SYNC(name, ...)                                     \
  if (TraitsOfSync(name).averages && !TraitsOfSync(name).served) {   \
    syncs.push_back(TraitsOfSync(name).periodic ? name ":2" : name); \
  }
#include "worker/options/syncs.inc"
#undef GRADWIRE_SYNC
  return syncs;
}

INSTANTIATE_TEST_SUITE_P(Syncs, GlooTest, ::testing::Values("gather-scatter", "ddp"),
                         [](const auto& info) { return ParamName(info.param); });
INSTANTIATE_TEST_SUITE_P(Long, GlooTest, ::testing::ValuesIn(SyncsThatExchange()),
                         [](const auto& info) { return ParamName(info.param); });

TEST(GlooFailure, WorkerKilled_MidStep_OtherStopsAndSaysWhoWhenWhy) {
  RunningCoordinator coordinator(2);
  std::vector<std::unique_ptr<Process>> workers;
  for (int rank = 0; rank < 2; ++rank) {
    workers.push_back(StartWorker(coordinator.address(), rank, TinyRun(100000) + kGloo));
  }
  ASSERT_TRUE(workers[0]->WaitForOutput("iteration 3/", absl::Seconds(60)).ok());
  workers[1]->Signal(SIGKILL);
  const auto code = workers[0]->Wait(absl::Seconds(4));
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 1);
  EXPECT_THAT(workers[0]->err(), ContainsRegex("rank 1 .*was lost in step [0-9]+: "));
}

TEST(GlooFailure, HalfTypesOnTheWire_BadUsage) {
  RunningCoordinator coordinator(1);
  const auto worker =
      StartWorker(coordinator.address(), 0, TinyRun(3) + kGloo + Options{"--wire", "bf16"});
  EXPECT_EQ(*worker->Wait(absl::Seconds(60)), 2);
  EXPECT_THAT(worker->err(), HasSubstr("--wire: got 'bf16' with back end gloo, expected fp32"));
}

}  // namespace
}  // namespace gradwire::testing
