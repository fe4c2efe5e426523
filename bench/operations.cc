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

double RingFactor(int world_size) { return 2.0 * (world_size - 1) / world_size; }

// The number of children of the root of a binomial tree.
int TreeChildren(int world_size) {
  int children = 0;
  for (int bit = 1; bit < world_size; bit <<= 1) ++children;
  return children;
}

}  // namespace

LinkLoad LoadOfAverage(absl::string_view backend, int world_size, double bytes) {
  switch (TraitsOfBackend(backend).links) {
    case LinkPattern::kCoordinator:
      return {bytes, world_size * bytes};
    case LinkPattern::kTree:
      return {TreeChildren(world_size) * bytes, 0};
    case LinkPattern::kNone:
      return {0, 0};
    case LinkPattern::kWorkers:
      break;
  }
  return {RingFactor(world_size) * bytes, 0};
}

LinkLoad LoadOfBroadcast(absl::string_view backend, int world_size, double bytes) {
  if (TraitsOfBackend(backend).links != LinkPattern::kWorkers) {
    return LoadOfAverage(backend, world_size, bytes);
  }
  return {world_size > 1 ? bytes : 0, 0};
}

double LeastSeconds(const LinkLoad& load, double link_gbit) {
  const double payload_per_second = link_gbit * 1e9 / 8 * kPayloadShare;
  return std::max(load.worker_bytes, load.coordinator_bytes) / payload_per_second;
}

double BusBandwidth(double algorithm_bandwidth, int world_size) {
  return RingFactor(world_size) * algorithm_bandwidth;
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
  std::string text = "set-ups to compare:";
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
