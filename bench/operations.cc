#include "bench/operations.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "worker/options/traits.h"

namespace gradwire {

BucketSpec Operation::BucketOf(uint64_t bytes) const {
  return {bytes, sums ? v1::DTYPE_FLOAT32 : v1::DTYPE_BYTES, Rank(0), collective};
}

const std::vector<Operation>& Operations() {
  static const auto* const operations =
      new std::vector<Operation>{{"send-recv", v1::COLLECTIVE_SEND_RECV, false, false},
                                 {"broadcast", v1::COLLECTIVE_BROADCAST, false, false},
                                 {"scatter", v1::COLLECTIVE_SCATTER, false, true},
                                 {"gather", v1::COLLECTIVE_GATHER, false, true},
                                 {"reduce", v1::COLLECTIVE_REDUCE, true, false},
                                 {"all-gather", v1::COLLECTIVE_ALL_GATHER, false, true},
                                 {"reduce-scatter", v1::COLLECTIVE_REDUCE_SCATTER, true, true},
                                 {"all-reduce", v1::COLLECTIVE_ALL_REDUCE, true, false}};
  return *operations;
}

std::vector<std::string> OperationNames() {
  std::vector<std::string> names;
  for (const Operation& operation : Operations()) names.push_back(operation.name);
  return names;
}

const Operation& OperationCalled(absl::string_view name) {
  return *std::find_if(Operations().begin(), Operations().end(),
                       [name](const Operation& operation) { return operation.name == name; });
}

bool Has(absl::string_view backend, const Operation& operation) {
  return TraitsOfBackend(backend).collectives == Collectives::kAll ||
         operation.collective == v1::COLLECTIVE_ALL_REDUCE ||
         operation.collective == v1::COLLECTIVE_BROADCAST;
}

bool PeerHas(const Operation& operation) {
  return operation.collective != v1::COLLECTIVE_REDUCE_SCATTER;
}

double BusFactor(const Operation& operation, int world_size) {
  if (world_size == 1) return 0;
  const double others = static_cast<double>(world_size - 1) / world_size;
  if (operation.collective == v1::COLLECTIVE_ALL_REDUCE) return 2 * others;
  return operation.in_parts ? others : 1;
}

uint64_t SizeFor(const Operation& operation, uint64_t bytes, int world_size) {
  if (!operation.in_parts) return bytes;
  const uint64_t unit = sizeof(float) * world_size;
  return (bytes + unit - 1) / unit * unit;
}

namespace {

// Ranks on each of the hosts.
struct Hosts {
  int world_size;
  int per_host;

