#include "tests/support/launch.h"

#include <gtest/gtest.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "tests/support/sockets.h"

namespace gradwire::testing {
namespace {

// Of a metric without labels; -1 if it is not there.
double MetricValue(const std::string& text, const std::string& name) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    double value = 0;
    if (absl::ConsumePrefix(&line, absl::StrCat(name, " ")) && absl::SimpleAtod(line, &value)) {
      return value;
    }
  }
  return -1;
}

constexpr absl::Duration kStartUp = absl::Seconds(20);

Options FreePorts() { return {"--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"}; }

Options LaunchArguments(int workers, const Options& worker_options,
                        const Options& coordinator_options) {
  return Options{"launch", "--workers", absl::StrCat(workers)} + FreePorts() + coordinator_options +
         Options{"--"} + worker_options;
}

}  // namespace

Options operator+(Options first, const Options& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

Options TinyRun(int iterations) {
  return {
      "--dataset", "synthetic", "--batch-size", "4",    "--iterations",  absl::StrCat(iterations),
      "--threads", "1",         "--lr",         "0.01", "--print-every", "1"};
}

std::string PortFileValue(const std::string& text, const std::string& name) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::ConsumePrefix(&line, absl::StrCat(name, "="))) return std::string(line);
  }
  return "";
}

RunningCoordinator::RunningCoordinator(int world_size, const Options& more) {
  const std::string ports = dir_.File("ports");
  process_ = Process::Start("gradwire-coordinator",
                            Options{"--world-size", absl::StrCat(world_size)} + FreePorts() +
                                Options{"--port-file", ports} + more);
  const absl::Time deadline = SteadyNow() + kStartUp;
  while (ReadFile(ports).empty() && IsRunning(process_->pid()) && SteadyNow() < deadline) {
    absl::SleepFor(absl::Milliseconds(2));
  }
  EXPECT_NE(ReadFile(ports), "") << process_->err();
  address_ = PortFileValue(ReadFile(ports), "grpc");
  metrics_address_ = PortFileValue(ReadFile(ports), "metrics");
}

absl::Status RunningCoordinator::WaitForStep(int step) const {
  const absl::Time deadline = SteadyNow() + absl::Minutes(1);
  double now = -1;
  while (now < step) {
    if (SteadyNow() > deadline) {
      return absl::DeadlineExceededError(absl::StrCat("step ", now, " of ", step));
    }
    absl::SleepFor(absl::Milliseconds(5));
    const auto metrics = HttpGet(metrics_address_, "/metrics");
    if (metrics.ok()) now = MetricValue(metrics->body, "gradwire_step");
  }
  return absl::OkStatus();
}

std::unique_ptr<Process> StartWorker(const std::string& coordinator, int rank,
                                     const Options& options) {
  Options all = Options{"--coordinator", coordinator};
  if (rank >= 0) all = all + Options{"--rank", absl::StrCat(rank)};
  return Process::Start("gradwire-worker", all + options);
}

std::set<std::string> LaunchResult::Distinct(const std::string& key) const {
  std::set<std::string> values;
  for (const auto& rank : ranks) values.insert(rank.value(key, nlohmann::json()).dump());
  return values;
}

ProgramResult RunGradwire(const Options& args, absl::Duration timeout) {
  const auto process = Process::Start("gradwire", args);
  const auto exit_code = process->Wait(timeout);
  EXPECT_TRUE(exit_code.ok()) << exit_code.status();
  return {exit_code.value_or(-1), process->out(), process->err()};
}

LaunchResult RunLaunch(int workers, const Options& worker_options,
                       const Options& coordinator_options, absl::Duration timeout) {
  const TempDir dir;
  const std::string summary = dir.File("summary.json");
  const auto launch =
      StartLaunch(workers, worker_options, coordinator_options + Options{"--summary", summary});
  const auto code = launch->Wait(timeout);
  EXPECT_TRUE(code.ok()) << code.status();
  LaunchResult result{code.value_or(-1), launch->out(), launch->err(), {}, {}};
  const auto json = nlohmann::json::parse(ReadFile(summary), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return result;
  result.ranks = json.value("ranks", nlohmann::json::array());
  result.coordinator = json.value("coordinator", nlohmann::json());
  return result;
}

std::string HashOf(int workers, const Options& worker_options, const Options& coordinator_options) {
  const LaunchResult run = RunLaunch(workers, worker_options, coordinator_options);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_FALSE(run.ranks.empty());
  const std::set<std::string> hashes = run.Distinct("parameters_sha256");
  EXPECT_EQ(hashes.size(), 1u);
  return hashes.size() == 1 ? *hashes.begin() : "";
}

std::unique_ptr<Process> StartLaunch(int workers, const Options& worker_options,
                                     const Options& coordinator_options) {
  return Process::Start("gradwire", LaunchArguments(workers, worker_options, coordinator_options));
}

}  // namespace gradwire::testing
