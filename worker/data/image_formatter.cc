#include "worker/data/image_formatter.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gradwire {
namespace {

std::string Words(int64_t channels, int64_t height, int64_t width) {
  return absl::StrCat(channels, "x", height, "x", width);
}

std::string Tokens(int64_t count, int64_t vocabulary) {
  return absl::StrCat(count, " token ids below ", vocabulary);
}

// Checks a data set and a model if at least one has token ids.
absl::Status CheckTokens(const Dataset& dataset, const ImageShape& shape) {
  const bool fits = dataset.vocabulary > 0 && dataset.vocabulary <= shape.vocabulary &&
                    dataset.width == shape.width;
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(dataset.name, ": ",
                   dataset.vocabulary > 0
                       ? Tokens(dataset.width, dataset.vocabulary)
                       : "images of " + Words(dataset.channels, dataset.height, dataset.width),
                   ", the model takes ",
                   shape.vocabulary > 0 ? Tokens(shape.width, shape.vocabulary)
                                        : Words(shape.channels, shape.height, shape.width)));
}

absl::Status Check(const Dataset& dataset, const ImageShape& shape) {
  if (dataset.size() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(dataset.name, ": holds no images"));
  }
  if (dataset.vocabulary > 0 || shape.vocabulary > 0) return CheckTokens(dataset, shape);
  const bool small = dataset.height <= shape.height && dataset.width <= shape.width;
  const bool fits =
      (shape.scaled || small) && (dataset.channels == 1 || dataset.channels == shape.channels);
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat(
        dataset.name, ": images of ", Words(dataset.channels, dataset.height, dataset.width),
        ", the model takes ", Words(shape.channels, shape.height, shape.width),
        dataset.channels == 1 || dataset.channels == shape.channels
            ? absl::StrCat("; --image-size ", shape.height, " scales them")
            : ""));
  }
  const size_t channels = static_cast<size_t>(dataset.channels);
  if (dataset.mean.size() != channels || dataset.std_dev.size() != channels) {
    return absl::InvalidArgumentError(
        absl::StrCat(dataset.name, ": ", dataset.mean.size(), " means and ", dataset.std_dev.size(),
                     " standard deviations, expected one for each of ", channels, " channels"));
  }
  return absl::OkStatus();
}

std::array<float, 256> MakeTable(float mean, float std_dev) {
  std::array<float, 256> table;
  for (int byte = 0; byte < 256; ++byte) {
    table[byte] = (static_cast<float>(byte) / 255.0f - mean) / std_dev;
  }
  return table;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const ImageFormatter>> ImageFormatter::Create(
    std::shared_ptr<const Dataset> dataset, const ImageShape& shape) {
  if (absl::Status status = Check(*dataset, shape); !status.ok()) return status;
  return absl::WrapUnique(new ImageFormatter(std::move(dataset), shape));
}

ImageFormatter::ImageFormatter(std::shared_ptr<const Dataset> dataset, const ImageShape& shape)
    : dataset_(std::move(dataset)), shape_(shape), frame_(shape) {
  if (shape.scaled) {
    frame_.height = dataset_->height;
    frame_.width = dataset_->width;
    rows_ = TapsOf(frame_.height, shape.height);
    columns_ = TapsOf(frame_.width, shape.width);
  }
  for (size_t c = 0; c < dataset_->mean.size(); ++c) {
    tables_.push_back(MakeTable(dataset_->mean[c], dataset_->std_dev[c]));
  }
}

void ImageFormatter::Write(int64_t index, const Augmentation& augmentation, float* out) const {
  if (dataset_->vocabulary > 0) return WriteTokens(index, out);
  const int64_t plane_bytes = dataset_->height * dataset_->width;
  std::vector<float> frame(shape_.scaled ? plane_bytes : 0);
  std::vector<uint8_t> room;
  const uint8_t* const image = dataset_->Image(index, &room);
  for (int64_t c = 0; c < shape_.channels; ++c) {
    const int64_t source = dataset_->channels == 1 ? 0 : c;
    float* const plane = out + c * shape_.height * shape_.width;
    WritePlane(image + source * plane_bytes, tables_[source], augmentation,
               shape_.scaled ? frame.data() : plane);
    if (shape_.scaled) Scale(frame.data(), plane);
  }
}

void ImageFormatter::WriteTokens(int64_t index, float* out) const {
  std::vector<uint16_t> room;
  std::copy_n(dataset_->Tokens(index, &room), dataset_->width, out);
}

// Each pixel of the result is at the position of its center.
std::vector<ImageFormatter::Tap> ImageFormatter::TapsOf(int64_t from, int64_t to) {
  const float scale = static_cast<float>(from) / static_cast<float>(to);
  std::vector<Tap> taps;
  for (int64_t i = 0; i < to; ++i) {
    const float at = std::max(0.0f, scale * (static_cast<float>(i) + 0.5f) - 0.5f);
    const auto first = std::min(static_cast<int64_t>(at), from - 1);
    taps.push_back({first, std::min(first + 1, from - 1), at - static_cast<float>(first)});
  }
  return taps;
}

void ImageFormatter::Scale(const float* plane, float* out) const {
  for (const Tap& row : rows_) {
    const float* const above = plane + row.first * frame_.width;
    const float* const below = plane + row.second * frame_.width;
    for (const Tap& column : columns_) {
      const auto between = [&column](const float* line) {
        return line[column.first] * (1 - column.weight) + line[column.second] * column.weight;
      };
      *out++ = between(above) * (1 - row.weight) + between(below) * row.weight;
    }
  }
}

void ImageFormatter::WritePlane(const uint8_t* plane, const Table& table,
                                const Augmentation& augmentation, float* out) const {
  // Row y of the result is row y + down of the plane; the same holds for columns.
  const int64_t height = dataset_->height;
  const int64_t width = dataset_->width;
  const int64_t down = augmentation.top - kCropPadding - (frame_.height - height) / 2;
  const int64_t right = augmentation.left - kCropPadding - (frame_.width - width) / 2;
  const int64_t first = std::clamp<int64_t>(-right, 0, frame_.width);
  const int64_t last = std::clamp<int64_t>(width - right, first, frame_.width);
  for (int64_t y = 0; y < frame_.height; ++y, out += frame_.width) {
    std::fill_n(out, frame_.width, table[0]);
    if (y + down < 0 || y + down >= height) continue;
    const uint8_t* row = plane + (y + down) * width;
    for (int64_t x = first; x < last; ++x) out[x] = table[row[x + right]];
    if (augmentation.flip) std::reverse(out, out + frame_.width);
  }
}

}  // namespace gradwire
