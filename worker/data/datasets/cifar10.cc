#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/data/datasets/dataset.h"

namespace gradwire {
namespace {

constexpr int64_t kPixelBytes = int64_t{3} * 32 * 32;
constexpr int64_t kRecordBytes = 1 + kPixelBytes;  // a label, then the pixels
constexpr int kClasses = 10;

Dataset EmptyCifar10() {
  Dataset dataset;
  dataset.name = "cifar10";
  dataset.channels = 3;
  dataset.height = 32;
  dataset.width = 32;
  dataset.classes = kClasses;
  // Divided in double and then rounded, as torchvision.transforms.Normalize takes them.
  for (const double mean : {125.3, 123.0, 113.9}) {
    dataset.mean.push_back(static_cast<float>(mean / 255));
  }
  for (const double std_dev : {63.0, 62.1, 66.7}) {
    dataset.std_dev.push_back(static_cast<float>(std_dev / 255));
  }
  return dataset;
}

absl::StatusOr<std::string> ReadWhole(const std::string& path) {
  std::error_code error;
  const uintmax_t size_bytes = std::filesystem::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file) {
    return absl::NotFoundError(absl::StrCat(
        "cannot read ", path, "; `deploy/fetch-cifar10 DIR` gets the files of CIFAR-10"));
  }
  std::string bytes(size_bytes, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<size_t>(file.gcount()));  // the size check says if it fell short
  return bytes;
}

absl::Status CheckSize(const std::string& path, int64_t size_bytes) {
  if (size_bytes == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": empty, expected records of ", kRecordBytes, " bytes"));
  }
  if (size_bytes % kRecordBytes == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": truncated: got ", size_bytes,
                                                 " bytes, expected a multiple of ", kRecordBytes));
}

absl::Status Append(const std::string& path, Dataset& dataset) {
  const absl::StatusOr<std::string> bytes = ReadWhole(path);
  if (!bytes.ok()) return bytes.status();
  const int64_t size_bytes = static_cast<int64_t>(bytes->size());
  if (absl::Status status = CheckSize(path, size_bytes); !status.ok()) return status;
  for (int64_t at = 0; at < size_bytes; at += kRecordBytes) {
    const auto record = bytes->begin() + at;
    const uint8_t label = static_cast<uint8_t>(*record);
    if (label >= kClasses) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": record ", at / kRecordBytes,
                                                     " has label ", label, ", expected 0 to ",
                                                     kClasses - 1));
    }
    dataset.labels.push_back(label);
    dataset.pixels.insert(dataset.pixels.end(), record + 1, record + kRecordBytes);
  }
  return absl::OkStatus();
}

std::vector<std::string> FileNames(Split split) {
  if (split == Split::kTest) return {"test_batch.bin"};
  std::vector<std::string> names;
  for (int i = 1; i <= 5; ++i) names.push_back(absl::StrCat("data_batch_", i, ".bin"));
  return names;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Dataset>> LoadCifar10(const std::string& data_dir,
                                                           Split split) {
  if (data_dir.empty()) {
    return absl::NotFoundError(
        "cifar10 needs --data-dir DIR; `deploy/fetch-cifar10 DIR` gets the files");
  }
  Dataset dataset = EmptyCifar10();
  const std::vector<std::string> names = FileNames(split);
  dataset.pixels.reserve(names.size() * 10000 * kPixelBytes);
  for (const std::string& name : names) {
    absl::Status status = Append(absl::StrCat(data_dir, "/", name), dataset);
    if (!status.ok()) return status;
  }
  return std::make_shared<const Dataset>(std::move(dataset));
}

}  // namespace gradwire
