#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/models/layered_model.h"

namespace gradwire {
namespace {

constexpr int64_t kVocabulary = 30522;
constexpr int64_t kMostTokens = 512;
constexpr int64_t kTypes = 2;
constexpr int64_t kTokens = 128;
constexpr double kDropout = 0.1;
constexpr double kWeightDeviation = 0.02;

struct BertPlan {
  int64_t layers;
  int64_t width;
  int64_t heads;
};

// Converts token ids, (N, 1, 1, T) of any type, to vectors, (T, N, width).
class Embeddings : public torch::nn::Module {
 public:
  explicit Embeddings(int64_t width)
      : words_(register_module("words", torch::nn::Embedding(kVocabulary, width))),
        positions_(register_module("positions", torch::nn::Embedding(kMostTokens, width))),
        types_(register_module("types", torch::nn::Embedding(kTypes, width))),
        norm_(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))),
        dropout_(register_module("dropout", torch::nn::Dropout(kDropout))) {}

  torch::Tensor forward(const torch::Tensor& input) {
    const torch::Tensor ids = input.flatten(1).t().to(torch::kLong);
    const torch::Tensor places = torch::arange(ids.size(0)).unsqueeze(1);
    const torch::Tensor type = torch::zeros({1, 1}, torch::kLong);
    return dropout_->forward(
        norm_->forward(words_->forward(ids) + positions_->forward(places) + types_->forward(type)));
  }

 private:
  torch::nn::Embedding words_, positions_, types_;
  torch::nn::LayerNorm norm_;
  torch::nn::Dropout dropout_;
};

torch::Tensor FirstToken(const torch::Tensor& vectors) { return vectors[0]; }

// BERT (Devlin et al.) for classification of sequences, from torch's encoder layers, with their
// keys. All weights are drawn from a normal distribution, in the order of the keys.
class Bert : public LayeredModel {
 public:
  Bert(int64_t classes, const BertPlan& plan) : LayeredModel({1, 1, kTokens, false, kVocabulary}) {
    Append("embeddings", std::make_shared<Embeddings>(plan.width));
    const auto layer = torch::nn::TransformerEncoderLayerOptions(plan.width, plan.heads);
    for (int64_t i = 0; i < plan.layers; ++i) {
      Append(absl::StrCat("encoder.layers.", i),
             torch::nn::TransformerEncoderLayer(torch::nn::TransformerEncoderLayerOptions(layer)
                                                    .dim_feedforward(4 * plan.width)
                                                    .dropout(kDropout)
                                                    .activation(torch::kGELU)));
    }
    Append("first", torch::nn::Functional(FirstToken));
    Append("pooler", torch::nn::Linear(plan.width, plan.width));
    Append("tanh", torch::nn::Tanh());
    Append("dropout", torch::nn::Dropout(kDropout));
    BeginClassifier("classifier", plan.width);
    Append("classifier", torch::nn::Linear(plan.width, classes));
    DrawWeights();
  }

 private:
  void DrawWeights() {
    const torch::NoGradGuard values_only;
    for (auto& entry : named_parameters()) {
      if (entry.value().dim() > 1) {
        entry.value().normal_(0, kWeightDeviation);
      } else if (absl::EndsWith(entry.key(), "bias")) {
        entry.value().zero_();
      }
    }
  }
};

}  // namespace

std::shared_ptr<Model> MakeBertBase(int64_t classes) {
  return std::make_shared<Bert>(classes, BertPlan{12, 768, 12});
}

std::shared_ptr<Model> MakeBertSmall(int64_t classes) {
  return std::make_shared<Bert>(classes, BertPlan{4, 512, 8});
}

std::shared_ptr<Model> MakeBertTiny(int64_t classes) {
  return std::make_shared<Bert>(classes, BertPlan{2, 128, 2});
}

}  // namespace gradwire
