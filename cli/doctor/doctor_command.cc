#include "absl/strings/str_cat.h"
#include "cli/terminal/commands.h"
#include "common/base/environment.h"

namespace gradwire {
namespace {

constexpr char kDoctorProgram[] = "gradwire doctor";

constexpr char kDoctorDescription[] =
    "Checks what a run needs, on this machine or on all hosts of a --hostfile: versions, names,\n"
    "addresses, ports both ways, bandwidth and latency of each pair, clocks, instruction sets,\n"
    "threads, load, memory, disks and data. Reports what it found, what it expected and what to "
    "do.\n"
    "A line WARNING names what makes a run slow, but does not prevent it.";

constexpr char kDoctorFooter[] =
    "With a --hostfile it also measures the links, for about a second per host. Do not start it\n"
    "on hosts where a run is under way.\n"
    "\n"
    "Exit: 0 a run would work, 1 a problem was found, 2 wrong usage, 128+n by signal n.\n"
    "\n"
    "Example: gradwire doctor --hostfile hosts --data-dir /proj/cifar";

constexpr int kMaxPerHost = 1024;

struct DoctorOptions {
  std::string hostfile;
  int per_host = 0;
  std::string network;
  std::string data_dir;
  int port = 29400;
  double memory_gib = 1;
};

void AddAll(DoctorOptions* options, OptionParser* parser) {
  parser->Group("Doctor");
  parser->Add("hostfile", "FILE", "file with one ssh host per line",
              WithDefault(Text(&options->hostfile), "this machine"));
  parser->Add(
      "per-host", "N", "workers on each host of --hostfile",
      WithDefault(Integer(&options->per_host, 1, kMaxPerHost), "slots=N after the host, or 1"));
  parser->Add("network", "ADDR/BITS", "network over which the hosts reach each other",
              WithDefault(Text(&options->network), "the addresses of their names"));
  parser->Add("data-dir", "DIR", "folder with the data set, on every host",
              WithDefault(Text(&options->data_dir), "not checked"));
  parser->Add("port", "N",
              "with --hostfile: port of the coordinator, must be free and reachable from all hosts",
              Integer(&options->port, 1, 65535));
  parser->Add("memory-gib", "X", "free memory that each worker needs, in GiB",
              RealAbove(&options->memory_gib, 0));
  parser->Footer(kDoctorFooter);
}

absl::Status CheckNoHosts(const OptionParser& parser) {
  for (const char* option : {"per-host", "network", "port"}) {
    if (parser.texts().count(option) == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(parser.source(option).name, " needs a --hostfile"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Parsed<ScriptCall>> ParseDoctorOptions(const std::vector<std::string>& args,
                                                      const Environment& environment) {
  DoctorOptions options;
  OptionParser parser(kDoctorProgram, kDoctorDescription, {"doctor"});
  AddAll(&options, &parser);
  Parsed<ScriptCall> parsed;
  absl::Status status = parser.Parse(args, environment, {}, &parsed);
  if (status.ok() && options.hostfile.empty()) status = CheckNoHosts(parser);
  if (!status.ok()) return status;
  parsed.options.name = "cli/doctor/doctor.py";
  parsed.options.data = {{"program", absl::StrCat(ProgramDir(), "/gradwire")},
                         {"hostfile", options.hostfile},
                         {"per_host", options.per_host},
                         {"network", options.network},
                         {"data_dir", options.data_dir},
                         {"port", options.port},
                         {"memory_gib", options.memory_gib}};
  return parsed;
}

int DoctorCommand(const std::vector<std::string>& args, const Environment& environment) {
  return RunCommand(kDoctorProgram, ParseDoctorOptions(args, environment), environment);
}

}  // namespace gradwire
