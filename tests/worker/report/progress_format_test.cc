#include "worker/report/progress_format.h"

#include <gmock/gmock.h>

#include "absl/strings/match.h"

namespace gradwire {
namespace {

Progress Example() {
  Progress progress;
  progress.iteration_in_epoch = progress.iteration = 20;
  progress.iterations_in_epoch = progress.iterations = 196;
  progress.loss = 2.34561;
  progress.seconds_per_iteration = 0.512;
  progress.images_per_second = 500;
  progress.communication_share = 0.34;
  progress.left = absl::Seconds(90);
  return progress;
}

TEST(FormatEpoch, Evaluated_NamesBoth) {
  EpochRow row;
  row.train = {2.34561, 0.12344};
  row.lr = 0.1;
  row.seconds = 12.34;
  row.seconds_without_loading = 11;
  EXPECT_EQ(FormatEpoch(row, 5),
            "epoch 1/5: loss 2.3456  accuracy 12.34 %  lr 0.1  12.340 s, 11.000 s without loading");
  row.test = Quality{2.34007, 0.1357};
  EXPECT_EQ(FormatEpoch(row, 5),
            "epoch 1/5: loss 2.3456  accuracy 12.34 %  lr 0.1  12.340 s, 11.000 s without loading  "
            "test loss 2.3401  accuracy 13.57 %");
}

TEST(FormatLeft, UnderAMinute_IsSeconds) { EXPECT_EQ(FormatLeft(absl::Seconds(42.4)), "42 s"); }

TEST(FormatLeft, AlmostAMinute_RoundsUpToIt) {
  EXPECT_EQ(FormatLeft(absl::Seconds(59.6)), "1 min 0 s");
}

TEST(FormatLeft, UnderAnHour_IsMinutesAndSeconds) {
  EXPECT_EQ(FormatLeft(absl::Seconds(90)), "1 min 30 s");
}

TEST(FormatLeft, Hours_RoundsToMinutes) {
  EXPECT_EQ(FormatLeft(absl::Hours(2) + absl::Seconds(280)), "2 h 5 min");
}

TEST(FormatLeft, AnHour_IsHoursAndMinutes) { EXPECT_EQ(FormatLeft(absl::Hours(1)), "1 h 0 min"); }

TEST(FormatPlain, Example_NamesEverything) {
  EXPECT_EQ(FormatPlain(Example()),
            "epoch 1/1 iteration 20/196 loss 2.3456  0.512 s/iteration  500 images/s  "
            "communication 34 %  left 1 min 30 s");
}

TEST(FormatPlain, ShortIterations_KeepThreeDigits) {
  Progress progress = Example();
  progress.seconds_per_iteration = 0.00123;
  progress.images_per_second = 123456;
  EXPECT_TRUE(absl::StrContains(FormatPlain(progress), "0.00123 s/iteration  123456 images/s"));
  progress.seconds_per_iteration = 0.09876;
  EXPECT_TRUE(absl::StrContains(FormatPlain(progress), "  0.0988 s/iteration"));
}

TEST(FormatPlain, FewImages_GetATenth) {
  Progress progress = Example();
  progress.images_per_second = 2.25;
  EXPECT_TRUE(absl::StrContains(FormatPlain(progress), "  2.2 images/s"));
}

TEST(FormatPlain, LessThanOneImage_GetsTwoDigits) {
  Progress progress = Example();
  progress.images_per_second = 0.0432;
  EXPECT_TRUE(absl::StrContains(FormatPlain(progress), "  0.043 images/s"));
}

TEST(FormatBar, WideTerminal_FillsAllButOneColumn) {
  const std::string bar = FormatBar(Example(), 120, false);
  EXPECT_EQ(bar.size(), 119u);
  EXPECT_TRUE(absl::StartsWith(bar,
                               "[###---------------------------] 20/196  loss 2.3456  "
                               "500 images/s  communication 34 %  left 1 min 30 s  "))
      << bar;
}

TEST(FormatBar, LastIteration_IsFull) {
  Progress progress = Example();
  progress.iteration = 196;
  EXPECT_TRUE(absl::StartsWith(FormatBar(progress, 120, false), "[" + std::string(30, '#') + "]"));
}

TEST(FormatBar, OrdinaryTerminal_ShortensTheBar) {
  const std::string bar = FormatBar(Example(), 85, false);
  EXPECT_EQ(bar.size(), 84u);
  EXPECT_TRUE(absl::StartsWith(bar, "[-----") || absl::StartsWith(bar, "[#")) << bar;
  EXPECT_TRUE(absl::EndsWith(bar, "left 1 min 30 s")) << bar;
}

TEST(FormatBar, NarrowTerminal_HasNoBar) {
  EXPECT_EQ(FormatBar(Example(), 75, false).substr(0, 8), "20/196  ");
}

TEST(FormatBar, RoomForFiveCells_HasTheShortestBar) {
  const std::string text = "20/196  loss 2.3456  500 images/s  communication 34 %  left 1 min 30 s";
  const int width = static_cast<int>(text.size()) + 9;  // brackets, space, cells, the last column
  EXPECT_EQ(FormatBar(Example(), width, false), "[-----] " + text);
  EXPECT_EQ(FormatBar(Example(), width - 1, false), Padded(text, width - 1));
}

TEST(FormatBar, VeryNarrowTerminal_CutsTheText) {
  EXPECT_EQ(FormatBar(Example(), 11, false), "20/196  lo");
}

TEST(FormatBar, Colour_TakesNoColumns) {
  const std::string plain = FormatBar(Example(), 100, false);
  const std::string coloured = FormatBar(Example(), 100, true);
  EXPECT_EQ(coloured.size(), plain.size() + 9);
  EXPECT_TRUE(absl::StrContains(coloured, "\033[32m"));
}

TEST(FormatAverage, Example_IsTheCoursesSentence) {
  EXPECT_EQ(FormatAverage(2, 40, absl::Milliseconds(512)),
            "average iteration time over iterations 2 to 40: 0.512 s");
}

}  // namespace
}  // namespace gradwire
