#include "common/state/state_plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_util.h"
#include "common/tensors/safetensors_header.h"
#include "common/wire/chunk.h"

namespace gradwire {
namespace {

bool IsName(absl::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), absl::ascii_islower);
}

bool IsUtf8(const std::string& text) {
  using Json = nlohmann::json;
  const std::string kept = Json(text).dump(-1, ' ', false, Json::error_handler_t::ignore);
  return Json::parse(kept) == text;
}

absl::Status CheckTensor(const std::string& section, const StoredTensor& tensor, int64_t* total) {
  const std::string what = absl::StrCat("state '", section, "', tensor '", tensor.key, "'");
  const absl::optional<int64_t> bytes = BytesOf(tensor.shape, tensor.type);
  if (tensor.key.empty() || !IsUtf8(tensor.key) || tensor.key == "__metadata__") {
    return Unexpected(what, "that key", "UTF-8 other than \"\" and \"__metadata__\"");
  }
  if (!bytes.has_value() || *bytes == 0 || __builtin_add_overflow(*total, *bytes, total)) {
    return Unexpected(what, Describe(tensor), "at least one element, and bytes that fit int64");
  }
  return absl::OkStatus();
}

absl::Status Check(const std::vector<StateSection>& sections) {
  std::set<absl::string_view> names;
  int64_t total = 0;
  for (const StateSection& section : sections) {
    if (!IsName(section.name) || !names.insert(section.name).second) {
      return Unexpected("section of the state", absl::StrCat("'", section.name, "'"),
                        "a new name of lower-case letters");
    }
    std::set<absl::string_view> keys;
    for (const StoredTensor& tensor : section.tensors) {
      absl::Status status = CheckTensor(section.name, tensor, &total);
      if (!status.ok()) return status;
      if (!keys.insert(tensor.key).second) {
        return Unexpected(absl::StrCat("state '", section.name, "'"),
                          absl::StrCat("two tensors '", tensor.key, "'"), "different keys");
      }
    }
  }
  return absl::OkStatus();
}

// Returns the files of a section, without names.
std::vector<StateFile> FilesOf(const StateSection& section, int index, int64_t file_bytes) {
  std::vector<StateFile> files;
  for (int i = 0; i < static_cast<int>(section.tensors.size()); ++i) {
    const StoredTensor& tensor = section.tensors[i];
    const int64_t bytes = *BytesOf(tensor.shape, tensor.type);
    if (files.empty() || files.back().value_bytes > file_bytes - bytes) {
      files.emplace_back();
      files.back().section = index;
      files.back().first = i;
    }
    ++files.back().count;
    files.back().value_bytes += bytes;
  }
  return files;
}

std::string HeaderOf(const StateSection& section, const StateFile& file) {
  const auto first = section.tensors.begin() + file.first;
  return MakeSafetensorsHeader({first, first + file.count});
}

}  // namespace

int64_t BytesOf(const StateSection& section) {
  int64_t bytes = 0;
  for (const StoredTensor& tensor : section.tensors) {
    bytes += BytesOf(tensor.shape, tensor.type).value_or(0);
  }
  return bytes;
}

absl::StatusOr<StatePlan> StatePlan::Make(std::vector<StateSection> sections, int64_t part_bytes,
                                          int64_t file_bytes) {
  absl::Status status = Check(sections);
  if (!status.ok()) return status;
  StatePlan plan;
  plan.part_bytes_ = part_bytes;
  plan.file_bytes_ = file_bytes;
  for (StateSection& section : sections) {
    if (!section.tensors.empty()) plan.sections_.push_back(std::move(section));
  }
  for (size_t i = 0; i < plan.sections_.size(); ++i) {
    const StateSection& section = plan.sections_[i];
    std::vector<StateFile> files = FilesOf(section, static_cast<int>(i), file_bytes);
    for (size_t k = 0; k < files.size(); ++k) {
      files[k].name =
          absl::StrFormat("%s-%05d-of-%05d.safetensors", section.name, k + 1, files.size());
      files[k].header = HeaderOf(section, files[k]);
      plan.AddFile(std::move(files[k]));
    }
  }
  return plan;
}

void StatePlan::AddFile(StateFile file) {
  const auto number = static_cast<int>(files_.size());
  for (int64_t begin = 0; begin < file.value_bytes; begin += part_bytes_) {
    parts_.push_back({number, begin, std::min(part_bytes_, file.value_bytes - begin)});
  }
  bytes_ += file.value_bytes;
  files_.push_back(std::move(file));
}

int StatePlan::FindSection(absl::string_view name) const {
  for (size_t i = 0; i < sections_.size(); ++i) {
    if (sections_[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

std::vector<StateRange> StatePlan::RangesOf(int part) const {
  const StatePart& wanted = parts_[part];
  const StateFile& file = files_[wanted.file];
  std::vector<StateRange> ranges;
  int64_t at = 0;  // where the tensor begins, in the file's values
  for (int i = file.first; i < file.first + file.count; ++i) {
    const StoredTensor& tensor = sections_[file.section].tensors[i];
    const int64_t end = at + *BytesOf(tensor.shape, tensor.type);
    const int64_t first = std::max(at, wanted.begin);
    const int64_t last = std::min(end, wanted.begin + wanted.bytes);
    if (first < last) ranges.push_back({file.section, i, first - at, last - first});
    at = end;
  }
  return ranges;
}

StatePlan::Place StatePlan::PlaceOf(int section, int tensor) const {
  const auto has = [&](const StatePart& part) {
    const StateFile& file = files_[part.file];
    return file.section == section && tensor >= file.first && tensor < file.first + file.count;
  };
  const auto first = std::find_if(parts_.begin(), parts_.end(), has);
  int64_t begin = 0;  // in the file's values
  for (int i = files_[first->file].first; i < tensor; ++i) {
    begin += *BytesOf(sections_[section].tensors[i].shape, sections_[section].tensors[i].type);
  }
  return {static_cast<int>(first - parts_.begin() + begin / part_bytes_), begin % part_bytes_};
}

uint64_t StatePlan::DigestOf(int section, absl::Span<const uint64_t> hashes) const {
  std::string digested = absl::StrCat(sections_[section].name, "\n");
  for (const StateFile& file : files_) {
    if (file.section == section) absl::StrAppend(&digested, file.header);
  }
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (files_[parts_[i].file].section == section) {
      absl::StrAppend(&digested, absl::Hex(hashes[i], absl::kZeroPad16));
    }
  }
  return Checksum(digested);
}

}  // namespace gradwire
