#include "worker/report/progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

ProgressOptions Options(ProgressMode mode) {
  ProgressOptions options;
  options.total_steps = 60;
  options.steps_per_epoch = 50;
  options.epochs = 2;
  options.world_size = 4;
  options.mode = mode;
  options.width = 100;
  return options;
}

// What `steps` iterations print: the first of 100 s, all others of `seconds`,
// a quarter of them in communication.
std::string RunSteps(const ProgressOptions& options, int steps, double seconds = 0.5) {
  std::ostringstream out;
  ProgressReporter reporter(options, out);
  for (int step = 0; step < steps; ++step) {
    StepRecord record;
    record.epoch = step / 50;
    record.step = Step(static_cast<uint64_t>(step));
    record.loss = 2.5;
    record.samples = 64;
    record.iteration = absl::Seconds(step == 0 ? 100 : seconds);
    record.phases[Phase::kCommunication] = record.iteration / 4;
    reporter.OnStep(record);
  }
  reporter.Finish();
  return out.str();
}

std::vector<std::string> Lines(const std::string& text) {
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

TEST(DetectMode, Terminal_IsBar) {
  EXPECT_EQ(*DetectMode({{"TERM", "xterm"}}, true), ProgressMode::kBar);
}

TEST(DetectMode, DumbTerminal_IsPlain) {
  EXPECT_EQ(*DetectMode({{"TERM", "dumb"}}, true), ProgressMode::kPlain);
}

TEST(DetectMode, NoTerminal_IsPlain) { EXPECT_EQ(*DetectMode({}, false), ProgressMode::kPlain); }

TEST(DetectMode, VariableSet_Wins) {
  EXPECT_EQ(*DetectMode({{"GRADWIRE_PROGRESS", "bar"}, {"TERM", "dumb"}}, false),
            ProgressMode::kBar);
  EXPECT_EQ(*DetectMode({{"GRADWIRE_PROGRESS", "plain"}}, true), ProgressMode::kPlain);
  EXPECT_EQ(*DetectMode({{"GRADWIRE_PROGRESS", "none"}}, true), ProgressMode::kNone);
}

TEST(DetectMode, UnknownValue_NamesTheChoices) {
  EXPECT_EQ(
      DetectMode({{"GRADWIRE_PROGRESS", "fancy"}}, true).status(),
      absl::InvalidArgumentError("GRADWIRE_PROGRESS: got \"fancy\", expected bar, plain or none"));
}

TEST(UseColour, NoColorSet_IsFalse) {
  EXPECT_FALSE(UseColour({{"NO_COLOR", "1"}}));
  EXPECT_TRUE(UseColour({{"NO_COLOR", ""}}));
  EXPECT_TRUE(UseColour({}));
}

TEST(TerminalWidth, Columns_IsHonoured) { EXPECT_EQ(TerminalWidth({{"COLUMNS", "120"}}, -1), 120); }

TEST(TerminalWidth, NeitherColumnsNorTerminal_Is80) {
  EXPECT_EQ(TerminalWidth({{"COLUMNS", "wide"}}, -1), 80);
  EXPECT_EQ(TerminalWidth({{"COLUMNS", "0"}}, -1), 80);
  EXPECT_EQ(TerminalWidth({{"COLUMNS", "-5"}}, -1), 80);
}

TEST(TerminalWidth, Terminal_IsItsColumns) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  winsize size = {};
  EXPECT_EQ(ioctl(terminal, TIOCSWINSZ, &size), 0);
  EXPECT_EQ(TerminalWidth({}, terminal), 80);  // it does not know
  size.ws_row = 50;
  size.ws_col = 132;
  EXPECT_EQ(ioctl(terminal, TIOCSWINSZ, &size), 0);
  EXPECT_EQ(TerminalWidth({}, terminal), 132);
  EXPECT_EQ(TerminalWidth({{"COLUMNS", "120"}}, terminal), 120);
  close(terminal);
}

TEST(ProgressReporter, Plain_PrintsIterations0And20) {
  EXPECT_THAT(
      Lines(RunSteps(Options(ProgressMode::kPlain), 21)),
      ElementsAre("epoch 1/2 iteration 0/50 loss 2.5000  100.000 s/iteration  2.6 images/s  "
                  "communication 25 %  left 1 h 38 min",
                  "epoch 1/2 iteration 20/50 loss 2.5000  0.500 s/iteration  512 images/s  "
                  "communication 25 %  left 20 s",
                  "average iteration time over iterations 2 to 21: 0.500 s"));
}

TEST(ProgressReporter, Plain_FewIterations_MeansAreWithoutTheFirst) {
  ProgressOptions options = Options(ProgressMode::kPlain);
  options.print_every = 1;
  const std::vector<std::string> lines = Lines(RunSteps(options, 2));
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_EQ(lines[1],
            "epoch 1/2 iteration 1/50 loss 2.5000  0.500 s/iteration  512 images/s  "
            "communication 25 %  left 29 s");
}

TEST(ProgressReporter, Plain_RunEndsWithinAnEpoch_CountsWhatIsLeftOfIt) {
  ProgressOptions options = Options(ProgressMode::kPlain);
  options.print_every = 10;
  EXPECT_THAT(RunSteps(options, 60), HasSubstr("epoch 2/2 iteration 0/10 loss"));
}

