#include "worker/backends/hops/hop_plans.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/wire/judge.h"

namespace gradwire {
namespace {

// Small enough to overlap hops, and large enough to make the cost of a message small.
constexpr uint64_t kHopChunkBytes = 512 << 10;

absl::Status JudgeAll(const Chunk& chunk, const View& view,
                      const std::vector<BucketSpec>& buckets) {
  const ChunkHeader& header = chunk.header;
  const ReceiverState receiver{view.run_id, view.epoch,      view.generation,
                               header.step, view.world_size, buckets};
  const absl::StatusOr<Verdict> verdict =
      JudgeHeader(header, TotalBytes(chunk.payload), receiver, absl::nullopt);
  if (!verdict.ok()) return verdict.status();
  if (*verdict == Verdict::kAccept) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("chunk of ", ToString(header), ": got generation ",
                                                 header.generation.value(), ", expected ",
                                                 view.generation.value()));
}

}  // namespace

Segments Segments::Even(const BucketSpec& spec, int count) {
  Segments segments(count);
  const uint64_t element_bytes = ElementBytes(spec.dtype);
  const uint64_t elements = spec.bytes / element_bytes;
  uint64_t offset = 0;
  for (int segment = 0; segment < count; ++segment) {
    const bool longer = static_cast<uint64_t>(segment) < elements % count;
    const uint64_t end = offset + element_bytes * (elements / count + (longer ? 1 : 0));
    while (offset < end) {
      const uint64_t bytes = std::min(kHopChunkBytes, end - offset);
      segments.Add(segment, {offset, bytes, segment});
      offset += bytes;
    }
  }
  return segments;
}

Segments Segments::OfFold(Bucket bucket, const BucketSpec& spec, const FoldBlocks& blocks,
                          int world_size) {
  Segments segments(world_size);
  for (const FoldRange& range : blocks.Cut(bucket, 0, spec.bytes)) {
    segments.Add(range.first_rank, range);
  }
  return segments;
}

void Segments::Add(int segment, const FoldRange& range) {
  std::vector<HopChunk>& hop_chunks = segments_[static_cast<size_t>(segment)];
  if (hop_chunks.empty() || hop_chunks.back().bytes + range.bytes > kHopChunkBytes) {
    positions_[range.offset] = {segment, hop_chunks.size()};
    hop_chunks.emplace_back();
  }
  hop_chunks.back().ranges.push_back(range);
  hop_chunks.back().bytes += range.bytes;
}

const std::vector<HopChunk>& Segments::Of(int segment) const {
  return segments_[static_cast<size_t>(segment)];
}

uint64_t Segments::BytesOf(int segment) const {
  uint64_t bytes = 0;
  for (const HopChunk& hop_chunk : Of(segment)) bytes += hop_chunk.bytes;
  return bytes;
}

absl::optional<Segments::Position> Segments::Find(uint64_t offset) const {
  const auto found = positions_.find(offset);
  return found == positions_.end() ? absl::nullopt : absl::make_optional(found->second);
}

void HopPlans::Add(LayoutId layout, const std::vector<BucketSpec>& specs) {
  const FoldBlocks blocks(specs, view_.world_size);
  MutexLock lock(&mutex_);
  for (size_t i = 0; i < specs.size(); ++i) {
    const Bucket bucket(static_cast<int>(i));
    const HopPlan& hops = HopsOf(specs[i]);
    BucketPlan plan{hops, Cut(bucket, specs[i], blocks, hops.segments)};
    buckets_.emplace(std::pair(layout, bucket), std::move(plan));
  }
}

const HopPlan& HopPlans::HopsOf(const BucketSpec& spec) {
  const v1::Collective collective = CollectiveOf(spec);
  const auto found = hops_.find({collective, spec.root});
  if (found != hops_.end()) return found->second;
  const Route route = RouteOf(topology_, collective, spec.root.value(), places_);
  const auto key = std::pair(collective, spec.root);
  return hops_.emplace(key, HopPlan(route, view_.OwnRanks())).first->second;
}

Segments HopPlans::Cut(Bucket bucket, const BucketSpec& spec, const FoldBlocks& blocks,
                       int count) const {
  const bool folds = topology_.folds && CollectiveOf(spec) == v1::COLLECTIVE_ALL_REDUCE;
  return folds ? Segments::OfFold(bucket, spec, blocks, count) : Segments::Even(spec, count);
}

const BucketPlan& HopPlans::Of(const BucketKey& key) const {
  MutexLock lock(&mutex_);
  return buckets_.at({key.layout, key.bucket});
}

uint64_t HopPlans::BytesOf(const EarlyChunks::Key& hop) const {
  const BucketPlan& plan = Of(hop.bucket);
  return plan.BytesOf(plan.hops.ranks.at(hop.receiver).receives[hop.receive].hop);
}

absl::StatusOr<EarlyChunks::Key> HopPlans::Judge(const Chunk& chunk,
                                                 const std::vector<BucketSpec>& buckets) const {
  const ChunkHeader& header = chunk.header;
  if (absl::Status judged = JudgeAll(chunk, view_, buckets); !judged.ok()) return judged;
  const BucketKey key{header.layout, header.step, header.bucket};
  const BucketPlan& plan = Of(key);
  const uint64_t bytes = TotalBytes(chunk.payload);
  const absl::optional<Segments::Position> position = plan.segments.Find(header.offset);
  if (!position.has_value() ||
      plan.segments.Of(position->segment)[position->hop_chunk].bytes != bytes) {
    return absl::InvalidArgumentError(absl::StrCat("chunk of ", ToString(header), ": got ", bytes,
                                                   " bytes, expected a whole chunk of the bucket"));
  }
  const auto& incoming = plan.hops.incoming;
  const auto hop = incoming.find({position->segment, static_cast<int>(header.hop)});
  if (hop == incoming.end() || hop->second.from != header.rank || view_.Carries(header.rank)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "chunk of ", ToString(header), ": got hop ", header.hop, " of segment ", position->segment,
        ", expected one from that rank to ", NameOf(view_.OwnRanks())));
  }
  if (absl::Status payload = CheckPayload(chunk); !payload.ok()) return payload;
  return EarlyChunks::Key{key, hop->second.receiver, hop->second.receive};
}

}  // namespace gradwire
