#include "worker/backends/memory/memory_budget.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/base/memory_limits.h"
#include "worker/backends/memory/memory_layout.h"

namespace gradwire {
namespace {

struct Limit {
  const char* what;
  uint64_t bytes;   // that shared memory may take
  uint64_t needed;  // that it would take
};

uint64_t HalfOf(uint64_t bytes) { return bytes == MemoryLimits::kNoLimit ? bytes : bytes / 2; }

}  // namespace

absl::Status CheckMemoryLimits(const Member& member, uint64_t own, uint64_t all) {
  const MemoryLimits& limits = member.limits;
  const Limit rows[] = {
      {"a file by ulimit -f", limits.file, own},
      {"half of the addresses that ulimit -v leaves", HalfOf(limits.address), all},
      {"half of what the memory limit of its control group leaves", HalfOf(limits.group), all},
      {"half of what is available on its host", HalfOf(limits.host), all}};
  for (const Limit& limit : rows) {
    if (limit.needed <= limit.bytes) continue;
    return absl::ResourceExhaustedError(absl::StrCat(
        NameOf(member.ranks), " (", member.address, ") may get ", MemoryText(limit.bytes), " (",
        limit.what, "), but ", MemoryText(limit.needed), " of shared memory are needed"));
  }
  return absl::OkStatus();
}

absl::Status MemoryBudget::Add(absl::Span<const BucketSpec> buckets) {
  std::vector<uint64_t> own, needed = needed_;
  for (size_t worker = 0; worker < view_.members.size(); ++worker) {
    own.push_back(MemoryLayout::BytesOf(buckets, wire_, view_.members[worker].ranks.size()));
    needed[worker] += own.back();
  }
  const uint64_t all = std::accumulate(needed.begin(), needed.end(), uint64_t{0});
  for (size_t worker = 0; worker < view_.members.size(); ++worker) {
    absl::Status fits = CheckMemoryLimits(view_.members[worker], own[worker], all);
    if (!fits.ok()) return fits;
  }
  needed_ = std::move(needed);
  return absl::OkStatus();
}

}  // namespace gradwire
