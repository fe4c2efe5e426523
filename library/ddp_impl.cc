#include "library/ddp_impl.h"

#include <spdlog/spdlog.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/clock.h"
#include "worker/ddp/model_layout.h"
#include "worker/run/from_options.h"

namespace gradwire {
namespace {

absl::Status DisarmedStatus() { return absl::CancelledError("the pass averages nothing"); }

}  // namespace

DistributedDataParallel::Impl::Impl(std::shared_ptr<torch::nn::Module> module,
                                    std::shared_ptr<ProcessGroup> group, ProcessGroup::Impl* run,
                                    const DDPOptions& options)
    : module_(std::move(module)),
      group_(std::move(group)),
      run_(run),
      member_(run->member()),
      options_(options),
      name_(options.name.empty() ? run->NextModelName() : options.name),
      buffers_(module_->buffers()),
      step_(run->member().view().first_step) {
  for (const auto& item : module_->named_parameters()) names_.push_back(item.key());
  if (absl::Status status = Attach(); !status.ok()) run_->Check(member_.Fail(status));
  Arm();
}

DistributedDataParallel::Impl::~Impl() {
  if (state_ != nullptr) {
    WarnIfNotKept();
    run_->SetKeepLast(nullptr).IgnoreError();
    member_.Forget();
  }
  reducer_->Abandon(absl::CancelledError("the model was detached in the middle of a step"));
}

absl::Status DistributedDataParallel::Impl::Attach() {
  if (absl::Status state = member_.state(); !state.ok()) return state;
  if (absl::Status added = run_->AddModel(); !added.ok()) return added;
  const std::vector<torch::Tensor> parameters = module_->parameters();
  ReducerOptions options;
  options.bucket_cap_bytes = options_.bucket_cap_mb * (1 << 20);
  options.broadcast_buffers = options_.broadcast_buffers;
  options.keep_grad = !options_.gradient_as_bucket_view;
  absl::StatusOr<std::unique_ptr<Reducer>> reducer = Reducer::Create(parameters, buffers_, options);
  if (!reducer.ok()) return WithName(reducer.status());
  reducer_ = *std::move(reducer);
  if (reducer_->gradient_buckets() == 0) {
    return absl::InvalidArgumentError("got a module without a parameter that requires a gradient");
  }
  if (absl::Status connected = Connect(); !connected.ok()) return connected;
  std::vector<torch::Tensor> values = parameters;
  values.insert(values.end(), buffers_.begin(), buffers_.end());
  absl::Status status = run_->collectives().BroadcastAll(values, Rank(0));
  if (!status.ok()) return status;
  for (size_t bucket = 0; bucket < reducer_->gradient_buckets(); ++bucket) {
    slots_.emplace_back();
    for (const torch::Tensor& parameter : reducer_->ParametersOf(bucket)) {
      size_t index = 0;
      while (!parameters[index].is_same(parameter)) ++index;
      slots_.back().push_back({parameter, index});
    }
  }
  return absl::OkStatus();
}

absl::Status DistributedDataParallel::Impl::Connect() {
  const Compression& compression = member_.settings().compression;
  Layout tensors = LayoutOf(*module_);
  // Is no tensor, but must be equal on all ranks: it costs a message in each pass.
  const char* const finds = options_.find_unused_parameters ? "true" : "false";
  tensors.push_back({"option find_unused_parameters", {}, finds, /*buffer=*/true});
  const std::vector<Rank> ranks = {member_.rank()};
  if (!compression.has_factors()) {
    const auto layout = member_.Declare(name_, tensors, reducer_->BucketSpecs());
    if (!layout.ok()) return layout.status();
    layout_ = *layout;
    reducer_->Attach(&member_.exchange(), layout_, ranks);
    return absl::OkStatus();
  }
  auto low_rank =
      ConnectLowRank(&member_.member(), name_, tensors, *reducer_, compression, member_.view());
  if (!low_rank.ok()) return member_.Fail(low_rank.status());
  low_rank_ = *std::move(low_rank);
  reducer_->Attach(low_rank_.get(), LayoutId(0), ranks);
  return absl::OkStatus();
}

// Replaces "parameter 3 …" by the parameter's name.
absl::Status DistributedDataParallel::Impl::WithName(const absl::Status& status) const {
  absl::string_view rest = status.message();
  if (!absl::ConsumePrefix(&rest, "parameter ")) return status;
  const absl::string_view digits = rest.substr(0, rest.find_first_of(": "));
  size_t index = 0;
  if (!absl::SimpleAtoi(digits, &index) || index >= names_.size()) return status;
  return absl::Status(status.code(), absl::StrCat("parameter ", index, " ('", names_[index], "')",
                                                  rest.substr(digits.size())));
}

void DistributedDataParallel::Impl::Fail(const absl::Status& status) {
  const absl::Status told = member_.Fail(WithName(status));
  reducer_->Abandon(told);
  Arm();  // so that later passes throw it, too
  run_->Check(told, static_cast<int64_t>(member_.step().value()));
  throw ToError(absl::InternalError("the run failed for an unknown reason"), -1, -1);
}

void DistributedDataParallel::Impl::Arm() {
  reducer_->BeginStep(step_, member_.settings().step_timeout);
  reducer_->BeginForward(member_.rank());
  PassListener listener;
  listener.on_begin = [this] { OnBegin(); };
  listener.on_bucket = [this](size_t bucket) { reducer_->Contribute(bucket, member_.rank()); };
  listener.on_error = [this](const absl::Status& status) { Fail(status); };
  reducer_->BeginPass(member_.rank(), std::move(listener));
}

void DistributedDataParallel::Impl::OnBegin() {
  begin_ = SteadyNow();
  absl::Status state = member_.state();
  if (state.ok()) state = CheckResumed();
  if (!state.ok()) Fail(state);
  if (!next_.has_value()) member_.KeepsNoState();
  active_.clear();
  if (joining_) AskWhoIsActive(true);
  if (joining_ && join_options_.throw_on_early_termination) {
    active_ = TakeAnswers();
    ThrowIfEarly(active_);
  }
  torch::autograd::Engine::get_default_engine().queue_callback([this] { OnEnd(); });
  reducer_->EndForward(member_.rank());
  KeepBuffers();
  const size_t gradients = reducer_->gradient_buckets();
  if (reducer_->bucket_count() > gradients) reducer_->Contribute(gradients, member_.rank());
}

void DistributedDataParallel::Impl::OnEnd() {
  backward_end_ = SteadyNow();
  absl::Status status = reducer_->EndPass();
  if (status.ok()) status = CheckAllUsed();
  if (status.ok() && joining_ && active_.empty()) active_ = TakeAnswers();
  if (status.ok()) status = Finish(active_, /*has_data=*/true);
  if (!status.ok()) Fail(status);
  Report();
  ++step_;
  if (no_sync_ == 0) Arm();
}

absl::Status DistributedDataParallel::Impl::CheckAllUsed() const {
  if (options_.find_unused_parameters) return absl::OkStatus();
  std::vector<std::string> names;
  for (const size_t index : reducer_->Unused()) {
    names.push_back(absl::StrCat("'", names_[index], "'"));
  }
  if (names.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "rank ", member_.rank().value(), ", step ", member_.step().value(),
      ": backward gave no gradient to ", absl::StrJoin(names, ", "),
      "; expected one for every parameter, or the option find_unused_parameters (reentrant "
      "checkpoints, which run backward within backward, are not supported)"));
}

