#ifndef GRADWIRE_WORKER_MODELS_PREPARE_H_
#define GRADWIRE_WORKER_MODELS_PREPARE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/models/model.h"

namespace gradwire {

// A model as a run trains it.
struct ModelOptions {
  std::string name;
  int64_t classes = 10;
  int64_t image_size = 0;        // images are scaled to as many pixels a side; 0: the model's
  int64_t hidden = 0;            // width of a new classifier with three layers; 0: the model's own
  bool freeze_features = false;  // the classifier alone is trained
  std::string weights;           // file; empty: as drawn
};

// MakeModel, then the classifier is replaced, the weights are read, and what is not to be trained
// is frozen. Weights are drawn from torch's global generator (seed it first). With `hidden` or
// `freeze_features` a file's classifier is passed over unless it fits: the model's is a new one.
//   NotFound         no such model, or no such file
//   InvalidArgument  the weights are not the model's (see LoadWeights); it takes no images of
//                    that size; it has no classifier apart
absl::StatusOr<std::shared_ptr<Model>> PrepareModel(const ModelOptions& options);

// Parameters that are not trained, then buffers that training does not change.
std::vector<torch::Tensor> FrozenTensors(const Model& model);

// What data sets are made to fit: the model's own shape, or images of `image_size` unless 0.
ImageShape ShapeFor(const Model& model, int64_t image_size);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_MODELS_PREPARE_H_
