#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/data/dataset.h"

namespace gradwire {
namespace {

constexpr int64_t kPixelBytes = int64_t{3} * 32 * 32;
// More than ten times the largest file; a sparse file of any size needs no disk space.
constexpr int64_t kMostBytes = int64_t{2} << 30;

// One of the two data sets. A record is its labels, of which only the last counts, then the pixels.
struct Spec {
  std::string name;
  std::string how_to_get;
  int64_t label_bytes;
  int classes;
  std::array<double, 3> means;  // of the bytes
  std::array<double, 3> std_devs;
  std::vector<std::string> train_files;
  std::string test_file;

  int64_t record_bytes() const { return label_bytes + kPixelBytes; }
};

Spec Cifar10() {
  return {"cifar10",
          "`deploy/fetch-cifar10 DIR` downloads the files",
          1,
          10,
          {125.3, 123.0, 113.9},
          {63.0, 62.1, 66.7},
          {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
           "data_batch_5.bin"},
          "test_batch.bin"};
}

Spec Cifar100() {
  return {"cifar100",
          "`deploy/fetch-cifar100 DIR` downloads the files",
          2,
          100,
          {129.3, 124.1, 112.4},
          {68.2, 65.4, 70.4},
          {"train.bin"},
          "test.bin"};
}

Dataset EmptyDataset(const Spec& spec) {
  Dataset dataset;
  dataset.name = spec.name;
  dataset.channels = 3;
  dataset.height = 32;
  dataset.width = 32;
  dataset.classes = spec.classes;
  // Divided in double and then rounded, as for torchvision.transforms.Normalize.
  for (const double mean : spec.means) dataset.mean.push_back(static_cast<float>(mean / 255));
  for (const double std_dev : spec.std_devs) {
    dataset.std_dev.push_back(static_cast<float>(std_dev / 255));
  }
  return dataset;
}

absl::Status CheckSize(const Spec& spec, const std::string& path, int64_t size_bytes) {
  if (size_bytes == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": empty, expected records of ", spec.record_bytes(), " bytes"));
  }
  if (size_bytes > kMostBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": got ", size_bytes, " bytes, expected at most ", kMostBytes));
  }
  if (size_bytes % spec.record_bytes() == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": truncated: got ", size_bytes,
                                                 " bytes, expected a multiple of ",
                                                 spec.record_bytes()));
}

absl::StatusOr<std::string> ReadWhole(const Spec& spec, const std::string& path) {
  std::error_code error;
  const uintmax_t size_bytes = std::filesystem::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file) {
    return absl::NotFoundError(absl::StrCat("cannot read ", path, "; ", spec.how_to_get));
  }
  if (absl::Status status = CheckSize(spec, path, static_cast<int64_t>(size_bytes)); !status.ok()) {
    return status;
  }
  std::string bytes(size_bytes, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<size_t>(file.gcount()));
  return bytes;
}

absl::Status Append(const Spec& spec, const std::string& path, Dataset& dataset) {
  const absl::StatusOr<std::string> bytes = ReadWhole(spec, path);
  if (!bytes.ok()) return bytes.status();
  const int64_t size_bytes = static_cast<int64_t>(bytes->size());
  // Check again: the file may have become shorter.
  if (absl::Status status = CheckSize(spec, path, size_bytes); !status.ok()) return status;
  dataset.pixels.reserve(dataset.pixels.size() + bytes->size());
  for (int64_t at = 0; at < size_bytes; at += spec.record_bytes()) {
    const auto record = bytes->begin() + at;
    const auto pixels = record + spec.label_bytes;
    const uint8_t label = static_cast<uint8_t>(pixels[-1]);
    if (label >= spec.classes) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": record ", at / spec.record_bytes(),
                                                     " has label ", label, ", expected 0 to ",
                                                     spec.classes - 1));
    }
    dataset.labels.push_back(label);
    dataset.pixels.insert(dataset.pixels.end(), pixels, pixels + kPixelBytes);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Dataset>> Load(const Spec& spec, const std::string& data_dir,
                                                    Split split) {
  if (data_dir.empty()) {
    return absl::NotFoundError(absl::StrCat(spec.name, " needs --data-dir DIR; ", spec.how_to_get));
  }
  Dataset dataset = EmptyDataset(spec);
  const std::vector<std::string> names =
      split == Split::kTrain ? spec.train_files : std::vector<std::string>{spec.test_file};
  for (const std::string& name : names) {
    absl::Status status = Append(spec, absl::StrCat(data_dir, "/", name), dataset);
    if (!status.ok()) return status;
  }
  return std::make_shared<const Dataset>(std::move(dataset));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Dataset>> LoadCifar10(const std::string& data_dir,
                                                           Split split) {
  return Load(Cifar10(), data_dir, split);
}

absl::StatusOr<std::shared_ptr<const Dataset>> LoadCifar100(const std::string& data_dir,
                                                            Split split) {
  return Load(Cifar100(), data_dir, split);
}

}  // namespace gradwire
