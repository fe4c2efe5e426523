#include "cli/status/status_command.h"

#include "absl/strings/str_cat.h"

namespace gradwire {
namespace {

constexpr char kProgram[] = "gradwire status";

constexpr char kDescription[] =
    "Shows what a running coordinator says of its run: ranks, step, phases of the last step,\n"
    "slowest rank, losses of workers. ADDRESS is the coordinator's --metrics, which gradwire\n"
    "launch says at its start; without it, 127.0.0.1:9400.";

constexpr char kFooter[] =
    "A coordinator with --http-token answers only with its --token-file.\n"
    "With --json nothing is left out; with --watch that is a line for each second. GRADWIRE_JSON\n"
    "is another program's, and not read here.\n"
    "\n"
    "Exit: 0 shown, or the run that was watched is over; 1 another program answers there;\n"
    "2 wrong usage; 75 nobody answers.";

absl::Status SetAddress(const std::vector<std::string>& addresses, std::string* coordinator) {
  if (addresses.empty()) return absl::OkStatus();
  if (addresses.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("got ", addresses.size(), " addresses, expected one HOST:PORT"));
  }
  return ConnectAddress(coordinator).set(addresses.front());
}

}  // namespace

absl::StatusOr<Parsed<ScriptCall>> ParseStatusOptions(const std::vector<std::string>& args,
                                                      const Environment& environment) {
  std::string coordinator = "127.0.0.1:9400";  // its --metrics
  bool watch = false;
  bool json = false;
  std::string token_file;
  OptionParser parser(kProgram, kDescription, {"status"});
  parser.Group("Status");
  parser.Add("watch", "true|false", "again each second, until the run ends or Ctrl-C",
             Switch(&watch));
  parser.Add("json", "true|false", "print what came, as JSON", Switch(&json));
  parser.Add("token-file", "FILE", "the run's, for a coordinator with --http-token",
             Text(&token_file));
  parser.TakeOperands("ADDRESS", "HOST:PORT of the coordinator's --metrics [127.0.0.1:9400]");
  parser.Footer(kFooter);
  Environment own = environment;
  own.erase(VariableOf("json"));
  Parsed<ScriptCall> parsed;
  absl::Status status = parser.Parse(args, own, {}, &parsed);
  if (status.ok() && parsed.print.empty()) status = SetAddress(parser.operands(), &coordinator);
  if (!status.ok()) return status;
  parsed.options.name = "cli/status/status.py";
  parsed.options.data = {
      {"coordinator", coordinator}, {"watch", watch}, {"json", json}, {"token_file", token_file}};
  return parsed;
}

int StatusCommand(const std::vector<std::string>& args, const Environment& environment) {
  return RunCommand(kProgram, ParseStatusOptions(args, environment), environment);
}

}  // namespace gradwire
