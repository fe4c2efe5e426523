#include "absl/strings/str_cat.h"
#include "worker/models/layered_model.h"

namespace gradwire {
namespace {

// Simonyan and Zisserman's configuration A for small images: BatchNorm after
// each convolution and one linear layer. Modules are made in the order of a
// Python program that says the same, so a seed gives the same weights there.
class Vgg11 : public LayeredModel {
  static constexpr int64_t kPool = 0;
  static constexpr int64_t kWidths[] = {64,  kPool, 128,   kPool, 256, 256,  kPool,
                                        512, 512,   kPool, 512,   512, kPool};
  static constexpr int64_t kFeatures = 512;

 public:
  explicit Vgg11(int64_t classes) : LayeredModel(ImageShape()) {
    int64_t channels = ImageShape().channels;
    for (const int64_t width : kWidths) {
      if (width == kPool) {
        AppendLayer(torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(2).stride(2)));
      } else {
        AppendConvolution(channels, width);
        channels = width;
      }
    }
    Append("flatten", torch::nn::Flatten());
    BeginClassifier("fc1", kFeatures);
    Append("fc1", torch::nn::Linear(kFeatures, classes));
  }

 private:
  template <typename Layer>
  void AppendLayer(Layer layer) {
    Append(absl::StrCat("layers.", layers_++), std::move(layer));
  }

  void AppendConvolution(int64_t channels, int64_t width) {
    AppendLayer(torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, width, 3).padding(1)));
    AppendLayer(torch::nn::BatchNorm2d(width));
    AppendLayer(torch::nn::ReLU(true));
  }

  int layers_ = 0;
};

}  // namespace

std::shared_ptr<Model> MakeVgg11(int64_t classes) { return std::make_shared<Vgg11>(classes); }

}  // namespace gradwire
