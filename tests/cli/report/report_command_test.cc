#include "cli/report/report_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/cli/launch/log_lines.h"
#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;
using testing::LogText;

struct Result {
  int exit_code = -1;
  std::string err;
};

class ReportCommandTest : public ::testing::Test {
 protected:
  std::string Log(const std::string& name, const std::string& text) const {
    testing::WriteFile(dir_.File(name), text);
    return dir_.File(name);
  }
  std::string Out(const std::string& name = "out.html") const { return dir_.File(name); }

  Result Report(std::vector<std::string> args, Environment environment = {}) const {
    if (environment.empty()) environment["PATH"] = std::getenv("PATH");
    args.insert(args.end(), {"--out", Out()});
    ::testing::internal::CaptureStderr();
    Result result;
    result.exit_code = ReportCommand(args, environment);
    result.err = ::testing::internal::GetCapturedStderr();
    return result;
  }

  const testing::TempDir dir_;
};

TEST_F(ReportCommandTest, TwoRuns_GivePageAndTables) {
  const Result result = Report({Log("a-1.rank0", LogText(0, 4)), Log("a-2.rank0", LogText(0, 4)),
                                Log("a-2.rank1", LogText(1, 4))});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string html = testing::ReadFile(Out());
  for (const char* title : {"Iteration time", "Where an iteration goes", "Loss", "Scaling"}) {
    EXPECT_THAT(html, HasSubstr(std::string("<h2>") + title + "</h2>\n<figure>\n<img alt="));
  }
  for (const char* name : {"out.iteration-time.png", "out.phases.svg", "out.scaling.pdf"}) {
    EXPECT_TRUE(std::filesystem::exists(Out(name))) << name;
  }
  EXPECT_THAT(testing::ReadFile(Out("out.runs.csv")), HasSubstr("\na-2,a,2,4,0.5,"));
  EXPECT_THAT(testing::ReadFile(Out("out.steps.csv")), HasSubstr("\na-2,3,0,2,"));
  EXPECT_EQ(result.err, "");
}

TEST_F(ReportCommandTest, NamedRun_HasItsName) {
  ASSERT_EQ(Report({"--run", "mine=" + Log("a", LogText(0, 1))}).exit_code, 0);
  EXPECT_THAT(testing::ReadFile(Out("out.runs.csv")), HasSubstr("\nmine,mine,1,"));
}

TEST_F(ReportCommandTest, RankMissing_IsToldOnStderrAndInThePage) {
  const Result result = Report({Log("a", LogText(1, 1))});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("Run a has no log of rank 0"));
  EXPECT_THAT(testing::ReadFile(Out()), HasSubstr("<li>Run a has no log of rank 0"));
}

TEST_F(ReportCommandTest, NoLog_IsWrongUsage) {
  const Result result = Report({});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("gradwire report: no log is named"));
}

TEST_F(ReportCommandTest, MissingFile_IsNamedAndNothingWritten) {
  const Result result = Report({Log("a", LogText(0, 2)), "/no/log"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "gradwire report: cannot read the log '/no/log': No such file or directory\n");
  EXPECT_FALSE(std::filesystem::exists(Out()));
}

TEST_F(ReportCommandTest, NoLogFile_IsNamedWithGotAndExpected) {
  const Result result = Report({Log("a", "hello\n")});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err, "gradwire report: " + dir_.File("a") +
                            ":1: got 'hello', expected a JSON object as of --log-jsonl\n");
}

TEST_F(ReportCommandTest, NamedRunLikeAnother_IsRefused) {
  const std::string a = Log("a", LogText(0, 2));
  const Result result = Report({a, "--run", "a=" + Log("b", LogText(0, 2))});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("--run: the logs without --run are of a run 'a' too"));
}

TEST_F(ReportCommandTest, FileThatCannotBeReplaced_IsTold) {
  std::filesystem::create_directory(Out("out.loss.png"));
  const Result result = Report({Log("a", LogText(0, 1))});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("cannot write " + Out("out.loss.png") + ": is a directory"));
}

TEST_F(ReportCommandTest, OwnPythonPackages_AreNotUsed) {
  testing::WriteFile(dir_.File("matplotlib.py"), "raise ImportError");
  const Result result = Report({Log("a", LogText(0, 1))}, {{"PYTHONPATH", dir_.path()}});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST_F(ReportCommandTest, OutCannotBeWritten_IsToldFirst) {
  ::testing::internal::CaptureStderr();
  const int exit_code = ReportCommand({"/no/log", "--out", "/no/folder/x.html"}, {});
  EXPECT_EQ(exit_code, 2);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("--out: cannot write /no/folder/x.html: "));
}

}  // namespace
}  // namespace gradwire
