#ifndef GRADWIRE_WORKER_MODELS_LAYERED_MODEL_H_
#define GRADWIRE_WORKER_MODELS_LAYERED_MODEL_H_

#include <torch/torch.h>

#include <string>
#include <vector>

#include "worker/models/model.h"

namespace gradwire {

// A model that is a sequence of layers; each takes the output of the previous one:
//
//   input ─► layer ─► … ─► layer ─► (N, features) ─► classifier's layers ─► scores
//            └──── the extractor ────┘
//
// Its constructor appends the layers in order. A stage (see Model::stages) begins at each layer
// with parameters, except BatchNorm, which is in the stage of the layer before it.
class LayeredModel : public Model {
 public:
  torch::Tensor forward(torch::Tensor input) final;
  ImageShape image_shape() const final { return shape_; }
  std::vector<Stage> stages() final;
  // A frozen extractor's buffers do not change.
  std::vector<torch::Tensor> trained_buffers() const final;
  // A frozen extractor stays in evaluation mode: its BatchNorm uses the statistics that it has.
  void train(bool on = true) final;

  // Returns the name of the classifier child: its tensors' names begin with it and a point.
  const std::string& classifier() const { return classifier_; }
  // Replaces the classifier by features → hidden → hidden → classes, with ReLU and dropout between.
  // Draws its weights like a Python program that assigns such a torch.nn.Sequential. If features
  // are maps, each map is averaged first.
  void ReplaceClassifier(int64_t hidden, int64_t classes);
  // From now on only the classifier is trained.
  void FreezeFeatures();

 protected:
  explicit LayeredModel(const ImageShape& shape) : shape_(shape) {}

  // Appends a layer, a module or its holder, registered as `path`: names with points between, as in
  // a key of a state dict.
  template <typename Layer>
  void Append(const std::string& path, Layer layer) {
    AppendAny(path, torch::nn::AnyModule(std::move(layer)));
  }
  // Layers appended from now on are the classifier; all its tensors are in child `name`. Its input
  // is `features` numbers for each sample, or as many maps.
  void BeginClassifier(const std::string& name, int64_t features);

 private:
  using Layers = std::vector<torch::nn::AnyModule>;

  void AppendAny(const std::string& path, torch::nn::AnyModule layer);
  void Register(const std::string& path, const std::shared_ptr<torch::nn::Module>& layer);

  const ImageShape shape_;
  std::vector<Layers> stages_;
  size_t classifier_stage_ = 0;  // the classifier's first stage
  std::string classifier_;
  int64_t features_ = 0;
  bool frozen_ = false;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_MODELS_LAYERED_MODEL_H_
