#ifndef GRADWIRE_CLI_LEDGER_SAMPLE_CHECK_H_
#define GRADWIRE_CLI_LEDGER_SAMPLE_CHECK_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "coordinator/ledger/replay.h"

namespace gradwire {

// An epoch of data of which steps are sealed.
struct EpochOfData {
  int64_t epoch = 0;
  int64_t read = 0;      // number of different samples that the ranks read
  int64_t repeats = 0;   // number of samples that they read beyond the first time
  int64_t sealed = 0;    // number of sealed steps
  int64_t of_steps = 0;  // number of steps of a whole epoch
};

struct SampleReport {
  uint64_t steps = 0;                   // whose samples are those of the sampler
  std::vector<EpochOfData> epochs;      // all of whose steps are sealed
  std::vector<EpochOfData> incomplete;  // the others; their counts are not judged
  std::vector<std::string> findings;    // sentences about samples that are wrong
  std::vector<std::string> notes;       // sentences about what cannot be checked
};

// Compares the samples of sealed steps with those that the sampler gives for the settings in
// `start`, and counts the reads of each sample in each epoch whose steps are all there.
SampleReport CompareSamples(const v1::StartRecord& start,
                            const std::map<uint64_t, LedgerStep>& steps);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_LEDGER_SAMPLE_CHECK_H_
