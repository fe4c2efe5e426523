#include "worker/backends/hops/hop_position.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/fold/fold.h"

namespace gradwire {

HopPosition::HopPosition(const Transfer* transfer, const BucketPlan* plan, Rank rank,
                         int world_size, absl::Span<uint8_t> result, uint8_t* half_memory)
    : taken(plan->hops.ranks.at(rank).receives.size(), 0),
      spec_(transfer->spec),
      plan_(plan->hops.ranks.at(rank)),
      rank_(rank),
      world_size_(world_size),
      contributes_(Contributes(spec_, rank)),
      segments_(plan->segments),
      result_(result),
      wire_(is_half() ? half_memory : result.data()) {
  for (const RankPlan::Receive& receive : plan_.receives) {
    to_receive.push_back(plan->BytesOf(receive.hop));
    to_take += to_receive.back();
  }
  for (const RankPlan::Send& send : plan_.sends) to_send += plan->BytesOf(send.hop);
}

bool HopPosition::SetTerms(absl::Span<const uint8_t> terms) {
  terms_ = terms;
  bool overflow = false;
  for (const int segment : plan_.own_segments) {
    for (const HopChunk& hop_chunk : segments_.Of(segment)) overflow |= KeepOwn(hop_chunk);
  }
  return overflow;
}

bool HopPosition::KeepOwn(const HopChunk& hop_chunk) {
  const bool overflow = PrepareTerms(hop_chunk);
  for (const FoldRange& range : hop_chunk.ranges) {
    uint8_t* wire = wire_ + range.offset;
    if (is_half()) {
      Widen({{wire, range.bytes}}, spec_.dtype, ResultAt(range.offset, range.bytes));
    } else if (terms_.data() != wire_) {
      std::memcpy(wire, terms_.data() + range.offset, range.bytes);
    }
  }
  return overflow;
}

bool HopPosition::CanTake(int receive, uint64_t offset) const {
  if (!is_ready()) return false;
  const int before = plan_.receives[receive].before;
  return before < 0 || taken[before] > segments_.Find(offset)->hop_chunk;
}

absl::StatusOr<size_t> HopPosition::NextOf(int receive, const ChunkHeader& header) const {
  const size_t hop_chunk = segments_.Find(header.offset)->hop_chunk;
  if (hop_chunk == taken[receive]) return hop_chunk;
  return absl::InvalidArgumentError(absl::StrCat("chunk of ", ToString(header), ", hop ",
                                                 header.hop, ": got chunk ", hop_chunk,
                                                 " of its segment, expected ", taken[receive]));
}

const float* HopPosition::TermsAt(uint64_t offset) const {
  return reinterpret_cast<const float*>(terms_.data()) + offset / ElementBytes(spec_.dtype);
}

absl::Span<float> HopPosition::ResultAt(uint64_t offset, uint64_t bytes) {
  const uint64_t element_bytes = ElementBytes(spec_.dtype);
  return {reinterpret_cast<float*>(result_.data()) + offset / element_bytes, bytes / element_bytes};
}

bool HopPosition::TakeRange(const RankPlan::Receive& receive, const FoldRange& range,
                            const ByteSpans& payload) {
  uint8_t* wire = wire_ + range.offset;
  bool overflow = false;
  if (receive.hop.adds) {
    const bool is_first = receive.before < 0;
    const float* own =
        is_first ? TermsAt(range.offset) : ResultAt(range.offset, range.bytes).data();
    const float scale = receive.hop.completes ? 1.0f / static_cast<float>(world_size_) : 1.0f;
    overflow = AddScaled(payload, spec_.dtype, own, scale, {wire, range.bytes});
  } else if (payload.front().data() != wire) {
    CopyTo(payload, wire);  // else a rank of the same worker has written it
  }
  // The rank that computes a mean also applies the value that it sends.
  if (is_half() && receive.widens) {
    Widen({{wire, range.bytes}}, spec_.dtype, ResultAt(range.offset, range.bytes));
  }
  return overflow;
}

bool HopPosition::Take(const RankPlan::Receive& receive, const HopChunk& hop_chunk,
                       const ByteSpans& payload) {
  bool overflow = false;
  uint64_t offset = 0;
  for (const FoldRange& range : hop_chunk.ranges) {
    overflow |= TakeRange(receive, range, Part(payload, offset, range.bytes));
    offset += range.bytes;
  }
  return overflow;
}

bool HopPosition::PrepareTerms(const HopChunk& hop_chunk) {
  bool overflow = false;
  if (!is_half()) return overflow;
  for (const FoldRange& range : hop_chunk.ranges) {
    const uint64_t elements = range.bytes / ElementBytes(spec_.dtype);
    overflow |= Narrow({TermsAt(range.offset), elements}, spec_.dtype, wire_ + range.offset);
  }
  return overflow;
}

ByteSpans HopPosition::Sent(const RankPlan::Send& send, const HopChunk& hop_chunk) const {
  const uint8_t* from = send.of_terms && !is_half() ? terms_.data() : wire_;
  ByteSpans pieces;
  for (const FoldRange& range : hop_chunk.ranges)
    pieces.push_back({from + range.offset, range.bytes});
  return pieces;
}

}  // namespace gradwire
