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
    kCompute,      // of the trainer's thread; these do not overlap
    kTransfer,     // of `bucket`; those of one bucket do not overlap
    kAggregation,  // of `bucket`; any may overlap
  };
  Lane lane = Lane::kCompute;
  const char* name = "";  // such as "forward"; lives for ever
  Step step;
  Bucket bucket;  // of kTransfer and kAggregation
  absl::Time begin;
  absl::Time end;
};

// Hears of spans when they end, on the thread that did the work; any thread, several
// at a time. Empty: nobody listens, and times need not be taken.
using OnSpan = std::function<void(const TraceSpan&)>;

// The file of --trace: what one process did when, in the JSON array form of Chrome's
// Trace Event Format, an event a line, so that a file which a crash cut off can be
// read up to there. Threads: "compute", and one for each bucket's transfers; sums are
// asynchronous events. Times are of this host's clock, in microseconds; the last
// event "clock_offset" has what is to be added for the coordinator's.
// Thread-safe.
class TraceLog {
 public:
  // Empties the file if it exists. `process` is the number of this process in the
  // time line, `name` what viewers show. InvalidArgument "cannot write PATH: …".
  static absl::StatusOr<std::unique_ptr<TraceLog>> Open(absl::string_view path, int process,
                                                        absl::string_view name);

  // Its times, of SteadyNow, become times of day.
  void Add(const TraceSpan& span);

  // The coordinator's clock minus this one's, as it is known so far: for a process
  // that is killed before Close. What was added until now is then in the file too.
  void SetClockOffset(absl::Duration offset);

  // Writes what is left. `clock_offset`: the coordinator's clock minus this one's.
  // To be called once, at the end. Internal "cannot write PATH: …" if any write failed.
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
  int buckets_named_ ABSL_GUARDED_BY(mutex_) = 0;  // whose threads have names
  uint64_t last_async_ ABSL_GUARDED_BY(mutex_) = 0;
  int error_ ABSL_GUARDED_BY(mutex_) = 0;  // errno of the first write that failed
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_TELEMETRY_TRACE_LOG_H_
