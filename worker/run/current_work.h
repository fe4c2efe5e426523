#ifndef GRADWIRE_WORKER_RUN_CURRENT_WORK_H_
#define GRADWIRE_WORKER_RUN_CURRENT_WORK_H_

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "gradwire/v1/membership.pb.h"

namespace gradwire {

// What a worker is at, for the heartbeats. Thread-safe.
class CurrentWork {
 public:
  // From `now` on it is in `phase` of `step`, a literal. `waits`: for others' part of it, of
  // `bucket` if that is known.
  void Begin(const char* phase, Step step, bool waits, absl::optional<Bucket> bucket,
             absl::Time now);
  // From now on phases begin in the view of this generation, first 0.
  void SetGeneration(Generation generation);
  // None before the first Begin.
  absl::optional<v1::Work> At(absl::Time now) const;

 private:
  mutable Mutex mutex_;
  absl::optional<v1::Work> work_ ABSL_GUARDED_BY(mutex_);
  absl::Time since_ ABSL_GUARDED_BY(mutex_);
  Generation generation_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_CURRENT_WORK_H_
