#include "coordinator/membership/admission.h"

#include "absl/strings/str_cat.h"
#include "common/base/address.h"

namespace gradwire {
namespace {

using Settings = std::map<std::string, std::string>;

std::string Quoted(const Settings& settings, const std::string& name) {
  const auto it = settings.find(name);
  return it == settings.end() ? "nothing" : it->second;
}

absl::Status CheckSettings(const Settings& got, const Terms& terms) {
  Settings all = terms.settings;
  all.insert(got.begin(), got.end());
  for (const auto& [name, unused] : all) {
    const auto it = got.find(name);
    const auto expected = terms.settings.find(name);
    if (it != got.end() && expected != terms.settings.end() && it->second == expected->second) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat("setting '", name, "': got ", Quoted(got, name),
                                                   ", expected ", Quoted(terms.settings, name),
                                                   " (", terms.owner, ")"));
  }
  return absl::OkStatus();
}

// More than any gradient; less than what sums and tables of it could overflow at.
constexpr uint64_t kMaxBytes = uint64_t{1} << 38;

absl::Status CheckBuckets(const std::vector<BucketSpec>& buckets) {
  uint64_t total = 0;
  bool has_gradients = false;
  for (size_t i = 0; i < buckets.size(); ++i) {
    const BucketSpec& bucket = buckets[i];
    const uint64_t element_bytes = ElementBytes(bucket.dtype);
    has_gradients |= bucket.dtype != v1::DTYPE_BYTES;
    if (bucket.bytes > kMaxBytes || (total += bucket.bytes) > kMaxBytes) {
      return absl::InvalidArgumentError(absl::StrCat("bucket ", i, ": got ", bucket.bytes,
                                                     " bytes, expected at most ", kMaxBytes,
                                                     " in all buckets"));
    }
    if (element_bytes > 0 && bucket.bytes > 0 && bucket.bytes % element_bytes == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "bucket ", i, ": got ", bucket.bytes, " bytes of dtype ", static_cast<int>(bucket.dtype),
        ", expected at least one whole element of DTYPE_FLOAT32, DTYPE_BFLOAT16, DTYPE_FLOAT16 or "
        "DTYPE_BYTES"));
  }
  if (has_gradients) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("buckets: got ", buckets.size(),
                                                 " and none of gradients, expected at least one "
                                                 "of a floating-point dtype"));
}

}  // namespace

Terms TermsOf(const v1::Hello& hello, absl::string_view owner) {
  return {std::string(owner), LayoutFromProto(hello), BucketsFromProto(hello),
          Settings(hello.settings().begin(), hello.settings().end())};
}

absl::Status CheckForm(const v1::Hello& hello, int world_size) {
  if (hello.world_size() != 0 && hello.world_size() != static_cast<uint32_t>(world_size)) {
    return absl::InvalidArgumentError(absl::StrCat("world size: got ", hello.world_size(),
                                                   ", expected ", world_size, " (coordinator)"));
  }
  if (hello.has_rank() && hello.rank() >= static_cast<uint32_t>(world_size)) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank: got ", hello.rank(), ", expected 0 to ", world_size - 1));
  }
  const absl::StatusOr<HostPort> address = ParseHostPort(hello.address());
  if (!address.ok()) return address.status();
  return CheckBuckets(BucketsFromProto(hello));
}

absl::Status CheckTerms(const v1::Hello& hello, const Terms& terms) {
  std::string difference = FirstDifference(LayoutFromProto(hello), terms.layout, terms.owner);
  if (!difference.empty()) return absl::InvalidArgumentError(difference);
  // Settings before buckets: a bucket differs because some setting does.
  const Settings settings(hello.settings().begin(), hello.settings().end());
  if (absl::Status status = CheckSettings(settings, terms); !status.ok()) return status;
  difference = FirstDifference(BucketsFromProto(hello), terms.buckets, terms.owner);
  if (!difference.empty()) return absl::InvalidArgumentError(difference);
  return absl::OkStatus();
}

absl::Status CheckReach(absl::string_view address, absl::string_view other_address,
                        absl::string_view other) {
  const absl::StatusOr<HostPort> mine = ParseHostPort(address);
  const absl::StatusOr<HostPort> theirs = ParseHostPort(other_address);
  if (!mine.ok()) return mine.status();
  if (!theirs.ok()) return theirs.status();
  if (IsLoopback(mine->host) == IsLoopback(theirs->host)) return absl::OkStatus();
  const bool mine_is_bad = IsLoopback(mine->host);
  return absl::InvalidArgumentError(absl::StrCat(
      "address: got ", address, ", but ", other, " has ", other_address, ", and ",
      mine_is_bad ? address : other_address, " cannot be reached from other hosts; start ",
      mine_is_bad ? "this worker" : other,
      " with --coordinator set to the address that the coordinator's host has in the common "
      "network, or with --advertise HOST"));
}

}  // namespace gradwire
