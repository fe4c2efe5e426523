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

 private:
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
