#include "worker/run/gates.h"

#include <algorithm>
#include <utility>

namespace gradwire {
namespace {

// Returns the stages of a model, or the whole model as one.
std::vector<Stage> StagesOf(Model* model) {
  std::vector<Stage> stages = model->stages();
  if (!stages.empty()) return stages;
  return {{[model](torch::Tensor images) { return model->forward(std::move(images)); }, {}}};
}

void AddOnce(absl::optional<size_t> bucket, std::vector<size_t>* buckets) {
  if (!bucket.has_value()) return;
  if (std::find(buckets->begin(), buckets->end(), *bucket) != buckets->end()) return;
  buckets->push_back(*bucket);
}

void Remove(const torch::Tensor& tensor, std::vector<torch::Tensor>* tensors) {
  const auto is_it = [&](const torch::Tensor& other) { return other.is_same(tensor); };
  tensors->erase(std::remove_if(tensors->begin(), tensors->end(), is_it), tensors->end());
}

}  // namespace

std::vector<GatedStage> GateStages(Model* model, const Reducer& reducer) {
  std::vector<GatedStage> gated;
  std::vector<torch::Tensor> unnamed = model->parameters();
  for (const Stage& stage : StagesOf(model)) {
    gated.push_back({stage.forward, {}});
    for (const torch::Tensor& parameter : stage.parameters) {
      AddOnce(reducer.BucketOf(parameter), &gated.back().buckets);
      Remove(parameter, &unnamed);
    }
  }
  for (const torch::Tensor& parameter : unnamed) {
    AddOnce(reducer.BucketOf(parameter), &gated.front().buckets);
  }
  for (size_t i = reducer.gradient_buckets(); i < reducer.bucket_count(); ++i) {
    AddOnce(i, &gated.front().buckets);
  }
  return gated;
}

}  // namespace gradwire
