#include "common/telemetry/trace_log.h"

#include <cerrno>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/clock.h"
#include "common/base/output_file.h"

namespace gradwire {
namespace {

constexpr int kComputeThread = 1;
constexpr int kFirstBucketThread = 10;

double Microseconds(absl::Time time) { return static_cast<double>(absl::ToUnixNanos(time)) / 1000; }

}  // namespace

absl::StatusOr<std::unique_ptr<TraceLog>> TraceLog::Open(absl::string_view path, int process,
                                                         absl::string_view name) {
  std::FILE* const file = OpenOutput(path, "w");
  if (file == nullptr) return absl::InvalidArgumentError(CannotWrite(path, errno));
  auto log = absl::WrapUnique(new TraceLog(path, file, process));
  MutexLock lock(&log->mutex_);
  log->NameProcess(name);
  std::fflush(file);  // the file has at least this event after a crash
  return log;
}

void TraceLog::NameProcess(absl::string_view name) {
  Write(
      absl::StrFormat("[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":0,"
                      "\"args\":{\"name\":\"%s\"}},\n",
                      process_, name));
}

void TraceLog::NameThread(int thread, absl::string_view name) {
  Write(
      absl::StrFormat("{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,"
                      "\"args\":{\"name\":\"%s\"}},\n",
                      process_, thread, name));
}

void TraceLog::Add(const TraceSpan& steady) {
  TraceSpan span = steady;
  span.begin = ToTimeOfDay(steady.begin);
  span.end = span.begin + (steady.end - steady.begin);
  MutexLock lock(&mutex_);
  switch (span.lane) {
    case TraceSpan::Lane::kCompute:
      if (!std::exchange(compute_named_, true)) NameThread(kComputeThread, "compute");
      return AddComplete(span, kComputeThread, span.name);
    case TraceSpan::Lane::kTransfer: {
      const int bucket = span.bucket.value();
      for (; buckets_named_ <= bucket; ++buckets_named_) {
        NameThread(kFirstBucketThread + buckets_named_,
                   absl::StrCat("transfer of bucket ", buckets_named_));
      }
      return AddComplete(span, kFirstBucketThread + bucket, absl::StrCat(span.name, " ", bucket));
    }
    case TraceSpan::Lane::kAggregation:
      return AddAsync(span);
  }
}

void TraceLog::AddComplete(const TraceSpan& span, int thread, absl::string_view name) {
  const char* category = span.lane == TraceSpan::Lane::kCompute ? "compute" : "transfer";
  Write(
      absl::StrFormat("{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,"
                      "\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"step\":%d}},\n",
                      name, category, process_, thread, Microseconds(span.begin),
                      absl::ToDoubleMicroseconds(span.end - span.begin), span.step.value()));
}

void TraceLog::AddAsync(const TraceSpan& span) {
  ++last_async_;
  // Viewers distinguish asynchronous events only by their ids, across all processes.
  const uint64_t id = (static_cast<uint64_t>(process_) << 32) + last_async_;
  for (const char phase : {'b', 'e'}) {
    Write(
        absl::StrFormat("{\"name\":\"%s bucket %d\",\"cat\":\"aggregation\",\"ph\":\"%c\","
                        "\"pid\":%d,\"tid\":0,\"id\":%d,\"ts\":%.3f,\"args\":{\"step\":%d}},\n",
                        span.name, span.bucket.value(), phase, process_, id,
                        Microseconds(phase == 'b' ? span.begin : span.end), span.step.value()));
  }
}

void TraceLog::Write(absl::string_view text) {
  if (error_ != 0 || file_ == nullptr) return;
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size()) error_ = errno;
}

void TraceLog::WriteClockOffset(absl::Duration offset, absl::string_view end) {
  Write(
      absl::StrFormat("{\"name\":\"clock_offset\",\"ph\":\"M\",\"pid\":%d,\"tid\":0,"
                      "\"args\":{\"microseconds\":%.3f}}%s\n",
                      process_, absl::ToDoubleMicroseconds(offset), end));
}

void TraceLog::SetClockOffset(absl::Duration offset) {
  MutexLock lock(&mutex_);
  WriteClockOffset(offset, ",");
  if (file_ != nullptr) std::fflush(file_.get());
}

absl::Status TraceLog::Close(absl::Duration clock_offset) {
  MutexLock lock(&mutex_);
  WriteClockOffset(clock_offset, "\n]");
  if (std::fclose(file_.release()) != 0 && error_ == 0) error_ = errno;
  return error_ == 0 ? absl::OkStatus() : absl::InternalError(CannotWrite(path_, error_));
}

}  // namespace gradwire
