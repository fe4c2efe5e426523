#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/plan/plan_command.h"

namespace gradwire {
namespace {

nlohmann::json RankSummary(double p50) {
  return {{"world_size", 2},
          {"sync", "all-reduce"},
          {"backend", "ring"},
          {"wire", "fp32"},
          {"compress", "none"},
          {"model", "vgg11"},
          {"batch_size", 8},
          {"iterations", 10},
          {"iteration_seconds", {{"p50", p50}}},
          {"phase_seconds",
           {{"exposed_communication", 0.5},
            {"forward", 0.125},
            {"backward", 0.25},
            {"optimizer", 0.125}}},
          {"bytes_sent", 1000}};
}

TEST(RunFromSummary, SeveralRanks_GivesMeans) {
  const auto run = RunFromSummary({{"ranks", {RankSummary(1), RankSummary(2)}}});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_DOUBLE_EQ(run->iteration_seconds, 1.5);
  EXPECT_DOUBLE_EQ(run->compute_seconds, 0.5);
  EXPECT_DOUBLE_EQ(run->bytes_sent_per_step, 100);
  EXPECT_EQ(run->workers, 2);
}

TEST(RunFromSummary, SeveralPasses_BatchIsThatOfAnIteration) {
  nlohmann::json summary = RankSummary(1);
  EXPECT_EQ(RunFromSummary(summary)->batch_size, 8);  // an older one
  summary["accumulate"] = 4;
  EXPECT_EQ(RunFromSummary(summary)->batch_size, 32);
  summary["accumulate"] = nullptr;
  EXPECT_EQ(RunFromSummary(summary).status().message(), "the summary lacks accumulate");
}

TEST(RunFromSummary, TrainedParameters_AreTakenIfTheSummaryHasThem) {
  nlohmann::json summary = RankSummary(1);
  EXPECT_EQ(RunFromSummary(summary)->trained_parameters, 0);  // it ended early
  summary["trained_parameters"] = 5130;
  EXPECT_EQ(RunFromSummary(summary)->trained_parameters, 5130);
}

TEST(RunFromSummary, FieldMissing_IsNamed) {
  nlohmann::json summary = RankSummary(1);
  summary.erase("backend");
  EXPECT_EQ(RunFromSummary(summary).status().message(), "the summary lacks backend");
  EXPECT_EQ(RunFromSummary({{"ranks", nlohmann::json::array()}}).status().message(),
            "the summary has no ranks");
}

TEST(RunFromSummary, RanksThatDiffer_EachTimeIsTheMean) {
  nlohmann::json other = RankSummary(1);
  other["phase_seconds"]["exposed_communication"] = 1.5;
  other["phase_seconds"]["forward"] = 2.125;
  other["bytes_sent"] = 3000;
  const auto run = RunFromSummary({{"ranks", {RankSummary(1), other}}});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_DOUBLE_EQ(run->exposed_seconds, 1);
  EXPECT_DOUBLE_EQ(run->compute_seconds, 1.5);
  EXPECT_DOUBLE_EQ(run->bytes_sent_per_step, 200);
}

using Json = nlohmann::ordered_json;

Json RequestOf(const std::vector<std::string>& args,
               const absl::optional<MeasuredRun>& measured = absl::nullopt) {
  const auto parsed = ParsePlanOptions(args, {});
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? PlanRequest(parsed->options, measured, "gradwire plan x") : Json();
}

// The load of a byte with the back end of that name; null if the plan does not have it.
Json LoadOf(const Json& request, const std::string& name, const char* what) {
  for (const Json& backend : request["backends"]) {
    if (backend["name"] == name) return backend[what];
  }
  return nullptr;
}

TEST(PlanRequest, Options_ReachTheScript) {
  const Json request =
      RequestOf({"--workers", "6", "--per-host", "2", "--link-gbit", "2", "--batch-size", "3",
                 "--samples", "100", "--compute-seconds", "0.5", "--model", "lenet", "--csv", "c"});
  EXPECT_EQ(request["command"], "gradwire plan x");
  EXPECT_EQ(request["workers"], 6);
  EXPECT_EQ(request["per_host"], 2);
  EXPECT_EQ(request["link_gbit"], 2);
  EXPECT_DOUBLE_EQ(request["seconds_per_byte"].get<double>(), 8 / 2e9 * 1514 / 1448);
  EXPECT_EQ(request["batch_size"], 3);
  EXPECT_EQ(request["samples"], 100);
  EXPECT_EQ(request["compute_seconds"], 0.5);
  EXPECT_EQ(request["model"], "lenet");
  EXPECT_EQ(request["files"]["csv"], "c");
  EXPECT_EQ(RequestOf({})["per_host"], 1);
  EXPECT_TRUE(RequestOf({})["samples"].is_null());
  EXPECT_TRUE(RequestOf({})["compute_seconds"].is_null());
}

TEST(PlanRequest, Sync_HasItsIntervalAndOverlap) {
  EXPECT_EQ(RequestOf({"--sync", "diloco:10"})["interval"], 10);
  EXPECT_EQ(RequestOf({"--sync", "diloco:10"})["overlaps"], false);
  EXPECT_EQ(RequestOf({"--sync", "ddp"})["interval"], 0);
  EXPECT_EQ(RequestOf({"--sync", "ddp"})["overlaps"], true);
}

TEST(PlanRequest, BackEnds_HaveTheLoadsOfAByte) {
  const Json request = RequestOf({"--workers", "4", "--per-host", "2"});
  EXPECT_EQ(LoadOf(request, "ring", "average"),
            Json({{"worker", 1.5}, {"host", 1.25}, {"coordinator", 0.0}}));
  EXPECT_EQ(LoadOf(request, "sharded", "broadcast"),
            Json({{"worker", 1.0}, {"host", 2.0}, {"coordinator", 0.0}}));
  EXPECT_EQ(LoadOf(request, "coordinator", "average"),
            Json({{"worker", 1.0}, {"host", 2.0}, {"coordinator", 4.0}}));
  EXPECT_TRUE(LoadOf(request, "gloo", "average")["host"].is_null());
}

TEST(PlanRequest, Codec_HasItsBytesAndTheBackEndsThatSumIt) {
  const Json request = RequestOf({"--compress", "int8"});
  EXPECT_EQ(request["wire"], "int8");
  EXPECT_LT(request["element_bytes"].get<double>(), 1.5);
  EXPECT_TRUE(LoadOf(request, "gloo", "average").is_null());
  EXPECT_FALSE(LoadOf(request, "sharded", "average").is_null());
  EXPECT_EQ(RequestOf({"--wire", "bf16"})["wire"], "bf16");
  EXPECT_EQ(RequestOf({"--wire", "bf16"})["element_bytes"], 2);
}

TEST(PlanRequest, MeasuredRun_IsPassedOn) {
  EXPECT_TRUE(RequestOf({})["measured"].is_null());
  const MeasuredRun run = {2, "ddp", "ring", "fp32", "none", "vgg11", 8, 1, 0.5, 0.25, 100, 5130};
  EXPECT_EQ(RequestOf({}, run)["measured"], Json({{"sync", "ddp"},
                                                  {"backend", "ring"},
                                                  {"iteration_seconds", 1.0},
                                                  {"exposed_seconds", 0.5},
                                                  {"bytes_sent_per_step", 100.0},
                                                  {"trained_parameters", 5130}}));
}

TEST(ParsePlanOptions, NumbersOutOfBounds_AreRefused) {
  for (const char* name : {"--workers", "--per-host", "--link-gbit", "--batch-size", "--samples"}) {
    const absl::Status status = ParsePlanOptions({name, "0"}, {}).status();
    EXPECT_EQ(std::string(status.message()).find(std::string(name) + ": got '0'"), 0u) << status;
  }
}

}  // namespace
}  // namespace gradwire
