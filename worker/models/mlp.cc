#include "worker/models/layered_model.h"

namespace gradwire {
namespace {

constexpr int64_t kHidden = 128;

// One hidden layer: the smallest model that learns.
class Mlp : public LayeredModel {
 public:
  explicit Mlp(int64_t classes) : LayeredModel(ImageShape()) {
    const ImageShape shape;
    Append("flatten", torch::nn::Flatten());
    Append("hidden", torch::nn::Linear(shape.channels * shape.height * shape.width, kHidden));
    Append("relu", torch::nn::ReLU(true));
    BeginClassifier("classifier", kHidden);
    Append("classifier", torch::nn::Linear(kHidden, classes));
  }
};

}  // namespace

std::shared_ptr<Model> MakeMlp(int64_t classes) { return std::make_shared<Mlp>(classes); }

}  // namespace gradwire
