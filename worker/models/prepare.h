#ifndef GRADWIRE_WORKER_MODELS_PREPARE_H_
#define GRADWIRE_WORKER_MODELS_PREPARE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/models/model.h"

namespace gradwire {

// Options of a model in a run.
struct ModelOptions {
  std::string name;
  int64_t classes = 10;
  int64_t image_size = 0;        // scales images to this many pixels a side; 0: the model's
  int64_t hidden = 0;            // width of a new classifier with three layers; 0: the model's own
  bool freeze_features = false;  // only the classifier is trained
  std::string weights;           // file; empty: as drawn
};

// Makes the model, replaces the classifier, reads the weights, and freezes tensors that are not
// trained. Weights are drawn from torch's global generator (seed it first). With `hidden` or
// `freeze_features`, the classifier in the file is ignored unless it fits; the model then keeps its
// new one.
//   NotFound           no such model, or no such file
//   InvalidArgument    the weights do not fit the model (see LoadWeights); it takes no images of
//                      that size; it has no separate classifier
//   ResourceExhausted  torch threw: its tensors need more memory than there is
absl::StatusOr<std::shared_ptr<Model>> PrepareModel(const ModelOptions& options);

// Returns parameters, then buffers.
std::vector<torch::Tensor> AllTensors(const Model& model);

// Returns parameters that are not trained, then buffers that training does not change.
std::vector<torch::Tensor> FrozenTensors(const Model& model);

// Returns the shape that data sets must fit: the model's own, or images of `image_size` unless 0.
ImageShape ShapeFor(const Model& model, int64_t image_size);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_MODELS_PREPARE_H_
