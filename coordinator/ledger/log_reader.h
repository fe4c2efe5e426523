#ifndef GRADWIRE_COORDINATOR_LEDGER_LOG_READER_H_
#define GRADWIRE_COORDINATOR_LEDGER_LOG_READER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "coordinator/ledger/frame.h"
#include "coordinator/ledger/record.h"

namespace gradwire {

// A record and its place.
struct LedgerEntry {
  int segment = 0;      // number of its file
  uint64_t offset = 0;  // of its frame, in bytes
  uint64_t number = 0;
  Record record;
  uint64_t chain = 0;
};

// A bad frame at the end of the last segment, with no valid frame of a later write after it: the
// last write before a crash, of which only a part reached the disk.
struct TornTail {
  uint64_t offset = 0;  // of the frame; all bytes before it are sound
  uint64_t bytes = 0;   // from there to the end of the file
  std::string why;      // such as "got 12 bytes of a record of 64 bytes"
  // The file ends within the frame. Otherwise its bytes are wrong, which is also damage if the
  // machine did not crash.
  bool is_short = false;
};

// The end of what was read.
struct LedgerEnd {
  int segment = 0;     // number of the last file; 0: there is none
  uint64_t bytes = 0;  // of its sound records
  LedgerPosition position;
  absl::optional<TornTail> torn;
};

// Gets each record, in order. Its error ends the reading.
using OnEntry = std::function<absl::Status(LedgerEntry entry)>;

// Returns "00000001.log".
std::string SegmentName(int segment);
// Returns RUN-DIR/ledger.
std::string LedgerFolder(absl::string_view run_dir);

// Returns the bytes of a file. NotFound if it cannot be read.
absl::StatusOr<std::string> ReadSegmentFile(const std::string& path);

// Reads one segment, whose first record is at `position`. `is_last`: a torn tail is allowed. Pure.
// Moves `position` behind the last sound record.
//   InvalidArgument  damage: names the segment, the offset, what was got and what was expected
//   or an error of `on_entry`
absl::StatusOr<absl::optional<TornTail>> ReadSegment(int segment, absl::string_view bytes,
                                                     bool is_last, const OnEntry& on_entry,
                                                     LedgerPosition* position);

// Reads all segments of a run directory; changes no file.
//   NotFound         it has no ledger, or a file cannot be read
//   InvalidArgument  damage, as ReadSegment; or a segment is missing
//   or an error of `on_entry`
absl::StatusOr<LedgerEnd> ReadLedger(const std::string& run_dir, const OnEntry& on_entry);

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_LEDGER_LOG_READER_H_
