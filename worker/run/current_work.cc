#include "worker/run/current_work.h"

#include <utility>

namespace gradwire {

void CurrentWork::Begin(const char* phase, Step step, bool waits, absl::optional<Bucket> bucket,
                        absl::Time now) {
  v1::Work work;
  work.set_phase(phase);
  work.set_step(step.value());
  work.set_waits(waits);
  if (bucket.has_value()) work.set_bucket(static_cast<uint32_t>(bucket->value()));
  MutexLock lock(&mutex_);
  work.set_generation(generation_.value());
  work_ = std::move(work);
  since_ = now;
}

void CurrentWork::SetGeneration(Generation generation) {
  MutexLock lock(&mutex_);
  generation_ = generation;
}

absl::optional<v1::Work> CurrentWork::At(absl::Time now) const {
  MutexLock lock(&mutex_);
  absl::optional<v1::Work> work = work_;
  if (work.has_value()) work->set_seconds(absl::ToDoubleSeconds(now - since_));
  return work;
}

}  // namespace gradwire
