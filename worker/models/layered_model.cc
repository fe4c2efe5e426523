#include "worker/models/layered_model.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace gradwire {
namespace {

torch::Tensor Run(std::vector<torch::nn::AnyModule>& layers, torch::Tensor input) {
  for (torch::nn::AnyModule& layer : layers) input = layer.forward(std::move(input));
  return input;
}

std::vector<torch::Tensor> ParametersOf(const std::vector<torch::nn::AnyModule>& layers) {
  std::vector<torch::Tensor> all;
  for (const torch::nn::AnyModule& layer : layers) {
    const std::vector<torch::Tensor> own = layer.ptr()->parameters();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

bool BeginsStage(const torch::nn::Module& layer) {
  return !layer.parameters().empty() && layer.as<torch::nn::BatchNorm2d>() == nullptr;
}

torch::Tensor AverageMaps(const torch::Tensor& features) {
  return features.dim() > 2 ? features.mean({2, 3}) : features;
}

}  // namespace

torch::Tensor LayeredModel::forward(torch::Tensor input) {
  for (Layers& layers : stages_) input = Run(layers, std::move(input));
  return input;
}

std::vector<Stage> LayeredModel::stages() {
  std::vector<Stage> stages;
  for (Layers& layers : stages_) {
    const auto run = [&layers](torch::Tensor input) { return Run(layers, std::move(input)); };
    stages.push_back({run, ParametersOf(layers)});
  }
  return stages;
}

std::vector<torch::Tensor> LayeredModel::trained_buffers() const {
  if (!frozen_) return buffers();
  std::vector<torch::Tensor> trained;
  for (const auto& entry : named_buffers()) {
    if (absl::StartsWith(entry.key(), classifier_ + ".")) trained.push_back(entry.value());
  }
  return trained;
}

void LayeredModel::train(bool on) {
  Model::train(on);
  if (!frozen_) return;
  for (size_t i = 0; i < classifier_stage_; ++i) {
    for (const torch::nn::AnyModule& layer : stages_[i]) layer.ptr()->eval();
  }
}

void LayeredModel::FreezeFeatures() {
  frozen_ = true;
  for (const auto& entry : named_parameters()) {
    entry.value().requires_grad_(absl::StartsWith(entry.key(), classifier_ + "."));
  }
  train(is_training());
}

void LayeredModel::ReplaceClassifier(int64_t hidden, int64_t classes) {
  unregister_module(classifier_);
  stages_.resize(classifier_stage_ + 1);
  stages_.back() = {torch::nn::AnyModule(torch::nn::Functional(AverageMaps))};
  const int64_t widths[] = {features_, hidden, hidden, classes};
  for (int i = 0; i < 3; ++i) {
    const auto path = [&](int part) { return absl::StrCat(classifier_, ".", 3 * i + part); };
    Append(path(0), torch::nn::Linear(widths[i], widths[i + 1]));
    if (i == 2) break;
    Append(path(1), torch::nn::ReLU(true));
    Append(path(2), torch::nn::Dropout());
  }
}

void LayeredModel::BeginClassifier(const std::string& name, int64_t features) {
  classifier_ = name;
  features_ = features;
  classifier_stage_ = stages_.size();
  stages_.emplace_back();
}

void LayeredModel::AppendAny(const std::string& path, torch::nn::AnyModule layer) {
  Register(path, layer.ptr());
  if (stages_.empty() || (BeginsStage(*layer.ptr()) && !ParametersOf(stages_.back()).empty())) {
    stages_.emplace_back();
  }
  stages_.back().push_back(std::move(layer));
}

// Creates modules that only contain others when their first child comes.
void LayeredModel::Register(const std::string& path,
                            const std::shared_ptr<torch::nn::Module>& layer) {
  std::vector<std::string> names = absl::StrSplit(path, '.');
  const std::string last = names.back();
  names.pop_back();
  torch::nn::Module* owner = this;
  for (const std::string& name : names) {
    const auto children = owner->named_children();
    const std::shared_ptr<torch::nn::Module>* child = children.find(name);
    owner = child != nullptr
                ? child->get()
                : owner->register_module(name, std::make_shared<torch::nn::Module>(name)).get();
  }
  owner->register_module(last, layer);
}

}  // namespace gradwire
