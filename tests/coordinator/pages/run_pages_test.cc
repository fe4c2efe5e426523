#include "coordinator/pages/run_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace gradwire {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

// Of each phase another time, exact as a double.
absl::Duration TestSeconds(const PhaseInfo& info) {
  return absl::Milliseconds(250) * (1 + static_cast<int>(info.phase));
}

class RunPagesTest : public ::testing::Test {
 protected:
  RunPagesTest() {
    status_.set_run_id("\x12\xab");
    status_.set_state("running");
    status_.set_world_size(2);
    (*status_.mutable_settings())["sync"] = "ddp";
    for (uint32_t rank = 0; rank < 2; ++rank) {
      v1::RankStatus* of_rank = status_.add_ranks();
      of_rank->set_rank(rank);
      of_rank->set_state("running");
      of_rank->set_steps_done(3 + rank);
    }
    status_.mutable_ranks(1)->set_metrics("10.10.1.2:9401");
    status_.mutable_ranks(1)->set_silent_seconds(0.5);
    history_.Begin(2, now_);
    done_.step = Step(3);
    done_.loss = 2.5;
    done_.iteration = absl::Seconds(1);
  }
  void Add(int rank) {
    done_.rank = Rank(rank);
    history_.Add(done_, 9, now_);
  }
  json Status() { return json::parse(StatusJson(status_, history_, now_)); }

  absl::Time now_ = absl::FromUnixSeconds(1000);
  v1::StatusReply status_;
  RunHistory history_;
  StepRecord done_;
};

TEST_F(RunPagesTest, StatusJson_CompressedGradients_RatioAndResidualOfARank) {
  done_.compressed = {3.5, 0.25};
  Add(0);
  done_.compressed.reset();
  Add(1);
  EXPECT_EQ(Status()["ranks"][0]["compression_ratio"], 3.5);
  EXPECT_EQ(Status()["ranks"][0]["residual_norm"], 0.25);
  EXPECT_FALSE(Status()["ranks"][1].contains("compression_ratio"));
}

TEST_F(RunPagesTest, StatusJson_Run_ItsState) {
  const json status = Status();
  EXPECT_EQ(status["run"], "12ab");
  EXPECT_EQ(status["state"], "running");
  EXPECT_EQ(status["settings"]["sync"], "ddp");
  EXPECT_EQ(status["step"], 3);
  EXPECT_EQ(status["total_steps"], 0);
  EXPECT_EQ(status["now"], 1000);
  EXPECT_EQ(status["started"], 1000);
}

TEST_F(RunPagesTest, StatusJson_NoLoss_NoFailures) {
  status_.set_generation(1);
  EXPECT_EQ(Status()["failures"], json::parse(R"({"views": 1, "losses": 0, "recomputed_ranks": 0,
      "seconds_lost": 0.0, "seconds_lost_by_phase":
      {"computing": 0.0, "waiting": 0.0, "connecting": 0.0}, "last": []})"));
}

TEST_F(RunPagesTest, StatusJson_LossThatTheRunSurvives_WhoCarriesOnAndItsCost) {
  status_.set_generation(2);
  history_.losses().Add({now_, Step(7), {Rank(1)}, "it left", "10.10.1.2:1", 4711, std::nullopt});
  history_.losses().GoOn({Generation(2),
                          Step(6),
                          {{{Incarnation(1), "10.10.1.1:1", {Rank(0), Rank(1)}}, {Rank(1)}}},
                          std::nullopt});
  EXPECT_TRUE(Status()["failures"]["last"][0]["seconds_lost"].is_null());
  history_.losses().AddCost(
      Generation(2), {absl::Milliseconds(125), absl::ZeroDuration(), absl::Milliseconds(125)});
  const json failures = Status()["failures"];
  EXPECT_EQ(failures["views"], 2);
  EXPECT_EQ(failures["losses"], 1);
  EXPECT_EQ(failures["recomputed_ranks"], 1);
  EXPECT_EQ(failures["seconds_lost"], 0.25);
  EXPECT_EQ(failures["seconds_lost_by_phase"]["computing"], 0.125);
  EXPECT_EQ(failures["last"], json::parse(R"([{"time": 1000.0, "step": 7, "ranks": [1],
      "cause": "it left", "address": "10.10.1.2:1", "pid": 4711, "seconds_lost": 0.25,
      "seconds_lost_by_phase": {"computing": 0.125, "waiting": 0.0, "connecting": 0.125},
      "generation": 2, "first_step": 6, "carriers":
      [{"address": "10.10.1.1:1", "ranks": [0, 1], "adopted": [1]}]}])"));
}

