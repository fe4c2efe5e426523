#include "library/tensor_collectives.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/wire/chunk.h"

namespace gradwire {
namespace {

// From here on a float32 mean goes the way of gradients, which moves 2 bytes for each of the
// tensor's in place of W.
constexpr size_t kFoldedBytes = 256 << 10;
constexpr uint64_t kAskSignature = 1;

absl::Span<uint8_t> BytesOf(const torch::Tensor& tensor) {
  return {static_cast<uint8_t*>(tensor.data_ptr()), tensor.nbytes()};
}

uint64_t SignatureOf(absl::string_view operation, const torch::Tensor& tensor) {
  const std::string text =
      absl::StrCat(operation, " ", c10::toString(tensor.scalar_type()), " ",
                   absl::StrJoin(tensor.sizes().begin(), tensor.sizes().end(), ","));
  return Checksum({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

absl::Status CheckTensor(const torch::Tensor& tensor) {
  std::string wrong;
  if (!tensor.defined()) {
    wrong = "an undefined tensor";
  } else if (!tensor.device().is_cpu()) {
    wrong = absl::StrCat("a tensor on ", tensor.device().str());
  } else if (tensor.layout() != torch::kStrided) {
    wrong = "a sparse tensor";
  }
  if (wrong.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("got ", wrong, ", expected a dense one on the CPU"));
}

absl::Status CheckNumbers(const torch::Tensor& tensor) {
  if (absl::Status status = CheckTensor(tensor); !status.ok()) return status;
  const torch::ScalarType type = tensor.scalar_type();
  if (c10::isFloatingType(type) || c10::isIntegralType(type, /*includeBool=*/false)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("got a tensor of ", c10::toString(type),
                                                 ", expected floating point or integers"));
}

}  // namespace

// Sums in rank order: the same bits on all ranks.
absl::Status TensorCollectives::FoldSlice(uint64_t signature, torch::Tensor slice, ReduceOp op) {
  const int64_t ranks = member_->world_size();
  const torch::Tensor all = torch::empty({ranks, slice.numel()}, slice.options());
  absl::Status status = collectives_.Gather(signature, BytesOf(slice), BytesOf(all));
  if (!status.ok()) return status;
  const bool is_float = slice.is_floating_point();
  torch::Tensor sum = torch::zeros({slice.numel()}, is_float ? torch::kDouble : torch::kLong);
  for (int64_t rank = 0; rank < ranks; ++rank) sum.add_(all[rank].to(sum.scalar_type()));
  if (op == ReduceOp::kMean && is_float) sum.div_(ranks);
  if (op == ReduceOp::kMean && !is_float) sum.div_(ranks, "trunc");
  slice.copy_(sum);
  return absl::OkStatus();
}

absl::Status TensorCollectives::AllReduce(torch::Tensor tensor, ReduceOp op) {
  if (absl::Status status = CheckNumbers(tensor); !status.ok()) return status;
  const torch::NoGradGuard values_only;
  const torch::Tensor flat = tensor.detach().contiguous().view({-1});
  const bool mean = op == ReduceOp::kMean;
  const uint64_t signature = SignatureOf(mean ? "mean" : "sum", tensor);
  absl::Status status;
  if (mean && flat.scalar_type() == torch::kFloat && flat.nbytes() >= kFoldedBytes &&
      member_->settings().wire_dtype == v1::DTYPE_FLOAT32) {
    status =
        collectives_.Mean(signature, {flat.data_ptr<float>(), static_cast<size_t>(flat.numel())});
  } else {
    const auto most = static_cast<int64_t>(ByteCollectives::kMaxPiece / flat.element_size());
    int64_t first = 0;
    do {
      const int64_t count = std::min(most, flat.numel() - first);
      status = FoldSlice(signature, flat.narrow(0, first, count), op);
      first += count;
    } while (status.ok() && first < flat.numel());
  }
  if (status.ok() && flat.data_ptr() != tensor.data_ptr()) {
    tensor.detach().copy_(flat.view(tensor.sizes()));
  }
  return status;
}

absl::Status TensorCollectives::Broadcast(torch::Tensor tensor, Rank root) {
  if (absl::Status status = CheckTensor(tensor); !status.ok()) return status;
  if (root.value() < 0 || root.value() >= member_->world_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("got root ", root.value(), ", expected 0 to ", member_->world_size() - 1));
  }
  const torch::NoGradGuard values_only;
  const torch::Tensor flat = tensor.detach().contiguous();
  const uint64_t signature = SignatureOf("broadcast", tensor);
  const absl::Status status = collectives_.Broadcast(signature, root, BytesOf(flat));
  if (status.ok() && flat.data_ptr() != tensor.data_ptr()) tensor.detach().copy_(flat);
  return status;
}

absl::Status TensorCollectives::BroadcastAll(const std::vector<torch::Tensor>& tensors, Rank root) {
  std::vector<torch::Tensor> bytes;
  for (const torch::Tensor& tensor : tensors) {
    bytes.push_back(
        torch::from_blob(tensor.data_ptr(), {static_cast<int64_t>(tensor.nbytes())}, torch::kByte));
  }
  if (bytes.empty()) return absl::OkStatus();
  const torch::Tensor all = torch::cat(bytes);
  if (absl::Status status = Broadcast(all, root); !status.ok()) return status;
  int64_t first = 0;
  for (const torch::Tensor& tensor : bytes) {
    tensor.copy_(all.narrow(0, first, tensor.numel()));
    first += tensor.numel();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<torch::Tensor>> TensorCollectives::AllGather(
    const torch::Tensor& tensor) {
  if (absl::Status status = CheckTensor(tensor); !status.ok()) return status;
  const torch::NoGradGuard values_only;
  const torch::Tensor mine = tensor.detach().contiguous();
  std::vector<int64_t> sizes = {member_->world_size()};
  sizes.insert(sizes.end(), mine.sizes().begin(), mine.sizes().end());
  const torch::Tensor all = torch::empty(sizes, mine.options());
  const uint64_t signature = SignatureOf("all_gather", tensor);
  absl::Status status = collectives_.Gather(signature, BytesOf(mine), BytesOf(all));
  if (!status.ok()) return status;
  std::vector<torch::Tensor> tensors;
  for (int64_t rank = 0; rank < sizes[0]; ++rank) tensors.push_back(all[rank].clone());
  return tensors;
}

absl::Status TensorCollectives::BeginAsk(bool mine) {
  const uint8_t answer = mine ? 1 : 0;
  return collectives_.BeginGather(kAskSignature, {&answer, 1});
}

absl::StatusOr<std::vector<bool>> TensorCollectives::EndAsk() {
  std::vector<uint8_t> answers(static_cast<size_t>(member_->world_size()));
  if (absl::Status status = collectives_.EndGather(absl::MakeSpan(answers)); !status.ok()) {
    return status;
  }
  return std::vector<bool>(answers.begin(), answers.end());
}

}  // namespace gradwire
