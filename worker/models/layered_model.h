#ifndef GRADWIRE_WORKER_MODELS_LAYERED_MODEL_H_
#define GRADWIRE_WORKER_MODELS_LAYERED_MODEL_H_

#include <torch/torch.h>

#include <string>
#include <vector>

#include "worker/models/model.h"

namespace gradwire {

// A model that is a row of layers, each of which takes what the one before it gave:
//
//   input ─► layer ─► … ─► layer ─► (N, features) ─► classifier's layers ─► scores
//            └──── the extractor ────┘
//
// Its constructor appends the layers in their order. A stage (see Model::stages) begins at
// each layer that has parameters, but for BatchNorm, which stays with what is before it.
class LayeredModel : public Model {
 public:
  torch::Tensor forward(torch::Tensor input) final;
  ImageShape image_shape() const final { return shape_; }
  std::vector<Stage> stages() final;
  // A frozen extractor's buffers stay as they are.
  std::vector<torch::Tensor> trained_buffers() const final;
  // A frozen extractor stays in evaluation mode: its BatchNorm uses what it has.
  void train(bool on = true) final;

  // Name of the child that is the classifier: its tensors' names begin with it and a point.
  const std::string& classifier() const { return classifier_; }
  // Puts features → hidden → hidden → classes, with ReLU and dropout between, in place of the
  // classifier. Its weights are drawn as a Python program would that assigns such a
  // torch.nn.Sequential. Features that are maps are averaged over each map first.
  void ReplaceClassifier(int64_t hidden, int64_t classes);
  // From now on the classifier alone is trained.
  void FreezeFeatures();

 protected:
  explicit LayeredModel(const ImageShape& shape) : shape_(shape) {}

  // The next layer, a module or its holder, registered as `path`: names with points
  // between, as in a key of a state dict.
  template <typename Layer>
  void Append(const std::string& path, Layer layer) {
    AppendAny(path, torch::nn::AnyModule(std::move(layer)));
  }
  // What is appended from here on is the classifier; all its tensors are in child `name`. It
  // gets `features` numbers for each sample, or as many maps.
  void BeginClassifier(const std::string& name, int64_t features);

 private:
  using Layers = std::vector<torch::nn::AnyModule>;

  void AppendAny(const std::string& path, torch::nn::AnyModule layer);
  void Register(const std::string& path, const std::shared_ptr<torch::nn::Module>& layer);

  const ImageShape shape_;
  std::vector<Layers> stages_;
  size_t classifier_stage_ = 0;  // the first one that is the classifier's
  std::string classifier_;
  int64_t features_ = 0;
  bool frozen_ = false;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_MODELS_LAYERED_MODEL_H_
