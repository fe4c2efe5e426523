// Data set `images`, in the simplest format that there is: PPM.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/support/temp_dir.h"
#include "worker/data/dataset.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempDir;
using testing::WriteFile;

class ImageFolderTest : public ::testing::Test {
 protected:
  // One row of pixels; `values`: R, G, B of each.
  void Write(const std::string& name, const std::string& values) {
    const std::string path = scratch_.File(name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    WriteFile(path, absl::StrCat("P6 ", values.size() / 3, " 1 255\n", values));
  }

  absl::StatusOr<std::shared_ptr<const Dataset>> Load(Split split) {
    return LoadDataset("images", scratch_.path(), split);
  }

  std::string ErrorOf(Split split) { return std::string(Load(split).status().message()); }

  TempDir scratch_;
};

TEST_F(ImageFolderTest, Classes_AreThoseOfTheFoldersByName) {
  Write("train/dog/a.ppm", "abcdef");
  Write("train/cat/b.ppm", "ghijkl");
  Write("train/cat/a.ppm", "mnopqr");
  const auto images = Load(Split::kTrain);
  ASSERT_TRUE(images.ok()) << images.status();
  EXPECT_EQ((*images)->classes, 2);
  EXPECT_THAT((*images)->labels, ElementsAre(0, 0, 1));
  EXPECT_EQ((*images)->width, 2);
  EXPECT_EQ((*images)->height, 1);
}

TEST_F(ImageFolderTest, Pixels_AreInPlanes) {
  Write("train/cat/a.ppm", "abcdef");
  EXPECT_THAT((*Load(Split::kTrain))->pixels, ElementsAre('a', 'd', 'b', 'e', 'c', 'f'));
}

TEST_F(ImageFolderTest, OtherSize_NamesTheFile) {
  Write("train/cat/a.ppm", "abcdef");
  Write("train/cat/b.ppm", "abc");
  EXPECT_THAT(ErrorOf(Split::kTrain),
              HasSubstr("/train/cat/b.ppm: got 1x1 pixels, expected 2x1 as in the first image"));
}

TEST_F(ImageFolderTest, OtherClassesInTest_AreRefused) {
  Write("train/cat/a.ppm", "abc");
  Write("test/cow/a.ppm", "abc");
  EXPECT_THAT(ErrorOf(Split::kTest),
              HasSubstr("/test: got classes cow, expected the classes of train, cat"));
}

TEST_F(ImageFolderTest, OtherHeight_NamesTheFile) {
  Write("train/cat/a.ppm", "abc");
  WriteFile(scratch_.File("train/cat/b.ppm"), "P6 1 2 255\nabcdef");
  EXPECT_THAT(ErrorOf(Split::kTrain),
              HasSubstr("/train/cat/b.ppm: got 1x2 pixels, expected 1x1 as in the first image"));
}

TEST_F(ImageFolderTest, TestSplit_HasTheImagesOfTest) {
  for (const char* name : {"train/cat/a.ppm", "train/cat/b.ppm", "train/dog/a.ppm"}) {
    Write(name, "abc");
  }
  Write("test/cat/a.ppm", "ghi");
  Write("test/dog/b.ppm", "jkl");
  const auto images = Load(Split::kTest);
  ASSERT_TRUE(images.ok()) << images.status();
  EXPECT_THAT((*images)->labels, ElementsAre(0, 1));
  EXPECT_THAT((*images)->pixels, ElementsAre('g', 'h', 'i', 'j', 'k', 'l'));
}

// With which pretrained weights were trained.
TEST_F(ImageFolderTest, Moments_AreThoseOfImageNet) {
  Write("train/cat/a.ppm", "abc");
  const auto images = Load(Split::kTrain).value();
  EXPECT_THAT(images->mean, ElementsAre(0.485f, 0.456f, 0.406f));
  EXPECT_THAT(images->std_dev, ElementsAre(0.229f, 0.224f, 0.225f));
}

TEST_F(ImageFolderTest, HiddenFilesAndFolders_AreIgnored) {
  Write("train/cat/a.ppm", "abc");
  WriteFile(scratch_.File("train/cat/.notes"), "meow");
  std::filesystem::create_directory(scratch_.File("train/.cache"));
  const auto images = Load(Split::kTrain);
  ASSERT_TRUE(images.ok()) << images.status();
  EXPECT_EQ((*images)->classes, 1);
  EXPECT_THAT((*images)->labels, ElementsAre(0));
}

TEST_F(ImageFolderTest, ClassWithoutImages_IsNamed) {
  Write("train/cat/a.ppm", "abc");
  std::filesystem::create_directory(scratch_.File("train/dog"));
  EXPECT_THAT(ErrorOf(Split::kTrain), HasSubstr("/train/dog: got an empty folder"));
}

// A label is a byte.
TEST_F(ImageFolderTest, MoreClassesThanLabelsHold_AreRefused) {
  for (int i = 0; i < 256; ++i) Write(absl::StrCat("train/", 1000 + i, "/a.ppm"), "abc");
  const auto images = Load(Split::kTrain);
  ASSERT_TRUE(images.ok()) << images.status();
  EXPECT_EQ((*images)->labels.back(), 255);
  Write("train/one-more/a.ppm", "abc");
  EXPECT_THAT(ErrorOf(Split::kTrain), HasSubstr("got 257 classes, expected at most 256"));
}

TEST_F(ImageFolderTest, FileThatIsNoImage_IsNamed) {
  Write("train/cat/a.ppm", "abc");
  WriteFile(scratch_.File("train/cat/notes.txt"), "meow");
  EXPECT_THAT(ErrorOf(Split::kTrain), HasSubstr("/train/cat/notes.txt: got "));
}

TEST_F(ImageFolderTest, NoFolders_SaysWhatIsExpected) {
  EXPECT_THAT(ErrorOf(Split::kTrain), HasSubstr("expected DIR/train/CLASS/IMAGE"));
}

}  // namespace
}  // namespace gradwire
