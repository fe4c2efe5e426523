#ifndef GRADWIRE_COMMON_TELEMETRY_STEP_FIGURE_H_
#define GRADWIRE_COMMON_TELEMETRY_STEP_FIGURE_H_

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <variant>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/telemetry/phases.h"

namespace gradwire {

struct StepRecord;

// Times are in seconds, points in time Unix seconds.
using FigureValue = std::variant<bool, int64_t, uint64_t, double, PhaseTimes>;

// Returns the value as a number; 0 for phases.
template <typename T>
T NumberOf(const FigureValue& value) {
  return std::visit(
      [](const auto& held) {
        if constexpr (std::is_same_v<decltype(held), const PhaseTimes&>) {
          return T();
        } else {
          return static_cast<T>(held);
        }
      },
      value);
}

// Returns the sum of two numbers; a flag counts as 1.
FigureValue Sum(const FigureValue& a, const FigureValue& b);

// Phases as in PhaseJson; a number that is not finite becomes null.
nlohmann::ordered_json FigureJson(const FigureValue& value);

// Reads and writes a member of StepRecord, depending on the member's type.
namespace step_figure_internal {

template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<absl::optional<T>> = true;
// Matches a member of StepRecord that is a strong id.
template <typename T, typename = void>
inline constexpr bool kIsId = false;
template <typename T>
inline constexpr bool kIsId<T, std::void_t<typename T::ValueType>> = true;

template <typename T>
absl::optional<FigureValue> ValueOf(const T& member) {
  if constexpr (kIsOptional<T>) {
    return member.has_value() ? ValueOf(*member) : absl::nullopt;
  } else if constexpr (kIsId<T>) {
    return ValueOf(member.value());
  } else if constexpr (std::is_same_v<T, absl::Duration>) {
    return FigureValue(absl::ToDoubleSeconds(member));
  } else if constexpr (std::is_same_v<T, absl::Time>) {
    // A double has microseconds; digits below are noise.
    return FigureValue(static_cast<double>(absl::ToUnixMicros(member)) / 1e6);
  } else if constexpr (std::is_same_v<T, bool>) {
    return member ? absl::make_optional(FigureValue(true)) : absl::nullopt;
  } else if constexpr (std::is_same_v<T, int>) {
    return FigureValue(int64_t{member});
  } else {
    return FigureValue(member);
  }
}

template <typename T>
void SetMember(const FigureValue& value, T& member) {
  if constexpr (kIsOptional<T>) {
    SetMember(value, member.emplace());
  } else if constexpr (kIsId<T>) {
    member = T(NumberOf<typename T::ValueType>(value));
  } else if constexpr (std::is_same_v<T, absl::Duration>) {
    member = absl::Seconds(NumberOf<double>(value));
  } else if constexpr (std::is_same_v<T, absl::Time>) {
    member = absl::FromUnixMicros(std::llround(NumberOf<double>(value) * 1e6));
  } else if constexpr (std::is_same_v<T, PhaseTimes>) {
    member = std::get<PhaseTimes>(value);
  } else {
    member = NumberOf<T>(value);
  }
}

template <auto kMember>
absl::optional<FigureValue> Get(const StepRecord& record) {
  return ValueOf(record.*kMember);
}
template <auto kOptional, auto kMember>
absl::optional<FigureValue> Get(const StepRecord& record) {
  const auto& holder = record.*kOptional;
  return holder.has_value() ? ValueOf((*holder).*kMember) : absl::nullopt;
}
template <auto kFlag, auto kMember>
absl::optional<FigureValue> GetTold(const StepRecord& record) {
  return record.*kFlag ? ValueOf(record.*kMember) : absl::nullopt;
}
template <auto kMember>
void Set(const FigureValue& value, StepRecord* record) {
  SetMember(value, record->*kMember);
}
template <auto kOptional, auto kMember>
void Set(const FigureValue& value, StepRecord* record) {
  auto& holder = record->*kOptional;
  if (!holder.has_value()) holder.emplace();
  SetMember(value, (*holder).*kMember);
}

}  // namespace step_figure_internal

// A row of kStepFigures (step_record.h): one figure of a training step, with each output that shows
// it. The key is its name in JSON and the name of its field in StepDone; the coordinator receives
// only figures with such a field. A row is built from left to right:
//
//   StepFigure::Of<&StepRecord::samples>("samples").SumOfRanks().OnPage()
//
// The step log has each figure unless its row has NotLogged; other outputs have only the figures
// whose rows name them.
struct StepFigure {
  // How the figure is computed for a worker that carries several ranks.
  enum class OfWorker { kSame, kSum, kMean };
  enum class InSummary { kNot, kSum, kMeanAndMax, kLast };
  enum class Series { kNone, kCounter, kGauge };
  enum class AtCoordinator { kNone, kOfRank, kOfRun };

