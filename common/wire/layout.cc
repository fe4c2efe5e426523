#include "common/wire/layout.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gradwire {
namespace {

struct WireType {
  const char* name;
  v1::DType dtype;
};

constexpr WireType kWireTypes[] = {
    {"fp32", v1::DTYPE_FLOAT32},
    {"bf16", v1::DTYPE_BFLOAT16},
    {"fp16", v1::DTYPE_FLOAT16},
};

std::string ToString(const BucketSpec& bucket) {
  std::string text = absl::StrCat(bucket.bytes, " bytes of ", v1::DType_Name(bucket.dtype));
  if (bucket.collective != v1::COLLECTIVE_UNSPECIFIED) {
    absl::StrAppend(&text, " in ", v1::Collective_Name(bucket.collective));
  }
  if (bucket.root != Rank(0)) absl::StrAppend(&text, " with root ", bucket.root.value());
  return text;
}

// Describes the first index at which the two lists differ, and their sizes if these differ.
template <typename T>
std::string FirstDifferenceOf(const std::vector<T>& got, const std::vector<T>& expected,
                              absl::string_view what, absl::string_view expected_owner) {
  if (got == expected) return "";
  std::vector<std::string> differences;
  const size_t common = std::min(got.size(), expected.size());
  const auto first = std::mismatch(got.begin(), got.begin() + common, expected.begin());
  if (const size_t i = first.first - got.begin(); i < common) {
    differences.push_back(absl::StrCat(what, " ", i, ": got ", ToString(got[i]), ", expected ",
                                       ToString(expected[i])));
  }
  if (got.size() != expected.size()) {
    differences.push_back(
        absl::StrCat("got ", got.size(), " ", what, "s, expected ", expected.size()));
  }
  return absl::StrCat(absl::StrJoin(differences, "; "), " (", expected_owner, ")");
}

}  // namespace

uint64_t ElementBytes(v1::DType dtype) {
  switch (dtype) {
    case v1::DTYPE_FLOAT32:
      return 4;
    case v1::DTYPE_BFLOAT16:
    case v1::DTYPE_FLOAT16:
      return 2;
    case v1::DTYPE_BYTES:
      return 1;
    default:
      return IsCoded(dtype) ? 4 : 0;
  }
}

bool IsCoded(v1::DType dtype) {
#define GRADWIRE_CODEC(name, row_dtype, ...) \
  if (dtype == row_dtype) return true;
#include "common/wire/codecs.inc"
  return false;
}

bool IsBroadcast(const BucketSpec& spec) { return spec.dtype == v1::DTYPE_BYTES; }

v1::Collective CollectiveOf(const BucketSpec& spec) {
  if (spec.collective != v1::COLLECTIVE_UNSPECIFIED) return spec.collective;
  return IsBroadcast(spec) ? v1::COLLECTIVE_BROADCAST : v1::COLLECTIVE_ALL_REDUCE;
}

bool Contributes(const BucketSpec& spec, Rank rank) {
  const v1::Collective collective = CollectiveOf(spec);
  const bool of_root = collective == v1::COLLECTIVE_BROADCAST ||
                       collective == v1::COLLECTIVE_SCATTER ||
                       collective == v1::COLLECTIVE_SEND_RECV;
  return !of_root || rank == spec.root;
}

std::vector<BucketSpec> WireSpecs(std::vector<BucketSpec> float_specs, v1::DType wire) {
  for (BucketSpec& spec : float_specs) {
    if (spec.dtype != v1::DTYPE_FLOAT32) continue;
    spec.bytes = spec.bytes / ElementBytes(spec.dtype) * ElementBytes(wire);
    spec.dtype = wire;
  }
  return float_specs;
}

absl::StatusOr<v1::DType> ParseWire(absl::string_view name) {
  for (const WireType& type : kWireTypes) {
    if (name == type.name) return type.dtype;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("wire type: got '", name, "', expected ", absl::StrJoin(WireNames(), ", ")));
}

absl::string_view WireName(v1::DType dtype) {
  for (const WireType& type : kWireTypes) {
    if (dtype == type.dtype) return type.name;
  }
  return "bytes";
}

std::vector<std::string> WireNames() {
  std::vector<std::string> names;
  for (const WireType& type : kWireTypes) names.push_back(type.name);
  return names;
}

std::string ToString(const TensorSpec& tensor) {
  return absl::StrCat("'", tensor.name, "' ", tensor.dtype, " [", absl::StrJoin(tensor.shape, ", "),
                      "]");
}

std::string FirstDifference(const Layout& got, const Layout& expected,
                            absl::string_view expected_owner) {
  return FirstDifferenceOf(got, expected, "tensor", expected_owner);
}

std::string FirstDifference(const std::vector<BucketSpec>& got,
                            const std::vector<BucketSpec>& expected,
                            absl::string_view expected_owner) {
  return FirstDifferenceOf(got, expected, "bucket", expected_owner);
}

v1::Layout ToProto(const Layout& layout, const std::vector<BucketSpec>& buckets) {
  v1::Layout proto;
  for (const TensorSpec& tensor : layout) {
    v1::Tensor* out = proto.add_tensors();
    out->set_name(tensor.name);
    out->mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
    out->set_dtype(tensor.dtype);
    out->set_buffer(tensor.buffer);
  }
  for (const BucketSpec& bucket : buckets) {
    v1::Bucket* out = proto.add_buckets();
    out->set_bytes(bucket.bytes);
    out->set_dtype(bucket.dtype);
    out->set_root(bucket.root.value());
    out->set_collective(bucket.collective);
  }
  return proto;
}

Layout TensorsFromProto(const v1::Layout& proto) {
  Layout layout;
  for (const v1::Tensor& tensor : proto.tensors()) {
    layout.push_back({tensor.name(),
                      {tensor.shape().begin(), tensor.shape().end()},
                      tensor.dtype(),
                      tensor.buffer()});
  }
  return layout;
}

std::vector<BucketSpec> BucketsFromProto(
    const google::protobuf::RepeatedPtrField<v1::Bucket>& protos) {
  std::vector<BucketSpec> buckets;
  for (const v1::Bucket& bucket : protos) {
    buckets.push_back({bucket.bytes(), bucket.dtype(), Rank(static_cast<int>(bucket.root())),
                       bucket.collective()});
  }
  return buckets;
}

}  // namespace gradwire
