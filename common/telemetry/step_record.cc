#include "common/telemetry/step_record.h"

#include <cmath>
#include <limits>

#include "common/base/unix_seconds.h"

namespace gradwire {

absl::Duration OwnWork(const StepRecord& record) {
  return record.iteration - record.phases[Phase::kExposedCommunication];
}

v1::StepDone ToStepDone(const StepRecord& record) {
  v1::StepDone done;
  done.set_step(record.step.value());
  done.set_epoch(static_cast<uint64_t>(record.epoch));
  done.set_rank(static_cast<uint32_t>(record.rank.value()));
  if (record.loss_told) done.set_loss(record.loss);
  done.set_samples(static_cast<uint64_t>(record.samples));
  done.set_padded(static_cast<uint64_t>(record.padded));
  done.set_correct(static_cast<uint64_t>(record.correct));
  done.set_iteration_seconds(absl::ToDoubleSeconds(record.iteration));
  for (const PhaseInfo& info : kPhases) {
    (*done.mutable_phase_seconds())[info.name] = absl::ToDoubleSeconds(record.phases[info.phase]);
  }
  done.set_bytes_sent(record.bytes_sent);
  done.set_bytes_received(record.bytes_received);
  done.set_time(UnixSeconds(record.time));
  if (record.staleness.has_value()) {
    done.set_lag(record.staleness->lag);
    done.set_spread(record.staleness->spread);
  }
  done.set_skipped(record.skipped);
  if (record.compressed.has_value()) {
    done.set_compression_ratio(record.compressed->ratio);
    if (record.compressed->residual.has_value()) {
      done.set_residual_norm(*record.compressed->residual);
    }
  }
  return done;
}

StepRecord FromStepDone(const v1::StepDone& done) {
  StepRecord record;
  record.step = Step(done.step());
  record.epoch = static_cast<int64_t>(done.epoch());
  record.rank = Rank(static_cast<int>(done.rank()));
  record.loss_told = done.has_loss();
  record.loss = done.has_loss() ? done.loss() : std::numeric_limits<double>::quiet_NaN();
  record.samples = static_cast<int64_t>(done.samples());
  record.padded = static_cast<int64_t>(done.padded());
  record.correct = static_cast<int64_t>(done.correct());
  record.iteration = absl::Seconds(done.iteration_seconds());
  for (const PhaseInfo& info : kPhases) {
    const auto told = done.phase_seconds().find(info.name);
    if (told != done.phase_seconds().end()) record.phases[info.phase] = absl::Seconds(told->second);
  }
  record.bytes_sent = done.bytes_sent();
  record.bytes_received = done.bytes_received();
  record.skipped = done.skipped();
  if (done.has_lag()) record.staleness = {done.lag(), done.spread()};
  if (done.has_compression_ratio()) {
    record.compressed.emplace();
    record.compressed->ratio = done.compression_ratio();
    if (done.has_residual_norm()) record.compressed->residual = done.residual_norm();
  }
  // A double has microseconds, and noise below them.
  record.time = absl::FromUnixMicros(std::llround(done.time() * 1e6));
  return record;
}

}  // namespace gradwire
