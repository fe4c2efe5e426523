#ifndef GRADWIRE_WORKER_WEIGHTS_WEIGHTS_H_
#define GRADWIRE_WORKER_WEIGHTS_WEIGHTS_H_

#include <torch/torch.h>

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gradwire {

// A state dict: a model's parameters and buffers by key.
using Weights = std::map<std::string, torch::Tensor>;

// Returns all of a model, in its own memory.
Weights WeightsOf(const torch::nn::Module& model);

// Reads the file `path`: safetensors (safetensors.h) or the format of torch.save (torch_file.h), by
// its first bytes. Errors name the file.
//   NotFound         it cannot be read
//   InvalidArgument  it has neither format, or is damaged
absl::StatusOr<Weights> ReadWeights(const std::string& path);

// Writes `path`: as safetensors if the name ends in .safetensors, or as torch.save if it ends in
// .pt or .pth.
//   InvalidArgument  another extension
//   Internal         "cannot write …"
absl::Status WriteWeights(const std::string& path, const Weights& weights);

// Copies `weights` into `model`. Keys that begin with `replaced` (if not empty) and a point are
// ignored unless all of them fit. A key that ends in num_batches_tracked may be missing: old
// versions of torch had none. Accepts old keys of published DenseNets (norm.1 for norm1). After an
// error the model is unchanged:
//   InvalidArgument  a key is missing or is not in the model; a shape or type differs from the
//                    model's. The message names the key, what was got, and what was expected.
absl::Status LoadWeights(Weights weights, absl::string_view replaced, torch::nn::Module* model);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_WEIGHTS_WEIGHTS_H_
