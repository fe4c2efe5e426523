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

// What a model wants its images to be. One channel is repeated, and smaller images are padded,
// or all scaled, to fit.
struct ImageShape {
  int64_t channels = 3;
  int64_t height = 32;
  int64_t width = 32;
  bool scaled = false;
  int64_t vocabulary = 0;  // not 0: it wants no images, but `width` token ids below this
};

// Of models that take images of any size.
inline constexpr ImageShape kScaledImages = {3, 224, 224, true};

// A part of a model's forward pass that needs only some of its parameters.
struct Stage {
  std::function<torch::Tensor(torch::Tensor)> forward;
  std::vector<torch::Tensor> parameters;  // that `forward` reads
};

// A network that turns a batch of images (N, C, H, W, float32, normalised) or of token ids
// (N, 1, 1, T, float32) into class scores (N, classes, float32). Not thread-safe.
class Model : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(torch::Tensor images) = 0;
  virtual ImageShape image_shape() const = 0;

  // forward() cut into pieces: each gets what the one before it gave, the first
  // one the images, and the last one gives the scores, with the same bits. They
  // are good as long as the model is. With them a forward pass can begin while
  // the mean gradients of later stages still come in. Empty: it waits for all.
  virtual std::vector<Stage> stages() { return {}; }

  // The buffers that training changes.
  virtual std::vector<torch::Tensor> trained_buffers() const { return buffers(); }
};

// The model called `name`, with weights drawn from torch's global generator
// (seed it first). NotFound lists the names that exist.
absl::StatusOr<std::shared_ptr<Model>> MakeModel(absl::string_view name, int64_t classes);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_MODELS_MODEL_H_
