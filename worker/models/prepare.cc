#include "worker/models/prepare.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_util.h"
#include "worker/models/layered_model.h"
#include "worker/weights/weights.h"

namespace gradwire {
namespace {

absl::Status CheckImageSize(const ModelOptions& options, Model* model) {
  if (options.image_size == 0) return absl::OkStatus();
  const std::string got = absl::StrCat("--image-size: got ", options.image_size, ", expected ");
  if (model->image_shape().vocabulary > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(got, "none, because model ", options.name, " takes token ids"));
  }
  const ImageShape shape = ShapeFor(*model, options.image_size);
  const torch::NoGradGuard values_only;
  model->eval();
  try {
    model->forward(torch::zeros({1, shape.channels, shape.height, shape.width}));
  } catch (const c10::Error& error) {
    return absl::InvalidArgumentError(absl::StrCat(got, "a size that model ", options.name,
                                                   " takes: ", error.what_without_backtrace()));
  }
  model->train();
  return absl::OkStatus();
}

// `layered` is null for a model without a separate classifier.
absl::Status CheckClassifier(const ModelOptions& options, const LayeredModel* layered) {
  if (layered != nullptr || (options.hidden == 0 && !options.freeze_features)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "model ", options.name, " has no classifier apart from its features, so it takes ",
      options.hidden > 0 ? "no --hidden" : "no --freeze-features"));
}

absl::Status Load(const ModelOptions& options, const LayeredModel* layered, Model* model) {
  if (options.weights.empty()) return absl::OkStatus();
  absl::StatusOr<Weights> weights = ReadWeights(options.weights);
  if (!weights.ok()) return weights.status();
  const bool new_classifier = options.hidden > 0 || options.freeze_features;
  return Annotate(
      LoadWeights(*std::move(weights), new_classifier ? layered->classifier() : "", model),
      options.weights);
}

absl::StatusOr<std::shared_ptr<Model>> Prepare(const ModelOptions& options) {
  absl::StatusOr<std::shared_ptr<Model>> made = MakeModel(options.name, options.classes);
  if (!made.ok()) return made.status();
  Model* const model = made->get();
  auto* const layered = dynamic_cast<LayeredModel*>(model);
  absl::Status status = CheckClassifier(options, layered);
  if (status.ok() && options.hidden > 0) {
    layered->ReplaceClassifier(options.hidden, options.classes);
  }
  if (status.ok()) status = CheckImageSize(options, model);
  if (status.ok()) status = Load(options, layered, model);
  if (!status.ok()) return status;
  if (options.freeze_features) layered->FreezeFeatures();
  return made;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Model>> PrepareModel(const ModelOptions& options) {
  try {
    return Prepare(options);
  } catch (const c10::Error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("model ", options.name, ": torch: ", error.what_without_backtrace()));
  }
}

std::vector<torch::Tensor> AllTensors(const Model& model) {
  std::vector<torch::Tensor> tensors = model.parameters();
  const std::vector<torch::Tensor> buffers = model.buffers();
  tensors.insert(tensors.end(), buffers.begin(), buffers.end());
  return tensors;
}

std::vector<torch::Tensor> FrozenTensors(const Model& model) {
  std::vector<torch::Tensor> frozen;
  for (const torch::Tensor& parameter : model.parameters()) {
    if (!parameter.requires_grad()) frozen.push_back(parameter);
  }
  const std::vector<torch::Tensor> trained = model.trained_buffers();
  for (const torch::Tensor& buffer : model.buffers()) {
    const auto is_it = [&](const torch::Tensor& other) { return other.is_same(buffer); };
    if (std::none_of(trained.begin(), trained.end(), is_it)) frozen.push_back(buffer);
  }
  return frozen;
}

ImageShape ShapeFor(const Model& model, int64_t image_size) {
  ImageShape shape = model.image_shape();
  if (image_size == 0) return shape;
  shape.height = shape.width = image_size;
  shape.scaled = true;
  return shape;
}

}  // namespace gradwire
