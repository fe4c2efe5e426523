#ifndef GRADWIRE_BENCH_OPERATIONS_H_
#define GRADWIRE_BENCH_OPERATIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/wire/layout.h"

namespace gradwire {

// A collective as `gradwire bench collectives --ops` names it; rank 0 is the root.
struct Operation {
  std::string name;  // "all-gather"
  v1::Collective collective = v1::COLLECTIVE_UNSPECIFIED;
  bool sums = false;      // what comes out are means; else what one rank put in
  bool in_parts = false;  // part r of W comes from, or gets to, rank r alone

  // Of float32 elements; those of operations in parts are a multiple of W.
  BucketSpec BucketOf(uint64_t bytes) const;
};

// All, in the order in which they are explained.
const std::vector<Operation>& Operations();
std::vector<std::string> OperationNames();
// The one called `name`, which exists.
const Operation& OperationCalled(absl::string_view name);

// Whether a back end has the operation.
bool Has(absl::string_view backend, const Operation& operation);
// Whether PyTorch's Gloo has it.
bool PeerHas(const Operation& operation);

// The part of the bytes that the busiest link carries in one direction at the least, between the
// ranks themselves; nccl-tests' factor from algbw to busbw.
double BusFactor(const Operation& operation, int world_size);

// `bytes`, or the next number that an operation in parts can cut for `world_size` ranks.
uint64_t SizeFor(const Operation& operation, uint64_t bytes, int world_size);

// What one exchange puts on the links, in bytes of payload for each direction:
// as many bytes leave a host as come to it.
struct LinkLoad {
  double worker_bytes = 0;       // on each worker's link, or the busiest one's
  double coordinator_bytes = 0;  // on the coordinator's; 0 if it moves no gradients
};

// Averaging `bytes` over `world_size` ranks.
//   coordinator   each worker's gradient goes up and a mean comes down, so the
//                 coordinator's link carries W of them: W x S, a worker's S
//   tree          rank 0 has ceil(log2 W) children, with each of which it exchanges S
//   others        2(W-1)/W x S on each worker's link: the least that any all-reduce
//                 between the ranks themselves can do (Patarasuk and Yuan 2009,
//                 theorem 1); ring and direct exchange both reach it
LinkLoad LoadOfAverage(absl::string_view backend, int world_size, double bytes);

// Copying rank 0's `bytes` to all: every other rank has to get them once, and the
// coordinator sends them to each of the W workers.
LinkLoad LoadOfBroadcast(absl::string_view backend, int world_size, double bytes);

// The part of an Ethernet link that is payload of TCP: of a full frame at an MTU
// of 1500 with TCP's timestamps, 1448 of 1514 bytes.
inline constexpr double kPayloadShare = 1448.0 / 1514.0;

// The least time that the busiest link needs for its load. Links are full duplex;
// `link_gbit` is 10^9 bits a second, headers included.
double LeastSeconds(const LinkLoad& load, double link_gbit);

// nccl-tests' busbw for a given algbw: 2(W-1)/W x algbw, the speed of the links
// whatever W is.
double BusBandwidth(double algorithm_bandwidth, int world_size);

// Bytes of a gradient element on the wire: 4 for fp32, 2 for bf16 and fp16.
double WireBytes(absl::string_view wire);

enum class SetupKind {
  kAlone,  // every rank for itself
  kOwn,    // with a coordinator
  kPeer,   // PyTorch + Gloo
};

// A line of bench/setups.inc.
struct Setup {
  std::string name;
  SetupKind kind = SetupKind::kOwn;
  std::vector<std::string> options;
  std::vector<std::string> peers;
  std::string help;
};

// All lines, in order.
const std::vector<Setup>& Setups();
std::vector<std::string> SetupNames();
// The line called `name`, which exists.
const Setup& SetupCalled(absl::string_view name);
// For --help: a line for each.
std::string DescribeSetups();

// Fills in `chosen` if it is empty: all lines of Gradwire's, and the peers' if
// `peers`. InvalidArgument if a peer is chosen without `peers`, or `dataset` is
// one that the peer cannot read.
absl::Status CompleteSetups(bool peers, const std::string& dataset,
                            std::vector<std::string>* chosen);

}  // namespace gradwire

#endif  // GRADWIRE_BENCH_OPERATIONS_H_
