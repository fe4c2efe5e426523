#include "absl/strings/str_cat.h"
#include "worker/models/layered_model.h"

namespace gradwire {
namespace {

constexpr int64_t kGrowth = 32;  // maps that a layer adds
constexpr int64_t kBottleneck = 4 * kGrowth;
constexpr int64_t kFirstMaps = 64;
constexpr int kLayers[] = {6, 12, 24, 16};  // in each block

// Returns its input with kGrowth more maps.
class DenseLayer : public torch::nn::Module {
 public:
  explicit DenseLayer(int64_t channels)
      : norm1_(register_module("norm1", torch::nn::BatchNorm2d(channels))),
        conv1_(register_module(
            "conv1",
            torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, kBottleneck, 1).bias(false)))),
        norm2_(register_module("norm2", torch::nn::BatchNorm2d(kBottleneck))),
        conv2_(register_module(
            "conv2",
            torch::nn::Conv2d(
                torch::nn::Conv2dOptions(kBottleneck, kGrowth, 3).padding(1).bias(false)))) {}

  torch::Tensor forward(const torch::Tensor& input) {
    const torch::Tensor maps = conv1_->forward(norm1_->forward(input).relu_());
    return torch::cat({input, conv2_->forward(norm2_->forward(maps).relu_())}, 1);
  }

 private:
  torch::nn::BatchNorm2d norm1_;
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d norm2_;
  torch::nn::Conv2d conv2_;
};

// DenseNet-121 (Huang et al.). Has the keys and, for a seed, the weights of torchvision's
// densenet121. Images of at least 29x29.
class DenseNet : public LayeredModel {
 public:
  explicit DenseNet(int64_t classes) : LayeredModel(kScaledImages) {
    AppendFirst();
    int64_t channels = kFirstMaps;
    for (int block = 1; block <= 4; ++block) {
      if (block > 1) channels = AppendTransition(block - 1, channels);
      for (int layer = 1; layer <= kLayers[block - 1]; ++layer, channels += kGrowth) {
        Append(absl::StrCat("features.denseblock", block, ".denselayer", layer),
               std::make_shared<DenseLayer>(channels));
      }
    }
    Append("features.norm5", torch::nn::BatchNorm2d(channels));
    Append("relu", torch::nn::ReLU(true));
    Append("avgpool", torch::nn::AdaptiveAvgPool2d(1));
    Append("flatten", torch::nn::Flatten());
    BeginClassifier("classifier", channels);
    Append("classifier", torch::nn::Linear(channels, classes));
    DrawWeights();
  }

 private:
  void AppendFirst() {
    const auto first = torch::nn::Conv2dOptions(kScaledImages.channels, kFirstMaps, 7);
    Append("features.conv0",
           torch::nn::Conv2d(torch::nn::Conv2dOptions(first).stride(2).padding(3).bias(false)));
    Append("features.norm0", torch::nn::BatchNorm2d(kFirstMaps));
    Append("features.relu0", torch::nn::ReLU(true));
    Append("features.pool0",
           torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(3).stride(2).padding(1)));
  }

  // Appends layers that halve the number of maps and their size. Returns the number of maps.
  int64_t AppendTransition(int number, int64_t channels) {
    const std::string path = absl::StrCat("features.transition", number, ".");
    Append(path + "norm", torch::nn::BatchNorm2d(channels));
    Append(path + "relu", torch::nn::ReLU(true));
    Append(path + "conv",
           torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, channels / 2, 1).bias(false)));
    Append(path + "pool", torch::nn::AvgPool2d(torch::nn::AvgPool2dOptions(2).stride(2)));
    return channels / 2;
  }

  void DrawWeights() {
    for (const auto& module : modules(/*include_self=*/false)) {
      if (auto* convolution = module->as<torch::nn::Conv2d>()) {
        torch::nn::init::kaiming_normal_(convolution->weight);
      } else if (auto* linear = module->as<torch::nn::Linear>()) {
        torch::nn::init::zeros_(linear->bias);
      }
    }
  }
};

}  // namespace

std::shared_ptr<Model> MakeDenseNet121(int64_t classes) {
  return std::make_shared<DenseNet>(classes);
}

}  // namespace gradwire
