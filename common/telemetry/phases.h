#ifndef GRADWIRE_COMMON_TELEMETRY_PHASES_H_
#define GRADWIRE_COMMON_TELEMETRY_PHASES_H_

#include <array>
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/time/time.h"
#include "gradwire/v1/membership.pb.h"

namespace gradwire {

// Parts of an iteration's wall time. The parts of the trainer's time line follow each other; other
// phases run in parallel:
//
//   data ── forward ── backward ──── exposed_communication ── optimizer
//                          └── communication ────────────┘
//
// A step's last communication and optimizer may overlap the next step's forward pass. They count
// only for their own step.
enum class Phase {
#define GRADWIRE_PHASE(symbol, ...) k##symbol,
#include "common/telemetry/phases.inc"
#undef GRADWIRE_PHASE
};

// A row of phases.inc, which explains the columns.
struct PhaseInfo {
  Phase phase;
  const char* name;
  const char* pointer;  // JSON pointer to its seconds in an object that has "phase_seconds"
  const char* title;
  const char* label;
  const char* about;
  bool is_part;
  const char* colour;
};

// All phases, in order.
inline constexpr PhaseInfo kPhases[] = {
#define GRADWIRE_PHASE(symbol, name, title, label, about, is_part, colour) \
  {Phase::k##symbol, name, "/phase_seconds/" name, title, label, about, is_part, colour},
#include "common/telemetry/phases.inc"
#undef GRADWIRE_PHASE
};

constexpr const PhaseInfo& InfoOf(Phase phase) { return kPhases[static_cast<size_t>(phase)]; }

// A value for each phase.
template <typename T>
class PerPhase {
 public:
  T& operator[](Phase phase) { return values_[static_cast<size_t>(phase)]; }
  const T& operator[](Phase phase) const { return values_[static_cast<size_t>(phase)]; }
  PerPhase& operator+=(const PerPhase& other) {
    for (const PhaseInfo& info : kPhases) (*this)[info.phase] += other[info.phase];
    return *this;
  }

 private:
  std::array<T, std::size(kPhases)> values_ = {};
};

using PhaseTimes = PerPhase<absl::Duration>;
using PhaseSeconds = PerPhase<double>;  // NaN: not measured

PhaseSeconds ToSeconds(const PhaseTimes& times);

// "phase_seconds": {"data": …, "forward": …, …}; a value that is not finite becomes null.
nlohmann::ordered_json PhaseJson(const PhaseSeconds& seconds);

// The list for programs in other languages: [{"name", "title", "label", "about", "is_part",
// "colour"}].
nlohmann::ordered_json PhaseListJson();

// Time that a worker lost because another worker was lost, or because the run paused. The three
// parts follow each other, so they add up. The run as a whole loses the time of the worker that
// lost most.
struct LostTime {
  absl::Duration computing;   // in the step that is computed again, until the worker broke off
  absl::Duration waiting;     // then, until it received the view in which it goes on
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

#endif  // GRADWIRE_COMMON_TELEMETRY_PHASES_H_
