#include "common/tensors/stored_tensor.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gradwire {
namespace {

constexpr TensorTypeRow kTypes[] = {{TensorType::kFloat64, "F64", "torch DoubleStorage", 8},
                                    {TensorType::kFloat32, "F32", "torch FloatStorage", 4},
                                    {TensorType::kFloat16, "F16", "torch HalfStorage", 2},
                                    {TensorType::kBfloat16, "BF16", "torch BFloat16Storage", 2},
                                    {TensorType::kInt64, "I64", "torch LongStorage", 8},
                                    {TensorType::kInt32, "I32", "torch IntStorage", 4},
                                    {TensorType::kInt16, "I16", "torch ShortStorage", 2},
                                    {TensorType::kInt8, "I8", "torch CharStorage", 1},
                                    {TensorType::kUint8, "U8", "torch ByteStorage", 1},
                                    {TensorType::kBool, "BOOL", "torch BoolStorage", 1}};

// Returns the first element whose bits of `exponent` are all set, as those of infinities and NaN.
template <typename Bits>
int64_t FindFullExponent(absl::string_view bytes, Bits exponent) {
  const auto count = static_cast<int64_t>(bytes.size() / sizeof(Bits));
  for (int64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + i * sizeof(Bits), sizeof(Bits));
    if ((bits & exponent) == exponent) return i;
  }
  return -1;
}

}  // namespace

const TensorTypeRow& RowOf(TensorType type) { return kTypes[static_cast<int>(type)]; }

absl::optional<TensorType> FindTensorType(absl::string_view name) {
  for (const TensorTypeRow& row : kTypes) {
    if (name == row.name) return row.type;
  }
  return absl::nullopt;
}

absl::optional<TensorType> FindStorageType(absl::string_view storage) {
  for (const TensorTypeRow& row : kTypes) {
    if (storage == row.storage) return row.type;
  }
  return absl::nullopt;
}

bool operator==(const StoredTensor& a, const StoredTensor& b) {
  return a.key == b.key && a.type == b.type && a.shape == b.shape;
}

absl::optional<int64_t> BytesOf(const std::vector<int64_t>& shape, TensorType type) {
  int64_t bytes = RowOf(type).bytes;
  bool is_empty = false;
  for (const int64_t size : shape) {
    is_empty |= size == 0;
    if (size < 0 || __builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes)) {
      return absl::nullopt;
    }
  }
  return is_empty ? 0 : bytes;
}

std::string Describe(const StoredTensor& tensor) {
  return absl::StrCat(RowOf(tensor.type).name, " [", absl::StrJoin(tensor.shape, ", "), "]");
}

int64_t FindNonFinite(TensorType type, absl::string_view bytes) {
  switch (type) {
    case TensorType::kFloat64:
      return FindFullExponent<uint64_t>(bytes, 0x7ff0000000000000);
    case TensorType::kFloat32:
      return FindFullExponent<uint32_t>(bytes, 0x7f800000);
    case TensorType::kFloat16:
      return FindFullExponent<uint16_t>(bytes, 0x7c00);
    case TensorType::kBfloat16:
      return FindFullExponent<uint16_t>(bytes, 0x7f80);
    default:
      return -1;
  }
}

}  // namespace gradwire
