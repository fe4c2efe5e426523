#include "common/telemetry/step_record.h"

#include <google/protobuf/message.h>

#include <limits>

namespace gradwire {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Reflection;

// Null: the figure is not sent.
const FieldDescriptor* FieldOf(const StepFigure& figure) {
  return v1::StepDone::descriptor()->FindFieldByName(figure.key);
}

void SetField(const FigureValue& value, const FieldDescriptor* field, v1::StepDone* done) {
  const Reflection* const reflection = done->GetReflection();
  if (const PhaseTimes* const phases = std::get_if<PhaseTimes>(&value)) {
    for (const PhaseInfo& info : kPhases) {
      (*done->mutable_phase_seconds())[info.name] = absl::ToDoubleSeconds((*phases)[info.phase]);
    }
  } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
    reflection->SetBool(done, field, NumberOf<bool>(value));
  } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_UINT32) {
    reflection->SetUInt32(done, field, NumberOf<uint32_t>(value));
  } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_UINT64) {
    reflection->SetUInt64(done, field, NumberOf<uint64_t>(value));
  } else {
    reflection->SetDouble(done, field, NumberOf<double>(value));
  }
}

FigureValue PhasesOf(const v1::StepDone& done) {
  PhaseTimes phases;
  for (const PhaseInfo& info : kPhases) {
    const auto told = done.phase_seconds().find(info.name);
    if (told != done.phase_seconds().end()) phases[info.phase] = absl::Seconds(told->second);
  }
  return phases;
}

// None if the sender left it out.
absl::optional<FigureValue> GetField(const v1::StepDone& done, const FieldDescriptor* field) {
  const Reflection* const reflection = done.GetReflection();
  if (field->is_map()) return PhasesOf(done);
  if (field->has_presence() && !reflection->HasField(done, field)) return absl::nullopt;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return FigureValue(reflection->GetBool(done, field));
    case FieldDescriptor::CPPTYPE_UINT32:
      return FigureValue(uint64_t{reflection->GetUInt32(done, field)});
    case FieldDescriptor::CPPTYPE_UINT64:
      return FigureValue(uint64_t{reflection->GetUInt64(done, field)});
    default:
      return FigureValue(reflection->GetDouble(done, field));
  }
}

// Combines the worker's ranks.
FigureValue Total(const StepFigure& figure, absl::Span<const StepRecord> records) {
  const bool mean = figure.of_worker == StepFigure::OfWorker::kMean;
  const double ranks = static_cast<double>(records.size());
  FigureValue total = int64_t{0};
  for (const StepRecord& record : records) {
    const absl::optional<FigureValue> value = figure.get(record);
    if (!value.has_value()) continue;
    total = Sum(total, mean ? FigureValue(NumberOf<double>(*value) / ranks) : *value);
  }
  return total;
}

}  // namespace

StepRecord RecordOfWorker(absl::Span<const StepRecord> records) {
  StepRecord whole = records.front();
  for (const StepFigure& figure : kStepFigures) {
    if (figure.of_worker == StepFigure::OfWorker::kSame) continue;
    figure.set(Total(figure, records), &whole);
  }
  return whole;
}

absl::Duration OwnWork(const StepRecord& record) {
  return record.iteration - record.phases[Phase::kExposedCommunication];
}

v1::StepDone ToStepDone(const StepRecord& record) {
  v1::StepDone done;
  for (const StepFigure& figure : kStepFigures) {
    const FieldDescriptor* const field = FieldOf(figure);
    const absl::optional<FigureValue> value = figure.get(record);
    if (field != nullptr && value.has_value()) SetField(*value, field, &done);
  }
  return done;
}

StepRecord FromStepDone(const v1::StepDone& done) {
  StepRecord record;
  record.loss_told = done.has_loss();
  record.loss = std::numeric_limits<double>::quiet_NaN();
  for (const StepFigure& figure : kStepFigures) {
    const FieldDescriptor* const field = FieldOf(figure);
    if (field == nullptr) continue;
    const absl::optional<FigureValue> value = GetField(done, field);
    if (value.has_value()) figure.set(*value, &record);
  }
  return record;
}

}  // namespace gradwire
