// What the terminal shows of real short runs: the launcher's last table, `gradwire
// status` while one goes on, and `gradwire report` of their logs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "tests/support/launch.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace gradwire::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr absl::Duration kLong = absl::Seconds(120);

TEST(Launch, LastTable_HasBusbwPlanAndBottleneck) {
  const LaunchResult run =
      RunLaunch(2, TinyRun(3) + Options{"--sync", "all-reduce"}, {"--link-gbit", "1"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, ContainsRegex("exposed %.*busbw Gbit/s.*of plan %"));
  EXPECT_THAT(run.out, HasSubstr("\nMeans in ms without the first iteration: iteration = data + "));
  EXPECT_THAT(run.out, ContainsRegex("\nBottleneck: .*; (try|look at) .*\\.\n"));
}

TEST(Launch, GradientsPassTheCoordinator_ItHasALineThatAddsUpAndIsInTheSummary) {
  const LaunchResult run =
      RunLaunch(2, TinyRun(5) + Options{"--sync", "gather-scatter", "--backend", "coordinator"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, ContainsRegex("\n  coordinator +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ "));
  const nlohmann::json told = run.coordinator;
  EXPECT_EQ(told["iterations"], 4);
  const auto& parts = told["phase_seconds"];
  EXPECT_NEAR(parts["wait"].get<double>() + parts["receive"].get<double>() +
                  parts["fold"].get<double>() + parts["send"].get<double>(),
              told["iteration_seconds"]["mean"].get<double>(), 1e-6);
}

TEST(Launch, GradientsPassTheRing_CoordinatorHasNoLine) {
  const LaunchResult run = RunLaunch(2, TinyRun(3) + Options{"--backend", "ring"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, Not(HasSubstr("\n  coordinator ")));
  EXPECT_TRUE(run.coordinator.is_null());
}

// What `gradwire models` prints of one model.
std::string TableOf(const Options& options) {
  const auto table = Process::Start("gradwire", Options{"models"} + options);
  EXPECT_EQ(*table->Wait(kLong), 0) << table->err();
  return table->out();
}

TEST(Models, Table_FrozenFeaturesOrTokens_EachColumnIsItsOwn) {
  EXPECT_EQ(TableOf({"--model", "vgg11", "--freeze-features", "true"}),
            "model            parameters      trained   buffers  input                  MiB\n"
            "vgg11               9231114         5130      5512  3x32x32               35.2\n");
  EXPECT_THAT(TableOf({"--model", "bert_tiny", "--classes", "2"}),
              ContainsRegex("\nbert_tiny +4386178 +4386178 +0  128 token ids +16.7\n"));
}

TEST(Report, LogsOfTwoRuns_BecomeAPageAndTables) {
  const TempDir dir;
  for (const int workers : {1, 2}) {
    const std::string log = dir.File("tiny-" + std::to_string(workers) + ".rank{rank}.jsonl");
    const LaunchResult run = RunLaunch(workers, TinyRun(3) + Options{"--log-jsonl", log});
    ASSERT_EQ(run.exit_code, 0) << run.err;
  }
  const ProgramResult report =
      RunGradwire({"report", "--out", dir.File("r.html"), dir.File("tiny-1.rank0.jsonl"),
                   dir.File("tiny-2.rank0.jsonl"), dir.File("tiny-2.rank1.jsonl")});
  ASSERT_EQ(report.exit_code, 0) << report.err;
  const std::string html = ReadFile(dir.File("r.html"));
  for (const char* title : {"Iteration time", "Where an iteration goes", "Loss", "Scaling"}) {
    EXPECT_THAT(html, HasSubstr(std::string("<h2>") + title + "</h2>\n<figure>\n<img alt="));
  }
  EXPECT_THAT(ReadFile(dir.File("r.runs.csv")),
              AllOf(HasSubstr("\ntiny-1,tiny,1,3,"), HasSubstr("\ntiny-2,tiny,2,3,")));
  EXPECT_THAT(ReadFile(dir.File("r.steps.csv")), HasSubstr("\ntiny-2,2,0,2,"));
}

TEST(Report, Missing_IsNamedByTheProgram) {
  const ProgramResult report = RunGradwire({"report", "/no/log"});
  EXPECT_EQ(report.exit_code, 2);
  EXPECT_THAT(report.err, HasSubstr("cannot read the log '/no/log'"));
}

class StatusOfRun : public ::testing::Test {
 protected:
  // A run of two workers that goes on until the test ends it.
  void SetUp() override {
    for (int rank = 0; rank < 2; ++rank) {
      workers_.push_back(StartWorker(coordinator_.address(), rank, TinyRun(1000000)));
    }
    ASSERT_TRUE(coordinator_.WaitForStep(2).ok()) << workers_[0]->err();
  }

  RunningCoordinator coordinator_{2, {"--on-loss", "stop"}};
  std::vector<std::unique_ptr<Process>> workers_;
};

TEST_F(StatusOfRun, OnceAndAsJson_ShowTheRanks) {
  const ProgramResult text = RunGradwire({"status", coordinator_.metrics_address()});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, StartsWith("run "));
  EXPECT_THAT(text.out,
              AllOf(HasSubstr(": running"), HasSubstr("2 of 2 ranks"), HasSubstr("of 1000000"),
                    HasSubstr("slowest: "), HasSubstr("exposed communication: ")));
  const ProgramResult json = RunGradwire({"status", coordinator_.metrics_address(), "--json"});
  EXPECT_EQ(nlohmann::json::parse(json.out)["ranks"].size(), 2u);
}

TEST_F(StatusOfRun, WatchAndWorkerKilled_EndsWithTheRun) {
  const auto watch =
      Process::Start("gradwire", {"status", coordinator_.metrics_address(), "--watch"});
  ASSERT_TRUE(watch->WaitForOutput(": running", kLong).ok());
  workers_[1]->Signal(SIGKILL);
  const absl::StatusOr<int> exit_code = watch->Wait(kLong);
  ASSERT_TRUE(exit_code.ok()) << exit_code.status();
  EXPECT_EQ(*exit_code, 0) << watch->err();
  EXPECT_TRUE(absl::StrContains(watch->out(), "was lost") ||
              absl::StrContains(watch->err(), "its run is over"))
      << watch->out() << watch->err();
}

}  // namespace
}  // namespace gradwire::testing
