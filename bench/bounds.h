#ifndef GRADWIRE_BENCH_BOUNDS_H_
#define GRADWIRE_BENCH_BOUNDS_H_

#include "absl/strings/string_view.h"

namespace gradwire {

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

}  // namespace gradwire

#endif  // GRADWIRE_BENCH_BOUNDS_H_
