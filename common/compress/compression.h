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
  double density = 1;  // the share of elements
  float momentum = 0;  // that ranks keep, in place of the optimiser's
  // Of the matrices that travel as products; 0: none does. The dtype is float32 then.
  uint64_t rank = 0;
  // Steps until the density is reached, or that products begin after.
  int64_t warmup_steps = 0;

  bool is_on() const { return dtype != v1::DTYPE_UNSPECIFIED; }
  bool has_factors() const { return rank > 0; }
  // Whether payloads are made and read by a Coding.
  bool is_coded() const { return is_on() && !has_factors(); }
  bool has_warmup() const { return has_density || has_factors(); }
};

inline constexpr char kNoCompression[] = "none";

// Of kNoCompression, or a row of codecs.inc with its argument: "int8", "top-k:0.01", "powersgd:2".
// InvalidArgument says what was expected.
absl::StatusOr<Compression> ParseCompression(absl::string_view text);

// kNoCompression and the rows, with a line of help each.
std::string DescribeCompressions();

// The share in `step`: with a warm-up of N steps it falls from a quarter to `density`, by
// the same factor each step (Lin et al., Deep Gradient Compression, ICLR 2018, 3.3).
double DensityAt(const Compression& compression, uint64_t step);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_COMPRESS_COMPRESSION_H_
