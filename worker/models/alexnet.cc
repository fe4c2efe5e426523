#include "worker/models/layered_model.h"

namespace gradwire {
namespace {

// Krizhevsky's "One weird trick for parallelizing convolutional neural networks" (2014), in one
// column. Has the keys and, for a seed, the weights of torchvision's alexnet. Images of at least
// 63x63.
class AlexNet : public LayeredModel {
  static constexpr int64_t kSide = 6;  // of the classifier's input maps
  static constexpr int64_t kFeatures = 256 * kSide * kSide;
  static constexpr int64_t kHidden = 4096;

 public:
  explicit AlexNet(int64_t classes) : LayeredModel(kScaledImages) {
    AppendExtractor();
    Append("avgpool", torch::nn::AdaptiveAvgPool2d(kSide));
    Append("flatten", torch::nn::Flatten());
    BeginClassifier("classifier", kFeatures);
    Append("classifier.0", torch::nn::Dropout());
    Append("classifier.1", torch::nn::Linear(kFeatures, kHidden));
    Append("classifier.2", torch::nn::ReLU(true));
    Append("classifier.3", torch::nn::Dropout());
    Append("classifier.4", torch::nn::Linear(kHidden, kHidden));
    Append("classifier.5", torch::nn::ReLU(true));
    Append("classifier.6", torch::nn::Linear(kHidden, classes));
  }

 private:
  void AppendExtractor() {
    using torch::nn::Conv2dOptions;
    AppendConvolution(0, Conv2dOptions(3, 64, 11).stride(4).padding(2));
    AppendPool(2);
    AppendConvolution(3, Conv2dOptions(64, 192, 5).padding(2));
    AppendPool(5);
    AppendConvolution(6, Conv2dOptions(192, 384, 3).padding(1));
    AppendConvolution(8, Conv2dOptions(384, 256, 3).padding(1));
    AppendConvolution(10, Conv2dOptions(256, 256, 3).padding(1));
    AppendPool(12);
  }

  void AppendConvolution(int index, const torch::nn::Conv2dOptions& options) {
    Append("features." + std::to_string(index), torch::nn::Conv2d(options));
    Append("features." + std::to_string(index + 1), torch::nn::ReLU(true));
  }

  void AppendPool(int index) {
    Append("features." + std::to_string(index),
           torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(3).stride(2)));
  }
};

}  // namespace

std::shared_ptr<Model> MakeAlexNet(int64_t classes) { return std::make_shared<AlexNet>(classes); }

}  // namespace gradwire
