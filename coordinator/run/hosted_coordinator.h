#ifndef GRADWIRE_COORDINATOR_RUN_HOSTED_COORDINATOR_H_
#define GRADWIRE_COORDINATOR_RUN_HOSTED_COORDINATOR_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/environment.h"
#include "coordinator/run/coordinator.h"

namespace gradwire {

// A coordinator on threads of a process that is one of its run's workers, so that a
// launcher which starts W equal processes (torchrun, mpirun, srun) needs nothing else.
// Thread-safe.
class HostedCoordinator {
 public:
  struct Options {
    std::string address;  // "host:port" that the workers connect to; port 0 picks one
    int world_size = 1;
    // "host:port" or "off": live page and metrics. Empty: 127.0.0.1:9400, and if that is
    // taken another port.
    std::string metrics;
    SecurityOptions security = {};
  };

  // Serves at `options.address`: there alone if the host is numeric or localhost; on all
  // addresses if it is another name, which other hosts may resolve in another way. Leases,
  // timeouts, chunk size, linger and port file come from `environment` (GRADWIRE_…), as for
  // gradwire-coordinator. Null if somebody else listens there, or if it is an address of another
  // host. Errors as Coordinator::Start, and those of options in the environment.
  static absl::StatusOr<std::unique_ptr<HostedCoordinator>> StartUnlessServed(
      const Options& options, const Environment& environment);

  // Ends the run, if it is not over.
  ~HostedCoordinator();

  // "host:port" where this process reaches it.
  const std::string& address() const { return address_; }
  // "host:port"; empty if they are not served.
  std::string metrics_address() const { return coordinator_->metrics_address(); }

  // Waits until all workers have left, or the run has failed; then, as the options say,
  // until who watches the page has seen how it ended.
  void AwaitEnd();
  // Ends the run, if it is not over, with `reason` to all workers; AwaitEnd returns then.
  void Stop(absl::string_view reason) { coordinator_->Stop(reason); }

 private:
  HostedCoordinator(std::string address, std::unique_ptr<Coordinator> coordinator);

  const std::string address_;
  const std::unique_ptr<Coordinator> coordinator_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_RUN_HOSTED_COORDINATOR_H_
