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

// What tells a tensor's bits from others': XXH3_64bits of its elements as they lie in memory.
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

// How one bucket is exchanged: bytes means that those of rank `root` are copied to
// all; the other types mean averaged over all ranks. `bytes` counts in the dtype. Some back ends
// have further collectives.
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

// Whether it is of bytes, which are copied and not summed.
bool IsBroadcast(const BucketSpec& spec);
// What is done with it; never unspecified.
v1::Collective CollectiveOf(const BucketSpec& spec);
// Whether `rank` puts something in.
bool Contributes(const BucketSpec& spec, Rank rank);

// Whether payloads are made by a codec (common/compress); buckets of such a dtype count their
// bytes in float32.
bool IsCoded(v1::DType dtype);

// Bytes of an element; 1 for BYTES, and 0 for a dtype that this version does not know.
uint64_t ElementBytes(v1::DType dtype);

// A layout in float32 (and bytes) as it is on the wire: buckets of floats become
// buckets of as many elements of `wire`; buckets of bytes stay.
std::vector<BucketSpec> WireSpecs(std::vector<BucketSpec> float_specs, v1::DType wire);

// The names that --wire takes: "fp32", "bf16", "fp16". InvalidArgument for others.
absl::StatusOr<v1::DType> ParseWire(absl::string_view name);
absl::string_view WireName(v1::DType dtype);
std::vector<std::string> WireNames();

// "weight float32 [64, 3, 3, 3]"
std::string ToString(const TensorSpec& tensor);

// SHA-256 over names, types and shapes, as 64 hexadecimal digits.
std::string Fingerprint(const Layout& layout);

// Empty if equal; else one sentence that names the first difference, such as
// "tensor 3: got 'fc1.weight' float32 [10, 256], expected … (rank 0)".
// `expected_owner` is put in brackets behind what was expected.
std::string FirstDifference(const Layout& got, const Layout& expected,
                            absl::string_view expected_owner);
std::string FirstDifference(const std::vector<BucketSpec>& got,
                            const std::vector<BucketSpec>& expected,
                            absl::string_view expected_owner);

// A layout's tensors and its buckets as they are on the wire.
v1::Layout ToProto(const Layout& layout, const std::vector<BucketSpec>& buckets);
Layout TensorsFromProto(const v1::Layout& proto);
std::vector<BucketSpec> BucketsFromProto(
    const google::protobuf::RepeatedPtrField<v1::Bucket>& protos);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_WIRE_LAYOUT_H_
