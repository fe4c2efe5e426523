#ifndef GRADWIRE_COMMON_COMPRESS_COMPRESSION_H_
#define GRADWIRE_COMMON_COMPRESS_COMPRESSION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gradwire/v1/chunk.pb.h"

namespace gradwire {

// How the terms of gradients are made shorter than their elements: what --compress says. The
// same on all workers.
struct Compression {
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;  // of the payloads; unspecified: not at all
  // Where the dtype says that only a share is sent:
  bool has_density = false;
  double density = 1;        // the share of elements
  int64_t warmup_steps = 0;  // until it is reached
  float momentum = 0;        // that ranks keep, in place of the optimiser's

  bool is_on() const { return dtype != v1::DTYPE_UNSPECIFIED; }
};

inline constexpr char kNoCompression[] = "none";

// Of kNoCompression, or a row of codecs.inc with its argument: "int8", "top-k:0.01".
// InvalidArgument says what was expected.
absl::StatusOr<Compression> ParseCompression(absl::string_view text);

// kNoCompression and the rows, with a line of help each.
std::string DescribeCompressions();

// The share in `step`: with a warm-up of N steps it falls from a quarter to `density`, by
// the same factor each step (Lin et al., Deep Gradient Compression, ICLR 2018, 3.3).
double DensityAt(const Compression& compression, uint64_t step);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_COMPRESS_COMPRESSION_H_
