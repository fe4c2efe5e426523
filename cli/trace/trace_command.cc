#include "cli/trace/trace_command.h"

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "cli/trace/trace_merge.h"
#include "common/base/output_file.h"
#include "common/base/status_util.h"
#include "common/options/option_parser.h"

namespace gradwire {
namespace {

constexpr char kProgram[] = "gradwire trace";

constexpr char kDescription[] =
    "Merges the files that workers and their coordinator wrote with --trace into one time line\n"
    "on the coordinator's clock.";

constexpr char kFooter[] =
    "Example: gradwire trace --out trace.json coordinator.json rank0.json rank1.json";

struct TraceOptions {
  std::string out;
  std::vector<std::string> files;
};

absl::Status Check(const TraceOptions& options) {
  if (options.files.empty()) {
    return absl::InvalidArgumentError("no FILE is named; workers write one with --trace");
  }
  if (options.out.empty()) return absl::InvalidArgumentError("--out FILE is missing");
  if (std::count(options.files.begin(), options.files.end(), options.out) > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--out: '", options.out, "' is one of the files, and would be overwritten"));
  }
  return Annotate(CheckWritable(options.out), "--out");
}

absl::StatusOr<Parsed<TraceOptions>> ParseTraceOptions(const std::vector<std::string>& args,
                                                       const Environment& environment) {
  Parsed<TraceOptions> parsed;
  OptionParser parser(kProgram, kDescription, {"trace"});
  parser.Group("Trace");
  parser.Add("out", "FILE", "the time line, in Chrome's trace format (for Perfetto)",
             Text(&parsed.options.out));
  parser.TakeOperands("FILE", "what one process wrote");
  parser.Footer(kFooter);
  absl::Status status = parser.Parse(args, environment, {}, &parsed);
  if (!status.ok()) return status;
  if (!parsed.print.empty()) return parsed;
  parsed.options.files = parser.operands();
  status = Check(parsed.options);
  if (!status.ok()) return status;
  return parsed;
}

absl::Status Merge(const TraceOptions& options) {
  const absl::StatusOr<std::string> merged = MergeTraces(options.files);
  return merged.ok() ? ReplaceFile(options.out, *merged) : merged.status();
}

}  // namespace

int TraceCommand(const std::vector<std::string>& args, const Environment& environment) {
  const absl::StatusOr<Parsed<TraceOptions>> parsed = ParseTraceOptions(args, environment);
  if (const absl::optional<int> exit_code = EarlyExit(kProgram, parsed)) return *exit_code;
  const absl::Status status = Merge(parsed->options);
  if (status.ok()) return kExitDone;
  std::cerr << kProgram << ": " << status.message() << std::endl;
  return kExitFailed;
}

}  // namespace gradwire
