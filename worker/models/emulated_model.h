#ifndef GRADWIRE_WORKER_MODELS_EMULATED_MODEL_H_
#define GRADWIRE_WORKER_MODELS_EMULATED_MODEL_H_

#include <torch/custom_class.h>
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/clock.h"
#include "worker/models/model.h"
#include "worker/options/model_flags.h"

namespace gradwire {

// A layer that sleeps. Owned by the model, and by the graphs of passes under way.
struct EmulatedLayer : torch::CustomClassHolder {
  std::vector<torch::Tensor> parameters;
  std::vector<torch::Tensor> gradients;  // only read: they share memory
  double forward_seconds = 0;            // for a sample
  double backward_seconds = 0;
  std::shared_ptr<PacedSleep> sleep;  // shared by all layers
};

// Has another model's parameters, buffers and stages. Instead of computing, each layer (see
// LayerCost) sleeps for the share of its multiply-adds:
//
//   forward   sleep(1) ─► sleep(2) ─► … ─► sleep(n) ─► scores, all zero
//   backward  gradients of n at once after its sleep, then of n - 1, … of 1
//
// So buckets become ready one after the other, as in a real backward pass, and the processor is
// free for other ranks: many hosts can be studied on few cores. Gradients are random numbers, drawn
// once, the same in each step and for each layer: the model learns nothing.
class EmulatedModel : public Model {
 public:
  // `seconds`: of a pass over `batch_size` samples; fewer samples take less in proportion. `shape`:
  // of the images for `model`, which gives `classes` scores.
  EmulatedModel(std::shared_ptr<Model> model, const ImageShape& shape, int64_t classes,
                const ComputeSeconds& seconds, int64_t batch_size);

  torch::Tensor forward(torch::Tensor images) override;
  ImageShape image_shape() const override { return model_->image_shape(); }
  std::vector<Stage> stages() override;
  std::vector<torch::Tensor> trained_buffers() const override { return model_->trained_buffers(); }
  void train(bool on = true) override;

 private:
  using Layers = std::vector<c10::intrusive_ptr<EmulatedLayer>>;

  void ShowAsOwn();
  torch::Tensor Begin(const torch::Tensor& images) const;

  const std::shared_ptr<Model> model_;
  const int64_t classes_;
  Layers layers_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_MODELS_EMULATED_MODEL_H_
