#ifndef GRADWIRE_WORKER_OPTIONS_SYNC_SETTINGS_H_
#define GRADWIRE_WORKER_OPTIONS_SYNC_SETTINGS_H_

#include <cstdint>

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

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_OPTIONS_SYNC_SETTINGS_H_
