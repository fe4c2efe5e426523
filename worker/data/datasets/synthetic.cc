#include <cstring>
#include <utility>

#include "worker/data/augment.h"
#include "worker/data/dataset.h"

namespace gradwire {
namespace {

constexpr int64_t kSide = 32;
constexpr int64_t kBlock = 8;  // pixels along a side of a patch of one color
constexpr int64_t kImageBytes = 3 * kSide * kSide;
constexpr uint64_t kImageClasses = 10;
constexpr uint64_t kLowSevenBits = 0x7f7f7f7f7f7f7f7f;

// A patchwork for each class: every patch of each channel has a value of 0 to 127, drawn from the
// class, the channel and the place. (It stays learnable if the picture is flipped.)
std::vector<uint8_t> MakePatterns() {
  std::vector<uint8_t> patterns;
  for (uint64_t plane = 0; plane < kImageClasses * 3; ++plane) {
    for (int64_t y = 0; y < kSide; ++y) {
      for (int64_t x = 0; x < kSide; ++x) {
        const uint64_t patch = (plane * kSide + y / kBlock) * kSide + x / kBlock;
        patterns.push_back(static_cast<uint8_t>(SplitMix64(patch) >> 57));
      }
    }
  }
  return patterns;
}

// Pattern plus noise of 0 to 127, eight pixels at a time; no sum overflows into the next pixel.
std::vector<uint8_t> DrawImage(const uint8_t* pattern, uint64_t state) {
  std::vector<uint8_t> image(kImageBytes);
  for (int64_t i = 0; i < kImageBytes; i += 8) {
    uint64_t pixels;
    std::memcpy(&pixels, pattern + i, 8);
    pixels += SplitMix64(state + static_cast<uint64_t>(i)) & kLowSevenBits;
    std::memcpy(&image[i], &pixels, 8);
  }
  return image;
}

constexpr int64_t kTokens = 128;
constexpr uint64_t kVocabulary = 30522;
constexpr uint64_t kTokenClasses = 10;
constexpr uint64_t kWordsOfClass = 64;  // half of the tokens of its sequences

// Draws a token of a sequence of class `label`: any token, or one of the class.
uint16_t Draw(uint64_t state, uint64_t label) {
  const uint64_t drawn = SplitMix64(state);
  const uint64_t own = label * kWordsOfClass + (drawn >> 1) % kWordsOfClass;
  return static_cast<uint16_t>((drawn & 1) != 0 ? own : (drawn >> 1) % kVocabulary);
}

// Returns the number that sample `index` is drawn from, its label first.
uint64_t StateOf(Split split, uint64_t index) {
  return SplitMix64(2 * index + (split == Split::kTrain ? 1 : 0));
}

std::vector<uint8_t> DrawLabels(Split split, uint64_t classes) {
  std::vector<uint8_t> labels(split == Split::kTrain ? 50000 : 10000);
  for (size_t i = 0; i < labels.size(); ++i) {
    labels[i] = static_cast<uint8_t>(StateOf(split, i) % classes);
  }
  return labels;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Dataset>> LoadSynthetic(const std::string& /*data_dir*/,
                                                             Split split) {
  Dataset dataset;
  dataset.name = "synthetic";
  dataset.channels = 3;
  dataset.height = kSide;
  dataset.width = kSide;
  dataset.classes = kImageClasses;
  // For the sum of two uniform values of 0 to 127, over 255.
  dataset.mean.assign(3, 0.498f);
  dataset.std_dev.assign(3, 0.205f);
  dataset.labels = DrawLabels(split, kImageClasses);
  dataset.draw_image = [split, patterns = MakePatterns()](int64_t index) {
    const uint64_t state = StateOf(split, static_cast<uint64_t>(index));
    return DrawImage(&patterns[state % kImageClasses * kImageBytes], state);
  };
  return std::make_shared<const Dataset>(std::move(dataset));
}

absl::StatusOr<std::shared_ptr<const Dataset>> LoadSyntheticTokens(const std::string& /*data_dir*/,
                                                                   Split split) {
  Dataset dataset;
  dataset.name = "synthetic-tokens";
  dataset.channels = 1;
  dataset.height = 1;
  dataset.width = kTokens;
  dataset.vocabulary = kVocabulary;
  dataset.classes = kTokenClasses;
  dataset.labels = DrawLabels(split, kTokenClasses);
  dataset.draw_tokens = [split](int64_t index) {
    const uint64_t state = StateOf(split, static_cast<uint64_t>(index));
    std::vector<uint16_t> tokens;
    for (uint64_t place = 0; place < kTokens; ++place) {
      tokens.push_back(Draw(state + place, state % kTokenClasses));
    }
    return tokens;
  };
  return std::make_shared<const Dataset>(std::move(dataset));
}

}  // namespace gradwire
