#include "common/tensors/pickle_writer.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace gradwire {
namespace {

// The bytes of a number, little endian.
template <typename Number>
std::string Raw(const Number& number) {
  return std::string(reinterpret_cast<const char*>(&number), sizeof(number));
}

std::string Global(absl::string_view module_and_name) {
  return absl::StrCat("c", absl::StrReplaceAll(module_and_name, {{" ", "\n"}}), "\n");
}

std::string Numbers(const std::vector<int64_t>& numbers) {
  std::vector<std::string> values;
  for (const int64_t number : numbers) values.push_back(PickledInteger(number));
  return PickledTuple(values);
}

std::vector<int64_t> RowMajorStrides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * std::max<int64_t>(shape[i], 1);
  }
  return strides;
}

}  // namespace

std::string PickledNone() { return "N"; }
std::string PickledBool(bool value) { return value ? "\x88" : "\x89"; }
std::string PickledInteger(int64_t value) { return absl::StrCat("\x8a\x08", Raw(value)); }

// Pickle has the bytes of a real number in big-endian order.
std::string PickledReal(double value) {
  std::string bytes = Raw(value);
  std::reverse(bytes.begin(), bytes.end());
  return absl::StrCat("G", bytes);
}

std::string PickledText(absl::string_view text) {
  return absl::StrCat("X", Raw(static_cast<uint32_t>(text.size())), text);
}

std::string PickledTuple(const std::vector<std::string>& values) {
  return absl::StrCat("(", absl::StrJoin(values, ""), "t");
}

std::string PickledList(const std::vector<std::string>& values) {
  return absl::StrCat("](", absl::StrJoin(values, ""), "e");
}

std::string PickledDict(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string dict = "}(";
  for (const auto& [key, value] : items) absl::StrAppend(&dict, key, value);
  return absl::StrCat(dict, "u");
}

std::string PickledTensor(const StoredTensor& tensor, int storage) {
  const TensorTypeRow& row = RowOf(tensor.type);
  const int64_t elements = BytesOf(tensor.shape, tensor.type).value_or(0) / row.bytes;
  const std::string id =
      PickledTuple({PickledText("storage"), Global(row.storage), PickledText(absl::StrCat(storage)),
                    PickledText("cpu"), PickledInteger(elements)});
  const std::string no_hooks = absl::StrCat(Global("collections OrderedDict"), ")R");
  const std::string arguments =
      PickledTuple({absl::StrCat(id, "Q"), PickledInteger(0), Numbers(tensor.shape),
                    Numbers(RowMajorStrides(tensor.shape)), PickledBool(false), no_hooks});
  return absl::StrCat(Global("torch._utils _rebuild_tensor_v2"), arguments, "R");
}

std::string PickleOf(absl::string_view value) { return absl::StrCat("\x80\x02", value, "."); }

}  // namespace gradwire
