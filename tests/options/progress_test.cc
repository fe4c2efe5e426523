#include "worker/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace gradwire {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ProgressState SomeState() {
  ProgressState state;
  state.iteration = 20;
  state.iterations_per_epoch = 196;
  state.done = 20;
  state.total = 196;
  state.loss = 2.34561;
  state.iteration_seconds = 0.6831;
  state.images_per_second = 374.8;
  state.communication_share = 0.24;
  return state;
}

// Runs iterations and keeps what is printed; the clock moves with them.
class ProgressReporterTest : public ::testing::Test {
 protected:
  void Run(ProgressOptions options, int iterations) {
    options.total = iterations;
    options.iterations_per_epoch = iterations;
    options.epochs = 1;
    ProgressReporter reporter(
        options, [this](absl::string_view text) { printed_ += std::string(text); },
        [this] { return now_; });
    for (int done = 0; done < iterations; ++done) {
      IterationRecord record;
      record.step = Step(done);
      record.loss = 1;
      record.samples = 8;
      record.times.iteration = done == 0 ? absl::Seconds(100) : absl::Seconds(done % 2 ? 1 : 3);
      record.times.communication = absl::Milliseconds(500);
      now_ += absl::Milliseconds(30);
      reporter.OnIteration(record);
    }
    reporter.Finish();
  }
  int Count(const std::string& text) const {
    int count = 0;
    for (size_t at = printed_.find(text); at != std::string::npos; at = printed_.find(text, at + 1))
      ++count;
    return count;
  }

  std::string printed_;
  absl::Time now_ = absl::UnixEpoch();
};

TEST(ChooseProgressStyle, Terminal_IsABar) {
  EXPECT_EQ(*ChooseProgressStyle({{"TERM", "xterm"}}, true), ProgressStyle::kBar);
}

TEST(ChooseProgressStyle, DumbTerminal_IsPlain) {
  EXPECT_EQ(*ChooseProgressStyle({{"TERM", "dumb"}}, true), ProgressStyle::kPlain);
}

TEST(ChooseProgressStyle, NoTerminal_IsPlain) {
  EXPECT_EQ(*ChooseProgressStyle({}, false), ProgressStyle::kPlain);
}

TEST(ChooseProgressStyle, Variable_RulesOverTheTerminal) {
  EXPECT_EQ(*ChooseProgressStyle({{"GRADWIRE_PROGRESS", "bar"}}, false), ProgressStyle::kBar);
  EXPECT_EQ(*ChooseProgressStyle({{"GRADWIRE_PROGRESS", "plain"}}, true), ProgressStyle::kPlain);
  EXPECT_EQ(*ChooseProgressStyle({{"GRADWIRE_PROGRESS", "none"}}, true), ProgressStyle::kNone);
}

TEST(ChooseProgressStyle, WrongVariable_NamesWhatIsExpected) {
  EXPECT_EQ(ChooseProgressStyle({{"GRADWIRE_PROGRESS", "plian"}}, true).status().message(),
            "GRADWIRE_PROGRESS: got 'plian', expected one of bar, plain, none; did you mean "
            "plain?");
}

TEST(TerminalColumns, Number_IsUsed) { EXPECT_EQ(TerminalColumns({{"COLUMNS", "120"}}), 120); }

TEST(TerminalColumns, NoOrSillyNumber_Is80) {
  EXPECT_EQ(TerminalColumns({}), 80);
  EXPECT_EQ(TerminalColumns({{"COLUMNS", "0"}}), 80);
  EXPECT_EQ(TerminalColumns({{"COLUMNS", "wide"}}), 80);
}

TEST(DurationText, Lengths_AreReadable) {
  EXPECT_EQ(DurationText(absl::Seconds(42)), "0:42");
  EXPECT_EQ(DurationText(absl::Seconds(723)), "12:03");
  EXPECT_EQ(DurationText(absl::Seconds(3723)), "1:02:03");
  EXPECT_EQ(DurationText(absl::InfiniteDuration()), "?");
}

