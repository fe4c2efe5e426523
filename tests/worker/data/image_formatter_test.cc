#include "worker/data/image_formatter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "tests/support/oracle.h"
#include "worker/data/augment.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;

// One image whose byte i is i, with a table that gives the byte back: mean 0,
// std 1/255.
Dataset Counting(int64_t channels, int64_t height, int64_t width) {
  Dataset dataset;
  dataset.name = "counting";
  dataset.channels = channels;
  dataset.height = height;
  dataset.width = width;
  dataset.classes = 10;
  for (int64_t i = 0; i < channels * height * width; ++i) dataset.pixels.push_back(i + 1);
  dataset.labels = {0};
  dataset.mean.assign(channels, 0.0f);
  dataset.std_dev.assign(channels, 1 / 255.0f);
  return dataset;
}

absl::StatusOr<std::unique_ptr<const ImageFormatter>> Make(Dataset dataset, ImageShape shape) {
  return ImageFormatter::Create(std::make_shared<const Dataset>(std::move(dataset)), shape);
}

// The formatted image, rounded to bytes.
std::vector<int> Format(Dataset dataset, ImageShape shape, Augmentation augmentation = {}) {
  const auto formatter = Make(std::move(dataset), shape).value();
  std::vector<float> values(formatter->values_per_image(), -1);
  formatter->Write(0, augmentation, values.data());
  std::vector<int> bytes;
  for (const float value : values) bytes.push_back(static_cast<int>(std::lround(value)));
  return bytes;
}

TEST(ImageFormatter, Write_SameShape_ImageItself) {
  EXPECT_THAT(Format(Counting(2, 2, 2), {2, 2, 2}), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(ImageFormatter, Write_LaterImageOfSeveralChannels_AllItsPlanes) {
  Dataset dataset = Counting(2, 3, 2);  // three images of 2x1x2
  dataset.height = 1;
  dataset.labels = {0, 0, 0};
  const auto formatter = Make(std::move(dataset), {2, 1, 2}).value();
  std::vector<float> values(formatter->values_per_image());
  formatter->Write(2, {}, values.data());
  EXPECT_EQ(std::lround(values.front()), 9);
  EXPECT_EQ(std::lround(values.back()), 12);
}

TEST(ImageFormatter, Write_SmallerOneChannel_PaddedAndRepeated) {
  EXPECT_THAT(Format(Counting(1, 1, 2), {2, 3, 4}),
              ElementsAre(0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0,  //
                          0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0));
}

TEST(ImageFormatter, Write_Scaled_AsTorchInterpolates) {
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>{9, 4}, {3, 5}, {2, 13}}) {
    const auto formatter = Make(Counting(2, 5, 7), {2, height, width, true}).value();
    torch::Tensor got = torch::empty({1, 2, height, width});
    formatter->Write(0, Augmentation{}, got.data_ptr<float>());
    const auto options = torch::nn::functional::InterpolateFuncOptions()
                             .size(std::vector<int64_t>{height, width})
                             .mode(torch::kBilinear)
                             .align_corners(false);
    const torch::Tensor image = torch::arange(1, 71).to(torch::kFloat).view({1, 2, 5, 7});
    EXPECT_TRUE(got.allclose(torch::nn::functional::interpolate(image, options), 1e-5, 1e-4));
  }
}

TEST(ImageFormatter, Write_ScaledAndFlipped_ScaledOfTheFlipped) {
  Augmentation flip;
  flip.flip = true;
  EXPECT_THAT(Format(Counting(1, 1, 2), {1, 1, 4, true}, flip), ElementsAre(2, 2, 1, 1));
}

Dataset Sequence(int64_t vocabulary) {
  Dataset dataset;
  dataset.name = "sequence";
  dataset.channels = dataset.height = 1;
  dataset.width = 3;
  dataset.vocabulary = vocabulary;
  dataset.tokens = {0, 0, 0, 7, 300, 65535};
  dataset.labels = {0, 0};
  return dataset;
}

TEST(ImageFormatter, Write_Tokens_SameNumbers) {
  const auto formatter = Make(Sequence(65536), {1, 1, 3, false, 65536}).value();
  std::vector<float> values(formatter->values_per_image());
  formatter->Write(1, Augmentation{}, values.data());
  EXPECT_THAT(values, ElementsAre(7, 300, 65535));
}

