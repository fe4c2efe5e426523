#include "worker/data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/support/cifar_files.h"
#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::testing::AllOf;
using testing::CifarRecords;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using testing::kCifarRecordBytes;
using ::testing::Lt;
using testing::ReadFile;
using testing::TempDir;
using testing::WriteFile;

// Expects the given code, and a message with each of `parts`.
void ExpectError(const absl::Status& status, absl::StatusCode code,
                 const std::vector<std::string>& parts) {
  EXPECT_EQ(status.code(), code) << status;
  for (const std::string& part : parts) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
}

std::string BigEndian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

std::string Idx(uint32_t magic, const std::vector<uint32_t>& dimensions,
                const std::string& values) {
  std::string bytes = BigEndian(magic);
  for (const uint32_t dimension : dimensions) bytes += BigEndian(dimension);
  return bytes + values;
}

std::string Images(uint32_t count) {
  std::string pixels(count * 6, '\0');
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<char>(200 + i);
  return Idx(0x803, {count, 2, 3}, pixels);
}

std::string Labels(const std::string& labels) {
  return Idx(0x801, {static_cast<uint32_t>(labels.size())}, labels);
}

void WriteGz(const std::string& path, const std::string& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_EQ(gzwrite(file, bytes.data(), bytes.size()), static_cast<int>(bytes.size()));
  gzclose(file);
}

// Divided in double and then rounded, as torchvision.transforms.Normalize takes it.
float Byte(double value) { return static_cast<float>(value / 255); }

class CifarTest : public ::testing::Test {
 protected:
  CifarTest() { testing::WriteCifarFiles(dir_.path(), 3); }
  absl::Status Load() { return LoadDataset("cifar10", dir_.path(), Split::kTrain).status(); }
  TempDir dir_;
};

TEST_F(CifarTest, LoadDataset_TrainSplit_FiveFilesInOrder) {
  std::string records = CifarRecords(3);
  records[0] = 7;
  WriteFile(dir_.File("data_batch_4.bin"), records);
  const auto dataset = LoadDataset("cifar10", dir_.path(), Split::kTrain).value();
  EXPECT_EQ(dataset->size(), 15);
  EXPECT_EQ(dataset->labels[9], 7);
  EXPECT_EQ(dataset->pixels.size(), 15u * 3072);
  EXPECT_EQ(dataset->pixels[3072 * 10], static_cast<uint8_t>(records[kCifarRecordBytes + 1]));
}

TEST_F(CifarTest, LoadDataset_TestSplit_OneFile) {
  EXPECT_EQ(LoadDataset("cifar10", dir_.path(), Split::kTest).value()->size(), 3);
}

TEST_F(CifarTest, LoadDataset_Moments_OfTheCourse) {
  const auto dataset = LoadDataset("cifar10", dir_.path(), Split::kTest).value();
  EXPECT_THAT(dataset->mean, ElementsAre(Byte(125.3), Byte(123.0), Byte(113.9)));
  EXPECT_THAT(dataset->std_dev, ElementsAre(Byte(63.0), Byte(62.1), Byte(66.7)));
}

TEST(Cifar100Test, LoadDataset_TwoLabels_FineOneCounts) {
  const TempDir dir;
  WriteFile(dir.File("test.bin"),
            "\x07\x63" + std::string(3072, 'a') + "\x13\x09" + std::string(3072, 'b'));
  const auto dataset = LoadDataset("cifar100", dir.path(), Split::kTest).value();
  EXPECT_EQ(dataset->classes, 100);
  EXPECT_THAT(dataset->labels, ElementsAre(99, 9));
  EXPECT_EQ(dataset->pixels[3071], 'a');
  EXPECT_EQ(dataset->pixels[3072], 'b');
}

TEST(Cifar100Test, LoadDataset_Moments_OfTheTrainingImages) {
  const TempDir dir;
  WriteFile(dir.File("test.bin"), std::string(2 + 3072, '\0'));
  const auto dataset = LoadDataset("cifar100", dir.path(), Split::kTest).value();
  EXPECT_THAT(dataset->mean, ElementsAre(Byte(129.3), Byte(124.1), Byte(112.4)));
  EXPECT_THAT(dataset->std_dev, ElementsAre(Byte(68.2), Byte(65.4), Byte(70.4)));
}

