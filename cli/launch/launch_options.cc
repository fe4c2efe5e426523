#include "cli/launch/launch_options.h"

#include <unistd.h>

#include <CLI/StringTools.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/output_file.h"
#include "common/base/status_util.h"
#include "common/options/security_options.h"
#include "coordinator/run/coordinator_options.h"
#include "worker/options/traits.h"
#include "worker/options/worker_option_parser.h"

namespace gradwire {
namespace {

constexpr int kMaxWorkers = 1024;
constexpr int kMaxRanks = 65535;

constexpr char kLaunchProgram[] = "gradwire launch";

constexpr char kLaunchDescription[] =
    "Runs a coordinator and N workers on this machine, or on the hosts of a --hostfile, and waits\n"
    "until they end. The arguments after -- are the workers' options (gradwire-worker --help), or\n"
    "the arguments of --program.";

constexpr char kLaunchFooter[] =
    "Each option can also be set as GRADWIRE_NAME in the environment or as a key of the --config\n"
    "file, in its section [launch] or [coordinator]. Workers read section [worker] of that file.\n"
    "GRADWIRE_LISTEN and GRADWIRE_METRICS set the coordinator's options here.\n"
    "Each worker adds its first rank to the port of its --metrics and --listen. In --log-jsonl\n"
    "FILE, {rank} stands for the rank. Without {rank}, run.jsonl becomes run.rank0.jsonl,\n"
    "run.rank1.jsonl ...\n"
    "With '-- --sync none', a single worker runs without a coordinator.\n"
    "A --program finds its place in the run in GRADWIRE_RANK, GRADWIRE_WORLD_SIZE,\n"
    "GRADWIRE_LOCAL_RANK, GRADWIRE_LOCAL_WORLD_SIZE and GRADWIRE_COORDINATOR, and in torchrun's\n"
    "RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT.\n"
    "With a --hostfile, workers fill its hosts in order. The coordinator runs on the first host.\n"
    "Summaries, --trace and --log-jsonl files come back to this machine.\n"
    "All calls carry the token of --token-file or, without it, a random token.\n"
    "If a worker is lost, the others continue with its ranks if they can (--on-loss). If they\n"
    "cannot, or if a worker has a wrong option, all processes end. The exit code is then that\n"
    "worker's, 128+n by signal n.\n"
    "\n"
    "Example: gradwire launch --workers 2 -- --sync gather-scatter --epochs 1 --evaluate\n"
    "         gradwire launch --workers 4 --program ./train -- --its options\n"
    "         gradwire launch --hostfile hosts -- --dataset cifar10 --data-dir /proj/cifar";

// Worker options that the launcher sets itself.
const char* const kOwnOptions[] = {"rank",      "world-size",       "coordinator", "master-ip",
                                   "num-nodes", "local-world-size", "token-file"};

// Options that need a --hostfile.
const char* const kOfHosts[] = {"per-host", "network"};

// Options that need files written by gradwire-worker.
const char* const kOfWorkers[] = {"summary", "trace", "link-gbit"};

// `where`: the place of `worker_args`, " after --" or "".
absl::Status CheckNotOurs(const std::vector<std::string>& worker_args, absl::string_view where) {
  for (const std::string& arg : worker_args) {
    const std::string option = arg.substr(0, arg.find('='));
    for (const char* collected : {"--summary", "--trace"}) {
      if (option != collected) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "put ", collected, " before --: launch collects the output of all ranks in one file"));
    }
    for (const char* own : kOwnOptions) {
      if (option != absl::StrCat("--", own)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(option, where, ": gradwire launch sets it for each worker"));
    }
  }
  return absl::OkStatus();
}

OptionValue RankOptions(std::map<int, std::vector<std::string>>* field) {
  OptionValue value;
  value.set = [=](const std::string& text) {
    auto parsed = ParseRankOptions(text);
    if (!parsed.ok()) return parsed.status();
    *field = *std::move(parsed);
    return absl::OkStatus();
  };
  return value;
}

