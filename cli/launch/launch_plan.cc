#include "cli/launch/launch_plan.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/address.h"
#include "coordinator/membership/assignment.h"
#include "worker/options/traits.h"

namespace gradwire {
namespace {

std::string ValueOfLine(absl::string_view text, absl::string_view key) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::ConsumePrefix(&line, key)) return std::string(line);
  }
  return "";
}

// What stands for the rank in a file's name: of several, the worker puts each.
std::string RankInNames(const std::vector<Rank>& ranks) {
  return ranks.size() == 1 ? absl::StrCat(ranks[0].value()) : "{rank}";
}

// "rank 2" or "ranks 0-3".
std::string NameOfWorker(const std::vector<Rank>& ranks) {
  const int first = ranks.front().value(), last = ranks.back().value();
  return first == last ? absl::StrCat("rank ", first) : absl::StrCat("ranks ", first, "-", last);
}

// Adds "--name value" for what differs by rank. They come last, so they win.
void AddPerRank(const LaunchOptions& options, const std::vector<Rank>& ranks,
                std::vector<std::string>* argv) {
  const WorkerOptions& worker = options.worker;
  if (!worker.log_jsonl.empty()) {
    const std::string path = PathForRank(worker.log_jsonl, RankInNames(ranks), options.world_size);
    argv->insert(argv->end(), {"--log-jsonl", path});
  }
  const std::pair<const char*, const std::string*> addresses[] = {{"--metrics", &worker.metrics},
                                                                  {"--listen", &worker.listen}};
  for (const auto& [option, address] : addresses) {
    const absl::StatusOr<std::string> own = AddressForRank(*address, ranks.front().value());
    if (own.ok() && *own != *address) argv->insert(argv->end(), {option, *own});
  }
}

// A worker that carries `ranks`, with its arguments and its place in the run, in the
// environment.
Member MemberOf(const LaunchOptions& options, const Environment& environment,
                const std::string& program, const std::vector<Rank>& ranks) {
  Member member;
  member.name = NameOfWorker(ranks);
  member.command.argv = {program};
  member.command.argv.insert(member.command.argv.end(), options.worker_args.begin(),
                             options.worker_args.end());
  Environment& own = member.command.environment;
  own = WorkerBaseEnvironment(environment, options.config);
  own[VariableOf("rank")] = absl::StrJoin(
      ranks, ",", [](std::string* out, Rank rank) { absl::StrAppend(out, rank.value()); });
  own[VariableOf("world-size")] = absl::StrCat(options.world_size);
  own[VariableOf("local-world-size")] = absl::StrCat(options.world_size);
  return member;
}

void AddRankOptions(const LaunchOptions& options, const std::vector<Rank>& ranks,
                    std::vector<std::string>* argv) {
  for (Rank rank : ranks) {
    const auto further = options.rank_options.find(rank.value());
    if (further == options.rank_options.end()) continue;
    argv->insert(argv->end(), further->second.begin(), further->second.end());
  }
}

}  // namespace

bool NeedsCoordinator(const LaunchOptions& options) {
  return TraitsOfSync(options.worker.sync).averages;
}

std::string PortFile(const LaunchOptions& options, const LaunchPlaces& places) {
  const std::string& given = options.coordinator.port_file;
  return given.empty() ? absl::StrCat(places.scratch_dir, "/ports") : given;
}

std::vector<Rank> RanksOf(const LaunchOptions& options, int worker) {
  return Assign(std::vector<Wish>(options.workers), options.world_size)->at(worker);
}

std::string SummaryFile(const absl::AlphaNum& rank, const LaunchPlaces& places) {
  return absl::StrCat(places.scratch_dir, "/summary-", rank, ".json");
}

std::string TraceFile(int process, const LaunchPlaces& places) {
  return absl::StrCat(places.scratch_dir, "/trace-", process, ".json");
}

