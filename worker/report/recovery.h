#ifndef GRADWIRE_WORKER_REPORT_RECOVERY_H_
#define GRADWIRE_WORKER_REPORT_RECOVERY_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/telemetry/lost_time.h"
#include "common/wire/view_change.h"

namespace gradwire {

// How a worker went on when others were lost.
struct Recovery {
  Generation generation;      // of the view that it went on with
  Step step;                  // that this begins with
  ViewChange change;          // since the last view that it trained in
  std::vector<Rank> ranks;    // that the worker carries from there on
  std::vector<Rank> adopted;  // those of them that it did not carry before
  absl::Time heard;           // when the view came; time of day
  absl::Time gone_on;         // when it could compute again; likewise
  LostTime lost;
};

// The fields above by their names, times Unix in seconds; of the change, how many `losses` there
// were, the `lost_ranks`, and the `carriers` of these, with their `ranks` and those `adopted`;
// `seconds_lost` is the total, beside `seconds_lost_by_phase`.
nlohmann::ordered_json RecoveryJson(const Recovery& recovery);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_REPORT_RECOVERY_H_
