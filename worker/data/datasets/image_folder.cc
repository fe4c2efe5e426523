#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#include <stb/stb_image.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_util.h"
#include "worker/data/dataset.h"

// Folders in the format of torchvision's ImageFolder: DIR/train/CLASS/IMAGE and
// DIR/test/CLASS/IMAGE, with classes in the order of their names. All images are in memory and have
// the same size.

namespace gradwire {
namespace {

constexpr int kChannels = 3;
constexpr size_t kMostClasses = 256;

using Names = std::vector<std::string>;

// Returns the names in a folder, sorted, without hidden files.
absl::StatusOr<Names> NamesIn(const std::string& folder) {
  std::error_code error;
  Names names;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (name[0] != '.') names.push_back(name);
  }
  if (error) {
    return absl::NotFoundError(absl::StrCat("cannot read ", folder,
                                            "; expected DIR/train/CLASS/IMAGE and "
                                            "DIR/test/CLASS/IMAGE"));
  }
  if (names.empty()) return Unexpected(folder, "an empty folder", "some images or classes");
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status CheckSize(const std::string& path, int width, int height, const Dataset& dataset) {
  if (width == dataset.width && height == dataset.height) return absl::OkStatus();
  return Unexpected(path, absl::StrCat(width, "x", height, " pixels"),
                    absl::StrCat(dataset.width, "x", dataset.height,
                                 " as in the first image; scale the images first"));
}

absl::Status Append(const std::string& path, size_t label, Dataset* dataset) {
  int width = 0, height = 0, channels = 0;
  const std::unique_ptr<stbi_uc, decltype(&stbi_image_free)> pixels(
      stbi_load(path.c_str(), &width, &height, &channels, kChannels), &stbi_image_free);
  if (pixels == nullptr) {
    return Unexpected(path, absl::StrCat("data that cannot be read (", stbi_failure_reason(), ")"),
                      "a whole image");
  }
  if (dataset->labels.empty()) {
    dataset->width = width;
    dataset->height = height;
  }
  const absl::Status status = CheckSize(path, width, height, *dataset);
  if (!status.ok()) return status;
  for (int channel = 0; channel < kChannels; ++channel) {
    for (int64_t i = 0; i < int64_t{width} * height; ++i) {
      dataset->pixels.push_back(pixels.get()[i * kChannels + channel]);
    }
  }
  dataset->labels.push_back(static_cast<uint8_t>(label));
  return absl::OkStatus();
}

absl::Status AppendClass(const std::string& folder, size_t label, Dataset* dataset) {
  const absl::StatusOr<Names> files = NamesIn(folder);
  if (!files.ok()) return files.status();
  for (const std::string& file : *files) {
    const absl::Status status = Append(absl::StrCat(folder, "/", file), label, dataset);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Returns the classes of the training images. `split` must have the same.
absl::StatusOr<Names> ClassesOf(const std::string& data_dir, const std::string& folder) {
  absl::StatusOr<Names> classes = NamesIn(data_dir + "/train");
  if (!classes.ok()) return classes;
  const absl::StatusOr<Names> there = NamesIn(folder);
  if (!there.ok()) return there;
  if (*there != *classes) {
    return Unexpected(folder, absl::StrCat("classes ", absl::StrJoin(*there, ", ")),
                      absl::StrCat("the classes of train, ", absl::StrJoin(*classes, ", ")));
  }
  if (classes->size() <= kMostClasses) return classes;
  return Unexpected(folder, absl::StrCat(classes->size(), " classes"),
                    absl::StrCat("at most ", kMostClasses));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Dataset>> LoadImages(const std::string& data_dir,
                                                          Split split) {
  if (data_dir.empty()) return absl::NotFoundError("images needs --data-dir DIR");
  const std::string folder = absl::StrCat(data_dir, split == Split::kTrain ? "/train" : "/test");
  const absl::StatusOr<Names> classes = ClassesOf(data_dir, folder);
  if (!classes.ok()) return classes.status();
  Dataset dataset;
  dataset.name = "images";
  dataset.channels = kChannels;
  dataset.classes = static_cast<int64_t>(classes->size());
  dataset.mean = {0.485f, 0.456f, 0.406f};  // of ImageNet, as for pretrained weights
  dataset.std_dev = {0.229f, 0.224f, 0.225f};
  for (size_t label = 0; label < classes->size(); ++label) {
    const absl::Status status =
        AppendClass(absl::StrCat(folder, "/", (*classes)[label]), label, &dataset);
    if (!status.ok()) return status;
  }
  return std::make_shared<const Dataset>(std::move(dataset));
}

}  // namespace gradwire