Member CoordinatorMember(const LaunchOptions& options, const LaunchPlaces& places,
                         const Environment& environment) {
  Member member;
  member.name = "coordinator";
  member.serves = true;
  member.linger = absl::Seconds(options.coordinator.linger_seconds);
  std::map<std::string, std::string> texts = options.coordinator_texts;
  texts["listen"] = options.coordinator.listen;
  texts["metrics"] = options.coordinator.metrics;
  texts["port-file"] = PortFile(options, places);
  texts["world-size"] = absl::StrCat(options.world_size);
  texts["workers"] = absl::StrCat(options.workers);
  if (!options.trace.empty()) texts["trace"] = TraceFile(options.workers, places);
  // It may join as late as it likes, or never: that it ends is seen here.
  if (!options.program.empty()) texts.emplace("rendezvous-timeout-seconds", "1e9");
  member.command.argv = {absl::StrCat(places.program_dir, "/gradwire-coordinator")};
  for (const auto& [name, text] : texts) {
    member.command.argv.insert(member.command.argv.end(), {absl::StrCat("--", name), text});
  }
  member.command.environment = environment;
  member.command.environment.erase(VariableOf("config"));  // its options are all in argv
  return member;
}

Member WorkerMember(const LaunchOptions& options, const LaunchPlaces& places,
                    const Environment& environment, int worker, const std::string& coordinator,
                    int bar_columns) {
  const std::vector<Rank> ranks = RanksOf(options, worker);
  Member member =
      MemberOf(options, environment, absl::StrCat(places.program_dir, "/gradwire-worker"), ranks);
  AddPerRank(options, ranks, &member.command.argv);
  AddRankOptions(options, ranks, &member.command.argv);
  Environment& own = member.command.environment;
  own[VariableOf("summary")] = SummaryFile(RankInNames(ranks), places);
  if (!options.trace.empty()) own[VariableOf("trace")] = TraceFile(worker, places);
  if (!coordinator.empty()) own[VariableOf("coordinator")] = coordinator;
  if (bar_columns > 0 && Value(own, VariableOf("progress")).empty()) {
    own[VariableOf("progress")] = worker == 0 ? "bar" : "none";
    own["COLUMNS"] = absl::StrCat(bar_columns);
  }
  member.has_bar = bar_columns > 0 && worker == 0;
  return member;
}

Member ProgramMember(const LaunchOptions& options, const Environment& environment, int rank,
                     const std::string& coordinator) {
  const std::vector<Rank> ranks = {Rank(rank)};
  Member member = MemberOf(options, environment, options.program, ranks);
  AddRankOptions(options, ranks, &member.command.argv);
  Environment& own = member.command.environment;
  own[VariableOf("local-rank")] = absl::StrCat(rank);
  own[VariableOf("coordinator")] = coordinator;
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}) {
    own[name] = own[absl::StrCat("GRADWIRE_", name)];
  }
  const HostPort address = ParseHostPort(coordinator).value_or(HostPort());
  own["MASTER_ADDR"] = address.host;
  own["MASTER_PORT"] = absl::StrCat(address.port);
  return member;
}

std::string PathForRank(const std::string& path, const absl::AlphaNum& rank, int world_size) {
  const std::string replaced = absl::StrReplaceAll(path, {{"{rank}", rank.Piece()}});
  if (absl::StrContains(path, "{rank}") || world_size == 1) return replaced;
  const std::filesystem::path file(path);
  const std::string name =
      absl::StrCat(file.stem().string(), ".rank", rank, file.extension().string());
  return (file.parent_path() / name).string();
}

absl::StatusOr<std::string> AddressForRank(const std::string& address, int rank) {
  absl::StatusOr<HostPort> own = ParseHostPort(address);
  if (!own.ok()) return own.status();
  if (own->port == 0) return address;
  if (own->port + rank > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("no port ", own->port + rank, " for rank ", rank, " (", address, ")"));
  }
  own->port = static_cast<uint16_t>(own->port + rank);
  return ToString(*own);
}

std::string CoordinatorAddress(absl::string_view port_file_text) {
  const std::string text = ValueOfLine(port_file_text, "grpc=");
  absl::StatusOr<HostPort> address = ParseHostPort(text);
  if (!address.ok()) return "";
  if (address->host == "0.0.0.0") address->host = "127.0.0.1";
  if (address->host == "::") address->host = "::1";
  return ToString(*address);
}

std::string MetricsAddress(absl::string_view port_file_text) {
  return ValueOfLine(port_file_text, "metrics=");
}

}  // namespace gradwire
