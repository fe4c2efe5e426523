#include "bench/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/bounds.h"
#include "bench/machine.h"

namespace gradwire {
namespace {

using ::testing::Contains;

PlanInput Vgg11() {
  PlanInput input;
  input.model = "vgg11";
  input.workers = 4;
  input.backends = {"coordinator", "ring"};
  input.layout.buckets = {{36924456, true}, {22080, false}};
  input.layout.parameters = 9231114;
  return input;
}

const TableRows& BackendRows(const Report& report) { return report.parts[0].rows; }

nlohmann::json RankSummary(double p50) {
  return {{"world_size", 2},
          {"sync", "all-reduce"},
          {"backend", "ring"},
          {"wire", "fp32"},
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

TEST(MakePlan, Backends_HaveTheirBytes) {
  const Report report = MakePlan(Vgg11());
  EXPECT_EQ(BackendRows(report)[0]["worker_bytes"], 36924456 + 22080);
  EXPECT_EQ(BackendRows(report)[0]["coordinator_bytes"], 4 * (36924456 + 22080));
  EXPECT_EQ(BackendRows(report)[1]["worker_bytes"], 55386684 + 22080);
}

TEST(MakePlan, HalfType_HalvesGradientsButNotBuffers) {
  PlanInput input = Vgg11();
  input.wire = "bf16";
  const Report report = MakePlan(input);
  EXPECT_EQ(BackendRows(report)[1]["worker_bytes"], 55386684 / 2 + 22080);
  EXPECT_EQ(report.parts[1].rows[0]["bytes"], 36924456 / 2);
  EXPECT_EQ(report.parts[1].rows[1]["bytes"], 22080);
}

TEST(MakePlan, Computation_GivesBothBounds) {
  PlanInput input = Vgg11();
  input.compute_seconds = 0.5;
  const auto row = BackendRows(MakePlan(input))[1];
  const double transfer = row["transfer_seconds"];
  EXPECT_NEAR(transfer, 0.463, 0.001);
  EXPECT_DOUBLE_EQ(row["barrier_seconds"], 0.5 + transfer);
  EXPECT_DOUBLE_EQ(row["overlap_seconds"], 0.5);
}

TEST(MakePlan, Samples_GiveAnEpoch) {
  PlanInput input = Vgg11();
  input.layout.samples = 50000;
  const auto row = BackendRows(MakePlan(input))[1];
  EXPECT_EQ(row["worker_bytes_per_epoch"], int64_t{196} * (55386684 + 22080));
  EXPECT_DOUBLE_EQ(row["epoch_seconds"], 196 * row["transfer_seconds"].get<double>());
}

TEST(MakePlan, MeasuredRun_StandsBesideItsBackend) {
  PlanInput input = Vgg11();
  input.measured = *RunFromSummary(RankSummary(1.5));
  const Report report = MakePlan(input);
  EXPECT_FALSE(BackendRows(report)[0].contains("measured_seconds"));
  EXPECT_EQ(BackendRows(report)[1]["measured_seconds"], 1.5);
  EXPECT_EQ(BackendRows(report)[1]["measured_bytes"], 100);
}

TEST(StepsPerEpoch, SharesThatDoNotDivide_AreFilledUp) {
  EXPECT_EQ(StepsPerEpoch(50000, 4, 64), 196);
  EXPECT_EQ(StepsPerEpoch(5, 2, 3), 1);
  EXPECT_EQ(StepsPerEpoch(7, 2, 3), 2);
}

TEST(RunFromSummary, SeveralRanks_GivesMeans) {
  const auto run = RunFromSummary({{"ranks", {RankSummary(1), RankSummary(2)}}});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_DOUBLE_EQ(run->iteration_seconds, 1.5);
  EXPECT_DOUBLE_EQ(run->compute_seconds, 0.5);
  EXPECT_DOUBLE_EQ(run->bytes_sent_per_step, 100);
  EXPECT_EQ(run->workers, 2);
}

TEST(RunFromSummary, FieldMissing_IsNamed) {
  nlohmann::json summary = RankSummary(1);
  summary.erase("backend");
  EXPECT_EQ(RunFromSummary(summary).status().message(), "the summary lacks backend");
  EXPECT_EQ(RunFromSummary({{"ranks", nlohmann::json::array()}}).status().message(),
            "the summary has no ranks");
}

TEST(LayoutFromJson, Layout_IsCountedAndSummed) {
  const auto layout = LayoutFromJson(
      {{"parameters", {{{"shape", {2, 3}}}, {{"shape", nlohmann::json::array()}}}},
       {"buckets", {{{"bytes", 28}, {"averaged", true}}, {{"bytes", 5}, {"averaged", false}}}},
       {"samples", 9}});
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->parameters, 7);
  EXPECT_EQ(layout->AveragedBytes(), 28);
  EXPECT_EQ(layout->CopiedBytes(), 5);
  EXPECT_EQ(layout->samples, 9);
}

TEST(LayoutFromJson, NoLayout_IsAnError) {
  EXPECT_EQ(LayoutFromJson(nlohmann::json::array()).status().message(),
            "no layout: buckets or parameters are missing");
}

TEST(CpuModel, CpuInfo_GivesTheFirst) {
  EXPECT_EQ(CpuModel("processor : 0\nmodel name\t: Fast 9\nmodel name\t: Slow 1\n"), "Fast 9");
  EXPECT_EQ(CpuModel(""), "unknown");
}

TEST(DescribeMachine, Here_HasWhatFiguresDependOn) {
  std::vector<std::string> keys;
  const nlohmann::ordered_json machine = DescribeMachine();
  for (const auto& [key, value] : machine.items()) keys.push_back(key);
  for (const char* key : {"date", "cores", "cpu", "kernel", "blas", "gradwire", "grpc"}) {
    EXPECT_THAT(keys, Contains(key));
  }
}

}  // namespace
}  // namespace gradwire
