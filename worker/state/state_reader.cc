#include "worker/state/state_reader.h"

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_util.h"
#include "worker/state/state_copy.h"

namespace gradwire {

const v1::StateTensor* StateReader::Find(const std::string& section, const std::string& key) const {
  for (const v1::StateSection& candidate : catalog_.sections()) {
    if (candidate.name() != section) continue;
    for (const v1::StateTensor& tensor : candidate.tensors()) {
      if (tensor.key() == key) return &tensor;
    }
  }
  return nullptr;
}

absl::Status StateReader::Get(const std::string& section, const std::string& key,
                              const torch::Tensor& tensor) const {
  const std::string what = absl::StrCat("checkpoint: tensor '", key, "' of section ", section);
  const v1::StateTensor* const found = Find(section, key);
  if (found == nullptr) return Unexpected(what, "none", "one, as the model and optimizer have");
  const std::vector<int64_t> shape(found->shape().begin(), found->shape().end());
  if (found->dtype() != StateTypeOf(tensor) || shape != tensor.sizes().vec()) {
    return Unexpected(
        what, absl::StrCat(found->dtype(), " [", absl::StrJoin(shape, ", "), "]"),
        absl::StrCat(StateTypeOf(tensor), " [", absl::StrJoin(tensor.sizes().vec(), ", "), "]"));
  }
  return fetch_(section, key, tensor);
}

}  // namespace gradwire
