#ifndef GRADWIRE_COMMON_TELEMETRY_TRACE_SPAN_H_
#define GRADWIRE_COMMON_TELEMETRY_TRACE_SPAN_H_

#include <functional>

#include "absl/time/time.h"
#include "common/base/ids.h"

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

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_TELEMETRY_TRACE_SPAN_H_
