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

RingPosition::RingPosition(const Transfer* transfer, Rank rank, int world_size,
                           uint8_t* half_memory)
    : spec_(transfer->spec),
      result_(transfer->result),
      rank_(rank),
      world_size_(world_size),
      schedule_(spec_.bytes, world_size, ElementBytes(spec_.dtype)),
      wire_(IsHalf(spec_.dtype) ? half_memory : result_.data()),
      taken_(schedule_.hops(), 0) {}

Rank RingPosition::left() const { return LeftOf(rank_, world_size_); }

int RingPosition::hops() const { return is_broadcast() ? world_size_ - 1 : schedule_.hops(); }

RingSchedule::Segment RingPosition::SentBy(Rank sender, int hop) const {
  if (!is_broadcast()) return schedule_.SentBy(sender.value(), hop);
  const int from_root = (sender.value() - spec_.root.value() + world_size_) % world_size_;
  return {0, hop == from_root ? spec_.bytes : 0};
}

uint64_t RingPosition::BytesSentBy(Rank sender) const {
  uint64_t bytes = 0;
  for (int hop = 0; hop < hops(); ++hop) bytes += SentBy(sender, hop).bytes;
  return bytes;
}

absl::Status RingPosition::CheckPlace(const ChunkHeader& header, uint64_t bytes) const {
  const int hop = static_cast<int>(header.hop);
  const RingSchedule::Segment segment = SentBy(left(), hop);
  const uint64_t expected = segment.offset + taken_[hop];
  const uint64_t end = segment.offset + segment.bytes;
  if (header.offset == expected && header.offset + bytes <= end) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("chunk of ", ToString(header), ", hop ", hop,
                                                 ": got ", bytes, " bytes, expected offset ",
                                                 expected, " in a segment that ends at ", end));
}

const float* RingPosition::TermsAt(uint64_t offset) const {
  return reinterpret_cast<const float*>(terms_.data()) + offset / ElementBytes(spec_.dtype);
}

absl::Span<float> RingPosition::ResultAt(uint64_t offset, uint64_t bytes) {
  const uint64_t element_bytes = ElementBytes(spec_.dtype);
  return {reinterpret_cast<float*>(result_.data()) + offset / element_bytes, bytes / element_bytes};
}

bool RingPosition::Take(const ChunkHeader& header, const Pieces& payload) {
  const uint64_t bytes = TotalBytes(payload);
  const int hop = static_cast<int>(header.hop);
  uint8_t* wire = wire_ + header.offset;
  taken_[hop] += bytes;
  const bool is_sum = !is_broadcast() && hop < schedule_.first_mean_hop();
  const bool is_last_sum = is_sum && hop + 1 == schedule_.first_mean_hop();
  bool overflow = false;
  if (is_sum) {
    const float scale = is_last_sum ? 1.0f / static_cast<float>(world_size_) : 1.0f;
    overflow = AddScaled(payload, spec_.dtype, TermsAt(header.offset), scale, {wire, bytes});
  } else if (payload.front().data() != wire) {
    CopyTo(payload, wire);  // else it comes from a rank of the same worker
  }
  // Also who computes a mean applies what it sends.
  if (is_half() && (is_last_sum || !is_sum)) {
    Widen({{wire, bytes}}, spec_.dtype, ResultAt(header.offset, bytes));
  }
  return overflow;
}

bool RingPosition::PrepareTerms(uint64_t offset, uint64_t bytes) {
  if (!is_half()) return false;
  return Narrow({TermsAt(offset), bytes / ElementBytes(spec_.dtype)}, spec_.dtype, wire_ + offset);
}

const uint8_t* RingPosition::SentFrom(int hop) const {
  return hop == 0 && !is_half() ? terms_.data() : wire_;
}

bool RingPosition::AverageAlone() {
  if (is_broadcast()) return false;
  const bool overflow =
      Narrow({TermsAt(0), spec_.bytes / ElementBytes(spec_.dtype)}, spec_.dtype, wire_);
  if (is_half()) Widen({{wire_, spec_.bytes}}, spec_.dtype, ResultAt(0, spec_.bytes));
  return overflow;
}

}  // namespace gradwire
