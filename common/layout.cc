#include "common/layout.h"

#include <openssl/sha.h>

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gradwire {
namespace {

std::string ToString(const BucketSpec& bucket) {
  return absl::StrCat(bucket.bytes, " bytes of ", v1::DType_Name(bucket.dtype));
}

// The first index at which the two lists differ, as a sentence.
template <typename T>
std::string FirstDifferenceOf(const std::vector<T>& got, const std::vector<T>& expected,
                              absl::string_view what, absl::string_view expected_owner) {
  const size_t common = std::min(got.size(), expected.size());
  for (size_t i = 0; i < common; ++i) {
    if (got[i] == expected[i]) continue;
    return absl::StrCat(what, " ", i, ": got ", ToString(got[i]), ", expected ",
                        ToString(expected[i]), " (", expected_owner, ")");
  }
  if (got.size() == expected.size()) return "";
  return absl::StrCat("got ", got.size(), " ", what, "s, expected ", expected.size(), " (",
                      expected_owner, ")");
}

}  // namespace

std::string ToString(const TensorSpec& tensor) {
  return absl::StrCat("'", tensor.name, "' ", tensor.dtype, " [", absl::StrJoin(tensor.shape, ", "),
                      "]");
}

std::string Fingerprint(const Layout& layout) {
  std::string text;
  for (const TensorSpec& tensor : layout) {
    absl::StrAppend(&text, tensor.buffer ? "buffer " : "parameter ", ToString(tensor), "\n");
  }
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), sizeof(digest)));
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

void ToProto(const Layout& layout, v1::Hello* hello) {
  for (const TensorSpec& tensor : layout) {
    v1::Tensor* out = hello->add_tensors();
    out->set_name(tensor.name);
    out->mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
    out->set_dtype(tensor.dtype);
    out->set_buffer(tensor.buffer);
  }
}

void ToProto(const std::vector<BucketSpec>& buckets, v1::Hello* hello) {
  for (const BucketSpec& bucket : buckets) {
    v1::Bucket* out = hello->add_buckets();
    out->set_bytes(bucket.bytes);
    out->set_dtype(bucket.dtype);
  }
}

Layout LayoutFromProto(const v1::Hello& hello) {
  Layout layout;
  for (const v1::Tensor& tensor : hello.tensors()) {
    layout.push_back({tensor.name(),
                      {tensor.shape().begin(), tensor.shape().end()},
                      tensor.dtype(),
                      tensor.buffer()});
  }
  return layout;
}

std::vector<BucketSpec> BucketsFromProto(const v1::Hello& hello) {
  std::vector<BucketSpec> buckets;
  for (const v1::Bucket& bucket : hello.buckets()) {
    buckets.push_back({bucket.bytes(), bucket.dtype()});
  }
  return buckets;
}

}  // namespace gradwire
