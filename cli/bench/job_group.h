#ifndef GRADWIRE_CLI_BENCH_JOB_GROUP_H_
#define GRADWIRE_CLI_BENCH_JOB_GROUP_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/process/process.h"
#include "common/process/process_set.h"

namespace gradwire {

// A program whose output is wanted.
struct Job {
  std::string name;  // "rank 0", for messages
  Command command;
  bool serves = false;  // it runs until the others have ended, and prints nothing of use
};

// Runs programs together and keeps what they print, in the calling thread.
// The destructor kills what still runs. Not thread-safe.
class JobGroup {
 public:
  // `stopped` is asked about 20 times a second; true ends a wait with Cancelled.
  explicit JobGroup(std::function<bool()> stopped);
  ~JobGroup();
  JobGroup(const JobGroup&) = delete;
  JobGroup& operator=(const JobGroup&) = delete;

  // Errors as ProcessSet::Start.
  absl::Status Start(const Job& job);

  // Waits for `ready`, asked about 20 times a second. Errors:
  //   Internal          a job failed: how, and the end of what it wrote to stderr,
  //                     as of all that failed with it within a second
  //   DeadlineExceeded  names what still runs
  //   Cancelled         `stopped`
  absl::Status RunUntil(const std::function<bool()>& ready, absl::Time deadline);

  // Waits until all that do not serve have ended well, then ends those that do.
  // Gives what the former printed to stdout, in the order of their start.
  // Errors as RunUntil. `tick` is called about 20 times a second, and once when
  // the former have ended.
  absl::StatusOr<std::vector<std::string>> Finish(
      absl::Time deadline, const std::function<void()>& tick = [] {});

  // Of the job that was started as number `index`.
  pid_t pid(size_t index) const;

 private:
  struct Running;

  bool WorkersEnded() const;
  bool AnyFailed() const;
  std::string Failures() const;
  std::string StillRunning() const;
  void EndServers();

  const std::function<bool()> stopped_;
  std::vector<std::unique_ptr<Running>> jobs_;
  ProcessSet processes_;
};

// Runs one program to its end and gives its stdout; errors as JobGroup::RunUntil
// and ProcessSet::Start.
absl::StatusOr<std::string> RunJob(const Job& job, absl::Duration timeout,
                                   const std::function<bool()>& stopped);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_BENCH_JOB_GROUP_H_
