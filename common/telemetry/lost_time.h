#ifndef GRADWIRE_COMMON_TELEMETRY_LOST_TIME_H_
#define GRADWIRE_COMMON_TELEMETRY_LOST_TIME_H_

#include <nlohmann/json.hpp>
#include <string>

#include "absl/time/time.h"
#include "gradwire/v1/membership.pb.h"

namespace gradwire {

// Time that a worker lost because another worker was lost, or because the run paused. The three
// parts follow each other, so they add up. The run as a whole lost as much as the worker that lost
// most.
struct LostTime {
  absl::Duration computing;   // in the step that is computed anew, until the worker broke off
  absl::Duration waiting;     // then, until it had the next view
  absl::Duration connecting;  // then, until it could compute again

  absl::Duration total() const { return computing + waiting + connecting; }
};
LostTime& operator+=(LostTime& sum, const LostTime& more);

// Returns a sentence part for people: "0.412 s: computing 0.321, waiting 0.041, connecting 0.050".
std::string Describe(const LostTime& lost);

// Returns the parts by their names, in seconds.
nlohmann::ordered_json PhasesOf(const LostTime& lost);

v1::LostTime ToProto(const LostTime& lost);
// Takes a part that is negative or not finite as zero.
LostTime FromProto(const v1::LostTime& lost);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_TELEMETRY_LOST_TIME_H_