TEST(Cifar100Test, LoadDataset_FilesOfCifar10_InvalidArgument) {
  const TempDir dir;
  WriteFile(dir.File("train.bin"), CifarRecords(3));
  ExpectError(LoadDataset("cifar100", dir.path(), Split::kTrain).status(),
              absl::StatusCode::kInvalidArgument, {"expected a multiple of 3074"});
}

// A copy of sample `index`.
std::vector<uint8_t> ImageOf(const Dataset& dataset, int64_t index) {
  std::vector<uint8_t> room;
  const uint8_t* const image = dataset.Image(index, &room);
  return {image, image + dataset.image_bytes()};
}

std::vector<uint16_t> TokensOf(const Dataset& dataset, int64_t index) {
  std::vector<uint16_t> room;
  const uint16_t* const tokens = dataset.Tokens(index, &room);
  return {tokens, tokens + dataset.width};
}

TEST(SyntheticTokens, LoadDataset_EachSplit_IdsBelowVocabulary) {
  const auto train = LoadDataset("synthetic-tokens", "", Split::kTrain).value();
  EXPECT_EQ(train->size(), 50000);
  EXPECT_EQ(train->width, 128);
  for (int64_t i = 0; i < train->size(); ++i) {
    ASSERT_THAT(TokensOf(*train, i), Each(Lt(train->vocabulary))) << i;
  }
  const auto test = LoadDataset("synthetic-tokens", "", Split::kTest).value();
  EXPECT_NE(TokensOf(*test, 0), TokensOf(*train, 0));
  EXPECT_NE(TokensOf(*train, 1), TokensOf(*train, 0));
}

// So that they can be learned: about half of 128 tokens are among the 64 of the class.
TEST(SyntheticTokens, LoadDataset_Sequences_HaveTokensOfTheirClass) {
  const auto test = LoadDataset("synthetic-tokens", "", Split::kTest).value();
  EXPECT_EQ(test->size(), 10000);
  EXPECT_EQ(test->classes, 10);
  for (int64_t i = 0; i < 100; ++i) {
    const int64_t first = int64_t{64} * test->labels[i];
    const std::vector<uint16_t> tokens = TokensOf(*test, i);
    const auto own = std::count_if(tokens.begin(), tokens.end(), [first](int64_t token) {
      return token >= first && token < first + 64;
    });
    EXPECT_THAT(own, AllOf(Gt(32), Lt(96))) << i;
  }
}

TEST_F(CifarTest, LoadDataset_FileMissing_NotFoundSaysHowToGetIt) {
  std::filesystem::remove(dir_.File("data_batch_5.bin"));
  ExpectError(Load(), absl::StatusCode::kNotFound,
              {dir_.File("data_batch_5.bin"), "deploy/fetch-cifar10 DIR"});
}

TEST_F(CifarTest, LoadDataset_NoDirectoryGiven_NotFoundSaysHowToGetIt) {
  ExpectError(LoadDataset("cifar10", "", Split::kTrain).status(), absl::StatusCode::kNotFound,
              {"--data-dir DIR", "deploy/fetch-cifar10 DIR"});
}

TEST_F(CifarTest, LoadDataset_FolderInPlaceOfFile_NotFound) {
  std::filesystem::remove(dir_.File("data_batch_2.bin"));
  std::filesystem::create_directory(dir_.File("data_batch_2.bin"));
  ExpectError(Load(), absl::StatusCode::kNotFound,
              {"cannot read " + dir_.File("data_batch_2.bin")});
}

TEST_F(CifarTest, LoadDataset_Truncated_SaysGotAndExpected) {
  WriteFile(dir_.File("data_batch_2.bin"), CifarRecords(2).substr(0, 6000));
  ExpectError(
      Load(), absl::StatusCode::kInvalidArgument,
      {dir_.File("data_batch_2.bin"), "truncated: got 6000 bytes", "expected a multiple of 3073"});
}

TEST_F(CifarTest, LoadDataset_Empty_SaysSo) {
  WriteFile(dir_.File("data_batch_1.bin"), "");
  ExpectError(Load(), absl::StatusCode::kInvalidArgument,
              {dir_.File("data_batch_1.bin"), "empty, expected records of 3073 bytes"});
}

