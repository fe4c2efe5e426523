#include "worker/report/step_log.h"

#include <gmock/gmock.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "tests/support/temp_dir.h"

namespace gradwire::step_log_test {
namespace {

using testing::ReadFile;
using testing::TempDir;

StepRecord Record() {
  StepRecord record;
  record.step = Step(7);
  record.epoch = 1;
  record.rank = Rank(2);
  record.loss = 2.5;
  record.lr = 0.25;
  record.samples = 64;
  record.iteration = absl::Milliseconds(500);
  for (const PhaseInfo& info : kPhases) {
    record.phases[info.phase] = absl::Milliseconds(125) * static_cast<int>(info.phase);
  }
  record.bytes_sent = 1000;
  record.bytes_received = 2000;
  record.time = absl::FromUnixMillis(1'700'000'000'250);
  record.peak_memory_bytes = 3000;
  return record;
}

TEST(ToJsonLine, Record_HasEveryField) {
  EXPECT_EQ(ToJsonLine(Record()),
            "{\"step\":7,\"epoch\":1,\"rank\":2,\"loss\":2.5,\"lr\":0.25,\"samples\":64,"
            "\"iteration_seconds\":0.5,\"phase_seconds\":{\"data\":0.0,\"forward\":0.125,"
            "\"backward\":0.25,\"communication\":0.375,\"exposed_communication\":0.5,"
            "\"optimizer\":0.625},\"bytes_sent\":1000,\"bytes_received\":2000,"
            "\"time\":1700000000.25,\"peak_memory_bytes\":3000}\n");
}

TEST(ToJsonLine, ModelThatIsServed_HasLagAndSpread) {
  StepRecord record = Record();
  record.staleness = {2, 3};
  const auto json = nlohmann::json::parse(ToJsonLine(record));
  EXPECT_EQ(json["lag"], 2);
  EXPECT_EQ(json["spread"], 3);
}

TEST(ToJsonLine, SkippedStep_SaysSo) {
  StepRecord record = Record();
  EXPECT_FALSE(nlohmann::json::parse(ToJsonLine(record)).contains("skipped"));
  record.skipped = true;
  EXPECT_EQ(nlohmann::json::parse(ToJsonLine(record))["skipped"], true);
}

TEST(ToJsonLine, CompressedGradients_HasRatioAndResidual) {
  StepRecord record = Record();
  record.compressed.emplace();
  record.compressed->ratio = 3.5;
  EXPECT_EQ(nlohmann::json::parse(ToJsonLine(record))["compression_ratio"], 3.5);
  EXPECT_FALSE(nlohmann::json::parse(ToJsonLine(record)).contains("residual_norm"));
  record.compressed->residual = 0.25;
  EXPECT_EQ(nlohmann::json::parse(ToJsonLine(record))["residual_norm"], 0.25);
}

TEST(ToJsonLine, DivergedLoss_IsNull) {
  StepRecord record = Record();
  record.loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(nlohmann::json::parse(ToJsonLine(record))["loss"].is_null());
}

TEST(ToJsonLine, Epoch_SaysItsKindAndRank) {
  EpochRow row;
  row.epoch = 4;
  const auto json = nlohmann::json::parse(ToJsonLine(Rank(2), row));
  EXPECT_EQ(json["kind"], "epoch");
  EXPECT_EQ(json["rank"], 2);
  EXPECT_EQ(json["epoch"], 4);
  EXPECT_TRUE(json["loss"].is_null());
}

TEST(ToJsonLine, Recovery_HasEveryField) {
  Recovery recovery;
  recovery.generation = Generation(3);
  recovery.step = Step(7);
  recovery.change.lost = {{Incarnation(5), "10.10.1.2:7", {Rank(1), Rank(3)}},
                          {Incarnation(6), "10.10.1.3:7", {Rank(4)}}};
  recovery.change.adoptions = {{{Incarnation(8), "", {Rank(0), Rank(1)}}, {Rank(1)}}};
  recovery.ranks = {Rank(2), Rank(4)};
  recovery.adopted = {Rank(4)};
  recovery.heard = absl::FromUnixMillis(1'700'000'000'250);
  recovery.gone_on = absl::FromUnixMillis(1'700'000'000'500);
  recovery.lost = {absl::Milliseconds(500), absl::Milliseconds(125), absl::Milliseconds(250)};
  EXPECT_EQ(nlohmann::json::parse(ToJsonLine(Rank(2), recovery)), nlohmann::json::parse(R"({
    "kind": "recovery", "rank": 2, "generation": 3, "first_step": 7, "losses": 2,
    "lost_ranks": [1, 3, 4], "carriers": [{"ranks": [0, 1], "adopted": [1]}],
    "ranks": [2, 4], "adopted": [4], "heard": 1700000000.25, "gone_on": 1700000000.5,
    "seconds_lost": 0.875,
    "seconds_lost_by_phase": {"computing": 0.5, "waiting": 0.125, "connecting": 0.25}})"));
}

TEST(StepLog, Write_Twice_CanBeReadWhileOpen) {
  const TempDir dir;
  auto log = StepLog::Open(dir.File("log"));
  ASSERT_TRUE(log.ok()) << log.status();
  ASSERT_TRUE((*log)->Write("one\n").ok());
  ASSERT_TRUE((*log)->Write("two\n").ok());
  EXPECT_EQ(ReadFile(dir.File("log")), "one\ntwo\n");
}

TEST(StepLog, Open_OldFile_EmptiesIt) {
  const TempDir dir;
  testing::WriteFile(dir.File("log"), "old");
  ASSERT_TRUE(StepLog::Open(dir.File("log")).ok());
  EXPECT_EQ(ReadFile(dir.File("log")), "");
}

TEST(StepLog, Open_OldFileOfARunThatGoesOn_KeepsItAndAppends) {
  const TempDir dir;
  testing::WriteFile(dir.File("log"), "old\n");
  ASSERT_TRUE((*StepLog::Open(dir.File("log"), /*goes_on=*/true))->Write("new\n").ok());
  EXPECT_EQ(ReadFile(dir.File("log")), "old\nnew\n");
}

TEST(StepLog, Open_LastLineOfARunThatGoesOnWasCutShort_RemovesIt) {
  const TempDir dir;
  for (const char* cut : {"{\"step\":1", "old\n{\"step\":1"}) {
    testing::WriteFile(dir.File("log"), cut);
    ASSERT_TRUE((*StepLog::Open(dir.File("log"), /*goes_on=*/true))->Write("new\n").ok());
    EXPECT_EQ(ReadFile(dir.File("log")), *cut == 'o' ? "old\nnew\n" : "new\n");
  }
}

TEST(StepLog, Open_LinesOfALongFile_AreKept) {
  const TempDir dir;
  const std::string lines = std::string(100'000, 'x') + "\n" + std::string(1000, 'y') + "\n";
  testing::WriteFile(dir.File("log"), lines + "z");
  ASSERT_TRUE(StepLog::Open(dir.File("log"), /*goes_on=*/true).ok());
  EXPECT_EQ(ReadFile(dir.File("log")), lines);
}

TEST(StepLog, Open_NoSuchFolder_NamesPathAndCause) {
  const TempDir dir;
  const std::string path = dir.File("missing/log");
  EXPECT_EQ(StepLog::Open(path).status(),
            absl::InvalidArgumentError("cannot write " + path + ": no such file or directory"));
}

TEST(StepLog, Write_FullDevice_SaysSo) {
  auto log = StepLog::Open("/dev/full");
  ASSERT_TRUE(log.ok()) << log.status();
  EXPECT_EQ((*log)->Write("one\n"),
            absl::InternalError("cannot write /dev/full: no space left on device"));
}

}  // namespace
}  // namespace gradwire::step_log_test
