#ifndef GRADWIRE_WORKER_DATA_DATASET_H_
#define GRADWIRE_WORKER_DATA_DATASET_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gradwire {

// Labeled images, all in memory, with the published bytes: image i is pixels[i * channels * height
// * width …], planes in channel order, rows from the top. Or labeled sequences of token ids:
// sequence i is tokens[i * width …], and there are no pixels. Immutable once made; safe to read
// from any thread.
struct Dataset {
  std::string name;
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t classes = 0;
  std::vector<uint8_t> pixels;
  int64_t vocabulary = 0;  // 0: images; else ids are below this
  std::vector<uint16_t> tokens;
  std::vector<uint8_t> labels;
  // Per channel, for (pixel / 255 - mean) / std.
  std::vector<float> mean;
  std::vector<float> std_dev;

  int64_t size() const { return static_cast<int64_t>(labels.size()); }
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
