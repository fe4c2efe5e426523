#include "common/wire/judge.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gradwire {
namespace {

absl::Status Invalid(const ChunkHeader& header, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("chunk of ", ToString(header), ": ", what));
}

absl::Status CheckLayout(const ChunkHeader& header, uint64_t covered_bytes,
                         const ReceiverState& receiver) {
  if (header.rank.value() >= receiver.world_size) {
    return Invalid(header, absl::StrCat("expected a rank below ", receiver.world_size));
  }
  if (header.bucket.value() >= static_cast<int>(receiver.buckets.size())) {
    return Invalid(header, absl::StrCat("expected a bucket below ", receiver.buckets.size()));
  }
  const BucketSpec& bucket = receiver.buckets[header.bucket.value()];
  if (header.total != bucket.bytes) {
    return Invalid(header, absl::StrCat("got total ", header.total, ", expected ", bucket.bytes));
  }
  if (header.dtype != bucket.dtype) {
    return Invalid(header,
                   absl::StrCat("got dtype ", v1::DType_Name(header.dtype), " (", header.dtype,
                                "), expected ", v1::DType_Name(bucket.dtype)));
  }
  if (IsCoded(bucket.dtype) != (header.covers > 0)) {
    return Invalid(header, absl::StrCat("got covers ", header.covers, ", expected ",
                                        IsCoded(bucket.dtype) ? "more than 0" : "0"));
  }
  if (header.offset > header.total || covered_bytes > header.total - header.offset) {
    return Invalid(header, absl::StrCat("got ", covered_bytes, " bytes, expected at most total ",
                                        header.total, " minus offset"));
  }
  const uint64_t element_bytes = ElementBytes(bucket.dtype);
  if (element_bytes == 0 || header.offset % element_bytes != 0 ||
      covered_bytes % element_bytes != 0) {
    return Invalid(header, absl::StrCat("got ", covered_bytes, " bytes, expected whole ",
                                        element_bytes, "-byte elements"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Verdict> JudgeView(const ChunkHeader& header, const ReceiverState& receiver) {
  if (header.run_id != receiver.run_id) {
    return absl::PermissionDeniedError(absl::StrCat("chunk of run ", ToHex(header.run_id),
                                                    ", expected run ", ToHex(receiver.run_id)));
  }
  if (header.epoch > receiver.epoch || header.generation > receiver.generation) {
    return absl::AbortedError(absl::StrCat(
        "chunk of ", ToString(header), ": got epoch ", header.epoch.value(), " generation ",
        header.generation.value(), ", this side is at ", receiver.epoch.value(), " and ",
        receiver.generation.value(), "; send it again later"));
  }
  if (header.epoch < receiver.epoch || header.generation < receiver.generation) {
    return Verdict::kStale;
  }
  return Verdict::kAccept;
}

absl::StatusOr<Verdict> JudgeHeader(const ChunkHeader& header, uint64_t covered_bytes,
                                    const ReceiverState& receiver,
                                    absl::optional<uint64_t> held_checksum) {
  const absl::StatusOr<Verdict> of_view = JudgeView(header, receiver);
  if (!of_view.ok() || *of_view != Verdict::kAccept) return of_view;
  if (absl::Status layout = CheckLayout(header, covered_bytes, receiver); !layout.ok()) {
    return layout;
  }
  if (header.step < receiver.open_step) return Verdict::kCommitted;
  if (header.step > receiver.open_step) {
    return absl::OutOfRangeError(absl::StrCat("chunk of ", ToString(header), ": expected step ",
                                              receiver.open_step.value()));
  }
  if (!held_checksum.has_value()) return Verdict::kAccept;
  if (*held_checksum == header.checksum) return Verdict::kDuplicate;
  return absl::DataLossError(
      absl::StrCat("chunk of ", ToString(header), " came twice with different bytes: checksums ",
                   absl::StrFormat("%016x and %016x", *held_checksum, header.checksum)));
}

absl::Status CheckPayload(const Chunk& chunk) {
  const uint64_t checksum = Checksum(chunk.payload);
  if (checksum == chunk.header.checksum) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("chunk of ", ToString(chunk.header), ": got checksum ",
                   absl::StrFormat("%016x, expected %016x", checksum, chunk.header.checksum)));
}

}  // namespace gradwire
