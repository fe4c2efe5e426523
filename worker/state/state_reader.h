#ifndef GRADWIRE_WORKER_STATE_STATE_READER_H_
#define GRADWIRE_WORKER_STATE_STATE_READER_H_

#include <torch/torch.h>

#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gradwire/v1/state.pb.h"

namespace gradwire {

// A state from which tensors are restored.
class StateReader {
 public:
  // Fills `tensor` (contiguous, on the CPU) with the values of a tensor of the catalog.
  using Fetch = std::function<absl::Status(const std::string& section, const std::string& key,
                                           const torch::Tensor& tensor)>;

  StateReader(v1::StateCatalog catalog, Fetch fetch)
      : catalog_(std::move(catalog)), fetch_(std::move(fetch)) {}

  const v1::StateCatalog& catalog() const { return catalog_; }
  // Returns null if there is none.
  const v1::StateTensor* Find(const std::string& section, const std::string& key) const;
  // Fills `tensor` (contiguous, on the CPU). InvalidArgument, which names the tensor, if there is
  // none of its type and shape; or an error of `fetch`.
  absl::Status Get(const std::string& section, const std::string& key,
                   const torch::Tensor& tensor) const;

 private:
  v1::StateCatalog catalog_;
  Fetch fetch_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_STATE_STATE_READER_H_
