#include "worker/sync/local_sync.h"

#include <utility>

#include "common/base/clock.h"

namespace gradwire {

namespace {

constexpr Phase kOfTransfers[] = {Phase::kCommunication, Phase::kExposedCommunication};

}  // namespace

LocalSync::LocalSync(Reducer* reducer, const SyncOptions& options, const OuterStep& outer)
    : Synchronizer(reducer), options_(options), outer_(outer) {}

LocalSync::~LocalSync() { exchange_.Abandon(absl::CancelledError("training is over")); }

// Returns the tensors by bucket.
std::vector<std::vector<torch::Tensor>> LocalSync::Tensors() const {
  std::vector<std::vector<torch::Tensor>> tensors;
  for (size_t i = 0; i < reducer().gradient_buckets(); ++i) {
    tensors.push_back(reducer().ParametersOf(i));
  }
  if (!options_.averaged_buffers.empty()) tensors.push_back(options_.averaged_buffers);
  return tensors;
}

std::vector<BucketSpec> LocalSync::BucketSpecs() const {
  std::vector<BucketSpec> specs;
  for (const std::vector<torch::Tensor>& tensors : Tensors()) {
    specs.push_back({0, v1::DTYPE_FLOAT32});
    for (const torch::Tensor& tensor : tensors) specs.back().bytes += tensor.nbytes();
  }
  return specs;
}

void LocalSync::Attach(Exchange* exchange, LayoutId layout, std::vector<Rank> ranks) {
  pseudo_gradient_ = std::make_unique<PseudoGradient>(Tensors(), !options_.averaged_buffers.empty(),
                                                      ranks.size(), outer_);
  exchange_.Attach(exchange, layout, pseudo_gradient_->bucket_count(), ranks.size());
  reducer().Attach(nullptr, layout, std::move(ranks));
}

bool LocalSync::IsLast(Step step) const {
  return static_cast<int64_t>(step.value()) + 1 >= options_.total_steps;
}

bool LocalSync::IsDue(Step step) const {
  return IsLast(step) || (step.value() + 1) % static_cast<uint64_t>(options_.interval) == 0;
}

absl::Status LocalSync::OnStepDone(Step step) {
  Stopwatch watch;
  const absl::Duration waited = times_[Phase::kExposedCommunication];
  one_ = at_border_ = false;
  const absl::Status status = ExchangeIfDue(step);
  CountTransfers();
  times_[Phase::kOptimizer] += watch.Lap() - (times_[Phase::kExposedCommunication] - waited);
  return status;
}

absl::Status LocalSync::ExchangeIfDue(Step step) {
  absl::Status status;
  if (under_way_ && (step == due_ || IsLast(step))) status = Use(/*one=*/false);
  if (!status.ok() || !IsDue(step)) return status;
  Send(*pseudo_gradient_);
  under_way_ = true;
  at_border_ = false;
  due_ = Step(step.value() + static_cast<uint64_t>(options_.delay));
  return options_.delay == 0 || IsLast(step) ? Use(/*one=*/true) : absl::OkStatus();
}

// Contributes each bucket as soon as the worker's last rank has measured it.
void LocalSync::Send(PseudoGradient& pseudo_gradient) {
  CountTransfers();
  counted_ = {};
  exchange_.Begin(next_, options_.step_timeout);
  ++next_;
  arrived_ = false;
  for (size_t i = 0; i < reducer().ranks().size(); ++i) {
    reducer().BeginForward(reducer().ranks()[i]);
    for (size_t bucket = 0; bucket < pseudo_gradient.bucket_count(); ++bucket) {
      pseudo_gradient.Measure(bucket, i);
      exchange_.Contribute(bucket, i, reducer().ranks()[i],
                           pseudo_gradient.pseudo_gradient(bucket, i),
                           pseudo_gradient.mean(bucket));
    }
  }
}

absl::Status LocalSync::Arrive() {
  for (size_t i = 0; !arrived_ && i < pseudo_gradient_->bucket_count(); ++i) {
    const absl::StatusOr<size_t> bucket = exchange_.Next();
    if (!bucket.ok()) return bucket.status();
  }
  arrived_ = true;
  return absl::OkStatus();
}

// `one`: no rank has trained since its pseudo-gradient was measured.
absl::Status LocalSync::Use(bool one) {
  if (absl::Status status = Arrive(); !status.ok()) return status;
  under_way_ = false;
  one_ = one;
  at_border_ = true;
  Give(*pseudo_gradient_, one);
  return absl::OkStatus();
}

void LocalSync::Give(PseudoGradient& pseudo_gradient, bool one) {
  for (size_t bucket = 0; bucket < pseudo_gradient.bucket_count(); ++bucket)
    pseudo_gradient.Step(bucket);
  for (size_t i = 0; i < reducer().ranks().size(); ++i) {
    reducer().BeginForward(reducer().ranks()[i]);
    for (size_t bucket = 0; bucket < pseudo_gradient.bucket_count(); ++bucket) {
      if (one) pseudo_gradient.Reset(bucket);
      if (!one) pseudo_gradient.Correct(bucket, i);
    }
    reducer().EndForward(reducer().ranks()[i]);
  }
}

// Adds the transfers' time since the last count.
void LocalSync::CountTransfers() {
  const PhaseTimes now = exchange_.times();
  for (const Phase phase : kOfTransfers) times_[phase] += now[phase] - counted_[phase];
  counted_ = now;
}

// With a delay, the models of a border differ by what was trained during the exchange.
void LocalSync::BeginAt(Step first) {
  next_ = first;
  one_ = first == Step(0) || options_.delay == 0;
}

PhaseTimes LocalSync::TakeTimes() { return std::exchange(times_, {}); }

void LocalSync::Abandon(const absl::Status& reason) {
  reducer().Abandon(reason);
  exchange_.Abandon(reason);
}

// Returns copies of the module's exchanged tensors.
std::vector<torch::Tensor> LocalSync::Copies() {
  std::vector<torch::Tensor> copies;
  for (const std::vector<torch::Tensor>& tensors : Tensors()) {
    for (const torch::Tensor& tensor : tensors) copies.push_back(tensor.detach().clone());
  }
  return copies;
}

absl::Status LocalSync::BeginEvaluation() {
  if (one_) return absl::OkStatus();
  CountTransfers();
  // The layout has one step at a time; the result is used when it is due. No iteration includes
  // this wait.
  if (under_way_) {
    if (absl::Status status = Arrive(); !status.ok()) return status;
    counted_ = exchange_.times();
  }
  for (const Rank rank : reducer().ranks()) {
    reducer().BeginForward(rank);
    kept_.push_back(Copies());
  }
  const absl::Status status = MakeAllTheirMean();
  counted_ = exchange_.times();  // belongs to no step
  return status;
}

// From the same anchor on all ranks, with a plain outer step.
absl::Status LocalSync::MakeAllTheirMean() {
  PseudoGradient mean(Tensors(), !options_.averaged_buffers.empty(), reducer().ranks().size(),
                      OuterStep());
  PseudoGradient::State state = mean.Capture();
  state.anchors = pseudo_gradient_->Capture().anchors;
  absl::Status status = mean.Restore(state);
  if (!status.ok()) return status;
  Send(mean);
  status = Arrive();
  if (status.ok()) {
    Give(mean, /*one=*/true);
  } else {
    exchange_.Abandon(status);  // it uses `mean`
  }
  return status;
}

void LocalSync::EndEvaluation() {
  const torch::NoGradGuard values_only;
  for (size_t i = 0; i < kept_.size(); ++i) {
    reducer().BeginForward(reducer().ranks()[i]);
    auto copy = kept_[i].begin();
    for (const std::vector<torch::Tensor>& tensors : Tensors()) {
      for (torch::Tensor tensor : tensors) tensor.copy_(*copy++);
    }
    reducer().EndForward(reducer().ranks()[i]);
  }
  kept_.clear();
}

// The outer step adds the mean change of the ranks' models, so the result is their mean: Stich,
// "Local SGD converges fast and communicates little", ICLR 2019.
std::unique_ptr<Synchronizer> MakeLocalSgdSync(Reducer* reducer, const SyncOptions& options) {
  return std::make_unique<LocalSync>(reducer, options, OuterStep{1, 0});
}

// Douillard et al., "DiLoCo: distributed low-communication training of language models", 2023.
std::unique_ptr<Synchronizer> MakeDilocoSync(Reducer* reducer, const SyncOptions& options) {
  return std::make_unique<LocalSync>(reducer, options, options.outer);
}

}  // namespace gradwire