  // A member of StepRecord, or of an optional member: a number, a flag, a strong id, a time or the
  // phases.
  template <auto kMember>
  static constexpr StepFigure Of(const char* key) {
    return {key, &step_figure_internal::Get<kMember>, &step_figure_internal::Set<kMember>};
  }
  template <auto kOptional, auto kMember>
  static constexpr StepFigure Of(const char* key) {
    return StepFigure{key, &step_figure_internal::Get<kOptional, kMember>,
                      &step_figure_internal::Set<kOptional, kMember>}
        .With(&StepFigure::optional, true);
  }
  // A member that a step lacks if the flag, another member, is false.
  template <auto kFlag, auto kMember>
  static constexpr StepFigure OfTold(const char* key) {
    return StepFigure{key, &step_figure_internal::GetTold<kFlag, kMember>,
                      &step_figure_internal::Set<kMember>}
        .With(&StepFigure::optional, true);
  }

  constexpr StepFigure NotLogged() { return With(&StepFigure::logged, false); }
  constexpr StepFigure SumOfRanks() { return With(&StepFigure::of_worker, OfWorker::kSum); }
  constexpr StepFigure MeanOfRanks() { return With(&StepFigure::of_worker, OfWorker::kMean); }
  // Each rank's value in the coordinator's /status.json.
  constexpr StepFigure OnPage() { return With(&StepFigure::on_page, true); }
  // In a rank's summary, at this JSON pointer, over all steps: the sum; the mean and the maximum;
  // or the last value. If no step has a value, the sum is 0, and the others are absent.
  constexpr StepFigure SummedAt(const char* place) { return At(place, InSummary::kSum); }
  constexpr StepFigure MeanAndMaxAt(const char* place) { return At(place, InSummary::kMeanAndMax); }
  constexpr StepFigure LastAt(const char* place) { return At(place, InSummary::kLast); }
  // In the worker's /metrics.
  constexpr StepFigure Counter(const char* name, const char* help) {
    return Measured(Series::kCounter, name, help);
  }
  constexpr StepFigure Gauge(const char* name, const char* help) {
    return Measured(Series::kGauge, name, help);
  }
  // Also in the coordinator's /metrics: one value per rank, with its label, or one for the run.
  constexpr StepFigure CoordinatorOfRank() {
    return With(&StepFigure::at_coordinator, AtCoordinator::kOfRank);
  }
  constexpr StepFigure CoordinatorOfRun() {
    return With(&StepFigure::at_coordinator, AtCoordinator::kOfRun);
  }

  const char* key;
  // None if the step lacks the figure or if a flag is false.
  absl::optional<FigureValue> (*get)(const StepRecord& record);
  // Numbers are converted. An optional member is created.
  void (*set)(const FigureValue& value, StepRecord* record);
  bool optional =
      false;  // only some runs have it; pages and /metrics show it after its first value
  bool logged = true;
  bool on_page = false;
  OfWorker of_worker = OfWorker::kSame;
  InSummary in_summary = InSummary::kNot;
  const char* summary_place = nullptr;  // JSON pointer
  Series series = Series::kNone;
  const char* series_name = nullptr;
  const char* series_help = nullptr;
  AtCoordinator at_coordinator = AtCoordinator::kNone;

 private:
  template <typename T>
  constexpr StepFigure With(T StepFigure::*field, T value) {
    this->*field = value;
    return *this;
  }
  constexpr StepFigure At(const char* place, InSummary how) {
    summary_place = place;
    return With(&StepFigure::in_summary, how);
  }
  constexpr StepFigure Measured(Series kind, const char* name, const char* help) {
    series_name = name;
    series_help = help;
    return With(&StepFigure::series, kind);
  }
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_TELEMETRY_STEP_FIGURE_H_
