#include "common/tensors/safetensors_header.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_util.h"

namespace gradwire {
namespace {

using Json = nlohmann::json;

constexpr size_t kAlignment = 8;

std::string Quoted(const std::string& key) { return absl::StrCat("'", key, "'"); }

absl::StatusOr<TensorType> TypeOf(const std::string& key, const Json& entry) {
  const auto dtype = entry.find("dtype");
  const bool is_text = dtype != entry.end() && dtype->is_string();
  const auto type = is_text ? FindTensorType(dtype->get_ref<const std::string&>()) : absl::nullopt;
  if (type.has_value()) return *type;
  return Unexpected(Quoted(key), dtype == entry.end() ? "no dtype" : dtype->dump(),
                    "a dtype such as \"F32\"");
}

// Returns a list of numbers from 0 on, `count` of them unless that is negative.
absl::StatusOr<std::vector<int64_t>> NumbersOf(const std::string& key, const Json& entry,
                                               const std::string& field, int count) {
  const auto list = entry.find(field);
  const bool is_list = list != entry.end() && list->is_array() &&
                       (count < 0 || list->size() == static_cast<size_t>(count));
  std::vector<int64_t> numbers;
  for (size_t i = 0; is_list && i < list->size() && (*list)[i].is_number_unsigned(); ++i) {
    numbers.push_back((*list)[i].get<int64_t>());
  }
  if (is_list && numbers.size() == list->size()) return numbers;
  return Unexpected(Quoted(key), entry.value(field, Json()).dump(),
                    absl::StrCat(field, " as a list of numbers from 0"));
}

absl::StatusOr<PlacedTensor> ParseTensor(const std::string& key, const Json& entry,
                                         int64_t value_bytes) {
  if (!entry.is_object()) return Unexpected(Quoted(key), entry.dump(), "an object");
  const absl::StatusOr<TensorType> type = TypeOf(key, entry);
  if (!type.ok()) return type.status();
  const absl::StatusOr<std::vector<int64_t>> shape = NumbersOf(key, entry, "shape", -1);
  if (!shape.ok()) return shape.status();
  const absl::StatusOr<std::vector<int64_t>> offsets = NumbersOf(key, entry, "data_offsets", 2);
  if (!offsets.ok()) return offsets.status();
  const int64_t begin = offsets->front();
  const int64_t end = offsets->back();
  if (begin < 0 || begin > end || end > value_bytes) {
    return Unexpected(Quoted(key), absl::StrCat("offsets ", begin, " to ", end),
                      absl::StrCat("offsets within the ", value_bytes, " bytes of values"));
  }
  const absl::optional<int64_t> bytes = BytesOf(*shape, *type);
  if (bytes != end - begin) {
    return Unexpected(Quoted(key), absl::StrCat(end - begin, " bytes"),
                      absl::StrCat(bytes.value_or(-1), " for ", entry["shape"].dump(), " of ",
                                   entry["dtype"].dump()));
  }
  return PlacedTensor{{key, *type, *shape}, begin, end};
}

// Returns the bytes of the JSON.
absl::StatusOr<int64_t> JsonBytes(absl::string_view head, int64_t file_bytes) {
  if (head.size() < kSafetensorsLengthBytes) {
    return Unexpected("header", absl::StrCat(head.size(), " bytes"),
                      "weights in safetensors or torch.save format");
  }
  uint64_t length = 0;
  std::memcpy(&length, head.data(), kSafetensorsLengthBytes);
  if (length <= static_cast<uint64_t>(file_bytes - kSafetensorsLengthBytes)) {
    return static_cast<int64_t>(length);
  }
  return Unexpected("header",
                    absl::StrCat("a length of ", length, " in a file of ", file_bytes, " bytes"),
                    "weights in safetensors or torch.save format; is the file cut short?");
}

absl::Status CheckSeparate(const std::vector<PlacedTensor>& tensors) {
  int64_t end = 0;
  for (const PlacedTensor& tensor : tensors) {
    if (tensor.begin < end) {
      return Unexpected(Quoted(tensor.spec.key), "bytes that belong to other tensors, too",
                        "separate bytes for each tensor");
    }
    end = tensor.end;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view head,
                                                         int64_t file_bytes) {
  const absl::StatusOr<int64_t> json_bytes = JsonBytes(head, file_bytes);
  if (!json_bytes.ok()) return json_bytes.status();
  const absl::string_view json = head.substr(kSafetensorsLengthBytes, *json_bytes);
  // Ignores values deeper than a list in a tensor's entry, because messages print values
  // recursively.
  const auto is_shallow = [](int depth, Json::parse_event_t, const Json&) { return depth < 4; };
  const Json entries =
      Json::parse(json.begin(), json.end(), is_shallow, /*allow_exceptions=*/false);
  if (!entries.is_object()) {
    return Unexpected("header", "something else", "a JSON object of tensors");
  }
  SafetensorsHeader header;
  header.bytes = kSafetensorsLengthBytes + *json_bytes;
  for (const auto& [key, entry] : entries.items()) {
    if (key == "__metadata__") continue;
    absl::StatusOr<PlacedTensor> tensor = ParseTensor(key, entry, file_bytes - header.bytes);
    if (!tensor.ok()) return tensor.status();
    header.tensors.push_back(*std::move(tensor));
  }
  // Tensors without bytes come before the one that begins in the same place.
  std::stable_sort(header.tensors.begin(), header.tensors.end(),
                   [](const PlacedTensor& a, const PlacedTensor& b) {
                     return std::make_pair(a.begin, a.end) < std::make_pair(b.begin, b.end);
                   });
  const absl::Status status = CheckSeparate(header.tensors);
  if (!status.ok()) return status;
  return header;
}

std::string MakeSafetensorsHeader(const std::vector<StoredTensor>& tensors) {
  std::string json;
  int64_t begin = 0;
  for (const StoredTensor& tensor : tensors) {
    const int64_t end = begin + BytesOf(tensor.shape, tensor.type).value_or(0);
    const Json entry = {{"dtype", RowOf(tensor.type).name},
                        {"shape", tensor.shape},
                        {"data_offsets", {begin, end}}};
    absl::StrAppend(&json, json.empty() ? "{" : ",", Json(tensor.key).dump(), ":", entry.dump());
    begin = end;
  }
  absl::StrAppend(&json, json.empty() ? "{}" : "}");
  json.resize((json.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const uint64_t length = json.size();
  return absl::StrCat(
      absl::string_view(reinterpret_cast<const char*>(&length), kSafetensorsLengthBytes), json);
}

}  // namespace gradwire
