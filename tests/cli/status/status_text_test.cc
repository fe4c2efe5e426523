#include "cli/status/status_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/status/status_sample.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::ordered_json;
using testing::RunningStatus;

std::string ErrorOf(const std::string& text) {
  const absl::Status status = ParseStatus(text).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(ParseStatus, CoordinatorsAnswer_IsTaken) {
  EXPECT_TRUE(ParseStatus(RunningStatus().dump()).ok());
}

TEST(ParseStatus, NoJson_IsNamed) { EXPECT_EQ(ErrorOf("<html>"), "its answer is no JSON"); }

TEST(ParseStatus, CutShort_IsNoJson) {
  EXPECT_EQ(ErrorOf(RunningStatus().dump().substr(0, 50)), "its answer is no JSON");
}

TEST(ParseStatus, OtherProgram_IsNamed) {
  EXPECT_EQ(ErrorOf(R"({"program": "prometheus"})"), "its answer is not a coordinator's");
  EXPECT_EQ(ErrorOf("[1, 2]"), "its answer is not a coordinator's");
}

TEST(ParseStatus, RanksMissing_AreNamed) {
  EXPECT_EQ(ErrorOf(R"({"program": "gradwire-coordinator", "state": "running", "ranks": 3})"),
            "its answer lacks state or ranks");
}

TEST(ParseStatus, RankNoObject_IsShownAsUnknown) {
  const auto status = ParseStatus(
      R"({"program": "gradwire-coordinator", "state": "running", "ranks": [3], "events": [1]})");
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_THAT(StatusText(*status), HasSubstr("running"));
}

TEST(StatusText, RunningRun_HasItsHead) {
  const std::string text = StatusText(RunningStatus());
  EXPECT_THAT(text, HasSubstr("run 0123456789ab: running, 2 of 2 ranks, view 1\n"
                              "model vgg11, dataset cifar10, sync ddp, backend sharded\n"
                              "step 17 of 20, 400.0 ms an iteration, 40.0 images/s, loss 2.0000, "
                              "1s left\n"
                              "exposed communication: 25 % of the last iteration\n"
                              "slowest: rank 1, 350.0 ms of own work an iteration; the others "
                              "250.0 ms\n"));
}

TEST(StatusText, Ranks_AreATableInMilliseconds) {
  EXPECT_THAT(
      StatusText(RunningStatus()),
      HasSubstr(
          "    rank    state   steps  iteration ms    data  forward  backward  communication  "
          "exposed  optimizer  own work    loss  heard s ago          address\n"
          "       0  running      18         400.0     5.0     95.0     100.0          200.0  "
          "  150.0       50.0     250.0  1.5000          0.1  10.10.1.1:29401\n"));
}

TEST(StatusText, PhaseThatOnlyTheCoordinatorKnows_HasItsColumn) {
  Json status = RunningStatus();
  status["phases"] = {{{"name", "a~/b"}, {"title", "tomorrow's"}}};
  status["ranks"][0]["phase_seconds"]["a~/b"] = 0.125;
  EXPECT_THAT(StatusText(status), HasSubstr("iteration ms  tomorrow's  own work"));
  EXPECT_THAT(StatusText(status), HasSubstr("400.0       125.0     250.0"));
}

TEST(StatusText, UnknownValues_AreDashes) {
  Json status = RunningStatus();
  status["ranks"] = Json::parse(R"([{"rank": 0, "state": "lost", "loss": null}])");
  EXPECT_THAT(StatusText(status), HasSubstr("\n       0    lost       -             -"));
}

TEST(StatusText, Fault_IsAmongTheEvents) {
  EXPECT_THAT(StatusText(RunningStatus()),
              HasSubstr("step 12     lost      rank 3 was lost in step 12: it was silent for 10 "
                        "s\n"));
}

TEST(StatusText, ManyEvents_AreTheLastTen) {
  Json status = RunningStatus();
  status["events"] = Json::array();
  for (int i = 0; i < 12; ++i) {
    status["events"].push_back({{"time", 0}, {"step", i}, {"kind", "k"}, {"text", "t"}});
  }
  EXPECT_THAT(StatusText(status), Not(HasSubstr("step 1 ")));
  EXPECT_THAT(StatusText(status), HasSubstr("step 2 "));
}

TEST(StatusText, BeforeTheFirstWorker_SaysWhatItWaitsFor) {
  const Json status = Json::parse(
      R"({"program": "gradwire-coordinator", "run": "ab", "state": "waiting",
          "reason": "0 of 2 workers are here", "world_size": 2, "generation": 0, "settings": {},
          "step": 0, "total_steps": 0, "slowest_rank": null, "ranks": [], "events": []})");
  EXPECT_EQ(StatusText(status),
            "run ab: waiting (0 of 2 workers are here), 0 of 2 ranks, view 0\nno step done yet\n");
}

TEST(HasEnded, FinishedAndAborted_Have) {
  EXPECT_TRUE(HasEnded({{"state", "finished"}}));
  EXPECT_TRUE(HasEnded({{"state", "aborted"}}));
  EXPECT_FALSE(HasEnded({{"state", "running"}}));
  EXPECT_FALSE(HasEnded({{"state", "waiting"}}));
}

TEST(ProgressText, TotalUnknown_IsLeftOut) {
  EXPECT_EQ(ProgressText({{"step", 3}, {"total_steps", 0}}), "step 3");
}

TEST(FitTo, TooLong_IsCutAndCounted) {
  EXPECT_EQ(FitTo("one\ntwo\nthree\nfour\n", 80, 3), "one\ntwo\n... 2 more lines\n");
}

TEST(FitTo, WideLine_IsCutBetweenCharacters) { EXPECT_EQ(FitTo("aübc\n", 2, 5), "aü\n"); }

TEST(FitTo, ThatFits_IsKept) { EXPECT_EQ(FitTo("a\nb\n", 5, 2), "a\nb\n"); }

}  // namespace
}  // namespace gradwire
