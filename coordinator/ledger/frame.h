#ifndef GRADWIRE_COORDINATOR_LEDGER_FRAME_H_
#define GRADWIRE_COORDINATOR_LEDGER_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gradwire {

// A place between two records of a ledger.
struct LedgerPosition {
  uint64_t number = 0;  // of the next record; that many were written before it, in all segments
  uint64_t chain = 0;   // of the record before it; 0 before the first

  friend bool operator==(const LedgerPosition& a, const LedgerPosition& b) {
    return a.number == b.number && a.chain == b.chain;
  }
};

// One record in its file (docs/ledger.md), all numbers little endian:
//
//   0       4      8               16              24
//   | length | type |     number     |     chain     | payload, `length` bytes | zeros to 8 bytes |
//
//   chain = XXH3_64bits(chain of the record before, the 16 bytes before this field, payload)
//
// A power cut may leave any part of the last write: later records without earlier ones, too. So the
// type has a bit, kBeginsGroup, in the first record of each write, because all earlier writes were
// on the disk by then. Only such a record proves that a bad one before it is damage.
struct Frame {
  uint32_t type = 0;  // without kBeginsGroup
  uint64_t number = 0;
  uint64_t chain = 0;
  absl::string_view payload;  // in the memory that was parsed
  size_t bytes = 0;           // of the whole frame

  // Returns the position after the record.
  LedgerPosition Next() const { return {number + 1, chain}; }
};

inline constexpr size_t kFrameHeaderBytes = 24;
inline constexpr size_t kFrameAlignment = 8;
inline constexpr uint32_t kBeginsGroup = uint32_t{1} << 31;
// A longer payload is damage. A View of 65,535 workers with long names has less.
inline constexpr size_t kMostPayloadBytes = size_t{16} << 20;

// Returns the bytes of the frame of the record at `position`, and moves it to the next one.
// `type`: may have kBeginsGroup. `payload`: at most kMostPayloadBytes.
std::string EncodeFrame(uint32_t type, absl::string_view payload, LedgerPosition* position);

// Returns the frame at the start of `bytes`, which must be the record at `position`.
//   OutOfRange  `bytes` end within the frame
//   DataLoss    anything else; says what was got and what was expected
absl::StatusOr<Frame> ParseFrame(absl::string_view bytes, const LedgerPosition& position);

// Returns whether a valid frame with kBeginsGroup is anywhere in `bytes` after their first frame,
// which is not valid at `position`. A frame is valid if its chain follows from the chain that the
// frame before it states. Bytes that a torn write leaves contain none.
bool HasLaterFrame(absl::string_view bytes, const LedgerPosition& position);

// Returns whether `bytes` may be what a torn write left of a frame of `type` at `position`: as far
// as its header is there, it has this type and number, or it is zero.
bool MayBeTorn(absl::string_view bytes, uint32_t type, const LedgerPosition& position);

// Returns whether `bytes` are a whole frame, the record at `position`, except for its length field.
// A torn write leaves no such frame.
bool HasWrongLength(absl::string_view bytes, const LedgerPosition& position);

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_LEDGER_FRAME_H_