TEST(ProgressReporter, Plain_Beyond40_PrintsTheAverageOnceAfterIteration40) {
  const std::vector<std::string> lines = Lines(RunSteps(Options(ProgressMode::kPlain), 60));
  ASSERT_THAT(lines, SizeIs(4));
  EXPECT_EQ(lines[2], "average iteration time over iterations 2 to 40: 0.500 s");
}

// Of 5 s up to iteration 20, then of 0.5 s.
TEST(ProgressReporter, Plain_RunGetsFaster_SpeedIsThatOfTheLastTwentyIterations) {
  std::ostringstream out;
  ProgressReporter reporter(Options(ProgressMode::kPlain), out);
  for (int step = 0; step <= 40; ++step) {
    StepRecord record;
    record.step = Step(static_cast<uint64_t>(step));
    record.samples = 64;
    record.iteration = absl::Seconds(step <= 20 ? 5 : 0.5);
    reporter.OnStep(record);
  }
  EXPECT_THAT(out.str(), HasSubstr("iteration 40/50 loss 0.0000  0.500 s/iteration  512 images/s"));
}

TEST(ProgressReporter, Plain_ResumedRun_CountsIterationsOfTheWholeRun) {
  std::ostringstream out;
  ProgressReporter reporter(Options(ProgressMode::kPlain), out);
  for (uint64_t step = 38; step <= 41; ++step) {
    StepRecord record;
    record.step = Step(step);
    record.samples = 64;
    record.iteration = absl::Seconds(step == 38 ? 100 : 0.5);
    reporter.OnStep(record);
  }
  reporter.Finish();
  EXPECT_THAT(Lines(out.str()),
              ElementsAre("epoch 1/2 iteration 40/50 loss 0.0000  0.500 s/iteration  512 images/s  "
                          "communication 0 %  left 10 s",
                          "average iteration time over iterations 40 to 42: 0.500 s"));
}

TEST(ProgressReporter, Plain_OneIteration_HasNoAverage) {
  EXPECT_THAT(Lines(RunSteps(Options(ProgressMode::kPlain), 1)), SizeIs(1));
}

TEST(ProgressReporter, Plain_PrintEveryZero_IsSilent) {
  ProgressOptions options = Options(ProgressMode::kPlain);
  options.print_every = 0;
  EXPECT_THAT(RunSteps(options, 60), IsEmpty());
}

TEST(ProgressReporter, None_IsSilent) {
  EXPECT_THAT(RunSteps(Options(ProgressMode::kNone), 60), IsEmpty());
}

// What is printed of an epoch that is over.
std::string EpochLine(const ProgressOptions& options) {
  std::ostringstream out;
  ProgressReporter(options, out).OnEpoch(EpochRow());
  return out.str();
}

TEST(ProgressReporter, OnEpoch_PrintsALineUnlessSilent) {
  ProgressOptions options = Options(ProgressMode::kPlain);
  EXPECT_THAT(EpochLine(options), HasSubstr("epoch 1/2: loss"));
  options.print_every = 0;
  EXPECT_THAT(EpochLine(options), IsEmpty());
  EXPECT_THAT(EpochLine(Options(ProgressMode::kNone)), IsEmpty());
}

TEST(ProgressReporter, Pause_WithABar_EndsItsLineOnce) {
  std::ostringstream out;
  ProgressReporter reporter(Options(ProgressMode::kBar), out);
  StepRecord record;
  record.step = Step(1);
  reporter.OnStep(record);
  const size_t drawn = out.str().size();
  reporter.Pause();
  reporter.Pause();
  EXPECT_EQ(out.str().substr(drawn), "\n");
}

TEST(ProgressReporter, Bar_EachStep_EndsInReturnAndTheRunInNewline) {
  ProgressOptions options = Options(ProgressMode::kBar);
  options.print_every = 0;
  const std::string text = RunSteps(options, 3);
  EXPECT_THAT(std::vector<std::string>(absl::StrSplit(text, '\r')), SizeIs(4));
  EXPECT_TRUE(absl::EndsWith(text, "\r\n"));
  EXPECT_THAT(text, Not(HasSubstr("\033")));
}

TEST(ProgressReporter, Bar_FastSteps_AreNotAllDrawn) {
  ProgressOptions options = Options(ProgressMode::kBar);
  options.print_every = 0;
  // The first, the 51st after another 0.1 s, and the last.
  EXPECT_THAT(std::vector<std::string>(absl::StrSplit(RunSteps(options, 60, 0.002), '\r')),
              SizeIs(4));
}

TEST(ProgressReporter, Bar_PrintedLines_CoverTheBarBelowThem) {
  ProgressOptions options = Options(ProgressMode::kBar);
  options.width = 130;
  for (const std::string& line : Lines(RunSteps(options, 40))) {
    const std::vector<std::string> parts = absl::StrSplit(line, '\r');
    if (parts.size() == 1 || parts.back().empty()) continue;
    EXPECT_THAT(parts.back(), SizeIs(129));
  }
}

TEST(ProgressReporter, Bar_Colour_IsUsed) {
  ProgressOptions options = Options(ProgressMode::kBar);
  options.colour = true;
  EXPECT_THAT(RunSteps(options, 1), HasSubstr("\033[32m"));
}

}  // namespace
}  // namespace gradwire
