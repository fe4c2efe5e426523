#ifndef GRADWIRE_WORKER_BACKENDS_MEMORY_BUCKET_FORMAT_H_
#define GRADWIRE_WORKER_BACKENDS_MEMORY_BUCKET_FORMAT_H_

#include <cstdint>

#include "common/compress/codec.h"
#include "common/wire/layout.h"

namespace gradwire {

// The type that gradients would have on a network, and how its sums are rounded.
struct MemoryWire {
  v1::DType dtype = v1::DTYPE_FLOAT32;
  bool by_hops = false;  // only for halves; see BucketFormat
};

// How a bucket's values are stored in shared memory. Nothing is sent, but values are rounded as a
// network would have rounded them. So a run has the same bits with and without shared memory:
//
//   wire              term of a rank      mean                               bits of
//   fp32, bytes       as it is            fold                               all exact back ends
//   halves            rounded             fold, rounded                      coordinator, sharded
//   halves, by hops   float32             rounded after each sum             ring
//   coded             coded and decoded   fold, coded and decoded, float32   coordinator, sharded
struct BucketFormat {
  v1::DType term = v1::DTYPE_FLOAT32;
  v1::DType mean = v1::DTYPE_FLOAT32;
  bool by_hops = false;
  const Coding* coding = nullptr;  // null: the values are not coded
  uint64_t elements = 0;           // of a term, and of the mean
  // Parts of the mean that different workers fold begin at a multiple of it, in elements.
  uint64_t alignment = 1;
  // Whether a term, and the mean, is stored as the caller has it, so that it may lie in shared
  // memory.
  bool term_in_place = false;
  bool mean_in_place = false;

  uint64_t term_bytes() const { return elements * ElementBytes(term); }
  uint64_t mean_bytes() const { return elements * ElementBytes(mean); }
};

// Returns the format of a bucket, given in float32 or bytes.
BucketFormat FormatOf(const BucketSpec& spec, const MemoryWire& wire);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_MEMORY_BUCKET_FORMAT_H_