absl::StatusOr<std::vector<bool>> DistributedDataParallel::Impl::UsedAnywhere(bool has_data) {
  std::vector<bool> used(names_.size(), true);
  if (!options_.find_unused_parameters) return used;
  torch::Tensor mine = torch::full({static_cast<int64_t>(names_.size())}, has_data, torch::kInt);
  if (has_data) {
    // A gradient from earlier passes is averaged.
    for (const size_t index : reducer_->WithoutGradient()) mine[static_cast<int64_t>(index)] = 0;
  }
  absl::Status status = run_->collectives().AllReduce(mine, ReduceOp::kSum);
  if (!status.ok()) return status;
  for (size_t i = 0; i < used.size(); ++i) used[i] = mine.data_ptr<int>()[i] > 0;
  return used;
}

absl::Status DistributedDataParallel::Impl::Finish(const Active& active, bool has_data) {
  const Rank rank = member_.rank();
  reducer_->ContributeRest({&rank, 1});
  const absl::StatusOr<std::vector<bool>> used = UsedAnywhere(has_data);
  if (!used.ok()) return used.status();
  double scale = 1;
  if (!active.empty() && !join_options_.divide_by_initial_world_size) {
    scale = static_cast<double>(active.size()) /
            static_cast<double>(std::count(active.begin(), active.end(), true));
  }
  absl::Status status = TakeMeans(has_data ? *used : std::vector<bool>(used->size()), scale);
  return status.ok() ? ShareBuffers(active) : status;
}