TEST_F(RunPagesTest, StatusJson_LossOfSeveralRanks_EachIsCounted) {
  history_.losses().Add(
      {now_, Step(7), {Rank(1), Rank(2)}, "it left", "10.10.1.2:1", 4711, std::nullopt});
  const Member by = {Incarnation(1), "10.10.1.1:1", {Rank(0), Rank(1), Rank(2)}};
  history_.losses().GoOn({Generation(2), Step(6), {{by, {Rank(1), Rank(2)}}}, std::nullopt});
  EXPECT_EQ(Status()["failures"]["losses"], 1);
  EXPECT_EQ(Status()["failures"]["recomputed_ranks"], 2);
}

TEST_F(RunPagesTest, StatusJson_RanksGoToTwoWorkers_BothAreThereWithTheirOwn) {
  history_.losses().Add(
      {now_, Step(7), {Rank(2), Rank(3)}, "it left", "10.10.1.3:1", 4711, std::nullopt});
  const Member first = {Incarnation(1), "10.10.1.1:1", {Rank(0), Rank(2)}};
  const Member second = {Incarnation(2), "10.10.1.2:1", {Rank(1), Rank(3)}};
  history_.losses().GoOn(
      {Generation(2), Step(6), {{first, {Rank(2)}}, {second, {Rank(3)}}}, std::nullopt});
  const json failures = Status()["failures"];
  EXPECT_EQ(failures["recomputed_ranks"], 2);
  EXPECT_EQ(failures["last"][0]["carriers"],
            json::parse(R"([{"address": "10.10.1.1:1", "ranks": [0, 2], "adopted": [2]},
                            {"address": "10.10.1.2:1", "ranks": [1, 3], "adopted": [3]}])"));
}

TEST_F(RunPagesTest, StatusJson_LossThatEndsTheRun_NobodyCarriesOn) {
  history_.losses().Add({now_, Step(7), {Rank(1)}, "it left", "", 0, std::nullopt});
  const json loss = Status()["failures"]["last"][0];
  EXPECT_TRUE(loss["seconds_lost"].is_null());
  EXPECT_TRUE(loss["pid"].is_null());
  EXPECT_TRUE(loss["carriers"].empty());
  EXPECT_EQ(Status()["failures"]["seconds_lost"], 0);
}

TEST_F(RunPagesTest, StatusJson_Ranks_HaveTheProcessOfTheirWorker) {
  status_.mutable_ranks(1)->set_pid(4711);
  EXPECT_TRUE(Status()["ranks"][0]["pid"].is_null());
  EXPECT_EQ(Status()["ranks"][1]["pid"], 4711);
}

TEST_F(RunPagesTest, StatusJson_NoGradientsPassHere_CoordinatorIsNull) {
  EXPECT_TRUE(Status()["coordinator"].is_null());
  EXPECT_EQ(CoordinatorSummary(history_), "null\n");
}

TEST_F(RunPagesTest, StatusJson_GradientsPassHere_MeansOfWhatTheCoordinatorDoes) {
  AggregationTimes times;
  times.fold = absl::Milliseconds(125);
  times.receive = absl::Milliseconds(250);
  times.send = absl::Milliseconds(500);
  times.wait = absl::Milliseconds(1000);
  times.hidden_send = absl::Milliseconds(64);
  history_.AddAggregation(times);
  times.wait = absl::Milliseconds(3000);
  history_.AddAggregation(times);
  const json expected = json::parse(R"({"iterations": 2, "iteration_seconds": {"mean": 2.875},
      "phase_seconds": {"wait": 2.0, "receive": 0.25, "fold": 0.125, "send": 0.5,
                        "hidden_send": 0.064}})");
  for (json coordinator : {Status()["coordinator"], json::parse(CoordinatorSummary(history_))}) {
    EXPECT_GT(coordinator["peak_memory_bytes"], 1 << 20);
    coordinator.erase("peak_memory_bytes");
    EXPECT_EQ(coordinator, expected);
  }
}

