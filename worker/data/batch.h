#ifndef GRADWIRE_WORKER_DATA_BATCH_H_
#define GRADWIRE_WORKER_DATA_BATCH_H_

#include <torch/torch.h>

#include <cstdint>

#include "common/base/ids.h"

namespace gradwire {

// What one rank is shown in one step. The tensors are the holder's own: nothing
// else refers to their memory.
struct Batch {
  Step step;             // counted over the whole run
  int64_t epoch = 0;     // pass over the data that the step belongs to, from 0
  int64_t padded = 0;    // how many of the samples are repeats that fill up the ranks
  torch::Tensor images;  // (N, C, H, W), float32, normalised
  torch::Tensor labels;  // (N), int64

  int64_t size() const { return labels.size(0); }
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DATA_BATCH_H_
