#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "common/base/status_util.h"
#include "worker/data/dataset.h"

namespace gradwire {
namespace {

// The content of an IDX file of bytes: an array in row-major order. (On disk: two zero bytes, 8 for
// unsigned bytes, the number of dimensions, each dimension as 4 bytes big endian, the values.)
struct IdxArray {
  std::vector<int64_t> dimensions;
  std::vector<uint8_t> values;
};

// A pair of IDX files with one-channel images and labels below 10, under MNIST's names
// (train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-…), each plain or with .gz.
struct IdxDatasetSpec {
  absl::string_view name;
  absl::string_view how_to_get;  // end of the message if a file is missing
  float mean = 0;                // of byte / 255
  float std_dev = 1;
};

constexpr int kDigits = 10;
constexpr int64_t kPieceBytes = 1 << 20;
// More than any such image file has; a sparse file of any size needs no disk space.
constexpr int64_t kMostValues = int64_t{1} << 31;

struct CloseGz {
  void operator()(gzFile_s* file) const { gzclose(file); }
};
using GzHandle = std::unique_ptr<gzFile_s, CloseGz>;

// Reads up to `size_bytes`; fewer only at the end of the file.
absl::StatusOr<int64_t> ReadUpTo(const std::string& path, gzFile file, uint8_t* out,
                                 int64_t size_bytes) {
  const int got = gzread(file, out, static_cast<unsigned>(size_bytes));
  int code = Z_OK;
  const char* message = gzerror(file, &code);
  // A truncated gzip stream is Z_BUF_ERROR, although gzread returns its data.
  if (got >= 0 && code == Z_OK) return got;
  return absl::InvalidArgumentError(absl::StrCat(path, ": damaged or truncated: ", message));
}

absl::StatusOr<uint32_t> ReadBigEndian(const std::string& path, gzFile file) {
  std::array<uint8_t, 4> bytes;
  const absl::StatusOr<int64_t> got = ReadUpTo(path, file, bytes.data(), bytes.size());
  if (!got.ok()) return got.status();
  if (*got < 4) return Unexpected(path, "the end of the file", "an IDX header");
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

absl::Status CheckMagic(const std::string& path, gzFile file, int rank) {
  const absl::StatusOr<uint32_t> magic = ReadBigEndian(path, file);
  if (!magic.ok()) return magic.status();
  const uint32_t expected = 0x800u + static_cast<uint32_t>(rank);
  if (*magic == expected) return absl::OkStatus();
  return Unexpected(path, absl::StrFormat("magic number 0x%08x", *magic),
                    absl::StrFormat("0x%08x", expected));
}

// Returns the product of the dimensions in the file. 0 and absurd sizes are errors.
absl::StatusOr<int64_t> ReadDimensions(const std::string& path, gzFile file, int rank,
                                       std::vector<int64_t>& dimensions) {
  int64_t values = 1;
  for (int i = 0; i < rank; ++i) {
    const absl::StatusOr<uint32_t> dimension = ReadBigEndian(path, file);
    if (!dimension.ok()) return dimension.status();
    dimensions.push_back(*dimension);
    if (*dimension == 0) return Unexpected(path, "an empty array", "some values");
    if (*dimension > kMostValues / values) {
      return Unexpected(path, "dimensions that are too large", "at most 2^31 values");
    }
    values *= *dimension;
  }
  return values;
}

// Memory grows with the content of the file, not with the size in its header.
absl::Status ReadValues(const std::string& path, gzFile file, int64_t expected,
                        std::vector<uint8_t>& values) {
  const int64_t limit = expected + 1;  // one more value reveals a longer file
  while (static_cast<int64_t>(values.size()) < limit) {
    const int64_t before = static_cast<int64_t>(values.size());
    const int64_t want = std::min(kPieceBytes, limit - before);
    values.resize(before + want);
    const absl::StatusOr<int64_t> got = ReadUpTo(path, file, values.data() + before, want);
    if (!got.ok()) return got.status();
    values.resize(before + *got);
    if (*got < want) break;
  }
  const int64_t got = static_cast<int64_t>(values.size());
  if (got == expected) return absl::OkStatus();
  const absl::string_view relation = got > expected ? " or more" : "";
  return Unexpected(path, absl::StrCat(got, relation, " values"), absl::StrCat(expected));
}

// Reads `path`, plain or gzipped, as an array of `rank` dimensions.
//   NotFound         the file cannot be opened
//   InvalidArgument  wrong magic number; empty; fewer or more bytes than the
//                    dimensions say; damaged gzip data
absl::StatusOr<IdxArray> ReadIdx(const std::string& path, int rank) {
  const GzHandle file(gzopen(path.c_str(), "rb"));
  if (file == nullptr) return absl::NotFoundError(absl::StrCat("cannot open ", path));
  if (absl::Status status = CheckMagic(path, file.get(), rank); !status.ok()) return status;
  IdxArray array;
  const auto expected = ReadDimensions(path, file.get(), rank, array.dimensions);
  if (!expected.ok()) return expected.status();
  absl::Status status = ReadValues(path, file.get(), *expected, array.values);
  if (!status.ok()) return status;
  return array;
}

absl::StatusOr<std::string> FindFile(const IdxDatasetSpec& spec, const std::string& data_dir,
                                     const std::string& name) {
  for (const std::string& path :
       {absl::StrCat(data_dir, "/", name), absl::StrCat(data_dir, "/", name, ".gz")}) {
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return path;
  }
  return absl::NotFoundError(
      absl::StrCat("neither ", name, " nor ", name, ".gz is in ", data_dir, "; ", spec.how_to_get));
}

absl::StatusOr<IdxArray> FindAndRead(const IdxDatasetSpec& spec, const std::string& data_dir,
                                     const std::string& name, int rank) {
  const absl::StatusOr<std::string> path = FindFile(spec, data_dir, name);
  if (!path.ok()) return path.status();
  return ReadIdx(*path, rank);
}

absl::Status CheckLabels(const std::string& where, const std::vector<uint8_t>& labels,
                         int64_t images) {
  if (static_cast<int64_t>(labels.size()) != images) {
    return Unexpected(where, absl::StrCat(labels.size(), " labels"),
                      absl::StrCat(images, ", one for each image"));
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < kDigits) continue;
    return Unexpected(where, absl::StrCat("label ", labels[i], " at ", i),
                      absl::StrCat("0 to ", kDigits - 1));
  }
  return absl::OkStatus();
}

std::shared_ptr<const Dataset> Assemble(const IdxDatasetSpec& spec, IdxArray images,
                                        IdxArray labels) {
  Dataset dataset;
  dataset.name = std::string(spec.name);
  dataset.channels = 1;
  dataset.height = images.dimensions[1];
  dataset.width = images.dimensions[2];
  dataset.classes = kDigits;
  dataset.mean = {spec.mean};
  dataset.std_dev = {spec.std_dev};
  dataset.pixels = std::move(images.values);
  dataset.labels = std::move(labels.values);
  return std::make_shared<const Dataset>(std::move(dataset));
}

// Reads such a pair from `data_dir`. Errors: those of ReadIdx, and
//   NotFound         `data_dir` is empty, or a file is missing
//   InvalidArgument  a wrong label; different numbers of labels and images
absl::StatusOr<std::shared_ptr<const Dataset>> LoadIdxDataset(const IdxDatasetSpec& spec,
                                                              const std::string& data_dir,
                                                              Split split) {
  if (data_dir.empty()) {
    return absl::NotFoundError(absl::StrCat(spec.name, " needs --data-dir DIR; ", spec.how_to_get));
  }
  const std::string prefix = split == Split::kTrain ? "train" : "t10k";
  auto images = FindAndRead(spec, data_dir, prefix + "-images-idx3-ubyte", 3);
  if (!images.ok()) return images.status();
  const std::string labels_name = prefix + "-labels-idx1-ubyte";
  auto labels = FindAndRead(spec, data_dir, labels_name, 1);
  if (!labels.ok()) return labels.status();
  absl::Status status =
      CheckLabels(absl::StrCat(data_dir, "/", labels_name), labels->values, images->dimensions[0]);
  if (!status.ok()) return status;
  return Assemble(spec, *std::move(images), *std::move(labels));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Dataset>> LoadMnist(const std::string& data_dir, Split split) {
  IdxDatasetSpec spec;
  spec.name = "mnist";
  spec.how_to_get =
      "`deploy/fetch-mnist DIR` downloads the files; `--dataset fashion-mnist` has the same shape "
      "and "
      "is "
      "in Debian's dataset-fashion-mnist";
  spec.mean = 0.1307f;
  spec.std_dev = 0.3081f;
  return LoadIdxDataset(spec, data_dir, split);
}

absl::StatusOr<std::shared_ptr<const Dataset>> LoadFashionMnist(const std::string& data_dir,
                                                                Split split) {
  constexpr char kDebianDir[] = "/usr/share/datasets/fashion-mnist";
  IdxDatasetSpec spec;
  spec.name = "fashion-mnist";
  spec.how_to_get = "`apt-get install dataset-fashion-mnist` installs the files";
  spec.mean = 0.2860f;
  spec.std_dev = 0.3530f;
  return LoadIdxDataset(spec, data_dir.empty() ? kDebianDir : data_dir, split);
}

}  // namespace gradwire
