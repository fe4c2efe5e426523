#ifndef GRADWIRE_WORKER_RUN_COMPUTE_H_
#define GRADWIRE_WORKER_RUN_COMPUTE_H_

#include <cstdint>

#include "common/base/ids.h"

namespace gradwire {

// Lets libtorch, and the BLAS library under it, compute with `threads` threads (at least 1)
// on the thread that calls, and logs which BLAS that is, with a warning for a slow one. How
// many threads share a sum decides its bits.
void UseComputeThreads(int threads);

// The seed of torch's generator in front of one forward pass, for dropout and the like. A
// function of its arguments alone, so that any process can redo any rank's pass:
//
//   mix(x)  the finaliser of splitmix64 (Steele, Lea, Flood 2014)
//   state   "forward\0" as a little endian number, then for each of seed, step, rank and
//           micro_batch in this order: state = mix((state xor value) + 0x9e3779b97f4a7c15)
//
// `micro_batch`: number of the pass within the rank's step, from 0. Changing this changes
// every run of a model that draws random numbers: the values are pinned by a test.
uint64_t ForwardSeed(uint64_t seed, Step step, Rank rank, int64_t micro_batch);

// Makes that the state of torch's generator of this process.
void SeedForward(uint64_t seed);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_COMPUTE_H_
