#ifndef GRADWIRE_WORKER_OPTIONS_SYNC_CHOICE_H_
#define GRADWIRE_WORKER_OPTIONS_SYNC_CHOICE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/options/option_values.h"
#include "worker/options/traits.h"

namespace gradwire {

// torch::optim::SGD with Nesterov momentum. With lr 1 and momentum 0, the step sets each model to
// the mean of all models.
struct OuterStep {
  double lr = 1;
  double momentum = 0;
};

// Options of a sync besides its name.
struct SyncSettings {
  int64_t delay = 0;  // of a periodic sync: steps from an exchange to its use, below its interval
  OuterStep outer = {0.7, 0.9};  // of a sync with an outer step
};

// A sync is given by the name of its row, "ddp". A periodic one (see SyncTraits) also has an
// interval H, the number of steps between two exchanges: "local-sgd:10".

// Returns the part before the colon, or all if there is none.
absl::string_view NameOfSync(absl::string_view sync);

// Returns H, 1 or more; 0 for a sync that is not periodic. The name must be in the table.
// InvalidArgument "got 'x', expected …" if H is missing, too large, or no number from 1.
absl::StatusOr<int64_t> IntervalOfSync(absl::string_view sync);

// Returns "--sync local-sgd:H or diloco:H": all rows that have `trait`, for messages.
std::string SyncsWith(bool SyncTraits::*trait);

// The option --staleness: a number of steps, or inf, which is kNoBound.
inline constexpr int64_t kNoBound = -1;
OptionValue StalenessValue(int64_t* field);
// Returns the value as the option takes it.
std::string StalenessText(int64_t staleness);

// An option whose value is a sync.
OptionValue SyncChoice(std::string* field);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_OPTIONS_SYNC_CHOICE_H_
