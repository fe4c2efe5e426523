#ifndef GRADWIRE_WORKER_OPTIONS_MODEL_FLAGS_H_
#define GRADWIRE_WORKER_OPTIONS_MODEL_FLAGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "common/options/option_parser.h"

namespace gradwire {

// Options that select the network, for the worker and for commands that pass them on to it.
// PrepareModel checks that the model supports them.
struct ModelFlags {
  std::string model = "vgg11";
  int64_t image_size = 0;        // pixels a side; 0: the model's own shape
  int64_t hidden = 0;            // width of a new classifier; 0: the model's own
  bool freeze_features = false;  // only the classifier is trained
};

void AddModelFlags(ModelFlags* flags, OptionParser* parser);

// Returns command-line arguments: --model, and each other option that differs from its default.
std::vector<std::string> ToArguments(const ModelFlags& flags);

// Seconds that a rank sleeps in each step for a whole batch, if computation is emulated.
struct ComputeSeconds {
  double forward = 0;
  double backward = 0;
};

// Returns "0.3,0.6", as the option takes it; empty if computation is real.
std::string ToString(const absl::optional<ComputeSeconds>& seconds);

// Adds --compute-seconds F,B, each from 0 to an hour.
void AddComputeSeconds(absl::optional<ComputeSeconds>* field, OptionParser* parser);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_OPTIONS_MODEL_FLAGS_H_