// A sparse file, which takes no room.
TEST_F(CifarTest, LoadDataset_FileLargerThanAny_IsNotRead) {
  WriteFile(dir_.File("data_batch_1.bin"), "");
  std::filesystem::resize_file(dir_.File("data_batch_1.bin"), (uintmax_t{2} << 30) + 1);
  ExpectError(Load(), absl::StatusCode::kInvalidArgument,
              {dir_.File("data_batch_1.bin"), "got 2147483649 bytes, expected at most 2147483648"});
}

TEST_F(CifarTest, LoadDataset_WrongLabel_NamesRecord) {
  std::string records = CifarRecords(3);
  records[2 * kCifarRecordBytes] = 10;
  WriteFile(dir_.File("data_batch_3.bin"), records);
  ExpectError(Load(), absl::StatusCode::kInvalidArgument,
              {dir_.File("data_batch_3.bin"), "record 2 has label 10, expected 0 to 9"});
}

class IdxTest : public ::testing::Test {
 protected:
  IdxTest()
      : images_(dir_.File("train-images-idx3-ubyte")),
        labels_(dir_.File("train-labels-idx1-ubyte")) {
    WriteFile(images_, Images(2));
    WriteFile(labels_, Labels({3, 9}));
  }
  absl::StatusOr<std::shared_ptr<const Dataset>> Load() {
    return LoadDataset("mnist", dir_.path(), Split::kTrain);
  }
  TempDir dir_;
  const std::string images_;
  const std::string labels_;
};

TEST_F(IdxTest, LoadDataset_PlainFiles_BytesAsPublished) {
  const auto dataset = Load().value();
  EXPECT_THAT(dataset->labels, ElementsAre(3, 9));
  EXPECT_EQ(dataset->channels, 1);
  EXPECT_EQ(dataset->height, 2);
  EXPECT_EQ(dataset->width, 3);
  EXPECT_THAT(dataset->pixels,
              ElementsAre(200, 201, 202, 203, 204, 205, 206, 207, 208, 209, 210, 211));
}

TEST_F(IdxTest, LoadDataset_Mnist_HasItsMomentsAndClasses) {
  const auto dataset = Load().value();
  EXPECT_EQ(dataset->name, "mnist");
  EXPECT_EQ(dataset->classes, 10);
  EXPECT_THAT(dataset->mean, ElementsAre(0.1307f));
  EXPECT_THAT(dataset->std_dev, ElementsAre(0.3081f));
}

TEST_F(IdxTest, LoadDataset_Gzipped_SameAsPlain) {
  const auto plain = Load().value();
  std::filesystem::remove(images_);
  WriteGz(images_ + ".gz", Images(2));
  EXPECT_EQ(Load().value()->pixels, plain->pixels);
}

TEST_F(IdxTest, LoadDataset_ImagesMissing_NotFoundSaysWhatToDo) {
  std::filesystem::remove(images_);
  ExpectError(
      Load().status(), absl::StatusCode::kNotFound,
      {"neither train-images-idx3-ubyte nor train-images-idx3-ubyte.gz is in " + dir_.path(),
       "deploy/fetch-mnist"});
}

TEST_F(IdxTest, LoadDataset_LabelsMissing_NotFound) {
  std::filesystem::remove(labels_);
  ExpectError(Load().status(), absl::StatusCode::kNotFound, {"neither train-labels-idx1-ubyte"});
}

TEST_F(IdxTest, LoadDataset_MnistWithoutDirectory_NotFoundSaysWhatToDo) {
  ExpectError(LoadDataset("mnist", "", Split::kTrain).status(), absl::StatusCode::kNotFound,
              {"mnist needs --data-dir DIR", "--dataset fashion-mnist"});
}

TEST_F(IdxTest, LoadDataset_FashionMissing_NotFoundNamesPackage) {
  ExpectError(LoadDataset("fashion-mnist", "/nowhere", Split::kTrain).status(),
              absl::StatusCode::kNotFound,
              {"is in /nowhere", "apt-get install dataset-fashion-mnist"});
}