TEST_F(RunPagesTest, StatusJson_RankWithSteps_WhatItToldLast) {
  done_.phases[Phase::kExposedCommunication] = absl::Milliseconds(250);
  Add(1);
  const json rank = Status()["ranks"][1];
  EXPECT_EQ(rank["loss"], 2.5);
  EXPECT_EQ(rank["iteration_seconds"], 1);
  EXPECT_EQ(rank["work_seconds"], 0.75);
  EXPECT_EQ(rank["heard_seconds"], 0.5);
  EXPECT_EQ(Status()["total_steps"], 9);
}

TEST_F(RunPagesTest, StatusJson_Always_NamesEachPhaseAndItsTime) {
  for (const PhaseInfo& info : kPhases) done_.phases[info.phase] = TestSeconds(info);
  Add(1);
  const json status = Status();
  ASSERT_EQ(status["phases"].size(), std::size(kPhases));
  for (size_t i = 0; i < std::size(kPhases); ++i) {
    EXPECT_EQ(status["phases"][i]["name"], kPhases[i].name);
    EXPECT_EQ(status["phases"][i]["colour"], kPhases[i].colour);
    EXPECT_EQ(status["ranks"][1]["phase_seconds"][kPhases[i].name],
              absl::ToDoubleSeconds(TestSeconds(kPhases[i])));
  }
}

TEST_F(RunPagesTest, HistoryJson_Always_HasEachPhase) {
  for (const PhaseInfo& info : kPhases) done_.phases[info.phase] = TestSeconds(info);
  for (int rank : {0, 1}) Add(rank);
  const json history = json::parse(HistoryJson(history_, status_.run_id(), 10));
  for (const PhaseInfo& info : kPhases) {
    EXPECT_EQ(history["points"][0]["phase_seconds"][info.name],
              absl::ToDoubleSeconds(TestSeconds(info)));
  }
}

TEST_F(RunPagesTest, StatusJson_AllRanksHaveOneWorker_NoneIsSlowest) {
  Add(0);
  done_.iteration = absl::Seconds(2);
  Add(1);
  EXPECT_EQ(Status()["slowest_rank"], 1);
  for (v1::RankStatus& rank : *status_.mutable_ranks()) rank.set_address("10.10.1.2:4711");
  EXPECT_TRUE(Status()["slowest_rank"].is_null());
}

TEST_F(RunPagesTest, StatusJson_RankWithoutSteps_NullLoss) {
  EXPECT_TRUE(Status()["ranks"][0]["loss"].is_null());
  EXPECT_TRUE(Status()["ranks"][0]["heard_seconds"].is_null());
  EXPECT_TRUE(Status()["slowest_rank"].is_null());
}

// As of a program on the library that does not call report_loss.
TEST_F(RunPagesTest, StatusJson_RankThatTellsNoLoss_HasNone) {
  done_.loss_told = false;
  Add(1);
  EXPECT_FALSE(Status()["ranks"][1].contains("loss"));
  EXPECT_EQ(Status()["ranks"][1]["iteration_seconds"], 1);
}

TEST_F(RunPagesTest, StatusJson_Ranks_HaveTheirWorkersAddressesAndState) {
  status_.mutable_ranks(1)->set_address("10.10.1.2:4711");
  status_.mutable_ranks(1)->set_state("silent");
  const json rank = Status()["ranks"][1];
  EXPECT_EQ(rank["rank"], 1);
  EXPECT_EQ(rank["address"], "10.10.1.2:4711");
  EXPECT_EQ(rank["metrics"], "10.10.1.2:9401");
  EXPECT_EQ(rank["state"], "silent");
  EXPECT_EQ(rank["steps_done"], 4);
}

TEST_F(RunPagesTest, StatusJson_LossNotFinite_Null) {
  done_.loss = std::numeric_limits<double>::infinity();
  Add(1);
  EXPECT_TRUE(Status()["ranks"][1]["loss"].is_null());
}