// Sets the gradients of parameters that are `used`; the others keep theirs.
absl::Status DistributedDataParallel::Impl::TakeMeans(const std::vector<bool>& used, double scale) {
  const torch::NoGradGuard values_only;
  for (size_t left = reducer_->bucket_count(); left > 0; --left) {
    const absl::StatusOr<size_t> bucket = reducer_->NextBucket();
    if (!bucket.ok()) return bucket.status();
    if (*bucket == slots_.size()) continue;  // the bucket of the buffers
    for (size_t i = 0; i < slots_[*bucket].size(); ++i) {
      if (used[slots_[*bucket][i].index]) SetGradient(*bucket, i, scale);
    }
  }
  return absl::OkStatus();
}

void DistributedDataParallel::Impl::SetGradient(size_t bucket, size_t index, double scale) {
  const torch::Tensor& parameter = slots_[bucket][index].parameter;
  torch::Tensor mean = reducer_->mean(bucket, index);
  if (scale != 1) mean.mul_(scale);
  if (options_.gradient_as_bucket_view) {
    // The same memory, but no view, because zero_grad() cannot detach a view.
    parameter.mutable_grad() =
        torch::empty({0}, mean.options())
            .set_(mean.storage(), mean.storage_offset(), mean.sizes(), mean.strides());
  } else if (parameter.grad().defined()) {
    parameter.mutable_grad().copy_(mean);
  } else {
    parameter.mutable_grad() = mean.clone();
  }
}

// A step begins at the end of the one before it, which another model may have done: even in this
// backward pass.
void DistributedDataParallel::Impl::Report() {
  const absl::Time now = SteadyNow();
  const absl::Time start = std::max(made_, member_.last_end());
  begin_ = std::max(begin_, start);
  StepRecord record;
  record.loss_told = loss_.has_value();
  record.loss = loss_.value_or(std::numeric_limits<double>::quiet_NaN());
  record.samples = samples_;
  record.iteration = now - start;
  record.phases = reducer_->times();
  if (low_rank_ != nullptr) {
    record.compressed = compression_.OnStep(low_rank_->totals().compressed);
  }
  record.phases[Phase::kForward] = begin_ - start;
  record.phases[Phase::kBackward] = backward_end_ - begin_;
  if (const OnSpan on_span = member_.span_listener()) {
    const Step step = member_.step();
    const auto lane = TraceSpan::Lane::kCompute;
    on_span({lane, "forward", step, Bucket(0), start, begin_});
    on_span({lane, "backward", step, Bucket(0), begin_, backward_end_});
    on_span({lane, "wait", step, Bucket(0), backward_end_, now});
  }
  member_.Report(record, now);
  loss_.reset();
  samples_ = 0;
}

void DistributedDataParallel::Impl::SetLoss(double loss, int64_t samples) {
  loss_ = loss;
  samples_ = samples;
}

void DistributedDataParallel::Impl::BeginNoSync() {
  if (no_sync_++ == 0) reducer_->Abandon(DisarmedStatus());
}

void DistributedDataParallel::Impl::EndNoSync() {
  if (--no_sync_ == 0) Arm();
}

}  // namespace gradwire