  int HostOf(int rank) const { return rank / per_host; }
  int count() const { return HostOf(world_size - 1) + 1; }
  int last() const { return world_size - (count() - 1) * per_host; }
};

// The most edges of a binomial tree, whose parents lack their lowest bit, that a host has with
// others.
int TreeEdges(const Hosts& hosts) {
  std::vector<int> edges(static_cast<size_t>(hosts.count()));
  for (int rank = 1; rank < hosts.world_size; ++rank) {
    const int ends[] = {hosts.HostOf(rank), hosts.HostOf(rank & (rank - 1))};
    if (ends[0] == ends[1]) continue;
    for (const int end : ends) ++edges[static_cast<size_t>(end)];
  }
  return *std::max_element(edges.begin(), edges.end());
}

// Every link of the ring carries all sums but one segment; the mean of a segment leaves a host
// unless it was made on the next one.
double RingFactor(const Hosts& hosts) {
  if (hosts.count() == 1) return 0;
  return (2.0 * hosts.world_size - 1 - hosts.last()) / hosts.world_size;
}

double PairsFactor(const Hosts& hosts) {
  const auto factor = [&hosts](int ranks) {
    return 2.0 * ranks * (hosts.world_size - ranks) / hosts.world_size;
  };
  return std::max(factor(hosts.last()), hosts.count() > 1 ? factor(hosts.per_host) : 0);
}

// Returns the bytes on the busiest host's link for each byte that is averaged.
absl::optional<double> HostFactor(LinkPattern links, const Hosts& hosts) {
  switch (links) {
    case LinkPattern::kCoordinator:
      return std::min(hosts.per_host, hosts.world_size);
    case LinkPattern::kTree:
      return TreeEdges(hosts);
    case LinkPattern::kRing:
      return RingFactor(hosts);
    case LinkPattern::kPairs:
      return PairsFactor(hosts);
    case LinkPattern::kNone:
      return 0;
    case LinkPattern::kWorkers:
      break;
  }
  if (hosts.per_host > 1 && hosts.count() > 1) return absl::nullopt;
  return PairsFactor(hosts);
}

}  // namespace

LinkLoad LoadOfAverage(absl::string_view backend, int world_size, double bytes, int per_host) {
  const LinkPattern links = TraitsOfBackend(backend).links;
  LinkLoad load;
  load.worker_bytes = *HostFactor(links, {world_size, 1}) * bytes;
  if (links == LinkPattern::kCoordinator) load.coordinator_bytes = world_size * bytes;
  load.host_bytes = HostFactor(links, {world_size, per_host});
  if (load.host_bytes.has_value()) *load.host_bytes *= bytes;
  return load;
}

LinkLoad LoadOfBroadcast(absl::string_view backend, int world_size, double bytes, int per_host) {
  const LinkPattern links = TraitsOfBackend(backend).links;
  if (!LoadsWorkersAlike(links)) return LoadOfAverage(backend, world_size, bytes, per_host);
  const Hosts hosts{world_size, per_host};
  LinkLoad load;
  load.worker_bytes = world_size > 1 ? bytes : 0;
  const int receivers = links == LinkPattern::kRing ? 1 : per_host;
  load.host_bytes = hosts.count() > 1 ? receivers * bytes : 0;
  if (!HostFactor(links, hosts).has_value()) load.host_bytes = absl::nullopt;
  return load;
}

double LeastSeconds(const LinkLoad& load, double link_gbit) {
  const double payload_per_second = link_gbit * 1e9 / 8 * kPayloadShare;
  return std::max(*load.host_bytes, load.coordinator_bytes) / payload_per_second;
}

double WireBytes(absl::string_view wire) { return wire == "fp32" ? 4 : 2; }

const std::vector<Setup>& Setups() {
  static const auto* const setups = new std::vector<Setup>{
#define GRADWIRE_SETUP(name, kind, options, peers, help)                        \
  Setup{name, SetupKind::kind, absl::StrSplit(options, ' ', absl::SkipEmpty()), \
        absl::StrSplit(peers, ' ', absl::SkipEmpty()), help},
#include "bench/setups.inc"
#undef GRADWIRE_SETUP
  };
  return *setups;
}

std::vector<std::string> SetupNames() {
  std::vector<std::string> names;
  for (const Setup& setup : Setups()) names.push_back(setup.name);
  return names;
}

const Setup& SetupCalled(absl::string_view name) {
  return *std::find_if(Setups().begin(), Setups().end(),
                       [name](const Setup& setup) { return setup.name == name; });
}

std::string DescribeSetups() {
  std::string text = "setups to compare:";
  for (const Setup& setup : Setups()) {
    absl::StrAppend(&text, "\n  ", setup.name, ": ", setup.help);
  }
  return text;
}

absl::Status CompleteSetups(bool peers, const std::string& dataset,
                            std::vector<std::string>* chosen) {
  if (chosen->empty()) {
    for (const Setup& setup : Setups()) {
      if (peers || setup.kind != SetupKind::kPeer) chosen->push_back(setup.name);
    }
  }
  for (const std::string& name : *chosen) {
    if (SetupCalled(name).kind != SetupKind::kPeer) continue;
    if (!peers) {
      return absl::InvalidArgumentError(
          absl::StrCat("--setups: ", name, " is PyTorch + Gloo and needs --peers"));
    }
    if (dataset != "cifar10" && dataset != "synthetic") {
      return absl::InvalidArgumentError(absl::StrCat(
          "--dataset: got '", dataset, "', expected cifar10 or synthetic with --peers"));
    }
  }
  return absl::OkStatus();
}

}  // namespace gradwire
