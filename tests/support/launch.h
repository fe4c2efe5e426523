#ifndef GRADWIRE_TESTS_SUPPORT_LAUNCH_H_
#define GRADWIRE_TESTS_SUPPORT_LAUNCH_H_

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace gradwire::testing {

using Options = std::vector<std::string>;

// One list after the other.
Options operator+(Options first, const Options& second);

// Options of a worker for a short run on made-up data: VGG-11, one thread,
// `iterations` iterations of batch 4.
Options TinyRun(int iterations);

// A coordinator that listens on free ports of 127.0.0.1.
class RunningCoordinator {
 public:
  // Fails the test and has empty addresses if it does not come up in time.
  explicit RunningCoordinator(int world_size, const Options& more = {});

  Process& process() { return *process_; }
  const std::string& address() const { return address_; }
  const std::string& metrics_address() const { return metrics_address_; }

  // Waits until all ranks have taken part in step `step`, as its metrics say.
  // DeadlineExceeded if that takes longer than a minute.
  absl::Status WaitForStep(int step) const;

 private:
  TempDir dir_;
  std::unique_ptr<Process> process_;
  std::string address_;
  std::string metrics_address_;
};

// A worker of that coordinator. `rank` -1: assigned.
std::unique_ptr<Process> StartWorker(const std::string& coordinator, int rank,
                                     const Options& options);

// Value behind "NAME=" in a coordinator's port file, or empty.
std::string PortFileValue(const std::string& text, const std::string& name);

struct ProgramResult {
  int exit_code = -1;
  std::string out;
  std::string err;
};

// `gradwire` with these arguments, to its end. Fails the test if it takes too long.
ProgramResult RunGradwire(const Options& args, absl::Duration timeout = absl::Seconds(240));

struct LaunchResult {
  int exit_code = -1;
  std::string out;
  std::string err;
  nlohmann::json ranks;        // of the summary: an array with one object per rank
  nlohmann::json coordinator;  // likewise: what it did in an iteration, or null

  // Values that the ranks give for `key` in their summaries; one if they agree.
  std::set<std::string> Distinct(const std::string& key) const;
};

// `gradwire launch` on free ports, to its end. Fails the test if it takes too long.
LaunchResult RunLaunch(int workers, const Options& worker_options,
                       const Options& coordinator_options = {},
                       absl::Duration timeout = absl::Seconds(120));
// The `parameters_sha256` that all ranks of such a run end with; empty, with the test failed, if
// the run failed or they differ.
std::string HashOf(int workers, const Options& worker_options,
                   const Options& coordinator_options = {});
// As RunLaunch, without waiting; no summary.
std::unique_ptr<Process> StartLaunch(int workers, const Options& worker_options,
                                     const Options& coordinator_options = {});

}  // namespace gradwire::testing

#endif  // GRADWIRE_TESTS_SUPPORT_LAUNCH_H_
