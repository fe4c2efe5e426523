#include "absl/strings/str_cat.h"
#include "worker/models/layered_model.h"

namespace gradwire {

namespace {

// Configuration A (Simonyan and Zisserman) for small images: BatchNorm after each convolution and
// one linear layer. Modules are made in the order of an equal Python program, so a seed gives the
// same weights there.
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

namespace {

// Configuration D (Simonyan and Zisserman). Has the keys and, for a seed, the weights of
// torchvision's vgg16. Images of at least 32x32.
class Vgg16 : public LayeredModel {
  static constexpr int64_t kPool = 0;
  static constexpr int64_t kWidths[] = {64,    64,  kPool, 128, 128,   kPool, 256, 256, 256,
                                        kPool, 512, 512,   512, kPool, 512,   512, 512, kPool};
  static constexpr int64_t kSide = 7;  // of the classifier's input maps
  static constexpr int64_t kFeatures = 512 * kSide * kSide;
  static constexpr int64_t kHidden = 4096;

 public:
  explicit Vgg16(int64_t classes) : LayeredModel(kScaledImages) {
    AppendExtractor();
    Append("avgpool", torch::nn::AdaptiveAvgPool2d(kSide));
    Append("flatten", torch::nn::Flatten());
    BeginClassifier("classifier", kFeatures);
    Append("classifier.0", torch::nn::Linear(kFeatures, kHidden));
    Append("classifier.1", torch::nn::ReLU(true));
    Append("classifier.2", torch::nn::Dropout());
    Append("classifier.3", torch::nn::Linear(kHidden, kHidden));
    Append("classifier.4", torch::nn::ReLU(true));
    Append("classifier.5", torch::nn::Dropout());
    Append("classifier.6", torch::nn::Linear(kHidden, classes));
    DrawWeights();
  }

 private:
  void AppendExtractor() {
    int index = 0;
    const auto path = [&] { return "features." + std::to_string(index++); };
    int64_t channels = kScaledImages.channels;
    for (const int64_t width : kWidths) {
      if (width == kPool) {
        Append(path(), torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(2).stride(2)));
        continue;
      }
      Append(path(), torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, width, 3).padding(1)));
      Append(path(), torch::nn::ReLU(true));
      channels = width;
    }
  }

  void DrawWeights() {
    for (const auto& module : modules(/*include_self=*/false)) {
      if (auto* convolution = module->as<torch::nn::Conv2d>()) {
        torch::nn::init::kaiming_normal_(convolution->weight, 0, torch::kFanOut, torch::kReLU);
        torch::nn::init::zeros_(convolution->bias);
      } else if (auto* linear = module->as<torch::nn::Linear>()) {
        torch::nn::init::normal_(linear->weight, 0, 0.01);
        torch::nn::init::zeros_(linear->bias);
      }
    }
  }
};

}  // namespace

std::shared_ptr<Model> MakeVgg16(int64_t classes) { return std::make_shared<Vgg16>(classes); }

}  // namespace gradwire
