#ifndef GRADWIRE_WORKER_MODELS_MODEL_H_
#define GRADWIRE_WORKER_MODELS_MODEL_H_

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gradwire {

// The shape of a model's images. A single channel is repeated, and images are padded if they are
// smaller, or all scaled, to fit.
struct ImageShape {
  int64_t channels = 3;
  int64_t height = 32;
  int64_t width = 32;
  bool scaled = false;
  int64_t vocabulary = 0;  // not 0: takes no images, but `width` token ids below this
};

// For models that take images of any size.
inline constexpr ImageShape kScaledImages = {3, 224, 224, true};

// A part of a model's forward pass that needs only some of its parameters.
struct Stage {
  std::function<torch::Tensor(torch::Tensor)> forward;
  std::vector<torch::Tensor> parameters;  // read by `forward`
};

// A network that converts a batch of images (N, C, H, W, float32, normalized) or of token ids (N,
// 1, 1, T, float32) to class scores (N, classes, float32). Not thread-safe.
class Model : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(torch::Tensor images) = 0;
  virtual ImageShape image_shape() const = 0;

  // Returns forward() cut into pieces, with the same bits: the first takes the images, each other
  // one the output of the previous, and the last returns the scores. Valid as long as the model. A
  // forward pass can then begin while the mean gradients of later stages still arrive. Empty: it
  // waits for all.
  virtual std::vector<Stage> stages() { return {}; }

  // Returns the buffers that training changes.
  virtual std::vector<torch::Tensor> trained_buffers() const { return buffers(); }
};

// Makes the model `name`, with weights drawn from torch's global generator (seed it first).
// NotFound lists the names.
absl::StatusOr<std::shared_ptr<Model>> MakeModel(absl::string_view name, int64_t classes);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_MODELS_MODEL_H_