void AddAll(LaunchOptions* options, OptionParser* parser) {
  parser->Group("Launch");
  parser->Add("workers", "N", "number of workers to start",
              WithDefault(Integer(&options->workers, 1, kMaxWorkers),
                          "1, or as many as the hosts have room for"));
  parser->Add("world-size", "W", "number of ranks, divided evenly among the workers",
              WithDefault(Integer(&options->world_size, 1, kMaxRanks), "same as --workers"));
  parser->Add("hostfile", "FILE", "file with one ssh host per line",
              WithDefault(Text(&options->hostfile), "this machine"));
  parser->Add(
      "per-host", "N", "workers on each host of --hostfile",
      WithDefault(Integer(&options->per_host, 1, kMaxWorkers), "slots=N after the host, or 1"));
  parser->Add("network", "ADDR/BITS", "network over which the hosts reach each other",
              WithDefault(Text(&options->network), "the addresses of their names"));
  parser->Add("program", "FILE", "program to start instead of gradwire-worker",
              WithDefault(Text(&options->program), "gradwire-worker"));
  parser->Add("summary", "FILE", "write all summaries: {\"ranks\": [...], \"coordinator\": {...}}",
              Text(&options->summary));
  parser->Add("trace", "FILE",
              "write one time line of all ranks, in Chrome's trace format (for Perfetto)",
              Text(&options->trace));
  parser->Add("link-gbit", "X", "speed of every link in Gbit/s, for comparison in the last table",
              WithDefault(RealAbove(&options->link_gbit, 0), "unknown"));
  parser->Add("rank-options", "R:OPTIONS[;...]",
              "extra options for single ranks (1:--loaders 2),\n"
              "except those that gradwire-worker --help marks (all ranks)",
              RankOptions(&options->rank_options));
  options->coordinator.listen = "127.0.0.1:0";
  options->coordinator.metrics = "127.0.0.1:0";
  AddCoordinatorOptions(&options->coordinator, parser);
  parser->Footer(kLaunchFooter);
}

// Refuses a --config that only this process can read, or only once: the workers read it again.
absl::Status CheckConfig(const Parsed<LaunchOptions>& parsed) {
  const std::string& path = parsed.options.config;
  std::error_code ignored;
  const bool is_own = OwnDescriptor(path).has_value() || path == "/dev/stdin";
  if (!is_own && !std::filesystem::is_fifo(path, ignored)) return absl::OkStatus();
  return Unexpected(parsed.sources.at("config").name, absl::StrCat("'", path, "'"),
                    "a file with a name of its own, because the workers read it again");
}

absl::Status CheckNoHosts(const Parsed<LaunchOptions>& parsed) {
  for (const char* option : kOfHosts) {
    if (parsed.texts.count(option) == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(parsed.sources.at(option).name, " needs a --hostfile"));
  }
  return absl::OkStatus();
}

absl::Status TakeHosts(Parsed<LaunchOptions>* parsed) {
  LaunchOptions& options = parsed->options;
  if (options.hostfile.empty()) return CheckNoHosts(*parsed);
  std::ostringstream text;
  text << std::ifstream(options.hostfile).rdbuf();
  // The script reads the file again and reports its errors.
  const int places = CountPlaces(text.str(), options.per_host);
  if (parsed->texts.count("workers") == 0) options.workers = std::max(1, places);
  if (places == 0 || options.workers <= std::min(places, kMaxWorkers)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--workers: got ", options.workers, ", but the hosts of ", options.hostfile,
      " have room for ", places, " (set slots=N in it, or --per-host; at most ", kMaxWorkers, ")"));
}

// The environment of the only rank of a run: the check of its options does not need the others.
Environment AloneEnvironment(const Environment& environment, const std::string& config) {
  Environment alone = MembersEnvironment(environment, config);
  alone[VariableOf("coordinator")] = "127.0.0.1:29400";
  alone[VariableOf("rank")] = "0";
  alone[VariableOf("world-size")] = "1";
  return alone;
}

absl::Status CheckRanks(const LaunchOptions& options) {
  if (options.rank_options.empty()) return absl::OkStatus();
  const int last = options.rank_options.rbegin()->first;
  if (last < options.world_size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--rank-options: got rank ", last, ", expected one from 0 to ", options.world_size - 1));
}

// InvalidArgument if a rank with the options `mine` cannot join ranks with the options `all`.
absl::Status CheckAgreement(const WorkerOptions& mine, const WorkerOptions& all) {
  const std::map<std::string, AgreedValue> expected = AgreedValues(all);
  for (const auto& [name, got] : AgreedValues(mine)) {
    if (got.text == expected.at(name).text) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "got --", name, " '", got.shown, "', expected '", expected.at(name).shown,
        "', because all ranks must share --", name, "; put it after -- for all ranks"));
  }
  return absl::OkStatus();
}

absl::Status CheckOptionsOfRank(int rank, const std::vector<std::string>& further,
                                const LaunchOptions& options, const Environment& environment) {
  if (absl::Status ours = CheckNotOurs(further, ""); !ours.ok()) return ours;
  Environment place = MembersEnvironment(environment, options.config);
  place[VariableOf("rank")] = absl::StrCat(rank);
  place[VariableOf("world-size")] = absl::StrCat(options.world_size);
  std::vector<std::string> args = options.worker_args;
  const auto all = ParseWorkerOptions(args, place);
  if (!all.ok()) return all.status();
  args.insert(args.end(), further.begin(), further.end());
  const auto mine = ParseWorkerOptions(args, place);
  if (!mine.ok()) return mine.status();
  return CheckAgreement(mine->options, all->options);
}

