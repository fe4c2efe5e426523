#include "worker/weights/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/output_file.h"
#include "common/base/status_util.h"

namespace gradwire {
namespace {

using Json = nlohmann::json;

constexpr size_t kLengthBytes = 8;
constexpr size_t kAlignment = 8;

constexpr std::pair<absl::string_view, torch::ScalarType> kTypes[] = {
    {"F64", torch::kDouble},    {"F32", torch::kFloat}, {"F16", torch::kHalf},
    {"BF16", torch::kBFloat16}, {"I64", torch::kLong},  {"I32", torch::kInt},
    {"I16", torch::kShort},     {"I8", torch::kChar},   {"U8", torch::kByte},
    {"BOOL", torch::kBool}};

absl::StatusOr<torch::ScalarType> TypeOf(const std::string& key, const Json& entry) {
  const auto dtype = entry.find("dtype");
  for (const auto& [name, type] : kTypes) {
    if (dtype != entry.end() && *dtype == std::string(name)) return type;
  }
  return Unexpected(absl::StrCat("'", key, "'"), dtype == entry.end() ? "no dtype" : dtype->dump(),
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
  return Unexpected(absl::StrCat("'", key, "'"), entry.value(field, Json()).dump(),
                    absl::StrCat(field, " as a list of numbers from 0"));
}

// Returns the bytes of the shape; none if they or the strides overflow.
absl::optional<int64_t> BytesOf(const std::vector<int64_t>& shape, torch::ScalarType type) {
  auto bytes = static_cast<int64_t>(c10::elementSize(type));
  bool is_empty = false;
  for (const int64_t size : shape) {
    is_empty |= size == 0;
    if (size < 0 || __builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes)) {
      return absl::nullopt;
    }
  }
  return is_empty ? 0 : bytes;
}

absl::StatusOr<torch::Tensor> ParseTensor(const std::string& key, const Json& entry,
                                          absl::string_view data) {
  if (!entry.is_object()) return Unexpected(absl::StrCat("'", key, "'"), entry.dump(), "an object");
  const absl::StatusOr<torch::ScalarType> type = TypeOf(key, entry);
  if (!type.ok()) return type.status();
  const absl::StatusOr<std::vector<int64_t>> shape = NumbersOf(key, entry, "shape", -1);
  if (!shape.ok()) return shape.status();
  const absl::StatusOr<std::vector<int64_t>> offsets = NumbersOf(key, entry, "data_offsets", 2);
  if (!offsets.ok()) return offsets.status();
  const int64_t begin = offsets->front();
  const int64_t end = offsets->back();
  if (begin < 0 || begin > end || end > static_cast<int64_t>(data.size())) {
    return Unexpected(absl::StrCat("'", key, "'"), absl::StrCat("offsets ", begin, " to ", end),
                      absl::StrCat("offsets within the ", data.size(), " bytes of values"));
  }
  const absl::optional<int64_t> bytes = BytesOf(*shape, *type);
  if (bytes != end - begin) {
    return Unexpected(absl::StrCat("'", key, "'"), absl::StrCat(end - begin, " bytes"),
                      absl::StrCat(bytes.value_or(-1), " for ", entry["shape"].dump(), " of ",
                                   entry["dtype"].dump()));
  }
  torch::Tensor tensor = torch::empty(*shape, *type);
  std::memcpy(tensor.data_ptr(), data.data() + begin, static_cast<size_t>(end - begin));
  return tensor;
}

absl::StatusOr<uint64_t> HeaderBytes(absl::string_view bytes) {
  if (bytes.size() < kLengthBytes) {
    return Unexpected("header", absl::StrCat(bytes.size(), " bytes"),
                      "weights in safetensors or torch.save format");
  }
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length <= bytes.size() - kLengthBytes) return length;
  return Unexpected("header",
                    absl::StrCat("a length of ", length, " in a file of ", bytes.size(), " bytes"),
                    "weights in safetensors or torch.save format; is the file cut short?");
}

std::string NameOf(torch::ScalarType type) {
  for (const auto& [name, other] : kTypes) {
    if (other == type) return std::string(name);
  }
  return "";
}

// Describes the values in the order of `weights`.
std::string HeaderOf(const Weights& weights) {
  Json entries = Json::object();
  size_t begin = 0;
  for (const auto& [key, tensor] : weights) {
    const size_t end = begin + tensor.nbytes();
    entries[key] = {{"dtype", NameOf(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {begin, end}}};
    begin = end;
  }
  return entries.dump();
}

}  // namespace

absl::StatusOr<Weights> ParseSafetensors(absl::string_view bytes) {
  const absl::StatusOr<uint64_t> length = HeaderBytes(bytes);
  if (!length.ok()) return length.status();
  const absl::string_view header = bytes.substr(kLengthBytes, *length);
  // Ignores values deeper than a list in a tensor's entry, because messages print values
  // recursively.
  const auto is_shallow = [](int depth, Json::parse_event_t, const Json&) { return depth < 4; };
  const Json entries =
      Json::parse(header.begin(), header.end(), is_shallow, /*allow_exceptions=*/false);
  if (!entries.is_object())
    return Unexpected("header", "something else", "a JSON object of tensors");
  const absl::string_view values = bytes.substr(kLengthBytes + *length);
  Weights weights;
  size_t used = 0;
  for (const auto& [key, entry] : entries.items()) {
    if (key == "__metadata__") continue;
    absl::StatusOr<torch::Tensor> tensor = ParseTensor(key, entry, values);
    if (!tensor.ok()) return tensor.status();
    used += tensor->nbytes();
    if (used > values.size()) {
      return Unexpected(absl::StrCat("'", key, "'"), "bytes that belong to other tensors, too",
                        "separate bytes for each tensor");
    }
    weights.emplace(key, *std::move(tensor));
  }
  return weights;
}

void StreamSafetensors(const Weights& weights, const WritePiece& write) {
  std::string header = HeaderOf(weights);
  header.resize((header.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const uint64_t length = header.size();
  write(absl::string_view(reinterpret_cast<const char*>(&length), kLengthBytes));
  write(header);
  for (const auto& [key, tensor] : weights) {
    const torch::Tensor row_major = tensor.contiguous();
    write(absl::string_view(static_cast<const char*>(row_major.data_ptr()), row_major.nbytes()));
  }
}

absl::Status WriteSafetensors(const std::string& path, const Weights& weights) {
  return ReplaceFile(path,
                     [&weights](const WritePiece& write) { StreamSafetensors(weights, write); });
}

}  // namespace gradwire
