#include "worker/weights/torch_file.h"

#include <caffe2/serialize/inline_container.h>
#include <caffe2/serialize/read_adapter_interface.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/output_file.h"
#include "common/base/status_util.h"
#include "common/tensors/pickle_writer.h"
#include "common/tensors/torch_archive.h"
#include "worker/weights/pickle.h"
#include "worker/weights/tensor_types.h"

namespace gradwire {
namespace {

using Kind = PickleValue::Kind;
using caffe2::serialize::PyTorchStreamReader;

constexpr char kRebuildTensor[] = "torch._utils _rebuild_tensor_v2";
constexpr char kRebuildParameter[] = "torch._utils _rebuild_parameter";

class MemoryReader : public caffe2::serialize::ReadAdapterInterface {
 public:
  explicit MemoryReader(absl::string_view bytes) : bytes_(bytes) {}
  size_t size() const override { return bytes_.size(); }
  size_t read(uint64_t at, void* out, size_t count, const char* /*what*/) const override {
    const size_t left = bytes_.size() - std::min<uint64_t>(at, bytes_.size());
    count = std::min(count, left);
    std::memcpy(out, bytes_.data() + (bytes_.size() - left), count);
    return count;
  }

 private:
  const absl::string_view bytes_;
};

bool AreNumbers(const PickleValue& list, size_t count) {
  return list.kind == Kind::kList && list.items.size() == count &&
         std::all_of(list.items.begin(), list.items.end(), [](const PickleValue& item) {
           return item.kind == Kind::kInteger && item.number >= 0;
         });
}

std::vector<int64_t> NumbersOf(const PickleValue& list) {
  std::vector<int64_t> numbers;
  for (const PickleValue& item : list.items) numbers.push_back(item.number);
  return numbers;
}

// Reads the storage of a persistent id ("storage", type, key, location, elements).
absl::StatusOr<torch::Tensor> ReadStorage(const PickleValue& id, PyTorchStreamReader& reader) {
  if (id.kind != Kind::kPersistent || id.items[0].items.size() < 3 ||
      id.items[0].items[2].kind != Kind::kText) {
    return Unexpected("storage", "something else", "a storage id of torch");
  }
  const std::vector<PickleValue>& parts = id.items[0].items;
  const absl::optional<TensorType> type = FindStorageType(parts[1].text);
  if (!type.has_value()) {
    return Unexpected("storage", absl::StrCat("'", parts[1].text, "'"),
                      "a type such as torch FloatStorage");
  }
  auto [data, bytes] = reader.getRecord(absl::StrCat("data/", parts[2].text));
  const auto count = static_cast<int64_t>(bytes) / RowOf(*type).bytes;
  return torch::from_blob(data.get(), {count}, ToTorch(*type)).clone();
}

// Whether a tensor of these sizes and strides is within `elements`.
bool Fits(int64_t offset, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
          int64_t elements) {
  int64_t last = offset;
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t step = 0;
    if (sizes[i] == 0) return true;
    if (__builtin_mul_overflow(sizes[i] - 1, strides[i], &step) ||
        __builtin_add_overflow(last, step, &last)) {
      return false;
    }
  }
  return last < elements;
}

// Reads a call of _rebuild_tensor_v2(storage, offset, size, stride, …), or of _rebuild_parameter
// with such a call.
absl::StatusOr<torch::Tensor> ParseTensor(const PickleValue& value, PyTorchStreamReader& reader) {
  if (value.IsCall(kRebuildParameter) && value.items.size() > 1) {
    return ParseTensor(value.items[1], reader);
  }
  const std::vector<PickleValue>& items = value.items;
  if (!value.IsCall(kRebuildTensor) || items.size() < 5 || items[2].kind != Kind::kInteger ||
      items[2].number < 0 || !AreNumbers(items[3], items[3].items.size()) ||
      !AreNumbers(items[4], items[3].items.size())) {
    return Unexpected("value", "something else", "a dense tensor, as in a plain state dict");
  }
  const absl::StatusOr<torch::Tensor> storage = ReadStorage(items[1], reader);
  if (!storage.ok()) return storage.status();
  const std::vector<int64_t> sizes = NumbersOf(items[3]);
  const std::vector<int64_t> strides = NumbersOf(items[4]);
  if (!Fits(items[2].number, sizes, strides, storage->numel())) {
    return Unexpected("value", "a tensor beyond its storage",
                      absl::StrCat("one within ", storage->numel(), " elements"));
  }
  return storage->as_strided(sizes, strides, items[2].number).contiguous();
}

absl::StatusOr<Weights> ParseDict(const PickleValue& dict, PyTorchStreamReader& reader) {
  if (dict.kind != Kind::kDict) return Unexpected("file", "something else", "a state dict");
  Weights weights;
  for (size_t i = 0; i < dict.items.size(); i += 2) {
    const std::string& key = dict.items[i].text;
    absl::StatusOr<torch::Tensor> tensor = ParseTensor(dict.items[i + 1], reader);
    if (!tensor.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("'", key, "': ", tensor.status().message()));
    }
    weights.emplace(key, *std::move(tensor));
  }
  return weights;
}

absl::StatusOr<Weights> Parse(absl::string_view bytes) {
  PyTorchStreamReader reader(std::make_shared<MemoryReader>(bytes));
  const auto [data, size] = reader.getRecord("data.pkl");
  const absl::StatusOr<PickleValue> dict =
      ParsePickle(absl::string_view(static_cast<const char*>(data.get()), size));
  if (!dict.ok()) return dict.status();
  return ParseDict(*dict, reader);
}

}  // namespace

bool IsTorchFile(absl::string_view bytes) { return absl::StartsWith(bytes, "PK\x03\x04"); }

absl::StatusOr<Weights> ParseTorchFile(absl::string_view bytes) {
  try {
    return Parse(bytes);
  } catch (const c10::Error& error) {
    return Unexpected("archive", error.what_without_backtrace(),
                      "a complete archive of torch.save");
  }
}

absl::Status StreamTorchFile(const Weights& weights, const WritePiece& write) {
  std::vector<std::pair<std::string, std::string>> entries;
  std::vector<TensorStorage> storages;
  for (const auto& [key, tensor] : weights) {
    const auto number = static_cast<int>(storages.size());
    entries.emplace_back(PickledText(key), PickledTensor(Describe(key, tensor), number));
    storages.push_back(
        {static_cast<int64_t>(tensor.nbytes()), [&tensor = tensor](const WritePiece& write_values) {
           const torch::Tensor row_major = tensor.detach().contiguous();
           write_values({static_cast<const char*>(row_major.data_ptr()), row_major.nbytes()});
           return absl::OkStatus();
         }});
  }
  return StreamTorchArchive(PickleOf(PickledDict(entries)), storages, write);
}

absl::Status WriteTorchFile(const std::string& path, const Weights& weights) {
  return ReplaceFile(
      path, [&weights](const WritePiece& write) { return StreamTorchFile(weights, write); });
}

}  // namespace gradwire
