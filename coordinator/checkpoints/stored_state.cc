#include "coordinator/checkpoints/stored_state.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/status_util.h"

namespace gradwire {
namespace {

constexpr size_t kRecentParts = 4;

}  // namespace

v1::StateCatalog CatalogOf(const StatePlan& plan) {
  v1::StateCatalog catalog;
  for (const StateSection& section : plan.sections()) {
    v1::StateSection& out = *catalog.add_sections();
    out.set_name(section.name);
    for (const auto& tensor : section.tensors) {
      v1::StateTensor& entry = *out.add_tensors();
      entry.set_key(tensor.key);
      entry.set_dtype(RowOf(tensor.type).name);
      for (const int64_t size : tensor.shape) entry.add_shape(size);
    }
  }
  return catalog;
}

absl::StatusOr<StateSection> SectionOf(const v1::StateSection& section) {
  StateSection out;
  out.name = section.name();
  for (const v1::StateTensor& tensor : section.tensors()) {
    const absl::optional<TensorType> type = FindTensorType(tensor.dtype());
    if (!type.has_value()) {
      return Unexpected(absl::StrCat("state: type of '", tensor.key(), "'"), tensor.dtype(),
                        "one of safetensors, such as F32");
    }
    out.tensors.push_back({tensor.key(), *type, {tensor.shape().begin(), tensor.shape().end()}});
  }
  return out;
}

StoredState::StoredState(std::unique_ptr<CheckpointReader> reader)
    : reader_(std::move(reader)), catalog_(CatalogOf(reader_->plan())) {
  const StatePlan& plan = reader_->plan();
  for (int part = 0; part < static_cast<int>(plan.parts().size()); ++part) {
    int64_t in_part = 0;
    for (const StateRange& range : plan.RangesOf(part)) {
      const StateSection& section = plan.sections()[static_cast<size_t>(range.section)];
      const std::string& key = section.tensors[static_cast<size_t>(range.tensor)].key;
      places_[{section.name, key}].push_back({part, in_part, range.begin, range.bytes});
      in_part += range.bytes;
    }
  }
}

absl::StatusOr<StoredState::Part> StoredState::ReadPart(int part) {
  MutexLock lock(&mutex_);
  for (const auto& [number, bytes] : recent_) {
    if (number == part) return bytes;
  }
  const auto size = reader_->plan().parts()[static_cast<size_t>(part)].bytes;
  auto bytes = std::make_shared<std::vector<uint8_t>>(static_cast<size_t>(size));
  const absl::Status read = reader_->Read(part, absl::MakeSpan(*bytes));
  if (!read.ok()) return absl::DataLossError(read.message());
  recent_.emplace_back(part, std::move(bytes));
  if (recent_.size() > kRecentParts) recent_.pop_front();
  return recent_.back().second;
}

absl::Status StoredState::Read(const std::string& section, const std::string& key, uint64_t begin,
                               absl::Span<uint8_t> out) {
  const auto found = places_.find({section, key});
  const auto first = static_cast<int64_t>(begin);
  int64_t copied = 0;
  const auto wanted = static_cast<int64_t>(out.size());
  for (size_t i = 0; found != places_.end() && i < found->second.size() && copied < wanted; ++i) {
    const Place& place = found->second[i];
    const int64_t at = first + copied - place.begin;  // in the place
    if (at < 0 || at >= place.bytes) continue;
    const absl::StatusOr<Part> part = ReadPart(place.part);
    if (!part.ok()) return part.status();
    const int64_t bytes = std::min(place.bytes - at, wanted - copied);
    std::memcpy(out.data() + copied, (*part)->data() + place.in_part + at,
                static_cast<size_t>(bytes));
    copied += bytes;
  }
  if (copied == wanted) return absl::OkStatus();
  return Unexpected(absl::StrCat("state: tensor '", key, "' of section ", section),
                    absl::StrCat("bytes from ", begin, " to ", begin + out.size()),
                    "bytes that the checkpoint has");
}

}  // namespace gradwire
