#ifndef GRADWIRE_WORKER_WEIGHTS_WEIGHTS_H_
#define GRADWIRE_WORKER_WEIGHTS_WEIGHTS_H_

#include <torch/torch.h>

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gradwire {

// A state dict: a model's parameters and buffers by their keys.
using Weights = std::map<std::string, torch::Tensor>;

// All of a model, in its own memory.
Weights WeightsOf(const torch::nn::Module& model);

// Reads what `path` holds: safetensors (safetensors.h), or what torch.save wrote (torch_file.h).
// Its first bytes say which. Errors name the file.
//   NotFound         it cannot be read
//   InvalidArgument  it is neither, or not a sound one of its kind
absl::StatusOr<Weights> ReadWeights(const std::string& path);

// Writes `path` as its name ends: in .safetensors, or in .pt or .pth as torch.save does.
//   InvalidArgument  another end
//   Internal         "cannot write …"
absl::Status WriteWeights(const std::string& path, const Weights& weights);

// Copies `weights` into `model`. What begins with `replaced` and a point is the exception if
// `replaced` is not empty: unless all of it fits, it stays as it is. A key that ends in
// num_batches_tracked may be missing: old versions of torch had none. DenseNets' published keys
// of old (norm.1 for norm1) are understood. The model is unchanged after an error:
//   InvalidArgument  a key is missing or is not the model's; the shape or type of one is not
//                    that of the model's. The message names it, what was got, what expected.
absl::Status LoadWeights(Weights weights, absl::string_view replaced, torch::nn::Module* model);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_WEIGHTS_WEIGHTS_H_