TEST(ImageFormatter, Create_TokensThatModelDoesNotTake_InvalidArgumentSaysBoth) {
  EXPECT_EQ(Make(Sequence(65536), {1, 1, 3, false, 100}).status().message(),
            "sequence: 3 token ids below 65536, the model takes 3 token ids below 100");
  EXPECT_EQ(Make(Sequence(65536), ImageShape()).status().message(),
            "sequence: 3 token ids below 65536, the model takes 3x32x32");
  EXPECT_EQ(Make(Counting(1, 2, 2), {1, 1, 3, false, 100}).status().message(),
            "counting: images of 1x2x2, the model takes 3 token ids below 100");
}

TEST(ImageFormatter, Create_SequencesOfAnotherLength_InvalidArgument) {
  EXPECT_EQ(Make(Sequence(100), {1, 1, 4, false, 100}).status().message(),
            "sequence: 3 token ids below 100, the model takes 4 token ids below 100");
  EXPECT_EQ(Make(Sequence(100), {1, 1, 2, false, 100}).status().message(),
            "sequence: 3 token ids below 100, the model takes 2 token ids below 100");
}

TEST(ImageFormatter, Create_FewerTokensThanTheModelKnows_IsTaken) {
  EXPECT_TRUE(Make(Sequence(50), {1, 1, 3, false, 100}).ok());
}

TEST(ImageFormatter, Write_OddPadding_MoreAtBottomAndRight) {
  EXPECT_THAT(Format(Counting(1, 1, 1), {1, 2, 2}), ElementsAre(1, 0, 0, 0));
}

TEST(ImageFormatter, Write_Flip_RowsMirrored) {
  EXPECT_THAT(Format(Counting(1, 2, 3), {1, 2, 3}, {kCropPadding, kCropPadding, true}),
              ElementsAre(3, 2, 1, 6, 5, 4));
}

TEST(ImageFormatter, Write_CropDownRight_ImageMovesUpLeft) {
  EXPECT_THAT(Format(Counting(1, 2, 3), {1, 2, 3}, {kCropPadding + 1, kCropPadding + 1, false}),
              ElementsAre(5, 6, 0, 0, 0, 0));
}

TEST(ImageFormatter, Write_CropUpLeftThenFlip_ImageMovesDownRightThenMirrored) {
  EXPECT_THAT(Format(Counting(1, 2, 3), {1, 2, 3}, {kCropPadding - 1, kCropPadding - 1, true}),
              ElementsAre(0, 0, 0, 2, 1, 0));
}

