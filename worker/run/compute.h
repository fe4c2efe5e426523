#ifndef GRADWIRE_WORKER_RUN_COMPUTE_H_
#define GRADWIRE_WORKER_RUN_COMPUTE_H_

#include <cstdint>

#include "common/base/ids.h"

namespace gradwire {

// Makes libtorch and its BLAS library compute with `threads` threads (at least 1) on the calling
// thread. Logs the name of the BLAS, with a warning if it is slow. The number of threads that share
// a sum decides its bits.
void UseComputeThreads(int threads);

// Returns the seed of torch's generator for one forward pass (dropout and the like). It depends
// only on the arguments, so any process can repeat any rank's pass:
//
//   mix(x)  the finalizer of splitmix64 (Steele, Lea, Flood 2014)
//   state   "forward\0" as a little endian number, then for each of seed, step, rank and
//           micro_batch in this order: state = mix((state xor value) + 0x9e3779b97f4a7c15)
//
// `micro_batch`: number of the pass within the rank's step, from 0. Any change here changes every
// run of a model that draws random numbers, so a test pins the values.
uint64_t ForwardSeed(uint64_t seed, Step step, Rank rank, int64_t micro_batch);

// Sets the state of torch's generator in this process.
void SeedForward(uint64_t seed);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_COMPUTE_H_
