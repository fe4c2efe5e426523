// Programs answer at once: libtorch alone would take most of a second to load.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "tests/support/launch.h"
#include "tests/support/param_name.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace gradwire::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kAtOnce = absl::Milliseconds(100);

// Of five tries, as other processes may have the cores during some.
template <typename Try>
absl::Duration Fastest(Try once) {
  absl::Duration fastest = absl::InfiniteDuration();
  for (int i = 0; i < 5; ++i) {
    const absl::Time start = SteadyNow();
    once();
    fastest = std::min(fastest, SteadyNow() - start);
  }
  return fastest;
}

class HelpTest : public ::testing::TestWithParam<const char*> {};

TEST_P(HelpTest, Help_Always_ComesAtOnceOnStandardOutput) {
  const absl::Duration took = Fastest([] {
    const auto program = Process::Start(GetParam(), {"--help"});
    EXPECT_EQ(*program->Wait(absl::Seconds(10)), 0);
    EXPECT_THAT(program->out(), HasSubstr("--help"));
  });
  EXPECT_LT(took, kAtOnce);
}

INSTANTIATE_TEST_SUITE_P(StartUp, HelpTest,
                         ::testing::Values("gradwire", "gradwire-coordinator", "gradwire-worker"),
                         [](const auto& info) { return ParamName(info.param); });

TEST(StartUp, Coordinator_Always_ListensAtOnce) {
  EXPECT_LT(Fastest([] { const RunningCoordinator coordinator(2); }), kAtOnce);
}

TEST(StartUp, Coordinator_Running_HasNoTorchInMemory) {
  RunningCoordinator coordinator(2);
  const std::string maps = ReadFile(absl::StrCat("/proc/", coordinator.process().pid(), "/maps"));
  EXPECT_THAT(maps, HasSubstr("libgrpc"));
  EXPECT_THAT(maps, Not(HasSubstr("torch")));
}

}  // namespace
}  // namespace gradwire::testing
