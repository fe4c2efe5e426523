#ifndef GRADWIRE_WORKER_STATE_KEPT_STATE_H_
#define GRADWIRE_WORKER_STATE_KEPT_STATE_H_

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gradwire/v1/state.pb.h"
#include "worker/backends/kept_values.h"
#include "worker/state/state_copy.h"

namespace gradwire {

// A part of a bucket's data: the elements of one tensor.
struct PartOfBucket {
  std::string name;
  torch::Tensor tensor;
  int64_t first = 0;  // its first element in the bucket
};
using PartsOfBuckets = std::function<std::vector<PartOfBucket>(size_t bucket)>;

// Appends copies of what an exchange keeps, in sections codec and residuals (see state_plan.h), by
// the names of the buckets' tensors.
void CopyKept(const std::vector<KeptValues>& kept, const PartsOfBuckets& parts_of,
              std::vector<StateTensorRef>* out);

// Gets a tensor of a state; see StateRestorer.
using GetTensor = std::function<absl::Status(const std::string& section, const std::string& key,
                                             const torch::Tensor& tensor)>;

// Sets what an exchange keeps to the values of a state with `catalog`. Ranges of the mean need not
// be those of the copy. InvalidArgument, which names the tensor, if the state lacks some of them;
// errors of `get`.
absl::Status RestoreKept(const v1::StateCatalog& catalog, const GetTensor& get,
                         const PartsOfBuckets& parts_of, const std::vector<KeptValues>& kept);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_STATE_KEPT_STATE_H_