TEST_F(IdxTest, LoadDataset_WrongMagic_SaysGotAndExpected) {
  WriteFile(images_, Labels({1, 2}));
  ExpectError(Load().status(), absl::StatusCode::kInvalidArgument,
              {images_, "got magic number 0x00000801, expected 0x00000803"});
}

TEST_F(IdxTest, LoadDataset_EmptyFile_SaysSo) {
  WriteFile(images_, "");
  ExpectError(Load().status(), absl::StatusCode::kInvalidArgument,
              {images_, "got the end of the file, expected an IDX header"});
}

TEST_F(IdxTest, LoadDataset_HeaderCutShort_SaysSo) {
  WriteFile(images_, Images(2).substr(0, 10));
  ExpectError(Load().status(), absl::StatusCode::kInvalidArgument,
              {images_, "got the end of the file, expected an IDX header"});
}

TEST_F(IdxTest, LoadDataset_NoImages_SaysSo) {
  WriteFile(images_, Images(0));
  ExpectError(Load().status(), absl::StatusCode::kInvalidArgument,
              {images_, "got an empty array, expected some values"});
}

TEST_F(IdxTest, LoadDataset_Truncated_SaysGotAndExpected) {
  const std::string whole = Images(2);
  WriteFile(images_, whole.substr(0, whole.size() - 1));
  ExpectError(Load().status(), absl::StatusCode::kInvalidArgument,
              {images_, "got 11 values, expected 12"});
}

TEST_F(IdxTest, LoadDataset_BytesLeftOver_SaysGotAndExpected) {
  WriteFile(images_, Images(2) + "xyz");
  ExpectError(Load().status(), absl::StatusCode::kInvalidArgument,
              {images_, "got 13 or more values, expected 12"});
}

TEST_F(IdxTest, LoadDataset_HugeClaim_NoMemoryIsTakenForIt) {
  WriteFile(images_, Idx(0x803, {0x10000, 0x10000, 0x100}, "abc"));
  ExpectError(Load().status(), absl::StatusCode::kInvalidArgument,
              {images_, "expected at most 2^31 values"});
}

TEST_F(IdxTest, LoadDataset_AbsurdDimensions_SaysSo) {
  WriteFile(images_, Idx(0x803, {0xffffffff, 0xffffffff, 0xffffffff}, ""));
  ExpectError(Load().status(), absl::StatusCode::kInvalidArgument,
              {images_, "dimensions that are too large, expected at most 2^31 values"});
}

TEST_F(IdxTest, LoadDataset_GzippedTruncated_SaysSo) {
  std::filesystem::remove(images_);
  WriteGz(images_ + ".gz", Images(1000));
  const std::string whole = ReadFile(images_ + ".gz");
  WriteFile(images_ + ".gz", whole.substr(0, whole.size() / 2));
  ExpectError(Load().status(), absl::StatusCode::kInvalidArgument,
              {images_ + ".gz", "damaged or truncated: "});
}

TEST_F(IdxTest, LoadDataset_FewerOrMoreLabelsThanImages_SaysGotAndExpected) {
  WriteFile(labels_, Labels({3}));
  ExpectError(Load().status(), absl::StatusCode::kInvalidArgument,
              {labels_, "got 1 labels, expected 2, one for each image"});
  WriteFile(labels_, Labels({3, 9, 1}));
  ExpectError(Load().status(), absl::StatusCode::kInvalidArgument,
              {labels_, "got 3 labels, expected 2, one for each image"});
}

TEST_F(IdxTest, LoadDataset_WrongLabel_NamesPlace) {
  WriteFile(labels_, Labels({3, 10}));
  ExpectError(Load().status(), absl::StatusCode::kInvalidArgument,
              {labels_, "got label 10 at 1, expected 0 to 9"});
}

TEST(FashionMnist, LoadDataset_DefaultPlace_DebiansPackage) {
  const auto train = LoadDataset("fashion-mnist", "", Split::kTrain);
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ((*train)->size(), 60000);
  EXPECT_EQ((*train)->height, 28);
  EXPECT_THAT((*train)->mean, ElementsAre(0.2860f));
  EXPECT_THAT((*train)->std_dev, ElementsAre(0.3530f));
  EXPECT_EQ(LoadDataset("fashion-mnist", "", Split::kTest).value()->size(), 10000);
}

