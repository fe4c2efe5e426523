// Simulates runs that workers are lost from: the shipped membership, trainer and fold in virtual
// time, with faults drawn from a seed. See docs/development.md.
//
//   simulate --seeds 0:1000            exits with 1 at the first seed that fails, with its trace
//   simulate --seed 17 --trace         the same run again
//   simulate --plant all               each planted fault has to be found
//
// What is shipped and what is modelled say sim_coordinator.h, sim_worker.h, sim_exchange.h and
// site.h: shipped are Membership with roster, assignment, layout agreement and what a loss means;
// Trainer with reducer, rank buffers, gradient hooks, sliced optimisers and syncs; ViewChanges;
// Aggregator with fold and grid; all verdicts on chunks; views, layouts and messages. Modelled are
// gRPC, threads and sockets, and the adapters over them. Back ends ring and tree and evaluations
// take no part.
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "common/base/status_util.h"
#include "common/options/option_parser.h"
#include "tests/simulate/simulation.h"

namespace gradwire::simulate {
namespace {

struct Range {
  uint64_t first = 0;
  uint64_t end = 0;  // the first that is not in it
};

struct Options {
  Range seeds{0, 200};
  bool is_traced = false;
  std::string plant;
};

OptionValue RangeValue(Range* field) {
  OptionValue value;
  value.initial = absl::StrCat(field->first, ":", field->end);
  value.set = [field](const std::string& text) {
    Range range;
    const std::vector<std::string> parts = absl::StrSplit(text, ':');
    if (parts.size() == 2 && absl::SimpleAtoi(parts[0], &range.first) &&
        absl::SimpleAtoi(parts[1], &range.end) && range.first < range.end) {
      *field = range;
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("got '", text, "', expected FIRST:END, such as 0:2000"));
  };
  return value;
}

std::vector<std::string> PlantNames() {
  std::vector<std::string> names = {"all"};
  for (const PlantRow& row : AllPlants()) names.push_back(row.name);
  return names;
}

absl::StatusOr<Parsed<Options>> ParseOptions(const std::vector<std::string>& args) {
  Parsed<Options> parsed;
  uint64_t seed = 0;
  OptionParser parser("simulate",
                      "Simulates runs that workers are lost from. Exits with 1 at the first seed\n"
                      "that fails, with its trace.",
                      {"simulate"});
  parser.Add("seeds", "FIRST:END", "seeds from FIRST on, without END",
             RangeValue(&parsed.options.seeds));
  parser.Add("seed", "N", "one seed", WithDefault(Integer(&seed, 0, UINT64_MAX - 1), ""));
  parser.Add("trace", "true|false", "print what happens", Switch(&parsed.options.is_traced));
  parser.Add("plant", "NAME", "a planted fault that has to be found, or all",
             Choice(&parsed.options.plant, PlantNames()));
  const absl::Status status = parser.Parse(args, {}, {}, &parsed);
  if (!status.ok()) return status;
  const absl::StatusOr<std::string> which = parser.InForce("seed", "seeds");
  if (!which.ok()) return which.status();
  if (*which == "seed") parsed.options.seeds = {seed, seed + 1};
  return parsed;
}

void Print(const Setup& setup, const Ending& ending) {
  std::printf("%s\n", Describe(setup).c_str());
  for (const std::string& line : ending.trace) std::printf("%s\n", line.c_str());
  std::printf("%s\n", ending.failure.empty() ? "all checks held" : ending.failure.c_str());
}

// Again, with its trace.
int Show(Simulation* simulation, const Setup& setup, Plant plant) {
  const Ending ending = simulation->Run(setup, plant, /*is_traced=*/true);
  Print(setup, ending);
  std::printf("replay: simulate --seed %llu --trace\n",
              static_cast<unsigned long long>(setup.seed));
  return ending.failure.empty() ? 0 : 1;
}

int RunSeeds(Simulation* simulation, const Options& options) {
  const absl::Time start = SteadyNow();
  int losses = 0;
  int returns = 0;
  for (uint64_t seed = options.seeds.first; seed < options.seeds.end; ++seed) {
    const Setup setup = DrawSetup(seed);
    const Ending ending = simulation->Run(setup, Plant::kNone, options.is_traced);
    if (options.is_traced) Print(setup, ending);
    losses += ending.losses;
    returns += ending.returns;
    if (ending.failure.empty()) continue;
    return options.is_traced ? 1 : Show(simulation, setup, Plant::kNone);
  }
  std::printf("%llu seeds, %d losses and %d pauses survived, all checks held, %.1f s\n",
              static_cast<unsigned long long>(options.seeds.end - options.seeds.first), losses,
              returns, absl::ToDoubleSeconds(SteadyNow() - start));
  return 0;
}

// Whether one of the seeds finds it.
bool IsFound(Simulation* simulation, const Options& options, const PlantRow& row) {
  for (uint64_t seed = options.seeds.first; seed < options.seeds.end; ++seed) {
    const Setup setup = DrawSetup(seed);
    const Ending ending = simulation->Run(setup, row.plant, options.is_traced);
    if (ending.failure.empty()) continue;
    if (options.is_traced) Print(setup, ending);
    std::printf("%-24s found by seed %3llu: %s\n", row.name, static_cast<unsigned long long>(seed),
                ending.failure.c_str());
    return true;
  }
  std::printf("%-24s NOT FOUND: %s\n", row.name, row.help);
  return false;
}

int RunPlants(Simulation* simulation, const Options& options) {
  std::vector<PlantRow> rows = AllPlants();
  if (options.plant != "all") {
    rows = {FindPlant(options.plant).value()};
  }
  int missed = 0;
  for (const PlantRow& row : rows) missed += IsFound(simulation, options, row) ? 0 : 1;
  std::printf("%zu planted faults, %d not found\n", rows.size(), missed);
  return missed == 0 ? 0 : 1;
}

int Main(int argc, char** argv) {
  const auto parsed = ParseOptions(Arguments(argc, argv));
  if (const absl::optional<int> exit_code = EarlyExit("simulate", parsed)) return *exit_code;
  const Options& options = parsed->options;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // who watches a long run sees how far it is
  Simulation simulation;
  return options.plant.empty() ? RunSeeds(&simulation, options) : RunPlants(&simulation, options);
}

}  // namespace
}  // namespace gradwire::simulate

int main(int argc, char** argv) { return gradwire::simulate::Main(argc, argv); }
