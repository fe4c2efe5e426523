#ifndef GRADWIRE_COMMON_STATE_EXPORT_H_
#define GRADWIRE_COMMON_STATE_EXPORT_H_

#include <string>

#include "absl/status/status.h"
#include "common/state/checkpoint_reader.h"

namespace gradwire {

// Both write a file as the checkpoint is read, with the memory of one part. They replace a file
// only by a whole one. InvalidArgument: the checkpoint is damaged, or the file cannot be written.

// Writes the parameters, and the buffers of the first rank that has some, by their names in torch:
// as safetensors, or for torch.save if `path` ends in .pt or .pth.
absl::Status ExportModel(const CheckpointReader& checkpoint, const std::string& path);

// Writes the optimizer's state as optimizer.state_dict() of torch.optim has it, for an optimizer of
// model.parameters(). Also InvalidArgument if the run's optimizer has no such form.
absl::Status ExportOptimizer(const CheckpointReader& checkpoint, const std::string& path);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_STATE_EXPORT_H_
