#ifndef GRADWIRE_CLI_LAUNCH_SUPERVISOR_H_
#define GRADWIRE_CLI_LAUNCH_SUPERVISOR_H_

#include <signal.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "cli/terminal/terminal.h"
#include "common/process/process.h"
#include "common/process/process_set.h"

namespace gradwire {

// One of the programs that run together.
struct Member {
  std::string name;  // "coordinator", "rank 0": its lines begin with "[name] "
  Command command;
  bool serves = false;                           // it is done when all that do not serve have ended
  bool has_bar = false;                          // its stderr may carry a progress bar
  absl::Duration linger = absl::ZeroDuration();  // later told to end than others, unless by signal
};

// Runs members together, in the calling thread:
//
//   running ──all workers ended with 0──► winding up: 2 s, SIGTERM, 2 s, SIGKILL
//      ├─────a member ended otherwise───► failed: 0.3 s for the others to say why,
//      │                                   SIGTERM, SIGKILL at 2 s
//      └─────SIGINT, SIGTERM, SIGHUP────► stopped: passed on (SIGHUP as SIGTERM),
//                                          SIGKILL at 1.8 s or at the next signal
//
// A member that lingers has that much longer to wind up or after a failure. A signal
// ends that too; to one that comes while winding up all has gone well.
//
// From creation to destruction these signals are blocked in this thread, and
// SIGPIPE is ignored; at most one Supervisor in a process.
class Supervisor {
 public:
  // `terminal` outlives the supervisor.
  explicit Supervisor(Terminal* terminal);
  // Kills what still runs.
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Errors as ProcessSet::Start.
  absl::Status Start(const Member& member);
  // Passes output on until `ready` (asked every 10 ms). False if a member has
  // failed, a signal has come, none runs any more, or `timeout` is over.
  bool RunUntil(const std::function<bool()>& ready, absl::Duration timeout);
  // Ends all members, as if one had failed with `exit_code` for this cause.
  void Fail(int exit_code, std::string cause);
  // Until all members have ended; to be called once, when all are started. 0 if all is well, else
  // the exit code of the member that failed first, or 128 + the signal that came.
  int Run();

  // Who ended it and how; "" if all is well.
  const std::string& cause() const { return cause_; }

 private:
  struct Running;

  void HandleEvents(absl::Time until);
  void OnEnd(Running* member);
  void StopBySignal(int signal);
  void WindUp();
  void EndAfter(absl::Duration until_terminate, absl::Duration until_kill);
  bool ending() const { return !cause_.empty(); }

  Terminal* const terminal_;
  sigset_t old_mask_;
  struct sigaction old_pipe_action_;
  int signal_fd_ = -1;
  std::vector<std::unique_ptr<Running>> members_;
  ProcessSet processes_;
  std::string cause_;
  int exit_code_ = 0;
  bool all_started_ = false;  // in Run(): no member comes any more
  bool stopped_ = false;      // a signal has come
  bool winding_up_ = false;   // all workers ended with 0
};

}  // namespace gradwire

#endif  // GRADWIRE_CLI_LAUNCH_SUPERVISOR_H_
