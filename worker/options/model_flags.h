#ifndef GRADWIRE_WORKER_OPTIONS_MODEL_FLAGS_H_
#define GRADWIRE_WORKER_OPTIONS_MODEL_FLAGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "common/options/option_parser.h"

namespace gradwire {

// The options of a worker that say which network it trains: for it, and for commands that pass them
// on to it. Whether the model can have what they ask for, PrepareModel finds out.
struct ModelFlags {
  std::string model = "vgg11";
  int64_t image_size = 0;        // pixels a side; 0: the model's own shape
  int64_t hidden = 0;            // width of a new classifier; 0: the model's own
  bool freeze_features = false;  // the classifier alone is trained
};

void AddModelFlags(ModelFlags* flags, OptionParser* parser);

// As a command line; what is as by default is left out, but for the model.
std::vector<std::string> ToArguments(const ModelFlags& flags);

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

#endif  // GRADWIRE_WORKER_OPTIONS_MODEL_FLAGS_H_
