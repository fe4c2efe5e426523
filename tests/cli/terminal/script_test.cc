#include "cli/terminal/script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::testing::ExitedWithCode;
using ::testing::HasSubstr;

TEST(BecomeScript, Script_GetsDataAndEnvironmentAndGivesItsExitCode) {
  const testing::TempDir dir;
  testing::WriteFile(dir.File("x.py"),
                     "import json, os, sys\n"
                     "print(json.loads(sys.argv[1])['a'], os.environ['B'], file=sys.stderr)\n"
                     "sys.exit(7)\n");
  EXPECT_EXIT((void)BecomeScript(dir.File("x.py"), {{"a", "ä b"}}, {{"B", "c"}}), ExitedWithCode(7),
              "^ä b c\n$");
}

TEST(BecomeScript, Operands_StandBehindTheDataAsTheyAre) {
  const testing::TempDir dir;
  testing::WriteFile(
      dir.File("x.py"),
      "import os, sys\n"
      "sys.exit(7 if list(map(os.fsencode, sys.argv[2:])) == [b'\\xff', b''] else 1)\n");
  EXPECT_EXIT((void)BecomeScript(dir.File("x.py"), {}, {}, {"\xff", ""}), ExitedWithCode(7), "");
}

TEST(BecomeScript, OwnPythonPackages_AreNotUsed) {
  const testing::TempDir dir, own;
  testing::WriteFile(own.File("fractions.py"), "raise ImportError");
  testing::WriteFile(dir.File("x.py"), "import fractions, sys\nsys.exit(7)\n");
  EXPECT_EXIT((void)BecomeScript(dir.File("x.py"), {}, {{"PYTHONPATH", own.path()}}),
              ExitedWithCode(7), "");
}

TEST(BecomeScript, NoSuchScript_IsNotFound) {
  const absl::Status status = BecomeScript("no/such.py", {}, {});
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/libexec/gradwire/no/such.py'"));
}

TEST(BecomeScript, TextThatIsNotUtf8_IsRefused) {
  EXPECT_EQ(BecomeScript("/dev/null", {{"file", "\xff"}}, {}).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CommandLine, WordsThatAShellWouldChange_AreQuoted) {
  EXPECT_EQ(CommandLine("gradwire x", {}), "gradwire x");
  EXPECT_EQ(CommandLine("gradwire x", {"a", "--rate=1gbit", "/d/e_f.g", "1,2:3@4%+"}),
            "gradwire x a --rate=1gbit /d/e_f.g 1,2:3@4%+");
  EXPECT_EQ(CommandLine("gradwire x", {"my folder", "", "$a*", "it's", "ä"}),
            "gradwire x 'my folder' '' '$a*' 'it'\\''s' 'ä'");
}

TEST(RunCommand, ScriptMissing_IsSaidInTheCommandsName) {
  Parsed<ScriptCall> parsed;
  parsed.options.name = "no/such.py";
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(RunCommand("gradwire x", parsed, {}), 2);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::StartsWith("gradwire x: no '"));
}

}  // namespace
}  // namespace gradwire
