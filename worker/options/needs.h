#ifndef GRADWIRE_WORKER_OPTIONS_NEEDS_H_
#define GRADWIRE_WORKER_OPTIONS_NEEDS_H_

#include <string>

#include "absl/status/status.h"
#include "common/options/option_parser.h"
#include "worker/options/traits.h"
#include "worker/options/worker_options.h"

namespace gradwire {

// Needs: the last column of an option's row. Such an option is valid only with a trait of a sync,
// schedule or optimizer, or with another option. `options` are those that the row writes to.

// "--outer-lr: got it without --sync diloco:H, expected both or neither"
Need NeedsSync(const WorkerOptions* options, bool SyncTraits::*trait);
Need NeedsSchedule(const WorkerOptions* options, bool ScheduleTraits::*trait);
Need NeedsWarmUpOfCodec(const WorkerOptions* options);
Need NeedsScaledRate(const WorkerOptions* options);

// "--momentum: got it with optimizer adam (--optimizer), which has no momentum, expected sgd"
Need NeedsMomentum(const WorkerOptions* options);
// "--devices: got sync ddp (default), expected --sync data-parallel"
Need NeedsOnDevices(const WorkerOptions* options);
Need NeedsLateUpdate(const WorkerOptions* options);
Need NeedsConnections(const WorkerOptions* options);

// Applies `need` only if the value in `field` differs from its default.
template <typename T>
Need IfChanged(const T* field, Need need) {
  return [field, usual = *field, need](const std::string& source, const Sources& sources) {
    return *field == usual ? absl::OkStatus() : need(source, sources);
  };
}

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_OPTIONS_NEEDS_H_
