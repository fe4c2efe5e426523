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

// What the payloads of one coded dtype say. A payload stands for some float32 elements that
// begin at a multiple of unit() in their bucket; units do not depend on each other, so that
// the result is the same however a bucket is cut. Without state, from any thread.
class Coding {
 public:
  virtual ~Coding() = default;

  virtual uint64_t unit() const = 0;

  // Of an element's term and its mean together, half of that, over `world_size` ranks: at most.
  virtual double BytesPerElement(const Compression& compression, int world_size) const = 0;

  // InvalidArgument, with what was got and expected, if `payload` is none of `elements`
  // elements.
  virtual absl::Status Check(const ByteSpans& payload, uint64_t elements) const = 0;

  // The elements of a payload that Check has passed.
  virtual void Decode(const ByteSpans& payload, absl::Span<float> out) const = 0;

  // Whether EncodeMean leaves something out.
  virtual bool has_residual() const = 0;

  // The payload of a mean. `residual` is what earlier steps left out, as long as `mean`, or
  // empty without has_residual(); what is left out now is in it then.
  virtual std::vector<uint8_t> EncodeMean(absl::Span<const float> mean,
                                          absl::Span<float> residual) const = 0;
};

// Null for a dtype whose payloads are plain elements or bytes. Lives for ever.
const Coding* CodingOf(v1::DType dtype);

// Encodes the terms of one rank's bucket, and remembers what it leaves out for the next step.
// Parts of the bucket that do not overlap may be encoded from several threads.
class Compressor {
 public:
  virtual ~Compressor() = default;

  // The payload of `values`, which begin at element `first` of the bucket, a multiple of the
  // unit. Once for each element in each step.
  virtual std::vector<uint8_t> Encode(Step step, uint64_t first,
                                      absl::Span<const float> values) = 0;

  // All that later payloads depend on, as many floats as the bucket has elements each: to be
  // captured and restored between steps. What has been left out comes first.
  virtual std::vector<absl::Span<float>> state() = 0;
};

// Of a bucket of `elements`. `compression` is on.
std::unique_ptr<Compressor> MakeCompressor(const Compression& compression, uint64_t elements);

// One run of memory with what is in `payload`: itself, or a copy in `copy`.
const uint8_t* Contiguous(const ByteSpans& payload, std::vector<uint8_t>* copy);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_COMPRESS_CODEC_H_