TEST(PlainLine, State_IsOneLine) {
  EXPECT_EQ(PlainLine(SomeState()),
            "epoch 1/1 iteration 20/196 loss 2.3456 0.683 s/iteration 375 images/s "
            "communication 24 %");
}

TEST(PlainLine, UnknownEpochs_AreLeftOut) {
  ProgressState state = SomeState();
  state.epochs = 0;
  EXPECT_THAT(PlainLine(state), ::testing::StartsWith("epoch 1 iteration 20/196"));
}

TEST(BarLine, WideTerminal_ShowsAll) {
  const std::string line = BarLine(SomeState(), 120);
  EXPECT_THAT(line, HasSubstr(" 10 % [===="));
  EXPECT_THAT(line, HasSubstr("20/196 loss 2.3456 375 images/s communication 24 % 2:00 left"));
}

TEST(BarLine, NarrowTerminal_IsCut) { EXPECT_EQ(BarLine(SomeState(), 40).size(), 39u); }

TEST(BarLine, AllDone_IsFull) {
  ProgressState state = SomeState();
  state.done = state.total;
  EXPECT_THAT(BarLine(state, 120), HasSubstr("100 % [========================================]"));
}

TEST_F(ProgressReporterTest, OnIteration_PrintEvery_PrintsEachNth) {
  ProgressOptions options;
  options.print_every = 20;
  Run(options, 45);
  EXPECT_EQ(Count(" loss "), 2);
  EXPECT_THAT(printed_, HasSubstr("epoch 1/1 iteration 20/45 loss 1.0000"));
  EXPECT_THAT(printed_, HasSubstr("epoch 1/1 iteration 40/45 loss 1.0000"));
}

TEST_F(ProgressReporterTest, OnIteration_PrintEveryZero_PrintsNoLoss) {
  ProgressOptions options;
  options.print_every = 0;
  Run(options, 45);
  EXPECT_EQ(Count(" loss "), 0);
}

TEST_F(ProgressReporterTest, OnIteration_41st_PrintsTheAverageOnce) {
  Run(ProgressOptions(), 45);
  EXPECT_EQ(Count("average iteration time over iterations 2 to 41: 2.0000 s\n"), 1);
  EXPECT_EQ(Count("average"), 1);
}

TEST_F(ProgressReporterTest, Finish_ShorterRun_PrintsTheAverageOfAllButTheFirst) {
  Run(ProgressOptions(), 3);
  EXPECT_THAT(printed_, HasSubstr("average iteration time over iterations 2 to 3: 2.0000 s\n"));
}

TEST_F(ProgressReporterTest, Finish_OneIteration_PrintsNoAverage) {
  Run(ProgressOptions(), 1);
  EXPECT_THAT(printed_, Not(HasSubstr("average")));
}

TEST_F(ProgressReporterTest, OnIteration_SeveralRanks_CountsImagesOfAll) {
  ProgressOptions options;
  options.print_every = 2;
  options.world_size = 4;
  Run(options, 2);
  EXPECT_THAT(printed_, HasSubstr("1.000 s/iteration 32 images/s communication 50 %"));
}

TEST_F(ProgressReporterTest, OnIteration_None_PrintsNothing) {
  ProgressOptions options;
  options.style = ProgressStyle::kNone;
  Run(options, 45);
  EXPECT_EQ(printed_, "");
}

TEST_F(ProgressReporterTest, OnIteration_Plain_UsesNoControlCharacters) {
  Run(ProgressOptions(), 45);
  EXPECT_THAT(printed_, Not(HasSubstr("\x1b")));
  EXPECT_THAT(printed_, Not(HasSubstr("\r")));
}

TEST_F(ProgressReporterTest, OnIteration_Bar_IsDrawnTenTimesASecondAndAtTheEnd) {
  ProgressOptions options;
  options.style = ProgressStyle::kBar;
  options.print_every = 0;
  // At 30, 150, 270 … ms, and the last at 1260 ms; then it is taken away.
  Run(options, 42);
  EXPECT_EQ(Count("% ["), 12);
  EXPECT_EQ(Count("100 % ["), 1);
  EXPECT_THAT(printed_, ::testing::EndsWith("\x1b[K\r"));
}

}  // namespace
}  // namespace gradwire
