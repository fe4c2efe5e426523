#ifndef GRADWIRE_CLI_BENCH_BENCH_RUNNER_H_
#define GRADWIRE_CLI_BENCH_BENCH_RUNNER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "cli/bench/bench_options.h"
#include "cli/bench/hosts.h"
#include "cli/bench/job_group.h"
#include "cli/terminal/scratch_dir.h"
#include "common/base/environment.h"

namespace gradwire {

// Runs sets of ranks, one set after the other, on the hosts of a measurement:
// rank I on host I, a coordinator of its own for each set on host W.
class BenchRunner {
 public:
  // Program and arguments of a rank.
  using Argv = std::vector<std::string>;
  using ArgvOfRank = std::function<Argv(int rank)>;
  // Likewise, for ranks that meet at `address` ("host:port").
  using ArgvAtAddress = std::function<Argv(int rank, const std::string& address)>;

  // What the ranks of one set printed to stdout, by rank.
  struct Outputs {
    std::vector<std::string> ranks;
    // Of the coordinator, from before the ranks came until they had ended; none
    // if there was none, or on another machine.
    absl::optional<double> coordinator_cpu_seconds;
  };

  // `stopped` as JobGroup's.
  BenchRunner(const BenchOptions& options, const Environment& environment,
              std::function<bool()> stopped);

  // Makes the hosts, and looks for PyTorch if peers are to run. Once, first.
  //   FailedPrecondition  PyTorch is missing; says what to install
  //   errors of Hosts::Up
  absl::Status Prepare();

  // Each runs one set to its end. Errors of JobGroup; the deadline is
  // BenchOptions::timeout_seconds.
  absl::StatusOr<Outputs> RunWithCoordinator(const ArgvAtAddress& argv);
  absl::StatusOr<Outputs> RunAlone(const ArgvOfRank& argv);
  // Ranks of a script of bench/peers/, with "--rank R --world-size W --master
  // HOST:PORT" and then `args`.
  absl::StatusOr<Outputs> RunPeers(const std::string& script, const Argv& args);

  // Of PyTorch; "" without peers.
  const std::string& torch_version() const { return torch_version_; }
  // Path of a program that only other programs start.
  std::string LibexecPath(const std::string& program) const;
  std::string BinPath(const std::string& program) const;
  // Runs a program on this machine and gives its stdout.
  absl::StatusOr<std::string> RunHere(const std::string& name, Argv argv) const;

 private:
  absl::Status FindTorch();
  // Starts a coordinator and gives its address.
  absl::StatusOr<std::string> StartCoordinator(JobGroup* group);
  absl::StatusOr<std::string> AwaitAddress(JobGroup* group, const std::string& port_file);
  absl::Status StartRanks(const ArgvOfRank& argv, JobGroup* group);
  absl::Time Deadline() const;

  const BenchOptions& options_;
  const std::function<bool()> stopped_;
  const std::string program_dir_;
  ScratchDir scratch_;
  Hosts hosts_;
  std::string torch_version_;
};

}  // namespace gradwire

#endif  // GRADWIRE_CLI_BENCH_BENCH_RUNNER_H_
