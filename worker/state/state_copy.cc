#include "worker/state/state_copy.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/wire/xxh3.h"
#include "worker/weights/tensor_types.h"

namespace gradwire {
namespace {

v1::StateCatalog CatalogOf(const std::vector<StateTensorRef>& tensors) {
  v1::StateCatalog catalog;
  v1::StateSection* section = nullptr;
  for (const StateTensorRef& ref : tensors) {
    if (section == nullptr || section->name() != ref.section) {
      section = catalog.add_sections();
      section->set_name(ref.section);
    }
    v1::StateTensor& tensor = *section->add_tensors();
    tensor.set_key(ref.key);
    tensor.set_dtype(StateTypeOf(ref.tensor));
    for (const int64_t size : ref.tensor.sizes()) tensor.add_shape(size);
  }
  return catalog;
}

}  // namespace

NamedTensors ParametersOf(const torch::nn::Module& module) {
  NamedTensors named;
  for (const auto& item : module.named_parameters()) named.emplace_back(item.key(), item.value());
  return named;
}

std::string StateTypeOf(const torch::Tensor& tensor) {
  const absl::optional<TensorType> type = FromTorch(tensor.scalar_type());
  return type.has_value() ? RowOf(*type).name : "";
}

StateCopy::StateCopy(std::vector<StateTensorRef> tensors)
    : tensors_(std::move(tensors)), catalog_(CatalogOf(tensors_)) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    places_[{tensors_[i].section, tensors_[i].key}] = i;
  }
}

absl::Status StateCopy::Read(const std::string& section, const std::string& key, uint64_t begin,
                             absl::Span<uint8_t> out) {
  const auto place = places_.find({section, key});
  if (place == places_.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("got tensor '", key, "' of section ", section, ", which is not held here"));
  }
  const torch::Tensor& tensor = tensors_[place->second].tensor;
  if (begin > tensor.nbytes() || out.size() > tensor.nbytes() - begin) {
    return absl::InvalidArgumentError(absl::StrCat("got bytes ", begin, " to ", begin + out.size(),
                                                   " of '", key, "', expected at most ",
                                                   tensor.nbytes()));
  }
  std::memcpy(out.data(), static_cast<const uint8_t*>(tensor.data_ptr()) + begin, out.size());
  return absl::OkStatus();
}

std::vector<TensorDigest> StateCopy::Digests() const {
  std::vector<TensorDigest> digests;
  for (const StateTensorRef& ref : tensors_) {
    if (!ref.common) continue;
    digests.push_back(
        {digests.size(), Xxh3InUse().whole(ref.tensor.data_ptr(), ref.tensor.nbytes())});
  }
  return digests;
}

}  // namespace gradwire
