#ifndef GRADWIRE_COMMON_COMPRESS_COMPRESSION_H_
#define GRADWIRE_COMMON_COMPRESS_COMPRESSION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gradwire/v1/chunk.pb.h"

namespace gradwire {

// How terms of gradients are compressed, from --compress. The same on all workers.
struct Compression {
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;  // of the payloads; unspecified: no compression
  // For a dtype that sends only a share of the elements:
  bool has_density = false;
  double density = 1;  // the share
  float momentum = 0;  // kept by ranks instead of the optimizer's
  // Rank of the products that replace matrices; 0: no matrix. The dtype is then float32.
  uint64_t rank = 0;
  // Steps until the density is reached, or until products begin.
  int64_t warmup_steps = 0;

  bool is_on() const { return dtype != v1::DTYPE_UNSPECIFIED; }
  bool has_factors() const { return rank > 0; }
  // Returns whether a Coding encodes the payloads.
  bool is_coded() const { return is_on() && !has_factors(); }
  bool has_warmup() const { return has_density || has_factors(); }
};

inline constexpr char kNoCompression[] = "none";

// Parses kNoCompression or a row of codecs.inc with its argument: "int8", "top-k:0.01",
// "powersgd:2". InvalidArgument has the expected values.
absl::StatusOr<Compression> ParseCompression(absl::string_view text);

// Returns kNoCompression and the rows, each with a line of help.
std::string DescribeCompressions();

// Returns the share in `step`. With a warm-up of N steps it falls from a quarter to `density`, by
// the same factor in each step (Lin et al., Deep Gradient Compression, ICLR 2018, 3.3).
double DensityAt(const Compression& compression, uint64_t step);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_COMPRESS_COMPRESSION_H_
