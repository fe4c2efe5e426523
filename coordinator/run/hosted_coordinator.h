#ifndef GRADWIRE_COORDINATOR_RUN_HOSTED_COORDINATOR_H_
#define GRADWIRE_COORDINATOR_RUN_HOSTED_COORDINATOR_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/environment.h"
#include "coordinator/run/coordinator.h"

namespace gradwire {

// A coordinator on threads of one of its run's workers, so that a launcher that starts equal
// processes (torchrun, mpirun, srun) needs no other program. Thread-safe.
class HostedCoordinator {
 public:
  struct Options {
    std::string address;  // "host:port" for the workers; port 0 selects a free one
    int world_size = 1;
    // "host:port" of live page and metrics, or "off". Empty: 127.0.0.1:9400, or a free port if that
    // is taken.
    std::string metrics;
    SecurityOptions security = {};
  };

  // Listens only on `options.address` if its host is numeric or localhost. If it is another name,
  // which other hosts may resolve in another way, listens on all addresses. Leases, timeouts, chunk
  // size, linger time and port file come from `environment` (GRADWIRE_…), as for
  // gradwire-coordinator. Null if another process already listens there, or if the address belongs
  // to another host. Errors: as for Coordinator::Start and of options in the environment.
  static absl::StatusOr<std::unique_ptr<HostedCoordinator>> StartUnlessServed(
      const Options& options, const Environment& environment);

  // Ends the run, if it is not over.
  ~HostedCoordinator();

  // "host:port" by which this process reaches the coordinator.
  const std::string& address() const { return address_; }
  // "host:port"; empty if they are not served.
  std::string metrics_address() const { return coordinator_->metrics_address(); }

  // Returns whether the run has not begun, because workers are missing.
  bool IsWaiting() const { return coordinator_->Status().state() == "waiting"; }

  // Blocks until all workers have left or the run has failed; then, as the options say, until an
  // open live page has seen the end.
  void AwaitEnd();
  // Ends the run, if it is not over, and sends `reason` to all workers; AwaitEnd then returns.
  void Stop(absl::string_view reason) { coordinator_->Stop(reason); }

 private:
  HostedCoordinator(std::string address, std::unique_ptr<Coordinator> coordinator);

  const std::string address_;
  const std::unique_ptr<Coordinator> coordinator_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_RUN_HOSTED_COORDINATOR_H_
