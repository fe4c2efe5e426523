#ifndef GRADWIRE_TESTS_COORDINATOR_LEDGER_LEDGER_RECORDS_H_
#define GRADWIRE_TESTS_COORDINATOR_LEDGER_LEDGER_RECORDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/ledger/log_reader.h"

namespace gradwire::testing {

inline constexpr uint32_t kLedgerRanks = 2;

// Of a run of 2 ranks.
inline v1::StartRecord Start(const std::string& lr = "0.1") {
  v1::StartRecord start;
  start.set_format(kLedgerFormat);
  start.set_run_id(std::string(16, '\7'));
  start.set_world_size(kLedgerRanks);
  start.set_version("0.0.0");
  (*start.mutable_settings())["lr"] = lr;
  return start;
}

inline v1::EpochRecord Epoch(uint64_t epoch) {
  v1::EpochRecord record;
  record.set_epoch(epoch);
  return record;
}

inline v1::ViewRecord View(uint64_t epoch, uint64_t generation, uint64_t first_step) {
  v1::ViewRecord record;
  v1::View& view = *record.mutable_view();
  view.set_run_id(std::string(16, '\7'));
  view.set_epoch(epoch);
  view.set_generation(generation);
  view.set_world_size(kLedgerRanks);
  view.set_first_step(first_step);
  view.set_seals(true);
  return record;
}

// With samples that are a function of the step.
inline v1::SealedRecord Sealed(uint64_t step, uint64_t generation = 1) {
  v1::SealedRecord record;
  record.set_step(step);
  record.set_generation(generation);
  for (uint32_t rank = 0; rank < kLedgerRanks; ++rank) {
    v1::RankSamples& samples = *record.add_samples();
    samples.set_rank(rank);
    samples.set_count(4);
    samples.set_digest(1000 * step + rank);
  }
  return record;
}

inline v1::EndRecord End() {
  v1::EndRecord record;
  record.set_finished(true);
  return record;
}

// Start, Epoch, View, `steps` sealed steps from `first` on.
inline std::vector<Record> RunOf(uint64_t epoch, uint64_t first, uint64_t steps) {
  std::vector<Record> records = {Start(), Epoch(epoch), View(epoch, 1, first)};
  for (uint64_t step = first; step < first + steps; ++step) records.emplace_back(Sealed(step));
  return records;
}

// Returns the records' frames, as if each was written alone.
inline std::vector<std::string> FramesOf(const std::vector<Record>& records,
                                         LedgerPosition* position) {
  std::vector<std::string> frames;
  for (const Record& record : records) {
    frames.push_back(EncodeFrame(TypeOf(record) | kBeginsGroup, PayloadOf(record), position));
  }
  return frames;
}

// Returns the bytes of a segment.
inline std::string SegmentOf(const std::vector<Record>& records, LedgerPosition* position) {
  std::string bytes;
  for (const std::string& frame : FramesOf(records, position)) bytes += frame;
  return bytes;
}

}  // namespace gradwire::testing

#endif  // GRADWIRE_TESTS_COORDINATOR_LEDGER_LEDGER_RECORDS_H_
