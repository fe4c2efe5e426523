#include "worker/models/layered_model.h"

namespace gradwire {
namespace {

constexpr int64_t kFeatures = 16 * 5 * 5;

// LeNet-5 (LeCun) with ReLU and maximum pooling, as courses write it today.
class LeNet : public LayeredModel {
 public:
  explicit LeNet(int64_t classes) : LayeredModel(ImageShape()) {
    Append("conv1", torch::nn::Conv2d(ImageShape().channels, 6, 5));
    Append("relu1", torch::nn::ReLU(true));
    Append("pool1", torch::nn::MaxPool2d(2));
    Append("conv2", torch::nn::Conv2d(6, 16, 5));
    Append("relu2", torch::nn::ReLU(true));
    Append("pool2", torch::nn::MaxPool2d(2));
    Append("flatten", torch::nn::Flatten());
    BeginClassifier("classifier", kFeatures);
    Append("classifier.0", torch::nn::Linear(kFeatures, 120));
    Append("classifier.1", torch::nn::ReLU(true));
    Append("classifier.2", torch::nn::Linear(120, 84));
    Append("classifier.3", torch::nn::ReLU(true));
    Append("classifier.4", torch::nn::Linear(84, classes));
  }
};

}  // namespace

std::shared_ptr<Model> MakeLeNet(int64_t classes) { return std::make_shared<LeNet>(classes); }

}  // namespace gradwire
