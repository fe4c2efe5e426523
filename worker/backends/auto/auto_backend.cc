#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/wire/layout.h"
#include "worker/backends/auto/host_exchange.h"
#include "worker/backends/backend.h"
#include "worker/backends/memory/memory_backend.h"
#include "worker/backends/memory/memory_budget.h"
#include "worker/options/choices.h"
#include "worker/options/traits.h"

namespace gradwire {
namespace {

// Returns "0-3", or "0, 2, 5" if they are not in a row.
std::string ToString(const std::vector<Rank>& ranks) {
  const int first = ranks.front().value();
  const int last = ranks.back().value();
  if (last - first + 1 == static_cast<int>(ranks.size())) return absl::StrCat(first, "-", last);
  return absl::StrJoin(ranks, ", ",
                       [](std::string* out, Rank rank) { absl::StrAppend(out, rank.value()); });
}

BackendOptions OfRows(BackendOptions options) {
  options.slots = true;
  return options;
}

// Has all rows that a view may choose, because none is known yet.
class AutoBackend : public Backend {
 public:
  explicit AutoBackend(const BackendOptions& options)
      : options_(OfRows(options)),
        between_hosts_(AutoBetweenHosts(options.gathers, IsCoded(options.wire))),
        memory_(options) {}
  static absl::StatusOr<std::unique_ptr<Backend>> Make(const BackendOptions& options) {
    auto made = std::make_unique<AutoBackend>(options);
    for (const std::string& name : {made->between_hosts_, std::string(kAutoOfAggregators)}) {
      if (made->rows_.count(name) > 0) continue;
      auto backend = MakeBackend(name, made->options_);
      if (!backend.ok()) return backend.status();
      made->rows_[name] = *std::move(backend);
    }
    return made;
  }

  absl::StatusOr<std::unique_ptr<Exchange>> Connect(const View& view, const Ended& ended,
                                                    absl::optional<Incarnation>* suspect) override {
    const std::string chosen = ChosenBackend(kAutoBackend, view, options_);
    if (chosen != kAutoOfHost) return rows_.at(chosen)->Connect(view, ended, suspect);
    auto memory = memory_.ConnectMemory(view);
    if (!memory.ok()) return memory.status();
    Backend* const network = rows_.at(between_hosts_).get();
    auto connect = [network, view, ended](absl::optional<Incarnation>* unreached) {
      return network->Connect(view, ended, unreached);
    };
    return std::make_unique<HostExchange>(*std::move(memory), between_hosts_, std::move(connect));
  }

  std::vector<grpc::Service*> services() override {
    std::vector<grpc::Service*> services;
    for (const auto& [name, backend] : rows_) {
      for (grpc::Service* service : backend->services()) services.push_back(service);
    }
    return services;
  }

 private:
  const BackendOptions options_;
  const std::string between_hosts_;
  MemoryBackend memory_;
  std::map<std::string, std::unique_ptr<Backend>> rows_;
};

}  // namespace

// Declared in backends.cc, like the factories of the rows.
absl::StatusOr<std::unique_ptr<Backend>> MakeAutoBackend(const BackendOptions& options) {
  return AutoBackend::Make(options);
}

std::string ChosenBackend(absl::string_view name, const View& view, const BackendOptions& options,
                          absl::Span<const BucketSpec> buckets) {
  if (name != kAutoBackend) return std::string(name);
  if (!view.aggregators.empty()) return kAutoOfAggregators;
  const bool shares = view.SharesMemory();
  if (shares && MemoryBudget(view, MemoryWireOf(options)).Add(buckets).ok()) return kAutoOfHost;
  return AutoBetweenHosts(options.gathers, IsCoded(options.wire));
}

std::vector<std::vector<Rank>> GroupsInMemory(absl::string_view name, const View& view,
                                              const BackendOptions& options,
                                              absl::Span<const BucketSpec> buckets) {
  const LinkPattern links = TraitsOfBackend(ChosenBackend(name, view, options, buckets)).links;
  // As MakeSlotWriter does it, with BackendOptions::slots.
  const bool between_workers =
      links == LinkPattern::kRing || (links == LinkPattern::kPairs && view.aggregators.empty());
  const bool has_slots = name == kAutoBackend && between_workers && !view.SharesMemory();
  if (links != LinkPattern::kNone && !has_slots) return {};
  return view.MemoryGroups();
}

std::string DescribeBackend(absl::string_view name, const View& view, const BackendOptions& options,
                            absl::Span<const BucketSpec> buckets) {
  const std::string chosen = ChosenBackend(name, view, options, buckets);
  const auto groups = GroupsInMemory(name, view, options, buckets);
  if (groups.empty() || TraitsOfBackend(chosen).links == LinkPattern::kNone) return chosen;
  return absl::StrCat(chosen, ", in memory among ranks ",
                      absl::StrJoin(groups, " and ", [](std::string* out, const auto& ranks) {
                        absl::StrAppend(out, ToString(ranks));
                      }));
}

}  // namespace gradwire