TEST(ImageFormatter, Write_CropBeyondTheImage_AllBlack) {
  EXPECT_THAT(Format(Counting(1, 2, 2), {1, 2, 2}, {0, 0, false}), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(Format(Counting(1, 2, 2), {1, 2, 2}, {8, 8, true}), ElementsAre(0, 0, 0, 0));
}

TEST(ImageFormatter, Write_PaddedPixels_NormalisedLikeBlackOnes) {
  Dataset dataset = Counting(1, 1, 1);
  dataset.mean = {0.5f};
  dataset.std_dev = {0.25f};
  const auto formatter = Make(dataset, {1, 1, 2}).value();
  std::vector<float> values(2);
  formatter->Write(0, {}, values.data());
  EXPECT_EQ(values[1], -2.0f);
}

TEST(ImageFormatter, Write_AllBytes_BitsOfTorch) {
  for (const auto& [mean, std_dev] : {std::pair{125.3 / 255, 63.0 / 255}, {0.2860, 0.3530}}) {
    const auto expected = testing::AskOracle(
        "normalise.py", {nlohmann::json(mean).dump(), nlohmann::json(std_dev).dump()});
    ASSERT_TRUE(expected.ok()) << expected.status();
    Dataset dataset = Counting(1, 16, 16);
    dataset.mean = {static_cast<float>(mean)};
    dataset.std_dev = {static_cast<float>(std_dev)};
    const std::vector<uint8_t> bytes = dataset.pixels;
    std::vector<float> values(256);
    Make(std::move(dataset), {1, 16, 16}).value()->Write(0, {}, values.data());
    for (int i = 0; i < 256; ++i) {
      uint32_t bits;
      std::memcpy(&bits, &values[i], 4);
      EXPECT_EQ(bits, (*expected)[bytes[i]].get<uint32_t>()) << "byte " << int{bytes[i]};
    }
  }
}

TEST(ImageFormatter, Create_LargerThanTheModel_InvalidArgument) {
  const absl::Status status = Make(Counting(1, 3, 2), {3, 2, 2}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(),
            "counting: images of 1x3x2, the model takes 3x2x2; --image-size 2 scales them");
  EXPECT_EQ(Make(Counting(1, 2, 3), {3, 2, 2}).status().message(),
            "counting: images of 1x2x3, the model takes 3x2x2; --image-size 2 scales them");
}

TEST(ImageFormatter, Create_OtherChannels_InvalidArgument) {
  const absl::Status status = Make(Counting(2, 2, 2), {3, 2, 2}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(), "counting: images of 2x2x2, the model takes 3x2x2");
}

TEST(ImageFormatter, Create_NoImages_InvalidArgument) {
  Dataset dataset = Counting(1, 1, 1);
  dataset.labels.clear();
  const absl::Status status = Make(dataset, {1, 1, 1}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(), "counting: holds no images");
}

TEST(ImageFormatter, Create_MeanMissing_InvalidArgument) {
  Dataset dataset = Counting(3, 1, 1);
  dataset.mean.pop_back();
  const absl::Status status = Make(dataset, {3, 1, 1}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(),
            "counting: 2 means and 3 standard deviations, expected one for each of 3 channels");
}

TEST(ImageFormatter, Create_StandardDeviationMissing_InvalidArgument) {
  Dataset dataset = Counting(3, 1, 1);
  dataset.std_dev.pop_back();
  EXPECT_EQ(Make(dataset, {3, 1, 1}).status().message(),
            "counting: 3 means and 2 standard deviations, expected one for each of 3 channels");
}

TEST(SplitMix64, SplitMix64_StateOfTheReference_KnownNumbers) {
  EXPECT_EQ(SplitMix64(0), 0xe220a8397b1dcdaf);
  EXPECT_EQ(SplitMix64(0x9e3779b97f4a7c15), 0x6e789e6aa1b965f4);
}

// As one number, for EXPECT_EQ: top, left, flip.
int AsNumber(const Augmentation& drawn) {
  return drawn.top * 100 + drawn.left * 10 + (drawn.flip ? 1 : 0);
}

TEST(DrawAugmentation, DrawAugmentation_PinnedKeys_SameInEveryVersion) {
  EXPECT_EQ(AsNumber(DrawAugmentation({744, 0, Step(0), Rank(0), 0})), 1);
  EXPECT_EQ(AsNumber(DrawAugmentation({744, 3, Step(600), Rank(2), 63})), 281);
}

TEST(DrawAugmentation, DrawAugmentation_EachPartOfTheKey_Matters) {
  std::set<std::vector<int>> sequences;
  const auto draw = [&sequences](uint64_t seed, int64_t epoch, uint64_t step, int rank) {
    std::vector<int> sequence;
    for (int64_t i = 0; i < 16; ++i) {
      sequence.push_back(AsNumber(DrawAugmentation({seed, epoch, Step(step), Rank(rank), i})));
    }
    sequences.insert(sequence);
  };
  draw(0, 0, 0, 0);
  draw(1, 0, 0, 0);
  draw(0, 1, 0, 0);
  draw(0, 0, 1, 0);
  draw(0, 0, 0, 1);
  EXPECT_EQ(sequences.size(), 5u);
}

TEST(DrawAugmentation, DrawAugmentation_ManyPositions_AllOutcomesAboutEven) {
  std::map<int, int> counts;
  for (int64_t i = 0; i < 162000; ++i)
    ++counts[AsNumber(DrawAugmentation({1, 0, Step(0), Rank(0), i}))];
  EXPECT_EQ(counts.size(), 9u * 9 * 2);
  for (const auto& [outcome, count] : counts) EXPECT_NEAR(count, 1000, 160) << outcome;
}

}  // namespace
}  // namespace gradwire
