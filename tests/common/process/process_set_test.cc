#include "common/process/process_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;

class ProcessSetTest : public ::testing::Test {
 protected:
  static Command Shell(const std::string& script) {
    return {{"/bin/sh", "-c", script}, {{"PATH", "/usr/bin:/bin"}}};
  }

  // Its stdout goes to out_; its number to ended_ at its end.
  Process* Start(const Command& command) {
    const int number = started_++;
    const auto process = set_.Start(
        command, [this](absl::string_view bytes) { out_.append(bytes.data(), bytes.size()); },
        [this](absl::string_view bytes) { err_.append(bytes.data(), bytes.size()); },
        [this, number] { ended_.push_back(number); });
    EXPECT_TRUE(process.ok()) << process.status();
    return process.value_or(nullptr);
  }

  void RunAll() {
    while (set_.AnyRuns()) set_.Wait(absl::InfiniteFuture());
  }

  void AwaitOutput() {
    while (out_.empty()) set_.Wait(absl::InfiniteFuture());
  }

  testing::TempDir dir_;
  std::string out_;
  std::string err_;
  std::vector<int> ended_;
  int started_ = 0;
  ProcessSet set_;
};

TEST_F(ProcessSetTest, Wait_ProgramExits_GivesOutputsAndStatus) {
  const Process* process = Start(Shell("echo data; echo log >&2; exit 7"));
  RunAll();
  EXPECT_EQ(out_, "data\n");
  EXPECT_EQ(err_, "log\n");
  EXPECT_EQ(ExitCodeOf(process->status()), 7);
  EXPECT_EQ(DescribeEnd(process->status()), "ended with exit code 7");
  EXPECT_TRUE(process->failed());
  EXPECT_GT(process->peak_memory_bytes(), 0u);
}

TEST_F(ProcessSetTest, Wait_ProgramIsKilled_NamesTheSignal) {
  const Process* process = Start(Shell("kill -9 $$"));
  RunAll();
  EXPECT_EQ(ExitCodeOf(process->status()), 128 + SIGKILL);
  EXPECT_EQ(DescribeEnd(process->status()), "was ended by signal 9 (Killed)");
}

TEST_F(ProcessSetTest, Wait_NothingHappens_EndsAtItsTime) {
  Start(Shell("exec sleep 1000"));
  set_.Wait(SteadyNow() + absl::Milliseconds(20));
  EXPECT_TRUE(set_.AnyRuns());
}

TEST_F(ProcessSetTest, Wait_BothEndedBefore_HandlesThemInTheOrderOfTheirEnds) {
  const std::string file = dir_.File("pid");
  testing::WriteFile(file, "");
  // The first ends when the second is no more.
  Process* first = Start(Shell("until [ -s " + file + " ] && [ \"$(cut -d ' ' -f 3 /proc/$(cat " +
                               file + ")/stat)\" = Z ]; do :; done"));
  const Process* second = Start(Shell("exit 0"));
  testing::WriteFile(file, std::to_string(second->pid()));
  while (testing::IsRunning(first->pid())) absl::SleepFor(absl::Milliseconds(1));
  RunAll();
  EXPECT_THAT(ended_, ElementsAre(1, 0));
}

TEST_F(ProcessSetTest, EndAt_ProgramIgnoresSigterm_IsKilled) {
  Process* process = Start(Shell("trap '' TERM; echo up; while :; do sleep 1000; done"));
  AwaitOutput();
  process->EndAt(SteadyNow(), SteadyNow() + absl::Milliseconds(50));
  RunAll();
  EXPECT_EQ(ExitCodeOf(process->status()), 128 + SIGKILL);
  EXPECT_FALSE(process->failed());
}

TEST_F(ProcessSetTest, EndAt_ProgramObeys_GetsSigtermOnly) {
  Process* process = Start(Shell("trap 'exit 5' TERM; echo up; while :; do sleep 0.01; done"));
  AwaitOutput();
  process->EndAt(SteadyNow(), absl::InfiniteFuture());
  RunAll();
  EXPECT_EQ(ExitCodeOf(process->status()), 5);
}

TEST_F(ProcessSetTest, End_ProgramLeavesAChild_KillsIt) {
  Start(Shell("sleep 1000 & echo $!"));
  RunAll();
  pid_t child = 0;
  ASSERT_TRUE(absl::SimpleAtoi(out_, &child));
  // It was sent SIGKILL, which takes a moment.
  const absl::Time deadline = SteadyNow() + absl::Seconds(20);
  while (testing::IsRunning(child) && SteadyNow() < deadline) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_FALSE(testing::IsRunning(child));
}

TEST_F(ProcessSetTest, End_ProgramMayLeaveAChild_SparesIt) {
  Command command = Shell("sleep 1000 & echo $!");
  command.leaves_others = true;
  const Process* process = Start(command);
  RunAll();
  pid_t child = 0;
  ASSERT_TRUE(absl::SimpleAtoi(out_, &child));
  EXPECT_TRUE(testing::IsRunning(child));
  EXPECT_TRUE(process->output_open());
  kill(child, SIGKILL);
}

TEST_F(ProcessSetTest, Start_NoSuchProgram_IsNotFound) {
  const auto process = set_.Start({{"/no/program"}, {}}, {}, {});
  EXPECT_TRUE(absl::IsNotFound(process.status()));
  EXPECT_EQ(process.status().message(), "cannot start '/no/program': No such file or directory");
}

}  // namespace
}  // namespace gradwire
