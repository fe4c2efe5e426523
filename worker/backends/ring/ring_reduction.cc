#include "worker/backends/ring/ring_reduction.h"

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
  const int left = (view.rank.value() + view.world_size - 1) % view.world_size;
  const bool is_broadcast = buckets[header.bucket.value()].dtype == v1::DTYPE_BYTES;
  const int hops = (is_broadcast ? 1 : 2) * (view.world_size - 1);
  if (header.rank.value() != left || header.hop >= static_cast<uint32_t>(hops) || bytes == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunk of ", ToString(header), ", hop ", header.hop, ": got ", bytes,
                     " bytes, expected rank ", left, ", a hop below ", hops, ", and some bytes"));
  }
  return CheckPayload(chunk);
}

RingReduction::RingReduction(Transfer transfer, const BucketSpec& spec, int world_size,
                             uint8_t* half_memory)
    : transfer_(std::move(transfer)),
      spec_(spec),
      schedule_(spec.bytes, world_size, ElementBytes(spec.dtype)),
      world_size_(world_size),
      wire_(IsHalf(spec.dtype) ? half_memory : transfer_.result.data()),
      taken_(schedule_.hops(), 0) {}

int RingReduction::hops() const { return is_broadcast() ? world_size_ - 1 : schedule_.hops(); }

RingSchedule::Segment RingReduction::SentBy(int sender, int hop) const {
  if (!is_broadcast()) return schedule_.SentBy(sender, hop);
  return {0, hop == sender ? spec_.bytes : 0};
}

uint64_t RingReduction::BytesSentBy(int sender) const {
  uint64_t bytes = 0;
  for (int hop = 0; hop < hops(); ++hop) bytes += SentBy(sender, hop).bytes;
  return bytes;
}

bool RingReduction::ForwardsFrom(int hop) const { return hop + 1 < hops(); }

absl::Status RingReduction::CheckPlace(const ChunkHeader& header, uint64_t bytes, int left) const {
  const int hop = static_cast<int>(header.hop);
  const RingSchedule::Segment segment = SentBy(left, hop);
  const uint64_t expected = segment.offset + taken_[hop];
  const uint64_t end = segment.offset + segment.bytes;
  if (header.offset == expected && header.offset + bytes <= end) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("chunk of ", ToString(header), ", hop ", hop,
                                                 ": got ", bytes, " bytes, expected offset ",
                                                 expected, " in a segment that ends at ", end));
}

const float* RingReduction::TermsAt(uint64_t offset) const {
  return reinterpret_cast<const float*>(transfer_.terms.data()) +
         offset / ElementBytes(spec_.dtype);
}

absl::Span<float> RingReduction::ResultAt(uint64_t offset, uint64_t bytes) {
  const uint64_t element_bytes = ElementBytes(spec_.dtype);
  return {reinterpret_cast<float*>(transfer_.result.data()) + offset / element_bytes,
          bytes / element_bytes};
}

bool RingReduction::Take(const ChunkHeader& header, const Pieces& payload) {
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
  } else {
    CopyTo(payload, wire);
  }
  // Also who computes a mean applies what it sends.
  if (is_half() && (is_last_sum || !is_sum)) {
    Widen({{wire, bytes}}, spec_.dtype, ResultAt(header.offset, bytes));
  }
  return overflow;
}

bool RingReduction::PrepareTerms(uint64_t offset, uint64_t bytes) {
  if (!is_half()) return false;
  return Narrow({TermsAt(offset), bytes / ElementBytes(spec_.dtype)}, spec_.dtype, wire_ + offset);
}

const uint8_t* RingReduction::SentFrom(int hop) const {
  return hop == 0 && !is_half() ? transfer_.terms.data() : wire_;
}

bool RingReduction::AverageAlone() {
  if (is_broadcast()) return false;
  const bool overflow =
      Narrow({TermsAt(0), spec_.bytes / ElementBytes(spec_.dtype)}, spec_.dtype, wire_);
  if (is_half()) Widen({{wire_, spec_.bytes}}, spec_.dtype, ResultAt(0, spec_.bytes));
  return overflow;
}

}  // namespace gradwire
