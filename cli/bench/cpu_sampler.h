#ifndef GRADWIRE_CLI_BENCH_CPU_SAMPLER_H_
#define GRADWIRE_CLI_BENCH_CPU_SAMPLER_H_

#include <sys/types.h>

#include <string>

#include "absl/types/optional.h"

namespace gradwire {

// CPU time that another process uses between the first and the last sample, to
// about 10 ms, from /proc. Samples are only taken while the process is `program`:
// a child that has yet to become it, or that drives it on another machine, is not
// mistaken for it.
class CpuSampler {
 public:
  explicit CpuSampler(std::string program) : program_(std::move(program)) {}

  void Sample(pid_t pid);
  // User and system time; none without a sample.
  absl::optional<double> seconds() const;

 private:
  const std::string program_;
  absl::optional<double> first_;
  double last_ = 0;
};

// User and system time, in clock ticks, in a line of /proc/PID/stat; none if the
// process is not `program` (its first 15 letters are compared) or the line is
// not of that form.
absl::optional<double> CpuTicks(const std::string& stat, const std::string& program);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_BENCH_CPU_SAMPLER_H_
