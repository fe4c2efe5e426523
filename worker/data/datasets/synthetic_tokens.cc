#include <utility>

#include "worker/data/augment.h"
#include "worker/data/datasets/dataset.h"

namespace gradwire {
namespace {

constexpr int64_t kTokens = 128;
constexpr uint64_t kVocabulary = 30522;
constexpr uint64_t kTokenClasses = 10;
constexpr uint64_t kWordsOfClass = 64;  // which make up half of its sequences

// A token of a sequence of class `label`: any, or one of the class's own.
uint16_t Draw(uint64_t state, uint64_t label) {
  const uint64_t drawn = SplitMix64(state);
  const uint64_t own = label * kWordsOfClass + (drawn >> 1) % kWordsOfClass;
  return static_cast<uint16_t>((drawn & 1) != 0 ? own : (drawn >> 1) % kVocabulary);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Dataset>> LoadSyntheticTokens(const std::string& /*data_dir*/,
                                                                   Split split) {
  const bool train = split == Split::kTrain;
  Dataset dataset;
  dataset.name = "synthetic-tokens";
  dataset.channels = 1;
  dataset.height = 1;
  dataset.width = kTokens;
  dataset.vocabulary = kVocabulary;
  dataset.classes = kTokenClasses;
  dataset.labels.resize(train ? 50000 : 10000);
  dataset.tokens.reserve(dataset.labels.size() * kTokens);
  for (size_t i = 0; i < dataset.labels.size(); ++i) {
    const uint64_t state = SplitMix64(2 * i + (train ? 1 : 0));
    dataset.labels[i] = static_cast<uint8_t>(state % kTokenClasses);
    for (uint64_t place = 0; place < kTokens; ++place) {
      dataset.tokens.push_back(Draw(state + place, dataset.labels[i]));
    }
  }
  return std::make_shared<const Dataset>(std::move(dataset));
}

}  // namespace gradwire