TEST(Synthetic, LoadDataset_Twice_Same) {
  const auto first = LoadDataset("synthetic", "", Split::kTest).value();
  const auto second = LoadDataset("synthetic", "", Split::kTest).value();
  EXPECT_EQ(first->size(), 10000);
  EXPECT_EQ(first->labels, second->labels);
  EXPECT_EQ(ImageOf(*first, 9999), ImageOf(*second, 9999));
}

// Results with made-up data are compared over versions: a sample's bytes stay what they were.
TEST(Synthetic, LoadDataset_BytesOfSamples_AsEver) {
  const auto images = LoadDataset("synthetic", "", Split::kTrain).value();
  uint64_t checksum = 0;
  for (const int64_t index : {0, 1, 49999}) {
    const std::vector<uint8_t> image = ImageOf(*images, index);
    checksum = crc32(checksum, image.data(), image.size());
  }
  EXPECT_EQ(checksum, 0x3ffd3faeu);
  const auto sequences = LoadDataset("synthetic-tokens", "", Split::kTest).value();
  const std::vector<uint16_t> tokens = TokensOf(*sequences, 9999);
  const auto* const bytes = reinterpret_cast<const uint8_t*>(tokens.data());
  EXPECT_EQ(crc32(0, bytes, 2 * tokens.size()), 0x5db030a7u);
}

TEST(Synthetic, LoadDataset_Splits_OtherImages) {
  const auto train = LoadDataset("synthetic", "", Split::kTrain).value();
  const auto test = LoadDataset("synthetic", "", Split::kTest).value();
  EXPECT_EQ(train->size(), 50000);
  EXPECT_NE(ImageOf(*train, 0), ImageOf(*test, 0));
  EXPECT_NE(ImageOf(*train, 0), ImageOf(*train, 1));
}

TEST(Synthetic, LoadDataset_Labels_AllClassesAboutEven) {
  const auto dataset = LoadDataset("synthetic", "", Split::kTest).value();
  std::vector<int> counts(10);
  for (const uint8_t label : dataset->labels) ++counts.at(label);
  EXPECT_THAT(counts, Each(AllOf(Gt(850), Lt(1150))));
}

// Mean pixels of each class over the first 2,000 images.
std::vector<std::vector<double>> ClassMeans(const Dataset& dataset) {
  std::vector<std::vector<double>> sums(10, std::vector<double>(3072));
  std::vector<int> counts(10);
  for (int64_t i = 0; i < 2000; ++i) {
    const std::vector<uint8_t> image = ImageOf(dataset, i);
    ++counts[dataset.labels[i]];
    for (int64_t p = 0; p < 3072; ++p) sums[dataset.labels[i]][p] += image[p];
  }
  for (int c = 0; c < 10; ++c) {
    for (double& sum : sums[c]) sum /= counts[c];
  }
  return sums;
}

int Nearest(const std::vector<std::vector<double>>& means, const std::vector<uint8_t>& image) {
  std::vector<double> distances;
  for (const std::vector<double>& mean : means) {
    double distance = 0;
    for (int64_t p = 0; p < 3072; ++p) distance += (image[p] - mean[p]) * (image[p] - mean[p]);
    distances.push_back(distance);
  }
  return static_cast<int>(std::min_element(distances.begin(), distances.end()) - distances.begin());
}

TEST(Synthetic, LoadDataset_ClassMeansOfTrain_TellTestImagesApart) {
  const auto train = LoadDataset("synthetic", "", Split::kTrain).value();
  const auto test = LoadDataset("synthetic", "", Split::kTest).value();
  const auto means = ClassMeans(*train);
  int right = 0;
  for (int64_t i = 0; i < 100; ++i) {
    if (Nearest(means, ImageOf(*test, i)) == test->labels[i]) ++right;
  }
  EXPECT_GE(right, 95);
}

TEST(LoadDataset, LoadDataset_UnknownName_NotFoundListsNames) {
  ExpectError(LoadDataset("cifar11", "", Split::kTrain).status(), absl::StatusCode::kNotFound,
              {"data set 'cifar11' does not exist", "cifar10 cifar100 fashion-mnist"});
}

}  // namespace
}  // namespace gradwire
