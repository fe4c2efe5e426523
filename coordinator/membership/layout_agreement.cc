#include "coordinator/membership/layout_agreement.h"

#include "absl/strings/str_cat.h"
#include "common/base/plain_text.h"
#include "common/base/status_util.h"

namespace gradwire {
namespace {

// More than any gradient needs; sums and tables of that size cannot overflow.
constexpr uint64_t kMaxBytes = uint64_t{1} << 38;
// More than any model needs.
constexpr int kMaxBuckets = 1 << 16;
constexpr int kMaxTensors = 1 << 18;
constexpr size_t kMaxNameBytes = 256;

absl::Status CheckBucket(const BucketSpec& bucket, int world_size) {
  const uint64_t element_bytes = ElementBytes(bucket.dtype);
  if (element_bytes == 0 || bucket.bytes == 0 || bucket.bytes % element_bytes != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "got ", bucket.bytes, " bytes of dtype ", static_cast<int>(bucket.dtype),
        ", expected at least one whole element of DTYPE_FLOAT32, DTYPE_BFLOAT16, DTYPE_FLOAT16, "
        "DTYPE_INT8, DTYPE_SPARSE or DTYPE_BYTES"));
  }
  if (bucket.root.value() >= 0 && bucket.root.value() < world_size) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("got root ", bucket.root.value(), ", expected 0 to ", world_size - 1));
}

absl::Status CheckBuckets(const std::vector<BucketSpec>& buckets, int world_size) {
  uint64_t total = 0;
  bool has_gradients = false;
  for (size_t i = 0; i < buckets.size(); ++i) {
    const BucketSpec& bucket = buckets[i];
    has_gradients |= !IsBroadcast(bucket);
    if (bucket.bytes > kMaxBytes || (total += bucket.bytes) > kMaxBytes) {
      return absl::InvalidArgumentError(absl::StrCat("bucket ", i, ": got ", bucket.bytes,
                                                     " bytes, expected at most ", kMaxBytes,
                                                     " in all buckets"));
    }
    absl::Status status = CheckBucket(bucket, world_size);
    if (!status.ok()) return Annotate(status, absl::StrCat("bucket ", i));
  }
  if (has_gradients) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("buckets: got ", buckets.size(),
                                                 " and none of gradients, expected at least one "
                                                 "of a floating-point dtype"));
}

std::string NameOf(const v1::Layout& layout) {
  const std::string name = Shortened(layout.name(), kMaxNameBytes);
  return absl::StrCat("layout ", layout.id(), name.empty() ? "" : absl::StrCat(" (", name, ")"));
}

absl::Status CheckSize(const v1::Layout& layout) {
  if (layout.buckets_size() <= kMaxBuckets && layout.tensors_size() <= kMaxTensors) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("got ", layout.buckets_size(), " buckets and ", layout.tensors_size(),
                   " tensors, expected at most ", kMaxBuckets, " and ", kMaxTensors));
}

// Aggregators keep served parameters in float32.
absl::Status CheckServing(const std::vector<BucketSpec>& buckets, const v1::Serving& serving) {
  for (size_t i = 0; i < buckets.size() && !serving.optimizer().empty(); ++i) {
    if (buckets[i].dtype == v1::DTYPE_FLOAT32 || IsBroadcast(buckets[i])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("bucket ", i, ": got ", v1::DType_Name(buckets[i].dtype),
                     ", expected DTYPE_FLOAT32, because the layout is served"));
  }
  return absl::OkStatus();
}

// Returns "" if both are equal.
std::string ServingDifference(const v1::Serving& got, const v1::Serving& expected,
                              absl::string_view owner) {
  if (got.SerializeAsString() == expected.SerializeAsString()) return "";
  return absl::StrCat("serving: got '", got.ShortDebugString(), "', expected '",
                      expected.ShortDebugString(), "' (", owner, ")");
}

}  // namespace

absl::StatusOr<bool> LayoutAgreement::Declare(Incarnation worker, absl::string_view name,
                                              const v1::Layout& layout) {
  size_t& next = next_[worker];
  if (layout.id() != next) {
    return absl::InvalidArgumentError(
        absl::StrCat("layout: got id ", layout.id(), ", expected ", next));
  }
  if (absl::Status size = CheckSize(layout); !size.ok()) return Annotate(size, NameOf(layout));
  Declared got = {NameOf(layout), std::string(name), TensorsFromProto(layout),
                  BucketsFromProto(layout.buckets()), layout.serving()};
  absl::Status status = CheckBuckets(got.buckets, world_size_);
  if (status.ok()) status = CheckServing(got.buckets, got.serving);
  if (!status.ok()) return Annotate(status, got.name);
  got.is_evaluation = layout.name() == kEvaluationLayout && IsBroadcast(got.buckets.front());
  if (next == layouts_.size()) layouts_.push_back(got);
  Declared& expected = layouts_[next];
  std::string difference = FirstDifference(got.tensors, expected.tensors, expected.owner);
  if (difference.empty()) {
    difference = FirstDifference(got.buckets, expected.buckets, expected.owner);
  }
  if (difference.empty()) {
    difference = ServingDifference(got.serving, expected.serving, expected.owner);
  }
  if (!difference.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(got.name, ": ", difference));
  }
  ++next;
  const bool agreed = ++expected.workers == workers_;
  if (agreed) ++agreed_;
  return agreed;
}

std::vector<LayoutId> LayoutAgreement::Forget(Incarnation worker) {
  for (size_t id = 0; id < next_[worker]; ++id) --layouts_[id].workers;
  next_.erase(worker);
  --workers_;
  std::vector<LayoutId> agreed;
  while (agreed_ < layouts_.size() && layouts_[agreed_].workers == workers_) {
    agreed.emplace_back(static_cast<int>(agreed_++));
  }
  return agreed;
}

std::string LayoutAgreement::NameOfTensor(LayoutId id, size_t tensor) const {
  const bool is_declared = static_cast<size_t>(id.value()) < layouts_.size();
  const bool is_there = is_declared && tensor < layouts_[id.value()].tensors.size();
  return is_there ? layouts_[id.value()].tensors[tensor].name : absl::StrCat("tensor ", tensor);
}

std::optional<std::string> LayoutAgreement::MissingOf(Incarnation worker) const {
  const auto next = next_.find(worker);
  const size_t declared = next == next_.end() ? 0 : next->second;
  if (declared == layouts_.size()) return std::nullopt;
  return layouts_[declared].name;
}

}  // namespace gradwire
