#ifndef GRADWIRE_COORDINATOR_MEMBERSHIP_RESUMING_H_
#define GRADWIRE_COORDINATOR_MEMBERSHIP_RESUMING_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/base/ids.h"
#include "coordinator/membership/admission.h"
#include "gradwire/v1/membership.pb.h"

namespace gradwire {

// The run that a checkpoint continues, as its manifest describes it.
struct ResumedRun {
  Step step;                     // the first that is not part of it
  Settings settings;             // of its workers
  int threads = 0;               // of each worker
  Settings environment;          // facts that may change bits without being a setting
  uint64_t total_steps = 0;      // that it was to have
  uint64_t steps_per_epoch = 0;  // 0: unknown
};

// Checks that a worker with this Hello continues the run with the same result. A setting that does
// not change it may differ: --epochs and --iterations may be raised, if neither learning rates nor
// exchanges depend on the end of the run. Pure. InvalidArgument names the setting and both values.
absl::Status CheckResumed(const v1::Hello& hello, const ResumedRun& run);

// Returns whether a run with these settings has no step after the checkpoint; false if that is not
// known.
bool HasNoStepLeft(const Settings& settings, const ResumedRun& run);

// Returns a sentence about a worker whose BLAS, torch or instructions are not those of the
// checkpoint, which may change bits; empty if they are.
std::string DifferenceInEnvironment(const v1::Hello& hello, const ResumedRun& run);

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_MEMBERSHIP_RESUMING_H_
