#ifndef GRADWIRE_BENCH_OPERATIONS_H_
#define GRADWIRE_BENCH_OPERATIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "common/wire/layout.h"

namespace gradwire {

// A collective as `gradwire bench collectives --ops` names it; rank 0 is the root.
struct Operation {
  std::string name;  // "all-gather"
  v1::Collective collective = v1::COLLECTIVE_UNSPECIFIED;
  bool sums = false;      // the results are means; else copies of one rank's input
  bool in_parts = false;  // part r of W belongs to rank r

  // A bucket of `bytes` of float32; in parts, the number of elements is a multiple of W.
  BucketSpec BucketOf(uint64_t bytes) const;
};

// All operations, in the order of the documentation.
const std::vector<Operation>& Operations();
std::vector<std::string> OperationNames();
// The operation called `name`, which must exist.
const Operation& OperationCalled(absl::string_view name);

// Whether the back end supports the operation.
bool Has(absl::string_view backend, const Operation& operation);
// Whether PyTorch's Gloo supports the operation.
bool PeerHas(const Operation& operation);

// The minimum share of the bytes that the busiest link carries in one direction, between the ranks
// themselves: the factor busbw / algbw of nccl-tests.
double BusFactor(const Operation& operation, int world_size);

// `bytes`; for an operation in parts, rounded up so that `world_size` ranks can divide them.
uint64_t SizeFor(const Operation& operation, uint64_t bytes, int world_size);

// The load of one exchange on the links, in bytes of payload for each direction: each host sends as
// many bytes as it receives.
struct LinkLoad {
  double worker_bytes = 0;       // that each worker sends, or the busiest one
  double coordinator_bytes = 0;  // on the coordinator's link; 0 if it moves no gradients
  // On each host's link, or the busiest one's. Nullopt: it depends on the ways of a library.
  absl::optional<double> host_bytes = worker_bytes;
};

// Averaging `bytes` over `world_size` ranks, with `per_host` consecutive ones on each host, and
// fewer on the last if they do not divide.
//   coordinator   each worker sends its gradient and receives the mean: S on a worker's link,
//                 W x S on the coordinator's
//   tree          rank 0 exchanges S with each of its ceil(log2 W) children
//   others        2(W-1)/W x S for each worker: the lower bound of an all-reduce between
//                 the ranks themselves (Patarasuk and Yuan 2009, theorem 1); ring and direct
//                 exchange both reach it
// On several hosts, with m ranks on the one with the fewest: the ring sends (2W-1-m)/W x S from a
// host; with direct exchange each rank sends 2/W x S for each rank of another host.
LinkLoad LoadOfAverage(absl::string_view backend, int world_size, double bytes, int per_host = 1);

// Copying rank 0's `bytes` to all ranks: every other rank receives them once, and on a ring every
// other host; the coordinator sends them to each of the W workers.
LinkLoad LoadOfBroadcast(absl::string_view backend, int world_size, double bytes, int per_host = 1);

// The share of an Ethernet link that is TCP payload: 1448 of the 1514 bytes of a full frame, at an
// MTU of 1500 and with TCP timestamps.
inline constexpr double kPayloadShare = 1448.0 / 1514.0;

// The minimum time in which the busiest link carries its load, whose `host_bytes` must be known.
// Links are full duplex; `link_gbit` is in Gbit/s, headers included.
double LeastSeconds(const LinkLoad& load, double link_gbit);

// Bytes of a gradient element on the wire: 4 for fp32, 2 for bf16 and fp16.
double WireBytes(absl::string_view wire);

enum class SetupKind {
  kAlone,  // every rank trains alone
  kOwn,    // with a coordinator
  kPeer,   // PyTorch + Gloo
};

// A row of bench/setups.inc.
struct Setup {
  std::string name;
  SetupKind kind = SetupKind::kOwn;
  std::vector<std::string> options;
  std::vector<std::string> peers;
  std::string help;
};

// All rows, in order.
const std::vector<Setup>& Setups();
std::vector<std::string> SetupNames();
// The row called `name`, which must exist.
const Setup& SetupCalled(absl::string_view name);
// For --help: one line per setup.
std::string DescribeSetups();

// Fills in `chosen` if it is empty: all setups of Gradwire and, with `peers`, those of PyTorch.
// InvalidArgument if a PyTorch setup is chosen without `peers`, or cannot read `dataset`.
absl::Status CompleteSetups(bool peers, const std::string& dataset,
                            std::vector<std::string>* chosen);

}  // namespace gradwire

#endif  // GRADWIRE_BENCH_OPERATIONS_H_
