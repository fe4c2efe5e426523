#include "cli/terminal/commands.h"
#include "cli/terminal/script.h"

namespace gradwire {
namespace {

constexpr char kTraceProgram[] = "gradwire trace";

constexpr char kTraceDescription[] =
    "Merges the files that workers and their coordinator wrote with --trace into one time line\n"
    "on the coordinator's clock.";

constexpr char kTraceFooter[] =
    "Example: gradwire trace --out trace.json coordinator.json rank0.json rank1.json";

absl::StatusOr<Parsed<ScriptCall>> ParseTraceOptions(const std::vector<std::string>& args,
                                                     const Environment& environment) {
  std::string out;
  OptionParser parser(kTraceProgram, kTraceDescription, {"trace"});
  parser.Group("Trace");
  parser.Add("out", "FILE", "merged time line, in Chrome's trace format (for Perfetto)",
             Text(&out));
  parser.TakeOperands("FILE", "file that one process wrote with --trace");
  parser.Footer(kTraceFooter);
  Parsed<ScriptCall> parsed;
  absl::Status status = parser.Parse(args, environment, {}, &parsed);
  if (!status.ok()) return status;
  parsed.options.name = "cli/trace/trace.py";
  parsed.options.operands = parser.operands();
  parsed.options.operands.insert(parsed.options.operands.begin(), out);
  return parsed;
}

}  // namespace

int TraceCommand(const std::vector<std::string>& args, const Environment& environment) {
  return RunCommand(kTraceProgram, ParseTraceOptions(args, environment), environment);
}

}  // namespace gradwire
