#ifndef GRADWIRE_CLI_TRACE_TRACE_MERGE_H_
#define GRADWIRE_CLI_TRACE_TRACE_MERGE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace gradwire {

// One time line of the files that workers write with --trace: an object in Chrome's
// Trace Event Format, times in microseconds of the coordinator's clock since the
// first event. Of a file that ends within an event, what is before counts, as a
// worker that was killed leaves. FailedPrecondition names a file that is missing, or
// a line before the last that is no event.
absl::StatusOr<std::string> MergeTraces(const std::vector<std::string>& files);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TRACE_TRACE_MERGE_H_
