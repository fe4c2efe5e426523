#ifndef GRADWIRE_WORKER_DATA_IMAGE_FORMATTER_H_
#define GRADWIRE_WORKER_DATA_IMAGE_FORMATTER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/augment.h"
#include "worker/data/dataset.h"
#include "worker/models/model.h"

namespace gradwire {

// Converts published images (bytes) to a model's input (float32):
//
//   pad        with zeros to the model's height and width, unless they are scaled; an odd
//              pixel goes to the bottom and the right
//   augment    crop and flip, still in bytes: borders in the crop are black
//   repeat     a single channel to all channels of the model
//   normalize  (byte / 255 - mean) / std in float32, in this order, for the bits of the same
//              expression in torch
//   scale      if the model's shape says so: bilinear, as torch's interpolate without
//              align_corners and antialias
//
// Token ids become the same numbers in float32.
//
// Plain loops over a table of 256 values per channel; uses no thread of torch. Keeps the data set
// alive. Immutable; safe to use from any thread.
class ImageFormatter {
 public:
  //   InvalidArgument  the images are larger than `shape` and not scaled; they have neither its
  //                    number of channels nor one; the data set is empty, or does not have one
  //                    mean and std per channel; it has images but the model takes token ids, or
  //                    the reverse; it has other ids than the model
  static absl::StatusOr<std::unique_ptr<const ImageFormatter>> Create(
      std::shared_ptr<const Dataset> dataset, const ImageShape& shape);

  // Writes image `index` (0 ≤ index < dataset size) to `out`: values_per_image() floats, (C, H, W).
  // The default `augmentation` changes nothing.
  void Write(int64_t index, const Augmentation& augmentation, float* out) const;

  int64_t values_per_image() const { return shape_.channels * shape_.height * shape_.width; }
  const Dataset& dataset() const { return *dataset_; }
  const ImageShape& shape() const { return shape_; }

 private:
  using Table = std::array<float, 256>;  // of one channel, by byte
  // A row or column of a scaled image lies between two of the image.
  struct Tap {
    int64_t first = 0;
    int64_t second = 0;
    float weight = 0;  // weight of the second
  };

  ImageFormatter(std::shared_ptr<const Dataset> dataset, const ImageShape& shape);
  static std::vector<Tap> TapsOf(int64_t from, int64_t to);
  void WriteTokens(int64_t index, float* out) const;
  void Scale(const float* plane, float* out) const;
  void WritePlane(const uint8_t* plane, const Table& table, const Augmentation& augmentation,
                  float* out) const;

  const std::shared_ptr<const Dataset> dataset_;
  const ImageShape shape_;
  ImageShape frame_;           // images are padded and cropped to this
  std::vector<Table> tables_;  // by channel of the data set
  std::vector<Tap> rows_;      // of a scaled image, from one of frame_
  std::vector<Tap> columns_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DATA_IMAGE_FORMATTER_H_
