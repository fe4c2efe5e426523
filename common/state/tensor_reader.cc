#include "common/state/tensor_reader.h"

#include <algorithm>

#include "absl/types/span.h"

namespace gradwire {

absl::Status TensorReader::Load(int part) {
  if (part == part_) return absl::OkStatus();
  part_ = -1;
  bytes_.resize(static_cast<size_t>(checkpoint_.plan().parts()[part].bytes));
  absl::Status status = checkpoint_.Read(part, absl::MakeSpan(bytes_));
  if (status.ok()) part_ = part;
  return status;
}

absl::Status TensorReader::Read(int section, int tensor, const WritePiece& write) {
  const StatePlan& plan = checkpoint_.plan();
  const StatePlan::Place place = plan.PlaceOf(section, tensor);
  int64_t left = *BytesOf(plan.sections()[section].tensors[tensor].shape,
                          plan.sections()[section].tensors[tensor].type);
  int64_t at = place.begin;
  for (int part = place.part; left > 0; ++part) {
    absl::Status status = Load(part);
    if (!status.ok()) return status;
    const int64_t count = std::min(left, static_cast<int64_t>(bytes_.size()) - at);
    write({reinterpret_cast<const char*>(bytes_.data()) + at, static_cast<size_t>(count)});
    left -= count;
    at = 0;
  }
  return absl::OkStatus();
}

}  // namespace gradwire
