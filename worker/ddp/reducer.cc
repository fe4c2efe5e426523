#include "worker/ddp/reducer.h"

#include <algorithm>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace gradwire {
namespace {

// Returns what is wrong with `tensor`; empty if it can be used.
std::string WhatIsWrong(const torch::Tensor& tensor) {
  if (!tensor.device().is_cpu()) return absl::StrCat("on ", tensor.device().str());
  return tensor.is_contiguous() ? "" : "not contiguous";
}

absl::Status CheckParameters(const std::vector<torch::Tensor>& parameters) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    std::string wrong = WhatIsWrong(parameters[i]);
    if (wrong.empty() && parameters[i].requires_grad() &&
        parameters[i].scalar_type() != torch::kFloat) {
      wrong = c10::toString(parameters[i].scalar_type());
    }
    if (wrong.empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "parameter ", i, " is ", wrong, ", expected a contiguous one of float32 on the CPU"));
  }
  return absl::OkStatus();
}

absl::Status CheckBuffers(const std::vector<torch::Tensor>& buffers) {
  for (size_t i = 0; i < buffers.size(); ++i) {
    const std::string wrong = WhatIsWrong(buffers[i]);
    if (wrong.empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("buffer ", i, " is ", wrong, ", expected a contiguous one on the CPU"));
  }
  return absl::OkStatus();
}

// Returns the tensors that each rank has for itself.
std::vector<torch::Tensor> OwnTensors(std::vector<torch::Tensor> buffers,
                                      const std::vector<torch::Tensor>& parameters,
                                      bool own_models) {
  for (const torch::Tensor& parameter : parameters) {
    if (own_models && parameter.requires_grad()) buffers.push_back(parameter);
  }
  return buffers;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Reducer>> Reducer::Create(std::vector<torch::Tensor> parameters,
                                                         std::vector<torch::Tensor> buffers,
                                                         const ReducerOptions& options) {
  absl::Status status = CheckParameters(parameters);
  if (status.ok()) status = CheckBuffers(buffers);
  if (!status.ok()) return status;
  return absl::WrapUnique(new Reducer(std::move(parameters), std::move(buffers), options));
}

Reducer::Reducer(std::vector<torch::Tensor> parameters, std::vector<torch::Tensor> buffers,
                 const ReducerOptions& options)
    : updater_(options.updater),
      only_reads_mean_(options.only_reads_mean),
      gradient_(parameters, options.bucket_cap_bytes),
      buffers_(OwnTensors(std::move(buffers), parameters, own_models()),
               options.broadcast_buffers && !own_models(), options.undoable),
      hooks_(&gradient_, options.keep_grad),
      ranks_{Rank(0)} {}

std::vector<BucketSpec> Reducer::BucketSpecs() const {
  std::vector<BucketSpec> specs = gradient_.Specs();
  if (buffers_.travel()) specs.push_back({buffers_.bytes(), v1::DTYPE_BYTES});
  return specs;
}

void Reducer::Attach(Exchange* exchange, LayoutId layout, std::vector<Rank> ranks) {
  ranks_ = std::move(ranks);
  gradient_.Allocate(own_models() ? 1 : ranks_.size(), /*mean=*/!own_models(),
                     {own_models() ? nullptr : exchange, layout, ranks_, only_reads_mean_});
  buffers_.SetRanks(ranks_);
  exchange_.Attach(exchange, layout, bucket_count(), ranks_.size());
}

size_t Reducer::IndexOf(Rank rank) const {
  return static_cast<size_t>(std::find(ranks_.begin(), ranks_.end(), rank) - ranks_.begin());
}

void Reducer::ZeroTerms(Rank rank) {
  for (size_t i = 0; i < gradient_.parameter_count(); ++i) gradient_.Zero(IndexOf(rank), i);
}

void Reducer::Contribute(size_t bucket, Rank rank) {
  const size_t index = IndexOf(rank);
  if (bucket < gradient_buckets()) {
    exchange_.Contribute(bucket, index, rank, BytesOf(gradient_.terms(index, bucket)),
                         BytesOf(gradient_.mean(bucket)));
    return;
  }
  const absl::Span<uint8_t> bytes = buffers_.travelling();
  const bool contributes = rank == Rank(0) || updater_ == Updater::kServer;
  exchange_.Contribute(bucket, index, rank, contributes ? bytes : absl::Span<uint8_t>(), bytes);
}

absl::Status Reducer::StartServed(absl::Duration timeout) {
  exchange_.Begin(Step(0), timeout);
  absl::Status status = ContributeAndTakeModel();
  if (!status.ok()) Abandon(status);
  return status;
}

// The terms of rank 0 are contributed; until then they hold its parameters.
absl::Status Reducer::ContributeAndTakeModel() {
  const torch::NoGradGuard values_only;
  const Rank first = ranks_.front();
  for (size_t bucket = 0; bucket < bucket_count(); ++bucket) {
    const bool buffers = bucket == gradient_buckets();
    absl::Span<uint8_t> terms =
        buffers ? buffers_.travelling() : BytesOf(gradient_.terms(0, bucket));
    const absl::Span<uint8_t> result = buffers ? terms : BytesOf(gradient_.mean(bucket));
    if (!buffers) gradient_.TakeParameters(bucket);
    if (first != Rank(0)) terms = {};
    exchange_.Contribute(bucket, 0, first, terms, result);
  }
  for (size_t i = 0; i < bucket_count(); ++i) {
    const absl::StatusOr<size_t> bucket = NextBucket();
    if (!bucket.ok()) return bucket.status();
    if (*bucket < gradient_buckets()) TakeParameters(*bucket);
  }
  return absl::OkStatus();
}

void Reducer::TakeParameters(size_t bucket) {
  const torch::NoGradGuard values_only;
  const std::vector<torch::Tensor> parameters = ParametersOf(bucket);
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].copy_(mean(bucket, i));
  }
}

void Reducer::ContributeRest(absl::Span<const Rank> ranks) {
  for (size_t bucket = 0; bucket < bucket_count(); ++bucket) {
    for (const Rank rank : ranks) {
      if (!exchange_.Contributed(bucket, IndexOf(rank))) Contribute(bucket, rank);
    }
  }
}

absl::StatusOr<size_t> Reducer::NextBucket() {
  absl::StatusOr<size_t> bucket = exchange_.Next();
  if (bucket.ok() && *bucket == gradient_buckets()) buffers_.Take();
  return bucket;
}

void Reducer::Abandon(const absl::Status& reason) {
  hooks_.Cancel();
  exchange_.Abandon(reason);
}

}  // namespace gradwire
