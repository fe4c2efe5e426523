// Programs answer at once: libtorch alone would take most of a second to load.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/clock.h"
#include "common/base/environment.h"
#include "tests/support/launch.h"
#include "tests/support/param_name.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace gradwire::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Loading torch would take longer.
constexpr absl::Duration kAtOnce = absl::Milliseconds(300);

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

// Program and words before its options.
const std::vector<std::vector<std::string>>& AllHelped() {
  static const auto* const all = new std::vector<std::vector<std::string>>{
      {"gradwire-coordinator"},
      {"gradwire-worker"},
      {"gradwire", "launch"},
      {"gradwire", "bench", "collectives"},
      {"gradwire", "bench", "training"},
      {"gradwire", "models"},
      {"gradwire", "experiment"},
      {"gradwire", "plan"},
      {"gradwire", "trace"},
      {"gradwire", "status"},
      {"gradwire", "checkpoint", "list"},
      {"gradwire", "checkpoint", "verify"},
      {"gradwire", "checkpoint", "export"},
      {"gradwire", "report"},
      {"gradwire", "doctor"},
      {"gradwire", "env"},
      {"gradwire", "ledger", "show"},
      {"gradwire", "ledger", "verify"},
  };
  return *all;
}

class OptionsTest : public ::testing::TestWithParam<std::vector<std::string>> {};

TEST_P(OptionsTest, Help_EveryOption_IsAKnownVariable) {
  std::vector<std::string> words(GetParam().begin() + 1, GetParam().end());
  words.push_back("--help");
  const auto program = Process::Start(GetParam().front(), words);
  ASSERT_EQ(*program->Wait(absl::Seconds(10)), 0);
  const std::string help = program->out();
  const std::regex option("\n +(?:-[a-z],)?--([a-z][a-z-]*)");
  int found = 0;
  for (std::sregex_iterator at(help.begin(), help.end(), option), end; at != end; ++at, ++found) {
    const std::string name = (*at)[1];
    if (name == "help" || name == "version") continue;
    EXPECT_THAT(UnknownVariables({{VariableOf(name), "1"}}), IsEmpty());
  }
  EXPECT_GT(found, 0);
}

INSTANTIATE_TEST_SUITE_P(StartUp, OptionsTest, ::testing::ValuesIn(AllHelped()),
                         [](const auto& info) {
                           return ParamName(absl::StrJoin(info.param, "_"));
                         });

// Beside a trainer that only says what it got.
TEST(StartUp, Worker_Always_TrainerAllocatesInLargePagesUnlessTunablesAreSet) {
  const TempDir folder;
  const std::string worker = folder.File("bin/gradwire-worker");
  const std::string trainer = folder.File("libexec/gradwire/gradwire-trainer");
  std::filesystem::create_directories(folder.File("bin"));
  std::filesystem::create_directories(folder.File("libexec/gradwire"));
  std::filesystem::copy(ProgramPath("gradwire-worker"), worker);
  WriteFile(trainer, "#!/bin/sh\necho \"got $GLIBC_TUNABLES\"\n");
  std::filesystem::permissions(trainer, std::filesystem::perms::owner_all);
  unsetenv("GLIBC_TUNABLES");
  for (const auto& [given, got] :
       {std::pair<Environment, std::string>{{}, "got glibc.malloc.hugetlb=1\n"},
        {{{"GLIBC_TUNABLES", "glibc.malloc.check=0"}}, "got glibc.malloc.check=0\n"}}) {
    const auto process = Process::Start(worker, {"--sync", "none"}, given);
    const absl::StatusOr<int> exit_code = process->Wait(absl::Seconds(20));
    EXPECT_TRUE(exit_code.ok() && *exit_code == 0) << process->err();
    EXPECT_EQ(process->out(), got);
  }
}

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
