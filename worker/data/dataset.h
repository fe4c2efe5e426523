#ifndef GRADWIRE_WORKER_DATA_DATASET_H_
#define GRADWIRE_WORKER_DATA_DATASET_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gradwire {

// Labeled images with the published bytes: image i is pixels[i * image_bytes() …], planes in
// channel order, rows from the top. Or labeled sequences of token ids, `width` each, one after the
// other in `tokens`, and there are no pixels. A made-up data set keeps neither, but a function that
// draws a sample each time it is read; so a worker needs no memory for it, and starts sooner.
// Immutable once made; safe to read from any thread.
struct Dataset {
  std::string name;
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t classes = 0;
  std::vector<uint8_t> pixels;
  std::function<std::vector<uint8_t>(int64_t index)> draw_image;  // instead of pixels, if set
  int64_t vocabulary = 0;  // 0: images; else ids are below this
  std::vector<uint16_t> tokens;
  std::function<std::vector<uint16_t>(int64_t index)> draw_tokens;  // instead of tokens, if set
  std::vector<uint8_t> labels;
  // Per channel, for (pixel / 255 - mean) / std.
  std::vector<float> mean;
  std::vector<float> std_dev;

  int64_t size() const { return static_cast<int64_t>(labels.size()); }
  int64_t image_bytes() const { return channels * height * width; }

  // Return sample 0 ≤ `index` < size(): image_bytes() bytes, or `width` ids. A drawn one is put
  // into `room`, and lasts as long as that.
  const uint8_t* Image(int64_t index, std::vector<uint8_t>* room) const {
    if (!draw_image) return pixels.data() + index * image_bytes();
    *room = draw_image(index);
    return room->data();
  }
  const uint16_t* Tokens(int64_t index, std::vector<uint16_t>* room) const {
    if (!draw_tokens) return tokens.data() + index * width;
    *room = draw_tokens(index);
    return room->data();
  }
};

enum class Split { kTrain, kTest };

// Reads the data set `name` from `data_dir` (empty: its usual place on Debian, if it has one).
// Errors name the file, what was got, and what was expected:
//   NotFound          no such data set (lists the names), or a file is missing (says how to get
//                     it)
//   InvalidArgument   a file is truncated, empty, or has a wrong label
absl::StatusOr<std::shared_ptr<const Dataset>> LoadDataset(absl::string_view name,
                                                           const std::string& data_dir,
                                                           Split split);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DATA_DATASET_H_
