#ifndef GRADWIRE_COORDINATOR_MEMBERSHIP_ADMISSION_H_
#define GRADWIRE_COORDINATOR_MEMBERSHIP_ADMISSION_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "coordinator/membership/roster.h"
#include "gradwire/v1/membership.pb.h"

namespace gradwire {

// Checks of a Hello or an Offer in a run that is not over. All pure. The sender receives the
// error; each has the value and the expected one.

// Option name to value; must be equal on all workers.
using Settings = std::map<std::string, std::string>;
Settings SettingsOf(const v1::Hello& hello);

// Checks a worker's Hello. `settings` are those of the workers in `roster`; ignored if there are
// none.
//   InvalidArgument     another protocol; a world size that is neither 0 nor the run's; a rank
//                       out of range or given twice; a rank that no worker would carry; no rank
//                       left for a worker; an address that is not HOST:PORT; a loopback address
//                       if the others' are not, or the reverse; a setting or number of threads
//                       that differs from the others'; a text that is too long
//   FailedPrecondition  the run has all its workers, or the incarnation was a member before
//   AlreadyExists       a member has the rank or the incarnation
absl::Status CheckHello(const v1::Hello& hello, const Roster& roster, const Settings& settings);

// Checks that the state of a worker can be kept in checkpoints. InvalidArgument with the worker's
// reason.
absl::Status CheckKeeping(const v1::Hello& hello);

// The same checks, as far as they apply to a separate aggregator.
absl::Status CheckOffer(const v1::Offer& offer, const Roster& roster);

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_MEMBERSHIP_ADMISSION_H_
