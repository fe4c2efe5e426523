#ifndef GRADWIRE_WORKER_STATE_KEPT_STATE_H_
#define GRADWIRE_WORKER_STATE_KEPT_STATE_H_

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/backends/kept_values.h"
#include "worker/ddp/reducer.h"
#include "worker/state/state_copy.h"
#include "worker/state/state_reader.h"

namespace gradwire {

// A part of a bucket's data: the elements of one tensor.
struct PartOfBucket {
  std::string name;
  torch::Tensor tensor;
  int64_t first = 0;  // its first element in the bucket
};
using PartsOfBuckets = std::function<std::vector<PartOfBucket>(size_t bucket)>;

// Returns the parts of a bucket of gradients of a module with these parameters; none for a bucket
// of other data.
std::vector<PartOfBucket> PartsOfGradients(const Reducer& reducer, const NamedTensors& parameters,
                                           size_t bucket);

// Appends copies of what an exchange keeps, in sections codec and residuals (see state_plan.h), by
// the names of the buckets' tensors.
void CopyKept(const std::vector<KeptValues>& kept, const PartsOfBuckets& parts_of,
              std::vector<StateTensorRef>* out);

// Sets what an exchange keeps to the values of a state. Ranges of the mean need not be those of the
// copy. InvalidArgument, which names the tensor, if the state lacks some of them; errors of
// StateReader::Get.
absl::Status RestoreKept(const StateReader& reader, const PartsOfBuckets& parts_of,
                         const std::vector<KeptValues>& kept);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_STATE_KEPT_STATE_H_
