#include "library/tensor_collectives.h"

#include <ATen/MemoryOverlap.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/wire/chunk.h"
#include "worker/ddp/flat_gradient.h"

namespace gradwire {

namespace {

constexpr size_t kSignature = sizeof(uint64_t);
constexpr size_t kLeastPiece = 1 << 10;

size_t PieceFor(size_t bytes) {
  size_t piece = kLeastPiece;
  while (piece < bytes) piece *= 2;
  return piece;
}

// Calls `body(first, count)` for pieces of at most kMaxPiece bytes, at least once.
template <typename Body>
absl::Status ForEachPiece(size_t bytes, const Body& body) {
  size_t first = 0;
  do {
    const size_t count = std::min(bytes - first, ByteCollectives::kMaxPiece);
    if (absl::Status status = body(first, count); !status.ok()) return status;
    first += count;
  } while (first < bytes);
  return absl::OkStatus();
}

absl::Status OtherCall(Rank rank) {
  return absl::AbortedError(
      absl::StrCat("rank ", rank.value(),
                   " called another collective, or passed a tensor of another type or shape; "
                   "expected the same on all ranks"));
}

uint64_t SignatureAt(const uint8_t* data) {
  uint64_t signature;
  std::memcpy(&signature, data, kSignature);
  return signature;
}

}  // namespace

// Returns the name of a call, for messages to ranks that made another one.
std::string ByteCollectives::NameOf(Kind kind, Rank root) {
  if (kind == Kind::kGather) return "all_gather";
  if (kind == Kind::kGatherInHalves) return "all_gather in halves";
  return kind == Kind::kMean ? "mean" : absl::StrCat("broadcast from rank ", root.value());
}

absl::StatusOr<ByteCollectives::Channel> ByteCollectives::Open(Kind kind, Rank root, size_t piece) {
  std::vector<BucketSpec> buckets;
  if (kind == Kind::kGather || kind == Kind::kGatherInHalves) {
    for (int rank = 0; rank < member_->world_size(); ++rank) {
      buckets.push_back({piece, v1::DTYPE_BYTES, Rank(rank)});
    }
  } else {
    buckets.push_back({piece, kind == Kind::kMean ? v1::DTYPE_FLOAT32 : v1::DTYPE_BYTES, root});
  }
  const bool gated = kind != Kind::kMean;
  const size_t bytes = piece * buckets.size();
  if (gated) buckets.push_back({sizeof(float), v1::DTYPE_FLOAT32});
  const std::string name = NameOf(kind, root);
  const Layout tensors = {{name, {static_cast<int64_t>(piece)}, "bytes", true}};
  const absl::StatusOr<LayoutId> id = member_->Declare(name, tensors, buckets);
  if (!id.ok()) return id.status();
  return Channel{*id, member_->view().first_step, piece, std::vector<uint8_t>(bytes), gated};
}

absl::StatusOr<ByteCollectives::Channel*> ByteCollectives::ChannelFor(Kind kind, Rank root,
                                                                      size_t bytes) {
  if (absl::Status state = member_->state(); !state.ok()) return state;
  const size_t piece = PieceFor(bytes);
  const auto key = std::make_tuple(kind, root, piece);
  auto found = channels_.find(key);
  if (found == channels_.end()) {
    absl::StatusOr<Channel> channel = Open(kind, root, piece);
    if (!channel.ok()) return channel.status();
    found = channels_.emplace(key, *std::move(channel)).first;
  }
  return &found->second;
}

std::unique_ptr<ByteCollectives::Call> ByteCollectives::Start(Channel* channel, size_t own,
                                                              const uint8_t* terms) {
  const size_t piece = channel->piece;
  const Rank self = member_->rank();
  auto call = std::make_unique<Call>();
  call->channel = channel;
  std::vector<WholeBucket> buckets(channel->data.size() / piece);
  for (size_t i = 0; i < buckets.size(); ++i) {
    buckets[i].result = {channel->data.data() + i * piece, piece};
  }
  if (own < buckets.size()) buckets[own].terms = {{self, {terms, piece}}};
  if (channel->gated) {
    static constexpr float kNothing = 0;
    buckets.push_back({{reinterpret_cast<uint8_t*>(&call->mean), sizeof(call->mean)},
                       {{self, {reinterpret_cast<const uint8_t*>(&kNothing), sizeof(kNothing)}}}});
  }
  call->step.emplace(&member_->exchange(), channel->id, channel->next, buckets,
                     member_->StepDeadline());
  ++channel->next;
  return call;
}

absl::Status ByteCollectives::Await(Call* call) {
  const absl::Status status = call->step->Wait();
  return status.ok() ? status : member_->Fail(status);
}

absl::Status ByteCollectives::Run(Channel* channel, size_t own, const uint8_t* terms) {
  return Await(Start(channel, own, terms).get());
}

absl::StatusOr<std::unique_ptr<ByteCollectives::Call>> ByteCollectives::StartGather(
    Kind kind, uint64_t signature, absl::Span<const uint8_t> mine) {
  const absl::StatusOr<Channel*> channel = ChannelFor(kind, Rank(0), kSignature + mine.size());
  if (!channel.ok()) return channel.status();
  const size_t own = static_cast<size_t>(member_->rank().value());
  uint8_t* const terms = (*channel)->data.data() + own * (*channel)->piece;
  std::memcpy(terms, &signature, kSignature);
  std::copy(mine.begin(), mine.end(), terms + kSignature);
  return Start(*channel, own, terms);
}

// Takes `size` bytes of each rank; `all` may be null to drop them.
absl::Status ByteCollectives::TakeGathered(Call* call, uint64_t signature, size_t size,
                                           uint8_t* all, size_t stride) {
  if (absl::Status status = Await(call); !status.ok()) return status;
  const Channel& channel = *call->channel;
  for (int rank = 0; rank < member_->world_size(); ++rank) {
    const uint8_t* from = channel.data.data() + static_cast<size_t>(rank) * channel.piece;
    if (SignatureAt(from) != signature) {
      return member_->Fail(OtherCall(Rank(rank)), /*of_all=*/true);
    }
    if (size == 0) continue;
    std::copy_n(from + kSignature, size, all + static_cast<size_t>(rank) * stride);
  }
  return absl::OkStatus();
}

absl::Status ByteCollectives::GatherPiece(uint64_t signature, absl::Span<const uint8_t> mine,
                                          uint8_t* all, size_t stride) {
  auto call = StartGather(Kind::kGather, signature, mine);
  if (!call.ok()) return call.status();
  return TakeGathered(call->get(), signature, mine.size(), all, stride);
}

absl::Status ByteCollectives::BeginGather(uint64_t signature, absl::Span<const uint8_t> mine) {
  auto call = StartGather(Kind::kGatherInHalves, signature, mine);
  if (!call.ok()) return call.status();
  begun_ = *std::move(call);
  begun_signature_ = signature;
  begun_size_ = mine.size();
  return absl::OkStatus();
}

absl::Status ByteCollectives::EndGather(absl::Span<uint8_t> all) {
  const std::unique_ptr<Call> call = std::move(begun_);
  return TakeGathered(call.get(), begun_signature_, begun_size_, all.data(), begun_size_);
}

absl::Status ByteCollectives::Gather(uint64_t signature, absl::Span<const uint8_t> mine,
                                     absl::Span<uint8_t> all) {
  return ForEachPiece(mine.size(), [&](size_t first, size_t count) {
    return GatherPiece(signature, mine.subspan(first, count), all.data() + first, mine.size());
  });
}

absl::Status ByteCollectives::BroadcastPiece(uint64_t signature, Rank root,
                                             absl::Span<uint8_t> bytes) {
  const absl::StatusOr<Channel*> channel =
      ChannelFor(Kind::kBroadcast, root, kSignature + bytes.size());
  if (!channel.ok()) return channel.status();
  uint8_t* const data = (*channel)->data.data();
  const bool is_root = member_->rank() == root;
  if (is_root) {
    std::memcpy(data, &signature, kSignature);
    std::copy(bytes.begin(), bytes.end(), data + kSignature);
  }
  if (absl::Status status = Run(*channel, is_root ? 0 : 1, data); !status.ok()) return status;
  if (SignatureAt(data) != signature) return member_->Fail(OtherCall(root), /*of_all=*/true);
  std::copy_n(data + kSignature, bytes.size(), bytes.begin());
  return absl::OkStatus();
}

absl::Status ByteCollectives::Broadcast(uint64_t signature, Rank root, absl::Span<uint8_t> bytes) {
  return ForEachPiece(bytes.size(), [&](size_t first, size_t count) {
    return BroadcastPiece(signature, root, bytes.subspan(first, count));
  });
}

absl::Status ByteCollectives::MeanPiece(absl::Span<float> values) {
  const size_t bytes = values.size() * sizeof(float);
  const absl::StatusOr<Channel*> channel = ChannelFor(Kind::kMean, Rank(0), bytes);
  if (!channel.ok()) return channel.status();
  std::vector<uint8_t> terms((*channel)->piece);  // zero after the values
  std::memcpy(terms.data(), values.data(), bytes);
  if (absl::Status status = Run(*channel, 0, terms.data()); !status.ok()) return status;
  std::memcpy(values.data(), (*channel)->data.data(), bytes);
  return absl::OkStatus();
}

absl::Status ByteCollectives::Mean(uint64_t signature, absl::Span<float> values) {
  std::vector<uint8_t> nothing;
  if (absl::Status same = GatherPiece(signature, nothing, nothing.data(), 0); !same.ok()) {
    return same;
  }
  return ForEachPiece(values.size() * sizeof(float), [&](size_t first, size_t count) {
    return MeanPiece(values.subspan(first / sizeof(float), count / sizeof(float)));
  });
}

namespace {

// From this size on a float32 mean is exchanged like gradients: 2 bytes for each byte of the tensor
// instead of W.
constexpr size_t kFoldedBytes = 256 << 10;
constexpr uint64_t kAskSignature = 1;

uint64_t SignatureOf(absl::string_view operation, const torch::Tensor& tensor) {
  const std::string text =
      absl::StrCat(operation, " ", c10::toString(tensor.scalar_type()), " ",
                   absl::StrJoin(tensor.sizes().begin(), tensor.sizes().end(), ","));
  return Checksum({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

// Returns a tensor whose memory holds the values in order, even those of a lazy conjugate or
// negative: the memory of `tensor` if that does.
torch::Tensor ValuesOf(const torch::Tensor& tensor) {
  return tensor.detach().resolve_conj().resolve_neg().contiguous();
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

// For a tensor that is changed.
absl::Status CheckOwnMemory(const torch::Tensor& tensor) {
  if (absl::Status status = CheckTensor(tensor); !status.ok()) return status;
  if (at::has_internal_overlap(tensor) != at::MemOverlap::Yes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "got a tensor whose elements share memory, as after expand(), expected one that has memory "
      "for each; clone() it");
}

absl::Status CheckNumbers(const torch::Tensor& tensor) {
  if (absl::Status status = CheckOwnMemory(tensor); !status.ok()) return status;
  const torch::ScalarType type = tensor.scalar_type();
  if (c10::isFloatingType(type) || c10::isIntegralType(type, /*includeBool=*/false)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("got a tensor of ", c10::toString(type),
                                                 ", expected floating point or integers"));
}

}  // namespace

// Sums in rank order, for the same bits on all ranks.
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

// All ranks must average the same tensor; its layout alone would leave them waiting for each other.
absl::Status TensorCollectives::Average(AllocatedTensors::Entry* entry) {
  const uint64_t signature =
      SignatureOf(absl::StrCat("mean of layout ", entry->layout.value()), entry->tensor);
  if (absl::Status same = collectives_.Gather(signature, {}, {}); !same.ok()) return same;
  return allocated_.Average(entry);
}

absl::StatusOr<torch::Tensor> TensorCollectives::Mean(const torch::Tensor& tensor) {
  AllocatedTensors::Entry* const entry = allocated_.Find(tensor);
  if (entry == nullptr) {
    return absl::InvalidArgumentError("got another tensor, expected one that allocate() returned");
  }
  const torch::NoGradGuard values_only;
  if (!CanFold()) entry->mean.copy_(entry->tensor);
  const absl::Status status = CanFold() ? Average(entry) : AllReduce(entry->mean, ReduceOp::kMean);
  if (!status.ok()) return status;
  return entry->mean.view(tensor.sizes());
}

namespace {

// After a change of memory that torch does not see: so that autograd notices if it has kept the
// values before.
void MarkChanged(const torch::Tensor& flat) {
  if (!flat.is_inference()) flat.unsafeGetTensorImpl()->bump_version();
}

}  // namespace

absl::Status TensorCollectives::AllReduce(torch::Tensor tensor, ReduceOp op) {
  if (absl::Status status = CheckNumbers(tensor); !status.ok()) return status;
  const torch::NoGradGuard values_only;
  AllocatedTensors::Entry* const entry = allocated_.Find(tensor);
  if (entry != nullptr && op == ReduceOp::kMean && CanFold()) {
    const absl::Status status = Average(entry);
    if (status.ok()) tensor.detach().copy_(entry->mean.view(tensor.sizes()));
    return status;
  }
  const torch::Tensor flat = ValuesOf(tensor).view({-1});
  const bool mean = op == ReduceOp::kMean;
  const uint64_t signature = SignatureOf(mean ? "mean" : "sum", tensor);
  absl::Status status;
  if (mean && flat.scalar_type() == torch::kFloat && flat.nbytes() >= kFoldedBytes && CanFold()) {
    status =
        collectives_.Mean(signature, {flat.data_ptr<float>(), static_cast<size_t>(flat.numel())});
    MarkChanged(flat);  // even if it failed
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
  if (absl::Status status = CheckOwnMemory(tensor); !status.ok()) return status;
  if (root.value() < 0 || root.value() >= member_->world_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("got root ", root.value(), ", expected 0 to ", member_->world_size() - 1));
  }
  const torch::NoGradGuard values_only;
  const torch::Tensor flat = ValuesOf(tensor);
  const uint64_t signature = SignatureOf("broadcast", tensor);
  const absl::Status status = collectives_.Broadcast(signature, root, BytesOf(flat));
  MarkChanged(flat);
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
  const torch::Tensor mine = ValuesOf(tensor);
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

absl::Status TensorCollectives::BeginAsk(uint8_t mine) {
  return collectives_.BeginGather(kAskSignature, {&mine, 1});
}

absl::StatusOr<std::vector<uint8_t>> TensorCollectives::EndAsk() {
  std::vector<uint8_t> answers(static_cast<size_t>(member_->world_size()));
  if (absl::Status status = collectives_.EndGather(absl::MakeSpan(answers)); !status.ok()) {
    return status;
  }
  return answers;
}

}  // namespace gradwire
