#include <torch/torch.h>

#include "worker/models/model.h"

namespace gradwire {
namespace {

constexpr int64_t kPool = 0;
constexpr int64_t kWidths[] = {64,  kPool, 128,   kPool, 256, 256,  kPool,
                               512, 512,   kPool, 512,   512, kPool};
constexpr int64_t kFeatures = 512;

// Simonyan and Zisserman's configuration A for small images: BatchNorm after
// each convolution and one linear layer. Modules are made in the order of a
// Python program that says the same, so a seed gives the same weights there.
class Vgg11 : public Model {
 public:
  explicit Vgg11(int64_t classes) {
    int64_t channels = ImageShape().channels;
    for (const int64_t width : kWidths) {
      if (width == kPool) {
        layers_->push_back(torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(2).stride(2)));
      } else {
        AddConvolution(channels, width);
        channels = width;
      }
    }
    register_module("layers", layers_);
    fc1_ = register_module("fc1", torch::nn::Linear(kFeatures, classes));
  }

  torch::Tensor forward(torch::Tensor images) override {
    return fc1_->forward(layers_->forward(images).flatten(1));
  }
  ImageShape image_shape() const override { return ImageShape(); }

  // A stage for each convolution with what follows it, and one for the linear layer.
  std::vector<Stage> stages() override {
    std::vector<Stage> stages;
    for (size_t begin = 0; begin < layers_->size();) {
      size_t end = begin + 1;
      while (end < layers_->size() && !IsConvolution(end)) ++end;
      stages.push_back(StageOf(begin, end));
      begin = end;
    }
    const auto classify = [this](const torch::Tensor& maps) {
      return fc1_->forward(maps.flatten(1));
    };
    stages.push_back({classify, fc1_->parameters()});
    return stages;
  }

 private:
  bool IsConvolution(size_t layer) const {
    return layers_->ptr(layer)->as<torch::nn::Conv2dImpl>() != nullptr;
  }

  // Layers begin … end - 1.
  Stage StageOf(size_t begin, size_t end) {
    Stage stage;
    for (size_t layer = begin; layer < end; ++layer) {
      for (const torch::Tensor& parameter : layers_->ptr(layer)->parameters()) {
        stage.parameters.push_back(parameter);
      }
    }
    stage.forward = [this, begin, end](torch::Tensor maps) {
      for (auto layer = layers_->begin() + begin; layer != layers_->begin() + end; ++layer) {
        maps = layer->forward(maps);
      }
      return maps;
    };
    return stage;
  }

  void AddConvolution(int64_t channels, int64_t width) {
    layers_->push_back(
        torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, width, 3).padding(1).bias(true)));
    layers_->push_back(torch::nn::BatchNorm2d(width));
    layers_->push_back(torch::nn::ReLU(torch::nn::ReLUOptions().inplace(true)));
  }

  torch::nn::Sequential layers_;
  torch::nn::Linear fc1_ = nullptr;
};

}  // namespace

std::shared_ptr<Model> MakeVgg11(int64_t classes) { return std::make_shared<Vgg11>(classes); }

}  // namespace gradwire
