#ifndef GRADWIRE_COMMON_STATE_TENSOR_READER_H_
#define GRADWIRE_COMMON_STATE_TENSOR_READER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/base/output_file.h"
#include "common/state/checkpoint_reader.h"

namespace gradwire {

// Reads tensors of a checkpoint one after the other. Keeps the last part, because a part has many
// small tensors; so memory is that of one part. Not thread-safe.
class TensorReader {
 public:
  // `checkpoint` must outlive it.
  explicit TensorReader(const CheckpointReader& checkpoint) : checkpoint_(checkpoint) {}

  // Passes the checked values of a tensor of the plan's section, in pieces, in order. Errors of
  // CheckpointReader::Read, after which some pieces may have been passed.
  absl::Status Read(int section, int tensor, const WritePiece& write);

 private:
  absl::Status Load(int part);

  const CheckpointReader& checkpoint_;
  int part_ = -1;
  std::vector<uint8_t> bytes_;  // of the part
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_STATE_TENSOR_READER_H_
