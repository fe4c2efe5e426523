#ifndef GRADWIRE_COMMON_TELEMETRY_PHASES_H_
#define GRADWIRE_COMMON_TELEMETRY_PHASES_H_

#include <array>
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>

#include "absl/time/time.h"

namespace gradwire {

// Where the wall time of an iteration goes. Parts of the trainer's time line follow
// each other; other phases go on beside them:
//
//   data ── forward ── backward ──── exposed_communication ── optimizer
//                          └── communication ────────────┘
//
// A step's last communication and optimizer may lie within the next one's forward
// pass. They count for their step alone.
enum class Phase {
#define GRADWIRE_PHASE(symbol, ...) k##symbol,
#include "common/telemetry/phases.inc"
#undef GRADWIRE_PHASE
};

// A line of phases.inc; the columns are explained there.
struct PhaseInfo {
  Phase phase;
  const char* name;
  const char* pointer;  // JSON pointer to its seconds in whatever has "phase_seconds"
  const char* title;
  const char* label;
  const char* about;
  bool is_part;
  const char* colour;
};

// All of them, in order.
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

// "phase_seconds": {"data": …, "forward": …, …}; what is not finite becomes null.
nlohmann::ordered_json PhaseJson(const PhaseSeconds& seconds);

// The list for programs that have no C++: [{"name", "title", "label", "about",
// "is_part", "colour"}].
nlohmann::ordered_json PhaseListJson();

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_TELEMETRY_PHASES_H_
