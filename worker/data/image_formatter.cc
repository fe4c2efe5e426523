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

absl::Status Check(const Dataset& dataset, const ImageShape& shape) {
  if (dataset.size() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(dataset.name, ": holds no images"));
  }
  const bool fits = dataset.height <= shape.height && dataset.width <= shape.width &&
                    (dataset.channels == 1 || dataset.channels == shape.channels);
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat(
        dataset.name, ": images of ", Words(dataset.channels, dataset.height, dataset.width),
        ", the model takes ", Words(shape.channels, shape.height, shape.width)));
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
    : dataset_(std::move(dataset)), shape_(shape) {
  for (size_t c = 0; c < dataset_->mean.size(); ++c) {
    tables_.push_back(MakeTable(dataset_->mean[c], dataset_->std_dev[c]));
  }
}

void ImageFormatter::Write(int64_t index, const Augmentation& augmentation, float* out) const {
  const int64_t plane_bytes = dataset_->height * dataset_->width;
  const uint8_t* image = dataset_->pixels.data() + index * dataset_->channels * plane_bytes;
  for (int64_t c = 0; c < shape_.channels; ++c) {
    const int64_t source = dataset_->channels == 1 ? 0 : c;
    WritePlane(image + source * plane_bytes, tables_[source], augmentation,
               out + c * shape_.height * shape_.width);
  }
}

void ImageFormatter::WritePlane(const uint8_t* plane, const Table& table,
                                const Augmentation& augmentation, float* out) const {
  // Row y of the result is row y + down of the plane; likewise its columns.
  const int64_t height = dataset_->height;
  const int64_t width = dataset_->width;
  const int64_t down = augmentation.top - kCropPadding - (shape_.height - height) / 2;
  const int64_t right = augmentation.left - kCropPadding - (shape_.width - width) / 2;
  const int64_t first = std::clamp<int64_t>(-right, 0, shape_.width);
  const int64_t last = std::clamp<int64_t>(width - right, first, shape_.width);
  for (int64_t y = 0; y < shape_.height; ++y, out += shape_.width) {
    std::fill_n(out, shape_.width, table[0]);
    if (y + down < 0 || y + down >= height) continue;
    const uint8_t* row = plane + (y + down) * width;
    for (int64_t x = first; x < last; ++x) out[x] = table[row[x + right]];
    if (augmentation.flip) std::reverse(out, out + shape_.width);
  }
}

}  // namespace gradwire
