#ifndef GRADWIRE_WORKER_DATA_DATASETS_IDX_H_
#define GRADWIRE_WORKER_DATA_DATASETS_IDX_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/datasets/dataset.h"

namespace gradwire {

// What an IDX file of bytes holds: an array in row-major order. (On disk: two
// zero bytes, 8 for unsigned bytes, the number of dimensions, each dimension as
// 4 bytes big endian, the values.)
struct IdxArray {
  std::vector<int64_t> dimensions;
  std::vector<uint8_t> values;
};

// Reads `path`, plain or gzipped, as an array of `rank` dimensions.
//   NotFound         the file cannot be opened
//   InvalidArgument  wrong magic number; empty; fewer or more bytes than the
//                    dimensions say; damaged gzip data
absl::StatusOr<IdxArray> ReadIdx(const std::string& path, int rank);

// A pair of IDX files with one-channel images and labels below 10, under the
// names that MNIST gave them (train-images-idx3-ubyte, train-labels-idx1-ubyte,
// t10k-…), each plain or with .gz.
struct IdxDatasetSpec {
  absl::string_view name;
  absl::string_view how_to_get;  // ends the message when a file is missing
  float mean = 0;                // of byte / 255
  float std_dev = 1;
};

// Reads such a pair from `data_dir`. Errors of ReadIdx, and
//   NotFound         `data_dir` is empty, or a file is missing
//   InvalidArgument  a wrong label; not as many labels as images
absl::StatusOr<std::shared_ptr<const Dataset>> LoadIdxDataset(const IdxDatasetSpec& spec,
                                                              const std::string& data_dir,
                                                              Split split);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DATA_DATASETS_IDX_H_
