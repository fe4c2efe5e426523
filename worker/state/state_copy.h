#ifndef GRADWIRE_WORKER_STATE_STATE_COPY_H_
#define GRADWIRE_WORKER_STATE_STATE_COPY_H_

#include <torch/torch.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/state_transfer/state_service.h"
#include "worker/state/held_state.h"

namespace gradwire {

// Returns what safetensors calls a type, such as "F32"; empty for a type without a name there.
std::string StateTypeOf(const torch::Tensor& tensor);

// Tensors of a module by name.
using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;
NamedTensors ParametersOf(const torch::nn::Module& module);

// A tensor of the state, by its key (common/state/state_plan.h).
struct StateTensorRef {
  std::string section;
  std::string key;
  torch::Tensor tensor;  // contiguous, on the CPU
  bool common = false;   // equal on all workers
};

// Tensors that were copied from a trainer; they never change.
class StateCopy : public HeldCopy {
 public:
  // Takes the tensors' memory: no other object may change it any more. Tensors of a section are one
  // after the other.
  explicit StateCopy(std::vector<StateTensorRef> tensors);

  const v1::StateCatalog& catalog() const override { return catalog_; }
  absl::Status Read(const std::string& section, const std::string& key, uint64_t begin,
                    absl::Span<uint8_t> out) override;
  std::vector<TensorDigest> Digests() const override;

 private:
  const std::vector<StateTensorRef> tensors_;
  std::map<std::pair<std::string, std::string>, size_t> places_;
  v1::StateCatalog catalog_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_STATE_STATE_COPY_H_
