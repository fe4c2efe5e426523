#include "worker/backends/ring/ring_position.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/fold/fold.h"
#include "common/fold/half.h"
#include "common/wire/judge.h"

namespace gradwire {
namespace {

bool IsHalf(v1::DType dtype) { return dtype == v1::DTYPE_BFLOAT16 || dtype == v1::DTYPE_FLOAT16; }

}  // namespace

Rank RightOf(Rank sender, int world_size) { return Rank((sender.value() + 1) % world_size); }

Rank LeftOf(Rank receiver, int world_size) {
  return Rank((receiver.value() + world_size - 1) % world_size);
}

absl::Status CheckRingChunk(const Chunk& chunk, const View& view,
                            const std::vector<BucketSpec>& buckets) {
  const ChunkHeader& header = chunk.header;
  const ReceiverState receiver{view.run_id, view.epoch,      view.generation,
                               header.step, view.world_size, buckets};
  const uint64_t bytes = TotalBytes(chunk.payload);
  absl::StatusOr<Verdict> verdict = JudgeHeader(header, bytes, receiver, absl::nullopt);
  if (!verdict.ok()) return verdict.status();
  if (*verdict != Verdict::kAccept) {
    return absl::InvalidArgumentError(absl::StrCat("chunk of ", ToString(header),
                                                   ": got generation ", header.generation.value(),
                                                   ", expected ", view.generation.value()));
  }
  const bool is_left =
      view.Carries(RightOf(header.rank, view.world_size)) && !view.Carries(header.rank);
  const int rounds = IsBroadcast(buckets[header.bucket.value()]) ? 1 : 2;
  const int hops = rounds * (view.world_size - 1);
  if (!is_left || header.hop >= static_cast<uint32_t>(hops) || bytes == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunk of ", ToString(header), ", hop ", header.hop, ": got ", bytes,
                     " bytes, expected the rank to the left of ", NameOf(view.OwnRanks()),
                     ", a hop below ", hops, ", and some bytes"));
  }
  return CheckPayload(chunk);
}

RingPosition::RingPosition(const Transfer* transfer, const RingSchedule* schedule, Rank rank,
                           int world_size, uint8_t* half_memory)
    : spec_(transfer->spec),
      result_(transfer->result),
      rank_(rank),
      world_size_(world_size),
      schedule_(*schedule),
      wire_(IsHalf(spec_.dtype) ? half_memory : result_.data()),
      taken_(schedule_.hops(), 0) {
  to_send = schedule_.BytesSentBy(rank);
  to_take = schedule_.BytesSentBy(left());
  to_receive = to_take;
}

Rank RingPosition::left() const { return LeftOf(rank_, world_size_); }

absl::StatusOr<const RingParcel*> RingPosition::NextOf(const ChunkHeader& header,
                                                       uint64_t bytes) const {
  const std::vector<RingParcel>& parcels = schedule_.SentBy(left(), static_cast<int>(header.hop));
  const size_t taken = taken_[header.hop];
  if (taken == parcels.size()) {
    return absl::InvalidArgumentError(absl::StrCat("chunk of ", ToString(header), ", hop ",
                                                   header.hop, ": expected no more of this hop"));
  }
  const RingParcel& next = parcels[taken];
  if (header.offset == next.ranges.front().offset && bytes == next.bytes) return &next;
  return absl::InvalidArgumentError(absl::StrCat(
      "chunk of ", ToString(header), ", hop ", header.hop, ": got ", bytes, " bytes, expected ",
      next.bytes, " from offset ", next.ranges.front().offset, " on"));
}

const float* RingPosition::TermsAt(uint64_t offset) const {
  return reinterpret_cast<const float*>(terms_.data()) + offset / ElementBytes(spec_.dtype);
}

absl::Span<float> RingPosition::ResultAt(uint64_t offset, uint64_t bytes) {
  const uint64_t element_bytes = ElementBytes(spec_.dtype);
  return {reinterpret_cast<float*>(result_.data()) + offset / element_bytes, bytes / element_bytes};
}

bool RingPosition::TakeRange(const FoldRange& range, int hop, const Pieces& payload) {
  uint8_t* wire = wire_ + range.offset;
  const bool is_sum = hop < schedule_.first_mean_hop();
  const bool is_last_sum = is_sum && hop + 1 == schedule_.first_mean_hop();
  bool overflow = false;
  if (is_sum) {
    const float scale = is_last_sum ? 1.0f / static_cast<float>(world_size_) : 1.0f;
    overflow = AddScaled(payload, spec_.dtype, TermsAt(range.offset), scale, {wire, range.bytes});
  } else if (payload.front().data() != wire) {
    CopyTo(payload, wire);  // else it comes from a rank of the same worker
  }
  // Also who computes a mean applies what it sends.
  if (is_half() && (is_last_sum || !is_sum)) {
    Widen({{wire, range.bytes}}, spec_.dtype, ResultAt(range.offset, range.bytes));
  }
  return overflow;
}

bool RingPosition::Take(const RingParcel& parcel, int hop, const Pieces& payload) {
  ++taken_[static_cast<size_t>(hop)];
  bool overflow = false;
  uint64_t offset = 0;
  for (const FoldRange& range : parcel.ranges) {
    overflow |= TakeRange(range, hop, Part(payload, offset, range.bytes));
    offset += range.bytes;
  }
  return overflow;
}

bool RingPosition::PrepareTerms(const RingParcel& parcel) {
  bool overflow = false;
  if (!is_half()) return overflow;
  for (const FoldRange& range : parcel.ranges) {
    const uint64_t elements = range.bytes / ElementBytes(spec_.dtype);
    overflow |= Narrow({TermsAt(range.offset), elements}, spec_.dtype, wire_ + range.offset);
  }
  return overflow;
}

Pieces RingPosition::Sent(const RingParcel& parcel, int hop) const {
  const uint8_t* from = hop == 0 && !is_half() ? terms_.data() : wire_;
  Pieces pieces;
  for (const FoldRange& range : parcel.ranges) pieces.push_back({from + range.offset, range.bytes});
  return pieces;
}

bool RingPosition::AverageAlone() {
  if (is_broadcast()) return false;
  const bool overflow =
      Narrow({TermsAt(0), spec_.bytes / ElementBytes(spec_.dtype)}, spec_.dtype, wire_);
  if (is_half()) Widen({{wire_, spec_.bytes}}, spec_.dtype, ResultAt(0, spec_.bytes));
  return overflow;
}

}  // namespace gradwire
