#ifndef GRADWIRE_WORKER_MODELS_MODEL_H_
#define GRADWIRE_WORKER_MODELS_MODEL_H_

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gradwire {

// What a model wants its images to be; data sets are padded or repeated to fit.
struct ImageShape {
  int64_t channels = 3;
  int64_t height = 32;
  int64_t width = 32;
};

// A network that turns a batch of images (N, C, H, W, float32, normalised)
// into class scores (N, classes, float32). Not thread-safe.
class Model : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(torch::Tensor images) = 0;
  virtual ImageShape image_shape() const = 0;
};

// The model called `name`, with weights drawn from torch's global generator
// (seed it first). NotFound lists the names that exist.
absl::StatusOr<std::shared_ptr<Model>> MakeModel(absl::string_view name, int64_t classes);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_MODELS_MODEL_H_
