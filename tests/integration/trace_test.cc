// The time line that --trace writes of a run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/launch.h"
#include "tests/support/temp_dir.h"

namespace gradwire::testing {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr int kWorkers = 2;

json TraceOf(const Options& options, std::string* err = nullptr) {
  const TempDir dir;
  const LaunchResult run = RunLaunch(kWorkers, TinyRun(4) + options, {"--trace", dir.File("t")});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  if (err != nullptr) *err = run.err;
  const json trace = json::parse(ReadFile(dir.File("t")), nullptr, false);
  EXPECT_TRUE(trace.is_object());
  return trace.value("traceEvents", json::array());
}

// How long two lists of events of a rank go on at the same time, in microseconds.
double Overlap(const json& events, int rank, const std::string& name, const std::string& category) {
  double overlap = 0;
  for (const json& a : events) {
    if (a["pid"] != rank || a["name"] != name) continue;
    for (const json& b : events) {
      if (b["pid"] != rank || b.value("cat", "") != category) continue;
      const double begin_a = a["ts"], begin_b = b["ts"];
      const double end_a = begin_a + a["dur"].get<double>();
      const double end_b = begin_b + b["dur"].get<double>();
      overlap += std::max(0.0, std::min(end_a, end_b) - std::max(begin_a, begin_b));
    }
  }
  return overlap;
}

// How long at least one of `spans`, each from begin to end, goes on.
double LengthOfUnion(std::vector<std::pair<double, double>> spans) {
  std::sort(spans.begin(), spans.end());
  double length = 0, until = 0;
  for (const auto& [begin, end] : spans) {
    length += std::max(0.0, end - std::max(begin, until));
    until = std::max(until, end);
  }
  return length;
}

// Seconds by rank and step, of the steps' transfers as the trace has them.
std::map<std::pair<int, int>, double> TransferSeconds(const json& events) {
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> spans;
  for (const json& event : events) {
    if (event.value("cat", "") != "transfer") continue;
    const double begin = event["ts"];
    spans[{event["pid"].get<int>(), event["args"]["step"].get<int>()}].emplace_back(
        begin, begin + event["dur"].get<double>());
  }
  std::map<std::pair<int, int>, double> seconds;
  for (auto& [step, of_step] : spans) seconds[step] = LengthOfUnion(std::move(of_step)) / 1e6;
  return seconds;
}

// The two are measured apart. A thread may be held up between the two clocks, so one step may
// differ; the median may not.
TEST(Trace, TransfersTogether_AreThePhaseOfTheLogWithinAPercent) {
  const TempDir dir;
  const LaunchResult run = RunLaunch(
      kWorkers, TinyRun(8) + Options{"--sync", "ddp", "--log-jsonl", dir.File("rank{rank}")},
      {"--trace", dir.File("t")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto traced = TransferSeconds(json::parse(ReadFile(dir.File("t")))["traceEvents"]);
  std::vector<double> ratios;
  for (int rank = 0; rank < kWorkers; ++rank) {
    std::istringstream log(ReadFile(dir.File("rank" + std::to_string(rank))));
    for (std::string line; std::getline(log, line);) {
      const json step = json::parse(line);
      if (!step.contains("step")) continue;  // of an epoch
      const double logged = step["phase_seconds"]["communication"];
      ratios.push_back(traced.at({rank, step["step"].get<int>()}) / logged);
    }
  }
  ASSERT_EQ(ratios.size(), 8u * kWorkers);
  std::sort(ratios.begin(), ratios.end());
  EXPECT_NEAR(ratios[ratios.size() / 2], 1, 0.01) << json(ratios);
}

TEST(Trace, Ddp_TransfersRunWithinBackward) {
  const json events = TraceOf({"--sync", "ddp"});
  for (int rank = 0; rank < kWorkers; ++rank) {
    EXPECT_GT(Overlap(events, rank, "backward", "transfer"), 0) << "rank " << rank;
  }
}

// All buckets leave together, at the end of backward.
TEST(Trace, GatherScatter_TransfersBeginAfterBackward) {
  const json events = TraceOf({"--sync", "gather-scatter", "--backend", "coordinator"});
  std::map<int, double> middle;  // of backward, by step
  for (const json& event : events) {
    if (event["pid"] != 0 || event["name"] != "backward") continue;
    middle[event["args"]["step"]] = event["ts"].get<double>() + event["dur"].get<double>() / 2;
  }
  for (const json& event : events) {
    if (event["pid"] != 0 || event.value("cat", "") != "transfer") continue;
    EXPECT_GT(event["ts"].get<double>(), middle.at(event["args"]["step"])) << event;
  }
}

// As the format asks for: https://perfetto.dev, Trace Event Format.
TEST(Trace, EveryEvent_HasWhatItsPhaseNeeds) {
  std::set<std::string> names;
  for (const json& event : TraceOf({"--sync", "ddp", "--backend", "sharded"})) {
    ASSERT_TRUE(event["name"].is_string() && event["pid"].is_number_integer()) << event;
    names.insert(event["name"]);
    const std::string phase = event["ph"];
    if (phase == "M") {
      EXPECT_TRUE(event["args"].contains("name")) << event;
      continue;
    }
    ASSERT_THAT((std::set<std::string>{"X", "b", "e"}), Contains(phase)) << event;
    EXPECT_GE(event["ts"].get<double>(), 0) << event;
    EXPECT_TRUE(event["cat"].is_string() && event["tid"].is_number_integer()) << event;
    EXPECT_TRUE(phase == "X" ? event["dur"].is_number() : event["id"].is_number_integer()) << event;
  }
  for (const char* name : {"data", "forward", "loss", "backward", "optimizer", "fold bucket 0"}) {
    EXPECT_THAT(names, Contains(name));
  }
}

// Process W is the coordinator.
TEST(Trace, GatherScatter_SumsAreTheCoordinators) {
  bool summed = false;
  for (const json& event : TraceOf({"--sync", "gather-scatter", "--backend", "coordinator"})) {
    summed = summed || (event["pid"] == kWorkers && event.value("cat", "") == "aggregation");
  }
  EXPECT_TRUE(summed);
}

TEST(Trace, OneRankFailsBeforeItJoins_TheOthersAreInIt) {
  const TempDir dir;
  const auto launch = StartLaunch(
      2, TinyRun(4), {"--trace", dir.File("t"), "--rank-options", "1:--log-jsonl /no/such"});
  EXPECT_EQ(*launch->Wait(absl::Seconds(60)), 2) << launch->err();
  const json trace = json::parse(ReadFile(dir.File("t")), nullptr, false);
  ASSERT_TRUE(trace.is_object()) << launch->err();
  EXPECT_FALSE(trace["traceEvents"].empty());
}

TEST(Trace, Launch_BehindTheDashes_IsRefused) {
  const auto launch = StartLaunch(1, {"--trace", "x"});
  EXPECT_EQ(*launch->Wait(absl::Seconds(20)), 2);
  EXPECT_THAT(launch->err(), HasSubstr("put --trace before --"));
}

}  // namespace
}  // namespace gradwire::testing
