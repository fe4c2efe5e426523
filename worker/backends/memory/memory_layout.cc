#include "worker/backends/memory/memory_layout.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/fold/fold.h"

namespace gradwire {
namespace {

constexpr uint64_t kLine = 64;  // of the cache
// A smaller bucket is not divided: to wait for several workers costs more than to add it.
constexpr uint64_t kSmallBytes = 32 << 10;

uint64_t RoundUp(uint64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

}  // namespace

std::string MemoryName(const View& view, size_t worker, const std::string& what) {
  return absl::StrCat("gradwire-", absl::Hex(view.members[worker].incarnation.value()), "-",
                      view.generation.value(), "-", what);
}

MemoryLayout::MemoryLayout(const View& view, LayoutId id, std::vector<BucketSpec> buckets)
    : view_(view),
      id_(id),
      buckets_(std::move(buckets)),
      blocks_(buckets_, view.world_size),
      memory_(view.members.size()),
      carrier_(view.world_size),
      place_(view.world_size) {
  for (const BucketSpec& bucket : buckets_) {
    offsets_.push_back(total_);
    total_ += RoundUp(bucket.bytes);
  }
  for (size_t worker = 0; worker < view.members.size(); ++worker) {
    const Member& member = view.members[worker];
    if (member.incarnation == view.self) self_ = worker;
    for (size_t place = 0; place < member.ranks.size(); ++place) {
      carrier_[member.ranks[place].value()] = worker;
      place_[member.ranks[place].value()] = place;
    }
  }
}

size_t MemoryLayout::MeansAt(size_t worker) const {
  return buckets_.size() * sizeof(Progress) + view_.members[worker].ranks.size() * total_;
}

size_t MemoryLayout::BytesOf(size_t worker) const {
  return std::max<size_t>(kLine, MeansAt(worker) + total_);
}

std::string MemoryLayout::NameOf(size_t worker) const {
  return MemoryName(view_, worker, absl::StrCat("layout-", id_.value()));
}

absl::Status MemoryLayout::Make() {
  absl::StatusOr<SharedMemory> made =
      SharedMemory::Make(NameOf(self_), BytesOf(self_), SharedMemory::Writer::kMaker);
  if (!made.ok()) return made.status();
  memory_[self_] = *std::move(made);
  return absl::OkStatus();
}

absl::Status MemoryLayout::Open(size_t* at) {
  if (open_) return absl::OkStatus();
  for (size_t worker = 0; worker < memory_.size(); ++worker) {
    if (memory_[worker].data() != nullptr) continue;
    *at = worker;
    absl::StatusOr<SharedMemory> opened = SharedMemory::Open(
        view_.members[worker].pid, NameOf(worker), BytesOf(worker), SharedMemory::Writer::kMaker);
    if (!opened.ok()) return opened.status();
    memory_[worker] = *std::move(opened);
  }
  open_ = true;
  return absl::OkStatus();
}

const uint8_t* MemoryLayout::Terms(Rank rank, Bucket bucket) const {
  return memory_[carrier_[rank.value()]].data() + buckets_.size() * sizeof(Progress) +
         place_[rank.value()] * total_ + offsets_[bucket.value()];
}

MemoryLayout::Progress* MemoryLayout::ProgressOf(size_t worker, Bucket bucket) const {
  return reinterpret_cast<Progress*>(memory_[worker].data()) + bucket.value();
}

MemoryLayout::Part MemoryLayout::PartOf(size_t worker, Bucket bucket) const {
  const uint64_t bytes = buckets_[bucket.value()].bytes;
  const size_t workers = memory_.size();
  if (bytes < kSmallBytes) {
    return {0, bucket.value() % workers == worker ? bytes : 0};
  }
  const uint64_t each = RoundUp((bytes + workers - 1) / workers);
  const uint64_t begin = std::min(bytes, each * worker);
  return {begin, std::min(bytes, begin + each) - begin};
}

void MemoryLayout::Write(Bucket bucket, Rank rank, absl::Span<const uint8_t> terms) {
  std::memcpy(const_cast<uint8_t*>(Terms(rank, bucket)), terms.data(), terms.size());
}

void MemoryLayout::Publish(std::atomic<uint64_t> Progress::*point, const BucketKey& key) {
  (ProgressOf(self_, key.bucket)->*point).store(key.step.value() + 1, std::memory_order_release);
}

std::vector<size_t> MemoryLayout::Missing(std::atomic<uint64_t> Progress::*point,
                                          const BucketKey& key) const {
  const BucketSpec& spec = buckets_[key.bucket.value()];
  std::vector<size_t> missing;
  for (size_t worker = 0; worker < memory_.size(); ++worker) {
    if (point == &Progress::contributed && !HasTerms(worker, spec)) continue;
    const uint64_t past =
        memory_[worker].data() == nullptr
            ? 0
            : (ProgressOf(worker, key.bucket)->*point).load(std::memory_order_acquire);
    if (past <= key.step.value()) missing.push_back(worker);
  }
  return missing;
}

bool MemoryLayout::HasTerms(size_t worker, const BucketSpec& spec) const {
  const std::vector<Rank>& ranks = view_.members[worker].ranks;
  return std::any_of(ranks.begin(), ranks.end(),
                     [&spec](Rank rank) { return Contributes(spec, rank); });
}

void MemoryLayout::Fold(Bucket bucket) {
  const BucketSpec& spec = buckets_[bucket.value()];
  const Part part = PartOf(self_, bucket);
  if (IsBroadcast(spec) || part.bytes == 0) return;
  std::vector<ByteSpans> terms;
  for (int rank = 0; rank < view_.world_size; ++rank) {
    terms.push_back({{Terms(Rank(rank), bucket) + part.offset, part.bytes}});
  }
  uint8_t* means = memory_[self_].data() + MeansAt(self_) + offsets_[bucket.value()];
  gradwire::Fold(terms, spec.dtype, blocks_.Cut(bucket, part.offset, part.bytes),
                 {means + part.offset, part.bytes});
}

bool MemoryLayout::Receives(const BucketSpec& spec) const {
  const int world_size = view_.world_size;
  switch (CollectiveOf(spec)) {
    case v1::COLLECTIVE_REDUCE:
    case v1::COLLECTIVE_GATHER:
      return view_.Carries(spec.root);
    case v1::COLLECTIVE_SEND_RECV:
      return view_.Carries(Rank((spec.root.value() + world_size - 1) % world_size));
    default:
      return true;
  }
}

void MemoryLayout::ReadParts(Bucket bucket, absl::Span<uint8_t> result) const {
  const uint64_t bytes = result.size();
  const uint64_t ranks = view_.world_size;
  for (uint64_t rank = 0; rank < ranks; ++rank) {
    const auto begin_of = [&](uint64_t part) {
      return bytes / ranks * part + std::min(part, bytes % ranks);
    };
    const uint64_t begin = begin_of(rank);
    std::memcpy(result.data() + begin, Terms(Rank(static_cast<int>(rank)), bucket) + begin,
                begin_of(rank + 1) - begin);
  }
}

void MemoryLayout::ReadMeans(Bucket bucket, absl::Span<uint8_t> result) const {
  for (size_t worker = 0; worker < memory_.size(); ++worker) {
    const Part part = PartOf(worker, bucket);
    if (part.bytes == 0) continue;
    const uint8_t* means = memory_[worker].data() + MeansAt(worker) + offsets_[bucket.value()];
    std::memcpy(result.data() + part.offset, means + part.offset, part.bytes);
  }
}

void MemoryLayout::ReadTerms(Bucket bucket, absl::Span<uint8_t> result) const {
  const BucketSpec& spec = buckets_[bucket.value()];
  if (!IsBroadcast(spec) || !Receives(spec)) return;
  const v1::Collective collective = CollectiveOf(spec);
  if (collective == v1::COLLECTIVE_GATHER || collective == v1::COLLECTIVE_ALL_GATHER) {
    return ReadParts(bucket, result);
  }
  std::memcpy(result.data(), Terms(spec.root, bucket), result.size());
}

void MemoryLayout::Read(Bucket bucket, absl::Span<uint8_t> result) const {
  const BucketSpec& spec = buckets_[bucket.value()];
  if (!IsBroadcast(spec) && Receives(spec)) ReadMeans(bucket, result);
}

}  // namespace gradwire
