#ifndef GRADWIRE_COORDINATOR_LEDGER_RECORD_H_
#define GRADWIRE_COORDINATOR_LEDGER_RECORD_H_

#include <cstdint>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gradwire/v1/ledger.pb.h"

namespace gradwire {

// Version of the records in proto/gradwire/v1/ledger.proto, in every Start.
inline constexpr uint32_t kLedgerFormat = 1;

// A record of the ledger. Its type in the frame is its place here, counted from 1, so new records
// come last.
using Record = std::variant<v1::StartRecord, v1::EpochRecord, v1::ViewRecord, v1::SealedRecord,
                            v1::CheckpointRecord, v1::ResumedRecord, v1::EndRecord>;

uint32_t TypeOf(const Record& record);
std::string PayloadOf(const Record& record);
// Returns the record of a frame. DataLoss if the type or the payload is not valid: a newer program
// wrote it, or this one did so wrongly, because the chain protects both.
absl::StatusOr<Record> ParseRecord(uint32_t type, absl::string_view payload);

// Returns "Start", "Epoch" …
absl::string_view NameOf(const Record& record);

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_LEDGER_RECORD_H_