TEST_F(RunPagesTest, StatusJson_TextThatIsNoUtf8_StillJson) {
  status_.set_reason("rank \xff");
  EXPECT_EQ(Status()["reason"], "rank \xef\xbf\xbd");
}

TEST_F(RunPagesTest, StatusJson_Event_WithTimeStepAndText) {
  history_.AddEvent({now_, Step(2), "lost", "rank 1 was lost"});
  EXPECT_EQ(Status()["events"],
            json::parse(R"([{"time":1000,"step":2,"kind":"lost","text":"rank 1 was lost"}])"));
}

TEST_F(RunPagesTest, HistoryJson_Steps_Points) {
  for (int rank : {0, 1}) Add(rank);
  const json history = json::parse(HistoryJson(history_, status_.run_id(), 10));
  EXPECT_EQ(history["run"], "12ab");
  EXPECT_EQ(history["resolution"], 1);
  ASSERT_EQ(history["points"].size(), 1);
  EXPECT_EQ(history["points"][0]["step"], 3);
  EXPECT_EQ(history["points"][0]["loss"], 2.5);
}

TEST_F(RunPagesTest, TargetsJson_WorkersThatServeMetrics_AndTheCoordinator) {
  const json targets = json::parse(TargetsJson(status_, history_.losses(), "host:9400"));
  ASSERT_EQ(targets.size(), 2);
  EXPECT_EQ(targets[0]["targets"], json::array({"host:9400"}));
  EXPECT_EQ(targets[0]["labels"]["program"], "coordinator");
  EXPECT_EQ(targets[1]["targets"], json::array({"10.10.1.2:9401"}));
  EXPECT_EQ(targets[1]["labels"], json::parse(R"({"run":"12ab","program":"worker","rank":"1"})"));
}

TEST_F(RunPagesTest, TargetsJson_WorkerOfSeveralRanks_IsOneTarget) {
  status_.add_ranks()->CopyFrom(status_.ranks(1));
  status_.mutable_ranks(2)->set_rank(2);
  const json targets = json::parse(TargetsJson(status_, history_.losses(), "host:9400"));
  ASSERT_EQ(targets.size(), 2);
  EXPECT_EQ(targets[1]["labels"]["rank"], "1");
}

// Its series would begin anew under the number of a lost worker.
TEST_F(RunPagesTest, TargetsJson_WorkerTookOverALowerRank_KeepsItsLabel) {
  const Member by{Incarnation(1), "10.10.1.2:4711", {Rank(0), Rank(1)}};
  history_.losses().Add({now_, Step(3), {Rank(0)}, "it left", "10.10.1.1:1", 17, std::nullopt});
  history_.losses().GoOn({Generation(2), Step(3), {{by, {Rank(0)}}}, std::nullopt});
  for (v1::RankStatus& rank : *status_.mutable_ranks()) {
    rank.set_address("10.10.1.2:4711");
    rank.set_metrics("10.10.1.2:9401");
  }
  const json targets = json::parse(TargetsJson(status_, history_.losses(), "host:9400"));
  ASSERT_EQ(targets.size(), 2);
  EXPECT_EQ(targets[1]["labels"]["rank"], "1");
}

TEST_F(RunPagesTest, TargetsJson_WorkerIsGone_WithoutIt) {
  status_.mutable_ranks(1)->set_state("lost");
  EXPECT_EQ(json::parse(TargetsJson(status_, history_.losses(), "host:9400")).size(), 1);
}

// Nobody answers there any more.
TEST_F(RunPagesTest, TargetsJson_WorkerHasFinished_WithoutIt) {
  status_.mutable_ranks(1)->set_state("finished");
  EXPECT_EQ(json::parse(TargetsJson(status_, history_.losses(), "host:9400")).size(), 1);
}

TEST_F(RunPagesTest, TargetsJson_WorkerIsSilent_StaysATarget) {
  status_.mutable_ranks(1)->set_state("silent");
  EXPECT_EQ(json::parse(TargetsJson(status_, history_.losses(), "host:9400")).size(), 2);
}