absl::Status CheckRankOptions(const LaunchOptions& options, const Environment& environment) {
  for (const auto& [rank, further] : options.rank_options) {
    const absl::Status status = CheckOptionsOfRank(rank, further, options, environment);
    if (!status.ok()) return Annotate(status, absl::StrCat("--rank-options: rank ", rank));
  }
  return absl::OkStatus();
}

absl::Status CheckAlone(const LaunchOptions& options) {
  if (TraitsOfSync(options.worker.sync).averages || options.world_size == 1) {
    return absl::OkStatus();
  }
  const std::string cause = options.workers > 1
                                ? absl::StrCat("--workers is ", options.workers)
                                : absl::StrCat("--world-size is ", options.world_size);
  return absl::InvalidArgumentError(
      absl::StrCat("--sync ", options.worker.sync, " is for a single worker, but ", cause,
                   "; without averaging, each worker would train the same model alone"));
}

absl::Status CheckKeepsState(const LaunchOptions& options) {
  if (options.coordinator.run_dir.empty() || TraitsOfSync(options.worker.sync).averages) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--run-dir: got --sync ", options.worker.sync,
                   ", expected a sync that averages, because the coordinator keeps checkpoints"));
}

// Refuses flags of the coordinator if none starts, except addresses, which do no harm: so a script
// can give them to each of its runs. The environment and the file may serve other runs, too, so
// their values are ignored.
absl::Status CheckCoordinates(const Parsed<LaunchOptions>& parsed) {
  const LaunchOptions& options = parsed.options;
  if (TraitsOfSync(options.worker.sync).averages) return absl::OkStatus();
  for (const auto& [name, text] : options.coordinator_texts) {
    if (name == "world-size" || name == "listen" || name == "metrics") continue;
    if (parsed.sources.at(name).layer != Layer::kFlag) continue;
    return Unexpected(parsed.sources.at(name).name, absl::StrCat("--sync ", options.worker.sync),
                      "a sync that averages, because it is an option of the coordinator, and this "
                      "run has none");
  }
  return absl::OkStatus();
}

// Refuses certificates that only the workers have: they could not reach the coordinator. `sources`:
// of their options.
absl::Status CheckTlsOfAll(const LaunchOptions& options, const Sources& sources) {
  const bool reaches = !TraitsOfSync(options.worker.sync).averages ||
                       !WantsTls(options.worker.security) || WantsTls(options.coordinator.security);
  if (reaches) return absl::OkStatus();
  for (const char* name : {"tls-cert", "tls-key", "tls-ca"}) {
    const Source& source = sources.at(name);
    if (source.layer == Layer::kDefault) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(source.name,
                     ": got it for the workers alone, expected it for all programs of "
                     "the run: before --, or in section [launch] of the file"));
  }
  return absl::OkStatus();
}

absl::Status TakeWorldSize(LaunchOptions* options) {
  if (options->world_size == 0) options->world_size = options->workers;
  if (options->world_size >= options->workers) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--world-size: got ", options->world_size,
                                                 ", expected at least one rank for each of ",
                                                 options->workers, " workers"));
}

absl::Status CheckProgram(const Parsed<LaunchOptions>& parsed) {
  const LaunchOptions& options = parsed.options;
  if (options.world_size != options.workers) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--program: got --world-size ", options.world_size, ", expected ", options.workers,
        ", the same as --workers, because a program carries one rank"));
  }
  const std::string& program = options.program;
  std::error_code ignored;
  const bool is_directory = std::filesystem::is_directory(program, ignored);
  if (is_directory || access(program.c_str(), X_OK) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--program: cannot run '", program, "': ", std::strerror(is_directory ? EISDIR : errno)));
  }
  for (const char* option : kOfWorkers) {
    if (parsed.texts.count(option) == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(parsed.sources.at(option).name,
                     " with --program: it needs the files that gradwire-worker writes at its end"));
  }
  return absl::OkStatus();
}

// Finds options of the launcher that stand after --.
absl::Status CheckPlaces(const std::vector<std::string>& worker_args,
                         const OptionParser& launcher) {
  const std::vector<std::string> of_workers = WorkerOptionNames();
  for (const std::string& arg : worker_args) {
    const std::string name = arg.substr(0, arg.find('='));
    for (const auto& [own, row] : launcher.rows()) {
      if (name != absl::StrCat("--", own) || absl::c_linear_search(of_workers, own)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(name, " is an option of gradwire launch: put it before --"));
    }
  }
  return absl::OkStatus();
}

