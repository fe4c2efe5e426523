#ifndef GRADWIRE_COMMON_COMPRESS_CODEC_H_
#define GRADWIRE_COMMON_COMPRESS_CODEC_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/compress/compression.h"
#include "common/wire/chunk.h"

namespace gradwire {

// The encoding of one coded dtype. A payload represents float32 elements that begin at a multiple
// of unit() in their bucket. Units are independent, so the result does not depend on how a bucket
// is cut. Stateless, from any thread.
class Coding {
 public:
  virtual ~Coding() = default;

  virtual uint64_t unit() const = 0;

  // Returns an upper bound of the bytes per element over `world_size` ranks: half of an element's
  // term and mean together.
  virtual double BytesPerElement(const Compression& compression, int world_size) const = 0;

  // InvalidArgument, with the value and the expected one, if `payload` does not encode `elements`
  // elements.
  virtual absl::Status Check(const ByteSpans& payload, uint64_t elements) const = 0;

  // Decodes a payload that has passed Check.
  virtual void Decode(const ByteSpans& payload, absl::Span<float> out) const = 0;

  // Returns whether EncodeMean has a residual.
  virtual bool has_residual() const = 0;

  // Encodes a mean. `residual` is the accumulated error of earlier steps, as long as `mean`, or
  // empty without has_residual(); it receives the new error.
  virtual std::vector<uint8_t> EncodeMean(absl::Span<const float> mean,
                                          absl::Span<float> residual) const = 0;
};

// Null for a dtype whose payloads are plain elements or bytes. The result is never destroyed.
const Coding* CodingOf(v1::DType dtype);

// Encodes the terms of one rank's bucket, and carries the encoding error over to the next step.
// Several threads may encode parts of the bucket that do not overlap.
class Compressor {
 public:
  virtual ~Compressor() = default;

  // Encodes `values`, which begin at element `first` of the bucket, a multiple of the unit. Must be
  // called once per element and step.
  virtual std::vector<uint8_t> Encode(Step step, uint64_t first,
                                      absl::Span<const float> values) = 0;

  // Returns all state on which later payloads depend, each with as many floats as the bucket has
  // elements, so that it can be captured and restored between steps. The accumulated error comes
  // first.
  virtual std::vector<absl::Span<float>> state() = 0;
};

// For a bucket of `elements`. `compression` must be on.
std::unique_ptr<Compressor> MakeCompressor(const Compression& compression, uint64_t elements);

// Returns the bytes of `payload` in contiguous memory: its own, or a copy in `copy`.
const uint8_t* Contiguous(const ByteSpans& payload, std::vector<uint8_t>* copy);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_COMPRESS_CODEC_H_
