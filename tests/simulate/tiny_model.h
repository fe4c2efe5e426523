#ifndef GRADWIRE_TESTS_SIMULATE_TINY_MODEL_H_
#define GRADWIRE_TESTS_SIMULATE_TINY_MODEL_H_

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/ids.h"
#include "worker/data/batches.h"
#include "worker/models/model.h"

namespace gradwire::simulate {

// Three stages of one layer each, and a buffer that every forward pass changes and the next one
// depends on. It begins with the same weights each time.
class TinyModel : public Model {
 public:
  // `wide`: 10,000 parameters in place of 180.
  explicit TinyModel(bool wide);
  torch::Tensor forward(torch::Tensor images) override;
  ImageShape image_shape() const override { return {1, 1, kInputs}; }
  std::vector<Stage> stages() override;

  static constexpr int64_t kInputs = 8;
  static constexpr int64_t kClasses = 4;

 private:
  torch::Tensor First(const torch::Tensor& images);
  torch::Tensor Second(const torch::Tensor& hidden);
  torch::Tensor Third(const torch::Tensor& hidden);

  torch::nn::Linear first_{nullptr};
  torch::nn::Linear second_{nullptr};
  torch::nn::Linear third_{nullptr};
  torch::Tensor running_;
};

// What a rank is shown in a step: the same whoever asks. Ranks below 16, few steps.
Batch BatchOf(Step step, Rank rank);

// Of the elements of all tensors.
uint64_t DigestOf(const std::vector<torch::Tensor>& tensors);

}  // namespace gradwire::simulate

#endif  // GRADWIRE_TESTS_SIMULATE_TINY_MODEL_H_
