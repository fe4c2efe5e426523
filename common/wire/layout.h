#ifndef GRADWIRE_COMMON_WIRE_LAYOUT_H_
#define GRADWIRE_COMMON_WIRE_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/ids.h"
#include "gradwire/v1/membership.pb.h"

namespace gradwire {

// Identifies a tensor's bits: XXH3_64bits of its elements in memory.
struct TensorDigest {
  size_t tensor = 0;  // index in the Layout
  uint64_t digest = 0;

  friend bool operator==(const TensorDigest& a, const TensorDigest& b) {
    return a.tensor == b.tensor && a.digest == b.digest;
  }
};

// A parameter or buffer of a model: its name, shape and element type
// ("float32", "int64").
struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;
  std::string dtype;
  bool buffer = false;

  friend bool operator==(const TensorSpec& a, const TensorSpec& b) {
    return a.name == b.name && a.shape == b.shape && a.dtype == b.dtype && a.buffer == b.buffer;
  }
};

// All parameters, then all buffers, each in registration order.
using Layout = std::vector<TensorSpec>;

// Name of the layout through which a worker's ranks share an evaluation. Its steps belong to no
// iteration.
inline constexpr char kEvaluationLayout[] = "evaluation";

// How one bucket is exchanged: bytes of rank `root` are copied to all ranks; other types are
// averaged over all ranks. `bytes` is the size in the dtype. Some back ends have further
// collectives.
struct BucketSpec {
  uint64_t bytes = 0;
  v1::DType dtype = v1::DTYPE_FLOAT32;
  Rank root = Rank(0);
  v1::Collective collective = v1::COLLECTIVE_UNSPECIFIED;

  friend bool operator==(const BucketSpec& a, const BucketSpec& b) {
    return a.bytes == b.bytes && a.dtype == b.dtype && a.root == b.root &&
           a.collective == b.collective;
  }
};

// Returns whether it is of bytes, which are copied and not summed.
bool IsBroadcast(const BucketSpec& spec);
// Returns its collective; never unspecified.
v1::Collective CollectiveOf(const BucketSpec& spec);
// Returns whether `rank` contributes to it.
bool Contributes(const BucketSpec& spec, Rank rank);

// Returns whether a codec encodes its payloads (common/compress); the size of such buckets is given
// in float32.
bool IsCoded(v1::DType dtype);

// Returns the bytes of an element; 1 for BYTES, and 0 for an unknown dtype.
uint64_t ElementBytes(v1::DType dtype);

// Converts a layout in float32 (and bytes) to the type on the wire: buckets of floats become
// buckets of as many elements of `wire`; buckets of bytes stay.
std::vector<BucketSpec> WireSpecs(std::vector<BucketSpec> float_specs, v1::DType wire);

// Parses a value of --wire: "fp32", "bf16", "fp16". InvalidArgument for others.
absl::StatusOr<v1::DType> ParseWire(absl::string_view name);
absl::string_view WireName(v1::DType dtype);
std::vector<std::string> WireNames();

// "weight float32 [64, 3, 3, 3]"
std::string ToString(const TensorSpec& tensor);

// Returns "" if equal; else a sentence with the first difference, such as "tensor 3: got
// 'fc1.weight' float32 [10, 256], expected … (rank 0)". `expected_owner` follows the expected value
// in parentheses.
std::string FirstDifference(const Layout& got, const Layout& expected,
                            absl::string_view expected_owner);
std::string FirstDifference(const std::vector<BucketSpec>& got,
                            const std::vector<BucketSpec>& expected,
                            absl::string_view expected_owner);

// Converts a layout's tensors and its buckets, with the type on the wire.
v1::Layout ToProto(const Layout& layout, const std::vector<BucketSpec>& buckets);
Layout TensorsFromProto(const v1::Layout& proto);
std::vector<BucketSpec> BucketsFromProto(
    const google::protobuf::RepeatedPtrField<v1::Bucket>& protos);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_WIRE_LAYOUT_H_
