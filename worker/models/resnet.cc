#include <array>

#include "absl/strings/str_cat.h"
#include "worker/models/layered_model.h"

namespace gradwire {
namespace {

// The structure of a ResNet.
struct ResNetPlan {
  std::array<int, 4> blocks;  // in each of its four groups
  bool bottleneck;  // a block is 1x1, 3x3, 1x1, the last with 4 times the maps; else 3x3, 3x3
};

constexpr int64_t kFirstWidth = 64;

// Convolutions with BatchNorm; their result is added to the input. If the shapes differ, a 1x1
// convolution adapts the input.
class ResidualBlock : public torch::nn::Module {
 public:
  ResidualBlock(int64_t channels, int64_t width, int64_t stride, bool bottleneck) {
    const int64_t result = bottleneck ? 4 * width : width;
    if (bottleneck) AddConvolution(channels, width, 1, 1);
    AddConvolution(bottleneck ? width : channels, width, 3, stride);
    AddConvolution(width, result, bottleneck ? 1 : 3, 1);
    if (stride == 1 && channels == result) return;
    fit_->push_back(torch::nn::Conv2d(
        torch::nn::Conv2dOptions(channels, result, 1).stride(stride).bias(false)));
    fit_->push_back(torch::nn::BatchNorm2d(result));
    register_module("downsample", fit_);
  }

  torch::Tensor forward(const torch::Tensor& input) {
    torch::Tensor maps = input;
    for (size_t i = 0; i < convolutions_.size(); ++i) {
      if (i > 0) maps = maps.relu_();
      maps = norms_[i]->forward(convolutions_[i]->forward(maps));
    }
    maps += fit_->is_empty() ? input : fit_->forward(input);
    return maps.relu_();
  }

 private:
  void AddConvolution(int64_t channels, int64_t width, int64_t side, int64_t stride) {
    const auto options = torch::nn::Conv2dOptions(channels, width, side);
    const size_t number = convolutions_.size() + 1;
    convolutions_.push_back(register_module(
        absl::StrCat("conv", number),
        torch::nn::Conv2d(
            torch::nn::Conv2dOptions(options).stride(stride).padding(side / 2).bias(false))));
    norms_.push_back(register_module(absl::StrCat("bn", number), torch::nn::BatchNorm2d(width)));
  }

  std::vector<torch::nn::Conv2d> convolutions_;
  std::vector<torch::nn::BatchNorm2d> norms_;
  torch::nn::Sequential fit_;
};

// ResNet (He et al.), with the stride of a bottleneck in its 3x3 convolution. Has the keys and, for
// a seed, the weights of torchvision's models. Images of any size.
class ResNet : public LayeredModel {
 public:
  ResNet(int64_t classes, const ResNetPlan& plan) : LayeredModel(kScaledImages) {
    const auto first = torch::nn::Conv2dOptions(kScaledImages.channels, kFirstWidth, 7);
    Append("conv1",
           torch::nn::Conv2d(torch::nn::Conv2dOptions(first).stride(2).padding(3).bias(false)));
    Append("bn1", torch::nn::BatchNorm2d(kFirstWidth));
    Append("relu", torch::nn::ReLU(true));
    Append("maxpool", torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(3).stride(2).padding(1)));
    const int64_t features = AppendBlocks(plan);
    Append("avgpool", torch::nn::AdaptiveAvgPool2d(1));
    Append("flatten", torch::nn::Flatten());
    BeginClassifier("fc", features);
    Append("fc", torch::nn::Linear(features, classes));
    DrawWeights();
  }

 private:
  // Returns the number of maps.
  int64_t AppendBlocks(const ResNetPlan& plan) {
    int64_t channels = kFirstWidth;
    int64_t width = kFirstWidth;
    for (size_t group = 0; group < plan.blocks.size(); ++group, width *= 2) {
      for (int i = 0; i < plan.blocks[group]; ++i) {
        const int64_t stride = group > 0 && i == 0 ? 2 : 1;
        Append(absl::StrCat("layer", group + 1, ".", i),
               std::make_shared<ResidualBlock>(channels, width, stride, plan.bottleneck));
        channels = plan.bottleneck ? 4 * width : width;
      }
    }
    return channels;
  }

  void DrawWeights() {
    for (const auto& module : modules(/*include_self=*/false)) {
      auto* convolution = module->as<torch::nn::Conv2d>();
      if (convolution == nullptr) continue;
      torch::nn::init::kaiming_normal_(convolution->weight, 0, torch::kFanOut, torch::kReLU);
    }
  }
};

}  // namespace

std::shared_ptr<Model> MakeResNet18(int64_t classes) {
  return std::make_shared<ResNet>(classes, ResNetPlan{{2, 2, 2, 2}, false});
}

std::shared_ptr<Model> MakeResNet50(int64_t classes) {
  return std::make_shared<ResNet>(classes, ResNetPlan{{3, 4, 6, 3}, true});
}

}  // namespace gradwire