TEST_F(RunPagesTest, TargetsJson_Coordinator_IsAskedForItsRun) {
  const json targets = json::parse(TargetsJson(status_, history_.losses(), "host:9400"));
  EXPECT_EQ(targets[0]["labels"]["__param_run"], targets[0]["labels"]["run"]);
}

TEST(AnswerOtherRun, NoneOrThisRun_IsNotAnswered) {
  EXPECT_FALSE(AnswerOtherRun("", "12ab").has_value());
  EXPECT_FALSE(AnswerOtherRun("a=1&run=12ab", "12ab").has_value());
}

TEST(AnswerOtherRun, RunThatWasHereBefore_IsNotFound) {
  const absl::optional<Page> page = AnswerOtherRun("run=34cd", "12ab");
  ASSERT_TRUE(page.has_value());
  EXPECT_EQ(page->code, 404);
  EXPECT_EQ(page->body, "run: got 34cd, expected 12ab\n");
}

TEST(PointsOfQuery, Number_AtMostTheLargest) {
  EXPECT_EQ(*PointsOfQuery(""), 600u);
  EXPECT_EQ(*PointsOfQuery("a=1&points=20"), 20u);
  EXPECT_EQ(*PointsOfQuery("points=1000000"), 2000u);
}

TEST(PointsOfQuery, NoNumber_InvalidArgument) {
  EXPECT_EQ(PointsOfQuery("points=x").status(),
            absl::InvalidArgumentError("points: got 'x', expected a number of 1 or more"));
  EXPECT_FALSE(PointsOfQuery("points=0").ok());
}

TEST_F(RunPagesTest, StatusJson_ClockWasSetBackAfterACheckpoint_ItsAgeIsZero) {
  history_.SetCheckpoint({Step(10), now_ + absl::Seconds(60), 500, absl::Seconds(1)});
  EXPECT_EQ(Status()["checkpoint"]["age_seconds"], 0);
}

TEST_F(RunPagesTest, StatusJson_SecondCheckpoint_IsTheLastWithItsAge) {
  EXPECT_TRUE(Status()["checkpoint"].is_null());
  history_.SetCheckpoint({Step(10), now_ - absl::Seconds(60), 500, absl::Seconds(1)});
  history_.SetCheckpoint({Step(20), now_ - absl::Seconds(5), 1000, absl::Seconds(2)});
  EXPECT_EQ(Status()["checkpoint"],
            json::parse(R"({"step": 20, "time": 995.0, "age_seconds": 5.0, "bytes": 1000,
                            "seconds": 2.0})"));
}

TEST_F(RunPagesTest, StatusJson_Run_ItsStartViewAndWhyStepsAreNotRecorded) {
  EXPECT_EQ(Status()["not_durable"], "");
  status_.set_epoch(3);
  status_.set_generation(2);
  status_.set_not_durable("no space left on device");
  const json status = Status();
  EXPECT_EQ(status["epoch"], 3);
  EXPECT_EQ(status["generation"], 2);
  EXPECT_EQ(status["world_size"], 2);
  EXPECT_EQ(status["not_durable"], "no space left on device");
}

TEST_F(RunPagesTest, HistoryJson_FewerPointsThanSteps_ResolutionIsOfTheLongestPoint) {
  for (const uint64_t step : {3, 4, 5}) {
    done_.step = Step(step);
    done_.iteration = absl::Seconds(static_cast<int64_t>(step));
    now_ += absl::Seconds(10);
    for (int rank : {0, 1}) Add(rank);
  }
  const json history = json::parse(HistoryJson(history_, status_.run_id(), 2));
  EXPECT_EQ(history["resolution"], 2);
  ASSERT_EQ(history["points"].size(), 2u);
  EXPECT_EQ(history["points"][0]["step"], 3);
  EXPECT_EQ(history["points"][0]["steps"], 2);
  EXPECT_EQ(history["points"][0]["time"], 1020);
  EXPECT_EQ(history["points"][0]["iteration_seconds"], 3.5);
  EXPECT_EQ(history["points"][0]["longest_seconds"], 4);
  EXPECT_EQ(history["points"][1]["step"], 5);
  EXPECT_EQ(history["points"][1]["time"], 1030);
}

}  // namespace
}  // namespace gradwire
