#include "library/allocated_tensors.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/ddp/flat_gradient.h"

namespace gradwire {
namespace {

constexpr int64_t kMostElements = std::numeric_limits<int64_t>::max() / sizeof(float);

// Returns the number of elements; InvalidArgument unless it is positive.
absl::StatusOr<int64_t> ElementsOf(torch::IntArrayRef sizes) {
  int64_t elements = 1;
  for (const int64_t size : sizes) {
    if (size <= 0 || elements > kMostElements / size) {
      return absl::InvalidArgumentError(
          absl::StrCat("got sizes [", absl::StrJoin(sizes.begin(), sizes.end(), ", "),
                       "], expected positive ones of at most ", kMostElements, " elements"));
    }
    elements *= size;
  }
  return elements;
}

torch::Tensor TensorIn(const Exchange::Memory& memory, torch::IntArrayRef sizes) {
  if (memory.bytes.empty()) return torch::zeros(sizes);
  return torch::from_blob(memory.bytes.data(), sizes, [owner = memory.owner](void*) {});
}

}  // namespace

absl::StatusOr<torch::Tensor> AllocatedTensors::Allocate(torch::IntArrayRef sizes) {
  const absl::StatusOr<int64_t> elements = ElementsOf(sizes);
  if (!elements.ok()) return elements.status();
  const std::string name = absl::StrCat("tensor ", entries_.size());
  const Layout tensors = {{name, sizes.vec(), "float32", true}};
  const uint64_t bytes = static_cast<uint64_t>(*elements) * sizeof(float);
  const auto layout = member_->Declare(name, tensors, {{bytes, v1::DTYPE_FLOAT32}});
  if (!layout.ok()) return layout.status();
  Exchange& exchange = member_->exchange();
  const Exchange::Memory mean = exchange.ResultMemory(*layout, Bucket(0));
  // Without the mean in place the exchange may round, and terms in place would gain little.
  const Exchange::Memory terms = mean.bytes.empty()
                                     ? Exchange::Memory()
                                     : exchange.TermsMemory(*layout, Bucket(0), member_->rank());
  Entry entry = {*layout, member_->view().first_step, TensorIn(terms, sizes),
                 TensorIn(mean, sizes)};
  const torch::Tensor tensor = entry.tensor;
  entries_.emplace(tensor.data_ptr(), std::move(entry));
  return tensor;
}

AllocatedTensors::Entry* AllocatedTensors::Find(const torch::Tensor& tensor) {
  if (!tensor.defined() || !tensor.device().is_cpu() || tensor.layout() != torch::kStrided ||
      tensor.scalar_type() != torch::kFloat || !tensor.is_contiguous()) {
    return nullptr;
  }
  const auto found = entries_.find(tensor.data_ptr());
  if (found == entries_.end() || found->second.tensor.numel() != tensor.numel()) return nullptr;
  return &found->second;
}

absl::Status AllocatedTensors::Average(Entry* entry) {
  const WholeBucket bucket = {BytesOf(entry->mean), {{member_->rank(), BytesOf(entry->tensor)}}};
  WholeStep step(&member_->exchange(), entry->layout, entry->next, {&bucket, 1},
                 member_->StepDeadline());
  ++entry->next;
  // So that autograd notices if it has kept the mean before.
  entry->mean.unsafeGetTensorImpl()->bump_version();
  const absl::Status status = step.Wait();
  return status.ok() ? status : member_->Fail(status);
}

}  // namespace gradwire
