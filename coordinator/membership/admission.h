#ifndef GRADWIRE_COORDINATOR_MEMBERSHIP_ADMISSION_H_
#define GRADWIRE_COORDINATOR_MEMBERSHIP_ADMISSION_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "coordinator/membership/roster.h"
#include "gradwire/v1/membership.pb.h"

namespace gradwire {

// What a Hello or an Offer must say to be let in to a run that is not over. All pure; every
// error is the one that the sender sees, and names what was got and what was expected.

// Option name to value: what must be equal on all workers.
using Settings = std::map<std::string, std::string>;
Settings SettingsOf(const v1::Hello& hello);

// `settings` are those of the workers in `roster`; they count if there is one.
//   InvalidArgument     another protocol; a world size that is neither 0 nor the run's; a rank
//                       beyond it, or twice; ranks that would be carried by nobody, or leave
//                       none for a worker; an address that is not HOST:PORT, or that is a
//                       loopback address where the others' are not, or the reverse; a setting
//                       or number of threads other than the others'; texts that are too long
//   FailedPrecondition  the run has all its workers; or the incarnation was a member once
//   AlreadyExists       a rank or the incarnation is a member's
absl::Status CheckHello(const v1::Hello& hello, const Roster& roster, const Settings& settings);

// Likewise, as far as it applies to a separate aggregator.
absl::Status CheckOffer(const v1::Offer& offer, const Roster& roster);

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_MEMBERSHIP_ADMISSION_H_