absl::Status ParseWorkers(const OptionParser& launcher, const Environment& environment,
                          Parsed<LaunchOptions>* parsed) {
  LaunchOptions& options = parsed->options;
  absl::Status status = TakeHosts(parsed);
  if (status.ok()) status = TakeWorldSize(&options);
  if (status.ok()) status = CheckRanks(options);
  if (status.ok()) status = CheckServing(options.coordinator);
  if (status.ok()) status = CheckKeeping(options.coordinator, parsed->sources);
  if (status.ok() && !options.program.empty()) return CheckProgram(*parsed);
  if (status.ok()) status = CheckNotOurs(options.worker_args, " after --");
  if (status.ok()) status = CheckPlaces(options.worker_args, launcher);
  if (!status.ok()) return status;
  const auto worker =
      ParseWorkerOptions(options.worker_args, AloneEnvironment(environment, options.config));
  if (!worker.ok()) return worker.status();
  options.worker = worker->options;
  parsed->print = worker->print;
  if (!parsed->print.empty()) return absl::OkStatus();
  if (absl::Status alone = CheckAlone(options); !alone.ok()) return alone;
  if (absl::Status keeps = CheckKeepsState(options); !keeps.ok()) return keeps;
  if (absl::Status starts = CheckCoordinates(*parsed); !starts.ok()) return starts;
  absl::Status certificates = CheckTlsOfAll(options, worker->sources);
  if (!certificates.ok()) return certificates;
  return CheckRankOptions(options, environment);
}

// Newer versions of CLI11 keep the quotes when they split a line.
std::string WithoutQuotes(const std::string& arg) {
  const bool quoted =
      arg.size() > 1 && arg.front() == arg.back() && (arg.front() == '\'' || arg.front() == '"');
  return quoted ? arg.substr(1, arg.size() - 2) : arg;
}

}  // namespace

int CountPlaces(const std::string& text, int per_host) {
  int64_t places = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> words =
        absl::StrSplit(line.substr(0, line.find('#')), absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    int slots = 1;
    for (const std::string& word : words) {
      const bool told = per_host == 0 && absl::StartsWith(word, "slots=");
      if (told && !absl::SimpleAtoi(word.substr(word.find('=') + 1), &slots)) slots = 1;
    }
    if (!words.empty()) places += per_host > 0 ? per_host : std::max(slots, 1);
  }
  return static_cast<int>(std::min<int64_t>(places, INT32_MAX));
}

absl::StatusOr<std::map<int, std::vector<std::string>>> ParseRankOptions(const std::string& text) {
  std::map<int, std::vector<std::string>> options;
  for (absl::string_view part : absl::StrSplit(text, ';')) {
    part = absl::StripAsciiWhitespace(part);
    if (part.empty()) continue;
    const std::pair<absl::string_view, absl::string_view> halves =
        absl::StrSplit(part, absl::MaxSplits(':', 1));
    int rank = 0;
    if (!absl::SimpleAtoi(halves.first, &rank) || rank < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("got '", part, "', expected RANK:OPTIONS, such as 1:--loaders 2"));
    }
    for (const std::string& arg : CLI::detail::split_up(std::string(halves.second))) {
      if (!arg.empty()) options[rank].push_back(WithoutQuotes(arg));
    }
  }
  return options;
}

Environment MembersEnvironment(const Environment& environment, const std::string& config) {
  Environment base = environment;
  for (const char* own : kOwnOptions) base.erase(VariableOf(own));
  for (const char* other : {"listen", "metrics", "summary", "trace", "config", "program",
                            "hostfile", "per-host", "network"}) {
    base.erase(VariableOf(other));
  }
  if (!config.empty()) base[VariableOf("config")] = config;
  return base;
}

absl::StatusOr<Parsed<LaunchOptions>> ParseLaunchOptions(const std::vector<std::string>& args,
                                                         const Environment& environment) {
  Parsed<LaunchOptions> parsed;
  LaunchOptions& options = parsed.options;
  const auto dashes = std::find(args.begin(), args.end(), "--");
  if (dashes != args.end()) options.worker_args.assign(dashes + 1, args.end());
  OptionParser parser(kLaunchProgram, kLaunchDescription, {"launch", "coordinator"});
  AddAll(&options, &parser);
  parser.KnowBehindDashes(WorkerOptionNames());
  absl::Status status = parser.Parse({args.begin(), dashes}, environment);
  if (!status.ok()) return status;
  parsed.print = parser.print();
  if (!parsed.print.empty()) return parsed;
  parsed.sources = parser.sources();
  parsed.texts = parser.texts();
  parsed.warnings = UnknownVariables(environment);
  options.coordinator_texts = parser.texts();
  for (const char* own :
       {"workers", "hostfile", "per-host", "network", "program", "rank-options", "config"}) {
    options.coordinator_texts.erase(own);
  }
  for (const char* own : kOfWorkers) options.coordinator_texts.erase(own);
  if (parsed.texts.count("config") > 0) options.config = parsed.texts["config"];
  status = CheckConfig(parsed);
  if (status.ok()) status = ParseWorkers(parser, environment, &parsed);
  if (!status.ok()) return status;
  return parsed;
}

}  // namespace gradwire
