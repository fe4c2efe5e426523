#ifndef GRADWIRE_WORKER_OPTIONS_SYNC_CHOICE_H_
#define GRADWIRE_WORKER_OPTIONS_SYNC_CHOICE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/options/option_values.h"
#include "worker/options/traits.h"

namespace gradwire {

// torch::optim::SGD with Nesterov's momentum; 1 and 0 make the mean of the models of their mean
// drift.
struct OuterStep {
  double lr = 1;
  double momentum = 0;
};

// What a sync is told by the options of a worker, besides its name.
struct SyncSettings {
  int64_t delay = 0;             // of a periodic one: steps from an exchange to its use, fewer
                                 // than its interval
  OuterStep outer = {0.7, 0.9};  // of one with an outer step
};

// A sync is told as the name of its row, "ddp", or, if it is periodic (see SyncTraits), with its
// interval H, the steps from one exchange to the next: "local-sgd:10".

// What stands in front of the colon, or all.
absl::string_view NameOfSync(absl::string_view sync);

// H, 1 or more; 0 of a sync that is not periodic. `sync` has the name of a row. InvalidArgument
// "got 'x', expected …" if H is missing, too much, or no such number.
absl::StatusOr<int64_t> IntervalOfSync(absl::string_view sync);

// "--sync local-sgd:H or diloco:H": all rows that have `trait`, for messages.
std::string SyncsWith(bool SyncTraits::*trait);

// An option that takes --staleness: a number of steps, or inf, which is kNoBound.
inline constexpr int64_t kNoBound = -1;
OptionValue StalenessValue(int64_t* field);
// As it is told.
std::string StalenessText(int64_t staleness);

// An option that takes a sync.
OptionValue SyncChoice(std::string* field);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_OPTIONS_SYNC_CHOICE_H_
