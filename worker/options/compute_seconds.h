#ifndef GRADWIRE_WORKER_OPTIONS_COMPUTE_SECONDS_H_
#define GRADWIRE_WORKER_OPTIONS_COMPUTE_SECONDS_H_

#include <string>

#include "absl/types/optional.h"
#include "common/options/option_parser.h"

namespace gradwire {

// What the computation of one step and rank, of a whole batch, takes where it is emulated: a rank
// sleeps in place of computing.
struct ComputeSeconds {
  double forward = 0;
  double backward = 0;
};

// "0.3,0.6", as the option takes it; empty for a computation that is real.
std::string ToString(const absl::optional<ComputeSeconds>& seconds);

// --compute-seconds F,B, each from 0 to an hour.
void AddComputeSeconds(absl::optional<ComputeSeconds>* field, OptionParser* parser);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_OPTIONS_COMPUTE_SECONDS_H_
