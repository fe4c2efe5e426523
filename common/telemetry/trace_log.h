#ifndef GRADWIRE_COMMON_TELEMETRY_TRACE_LOG_H_
#define GRADWIRE_COMMON_TELEMETRY_TRACE_LOG_H_

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"

namespace gradwire {

// A piece of work of one rank, for a time line.
struct TraceSpan {
  enum class Lane {
    kCompute,      // on the trainer's thread; these do not overlap
    kTransfer,     // of `bucket`; those of one bucket do not overlap
    kAggregation,  // of `bucket`; these may overlap
  };
  Lane lane = Lane::kCompute;
  const char* name = "";  // such as "forward"; must be a literal
  Step step;
  Bucket bucket;  // for kTransfer and kAggregation
  absl::Time begin;
  absl::Time end;
};

// Receives spans when they end, on the thread that did the work; any thread, several at a time.
// Empty: spans are not needed and need not be timed.
using OnSpan = std::function<void(const TraceSpan&)>;

// The file of --trace: the work of one process over time, in the JSON array form of Chrome's Trace
// Event Format. It has one event per line, so that a file cut off by a crash can be read up to
// there. Threads: "compute", and one for each bucket's transfers; sums are asynchronous events.
// Times are of this host's clock, in microseconds; the last event "clock_offset" has the difference
// to the coordinator's clock. Thread-safe.
class TraceLog {
 public:
  // Empties the file if it exists. `process` is the number of this process in the time line, `name`
  // its name in viewers. InvalidArgument "cannot write PATH: …".
  static absl::StatusOr<std::unique_ptr<TraceLog>> Open(absl::string_view path, int process,
                                                        absl::string_view name);

  // Converts its times, of SteadyNow, to times of day.
  void Add(const TraceSpan& span);

  // Sets the coordinator's clock minus this one's, as known so far. Needed if the process is killed
  // before Close. Events added until now are then in the file, too.
  void SetClockOffset(absl::Duration offset);

  // Writes the remaining events. `clock_offset`: the coordinator's clock minus this one's. Call
  // once, at the end. Internal "cannot write PATH: …" if any write failed.
  absl::Status Close(absl::Duration clock_offset);

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  TraceLog(absl::string_view path, std::FILE* file, int process)
      : path_(path), process_(process), file_(file) {}
  void NameProcess(absl::string_view name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteClockOffset(absl::Duration offset, absl::string_view end)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NameThread(int thread, absl::string_view name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddComplete(const TraceSpan& span, int thread, absl::string_view name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddAsync(const TraceSpan& span) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Write(absl::string_view text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  const int process_;
  Mutex mutex_;
  std::unique_ptr<std::FILE, CloseFile> file_ ABSL_GUARDED_BY(mutex_);
  bool compute_named_ ABSL_GUARDED_BY(mutex_) = false;
  int buckets_named_ ABSL_GUARDED_BY(mutex_) = 0;  // buckets whose threads have names
  uint64_t last_async_ ABSL_GUARDED_BY(mutex_) = 0;
  int error_ ABSL_GUARDED_BY(mutex_) = 0;  // errno of the first failed write
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_TELEMETRY_TRACE_LOG_H_
