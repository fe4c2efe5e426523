#include "worker/models/layered_model.h"

namespace gradwire {
namespace {

// A layer of 1x1 convolutions with `squeezed` maps, followed by a layer of 1x1 and a layer of 3x3
// convolutions with `expanded` maps each, which are concatenated.
class Fire : public torch::nn::Module {
 public:
  Fire(int64_t channels, int64_t squeezed, int64_t expanded)
      : squeeze_(register_module("squeeze", torch::nn::Conv2d(channels, squeezed, 1))),
        expand1x1_(register_module("expand1x1", torch::nn::Conv2d(squeezed, expanded, 1))),
        expand3x3_(register_module(
            "expand3x3",
            torch::nn::Conv2d(torch::nn::Conv2dOptions(squeezed, expanded, 3).padding(1)))) {}

  torch::Tensor forward(const torch::Tensor& input) {
    const torch::Tensor maps = torch::relu(squeeze_->forward(input));
    return torch::relu(torch::cat({expand1x1_->forward(maps), expand3x3_->forward(maps)}, 1));
  }

 private:
  torch::nn::Conv2d squeeze_, expand1x1_, expand3x3_;
};

// SqueezeNet 1.0 (Iandola et al.). Has the keys and, for a seed, the weights of torchvision's
// squeezenet1_0. Images of at least 21x21.
class SqueezeNet : public LayeredModel {
  static constexpr int64_t kFeatures = 512;

 public:
  explicit SqueezeNet(int64_t classes) : LayeredModel(kScaledImages) {
    AppendExtractor();
    BeginClassifier("classifier", kFeatures);
    Append("classifier.0", torch::nn::Dropout());
    Append("classifier.1", torch::nn::Conv2d(kFeatures, classes, 1));
    Append("classifier.2", torch::nn::ReLU(true));
    Append("classifier.3", torch::nn::AdaptiveAvgPool2d(1));
    Append("flatten", torch::nn::Flatten());
    DrawWeights();
  }

 private:
  void AppendExtractor() {
    Append("features.0", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 96, 7).stride(2)));
    Append("features.1", torch::nn::ReLU(true));
    AppendPool(2);
    AppendFire(3, 96, 16, 64);
    AppendFire(4, 128, 16, 64);
    AppendFire(5, 128, 32, 128);
    AppendPool(6);
    AppendFire(7, 256, 32, 128);
    AppendFire(8, 256, 48, 192);
    AppendFire(9, 384, 48, 192);
    AppendFire(10, 384, 64, 256);
    AppendPool(11);
    AppendFire(12, 512, 64, 256);
  }

  void AppendFire(int index, int64_t channels, int64_t squeezed, int64_t expanded) {
    Append("features." + std::to_string(index),
           std::make_shared<Fire>(channels, squeezed, expanded));
  }

  void AppendPool(int index) {
    Append("features." + std::to_string(index),
           torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(3).stride(2).ceil_mode(true)));
  }

  // Draws the classifier from a narrow normal distribution.
  void DrawWeights() {
    for (const auto& entry : named_modules("", /*include_self=*/false)) {
      auto* convolution = entry.value()->as<torch::nn::Conv2d>();
      if (convolution == nullptr) continue;
      if (entry.key() == "classifier.1") {
        torch::nn::init::normal_(convolution->weight, 0, 0.01);
      } else {
        torch::nn::init::kaiming_uniform_(convolution->weight);
      }
      torch::nn::init::zeros_(convolution->bias);
    }
  }
};

}  // namespace

std::shared_ptr<Model> MakeSqueezeNet(int64_t classes) {
  return std::make_shared<SqueezeNet>(classes);
}

}  // namespace gradwire
