#ifndef GRADWIRE_CLI_BENCH_HOSTS_H_
#define GRADWIRE_CLI_BENCH_HOSTS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/environment.h"
#include "common/process/process.h"

namespace gradwire {

// Where the processes of a measurement run: on this machine, or on hosts that a
// program makes and drives:
//
//   PROGRAM up N RATE     make hosts 0 … N-1 with links of RATE (tc's notation)
//   PROGRAM run I CMD…    run CMD on host I, in the foreground
//   PROGRAM addr I        print host I's address
//   PROGRAM down          end and remove all hosts
//
// The destructor brings them down.
class Hosts {
 public:
  // `program` empty: this machine. `environment` is that of every command,
  // without GRADWIRE_* variables: those of this shell are not for a measurement.
  // `stopped` as JobGroup's.
  Hosts(std::string program, const Environment& environment, std::function<bool()> stopped);
  ~Hosts();
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  // Call once, first. Errors of JobGroup, naming the program.
  absl::Status Up(int count, const std::string& rate);

  bool local() const { return program_.empty(); }
  // Of host 0 … count - 1, after Up.
  const std::string& address(int host) const { return addresses_[host]; }
  // `argv` as a command that runs on a host.
  Command On(int host, std::vector<std::string> argv) const;

 private:
  absl::StatusOr<std::string> Ask(std::vector<std::string> args) const;

  const std::string program_;
  Environment environment_;
  const std::function<bool()> stopped_;
  bool up_ = false;
  std::vector<std::string> addresses_;
};

}  // namespace gradwire

#endif  // GRADWIRE_CLI_BENCH_HOSTS_H_
