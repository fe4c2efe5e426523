#ifndef GRADWIRE_CLI_LEDGER_LEDGER_REPORT_H_
#define GRADWIRE_CLI_LEDGER_LEDGER_REPORT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/ledger/sample_check.h"
#include "coordinator/ledger/replay.h"

namespace gradwire {

// The place in the ledger that the manifest of a checkpoint names.
struct CheckpointPlace {
  int64_t step = 0;
  LedgerPosition position;
};

// A ledger that was read to its end.
struct LedgerReport {
  LedgerEnd end;
  LedgerReplay replay;
  std::vector<CheckpointPlace> missing;  // places that the ledger does not have
};

// Returns the places that the published checkpoints of a run directory name. A manifest that cannot
// be read has none; `gradwire checkpoint verify` reports it.
std::vector<CheckpointPlace> PlacesOfCheckpoints(const std::string& run_dir);

// Reads the ledger and looks for the places. Errors: those of ReadLedger and LedgerReplay::Add.
absl::StatusOr<LedgerReport> ReadReport(const std::string& run_dir,
                                        std::vector<CheckpointPlace> places);

// Returns the events of all runs as a table, a line each: number of the coordinator, time (UTC),
// step, event, detail; and a line about the sealed steps.
std::string LedgerText(const LedgerReport& report);
// Returns the same and more: {"runs": […], "steps": {…}}; docs/ledger.md names the fields.
nlohmann::ordered_json LedgerJson(const LedgerReport& report);

// Whether a ledger is sound.
struct LedgerVerdict {
  std::vector<std::string> findings;  // sentences; empty: it is sound
  std::vector<std::string> notes;     // sentences about what is unusual or cannot be checked
  SampleReport samples;
};

// Judges the records, the end of the last segment, and the samples. Pure.
LedgerVerdict Judge(const LedgerReport& report);

std::string VerdictText(const LedgerReport& report, const LedgerVerdict& verdict);
nlohmann::ordered_json VerdictJson(const LedgerReport& report, const LedgerVerdict& verdict);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_LEDGER_LEDGER_REPORT_H_
