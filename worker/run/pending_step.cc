#include "worker/run/pending_step.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/wire/chunk.h"
#include "common/wire/view.h"
#include "worker/learning/clip_norm.h"
#include "worker/learning/sliced_optimizer.h"

namespace gradwire {
namespace {

bool Before(const TensorDigest& a, const TensorDigest& b) { return a.tensor < b.tensor; }

std::vector<SlicedOptimizer> OptimizersOf(const Reducer& reducer, const OptimizerKind& kind) {
  std::vector<SlicedOptimizer> optimizers;
  for (size_t i = 0; i < reducer.gradient_buckets(); ++i) {
    optimizers.emplace_back(reducer.ParametersOf(i), kind);
  }
  return optimizers;
}

// Returns the factor of a gradient for clipping; `gradient_of` returns its buckets.
template <typename GradientOfBucket>
float ScaleFor(const Reducer& reducer, double clip_norm, const GradientOfBucket& gradient_of) {
  std::vector<std::pair<size_t, torch::Tensor>> parts;  // by parameter
  for (size_t bucket = 0; bucket < reducer.gradient_buckets(); ++bucket) {
    const torch::Tensor gradient = gradient_of(bucket);
    const std::vector<size_t> indices = reducer.IndicesOf(bucket);
    const std::vector<torch::Tensor> parameters = reducer.ParametersOf(bucket);
    int64_t begin = 0;
    for (size_t i = 0; i < indices.size(); ++i) {
      parts.emplace_back(indices[i], gradient.narrow(0, begin, parameters[i].numel()));
      begin += parameters[i].numel();
    }
  }
  std::sort(parts.begin(), parts.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<torch::Tensor> gradients;
  for (auto& [index, gradient] : parts) gradients.push_back(std::move(gradient));
  return ClipScale(gradients, clip_norm);
}

// One optimizer applies the mean of all ranks, or the gradient of the only one. All workers do the
// same.
class MeanStep : public PendingStep {
 public:
  MeanStep(const Model* model, Reducer* reducer, const UpdateOptions& options,
           const OptimizerKind& kind)
      : PendingStep(model, reducer, options), optimizers_(OptimizersOf(*reducer, kind)) {}

  absl::Span<SlicedOptimizer> Optimizers(size_t) override { return absl::MakeSpan(optimizers_); }

  absl::Status End() override {
    const std::string nonfinite = std::exchange(nonfinite_, "");
    if (nonfinite.empty()) return absl::OkStatus();
    const std::string what = absl::StrCat("step ", step().value(), ": ", nonfinite);
    if (options_.on_nonfinite == Nonfinite::kStop) {
      absl::Status stop = absl::OutOfRangeError(what);
      stop.SetPayload(kOfAll, absl::Cord());
      return stop;
    }
    spdlog::warn("{}; its update is left out", what);
    Undo();
    TakeDigests();
    for (StepRecord& report : reports_) report.skipped = true;
    return absl::OkStatus();
  }

 private:
  // A gradient that may have to be scaled is applied when all of it has arrived.
  void Apply(size_t bucket) override {
    const torch::Tensor gradient = GradientOf(bucket);
    const bool looks = options_.on_nonfinite != Nonfinite::kIgnore && nonfinite_.empty();
    if (looks && !AllFinite(gradient)) nonfinite_ = DescribeNonfinite(bucket);
    if (options_.clip_norm == 0) Step(bucket, gradient);
  }
  void ApplyRest() override {
    if (options_.clip_norm == 0) return;
    const float scale = ScaleFor(*reducer_, options_.clip_norm,
                                 [this](size_t bucket) { return GradientOf(bucket); });
    for (size_t bucket = 0; bucket < optimizers_.size(); ++bucket) {
      Step(bucket, Scaled(GradientOf(bucket), scale));
    }
  }
  void Step(size_t bucket, const torch::Tensor& gradient) {
    if (undoable_.has_value() || options_.on_nonfinite == Nonfinite::kSkip) {
      saved_.push_back(bucket);
      optimizers_[bucket].Save();
    }
    optimizers_[bucket].Step(gradient, reports_.front().lr);
    if (undoable_.has_value() && IsCompared()) AddDigests(bucket);
  }
  void Undo() override {
    for (const size_t bucket : saved_) optimizers_[bucket].Undo();
    saved_.clear();
    nonfinite_.clear();
  }
  void Forget() override { saved_.clear(); }

  // Names the bucket's first parameter with such a gradient, and the carried ranks that contributed
  // one.
  std::string DescribeNonfinite(size_t bucket) const {
    const torch::Tensor gradient = GradientOf(bucket);
    const std::vector<torch::Tensor> parameters = reducer_->ParametersOf(bucket);
    int64_t first = 0;
    size_t i = 0;
    while (AllFinite(gradient.narrow(0, first, parameters[i].numel()))) {
      first += parameters[i++].numel();
    }
    std::vector<Rank> from;
    for (const Rank rank : reducer_->ranks()) {
      if (!AllFinite(reducer_->terms(bucket, rank))) from.push_back(rank);
    }
    const std::string name = model_->named_parameters().keys()[reducer_->IndicesOf(bucket)[i]];
    return absl::StrCat(
        "the mean gradient of ", name, " is not finite",
        from.empty() ? "" : absl::StrCat(", because of the gradient of ", NameOf(from)));
  }

  std::vector<SlicedOptimizer> optimizers_;  // by bucket
  std::vector<size_t> saved_;                // buckets to undo
  std::string nonfinite_;  // why the gradient is not finite; empty if it is, or is not checked
};

// Each rank has its own model and optimizer, which applies its own gradient.
class OwnStep : public PendingStep {
 public:
  OwnStep(const Model* model, Reducer* reducer, const UpdateOptions& options,
          const OptimizerKind& kind)
      : PendingStep(model, reducer, options), kind_(kind) {}

  absl::Span<SlicedOptimizer> Optimizers(size_t index) override {
    while (optimizers_.size() <= index) optimizers_.push_back(OptimizersOf(*reducer_, kind_));
    return absl::MakeSpan(optimizers_[index]);
  }

  void OnRankDone(size_t index, Rank rank, double lr) override {
    const absl::Span<SlicedOptimizer> optimizers = Optimizers(index);
    const auto gradient_of = [&](size_t bucket) { return reducer_->terms(bucket, rank); };
    const float scale =
        options_.clip_norm > 0 ? ScaleFor(*reducer_, options_.clip_norm, gradient_of) : 1;
    for (size_t i = 0; i < optimizers.size(); ++i) {
      optimizers[i].Step(Scaled(gradient_of(i), scale), lr);
    }
    reducer_->EndForward(rank);
  }

 private:
  void Apply(size_t) override {}

  const OptimizerKind kind_;
  std::vector<std::vector<SlicedOptimizer>> optimizers_;  // by carried rank and bucket
};

// The optimizer runs where the model is served; parameters arrive.
class ParameterServerStep : public PendingStep {
 public:
  ParameterServerStep(const Model* model, Reducer* reducer, const UpdateOptions& options)
      : PendingStep(model, reducer, options) {}

 private:
  void Apply(size_t bucket) override { reducer_->TakeParameters(bucket); }
};

}  // namespace

absl::StatusOr<std::unique_ptr<PendingStep>> PendingStep::Create(const Model* model,
                                                                 Reducer* reducer,
                                                                 const UpdateOptions& options) {
  const absl::StatusOr<OptimizerKind> kind = FindOptimizer(options.optimizer);
  if (!kind.ok()) return kind.status();
  switch (reducer->updater()) {
    case Updater::kRank:
      return std::make_unique<OwnStep>(model, reducer, options, *kind);
    case Updater::kServer:
      return std::make_unique<ParameterServerStep>(model, reducer, options);
    case Updater::kAll:
      break;
  }
  return std::make_unique<MeanStep>(model, reducer, options, *kind);
}

void PendingStep::OnRankDone(size_t, Rank, double) {}

void PendingStep::Begin(std::vector<StepRecord> reports, const PhaseTimes& times, bool averaged) {
  reports_ = std::move(reports);
  times_ = times;
  averaged_ = averaged;
  updated_.assign(reducer_->bucket_count(), false);
  to_update_ = updated_.size();
}

void PendingStep::Update(size_t bucket) {
  if (bucket < reducer_->gradient_buckets()) Apply(bucket);
  updated_[bucket] = true;
  if (--to_update_ == 0) ApplyRest();
}

std::vector<StepRecord> PendingStep::TakeReports(absl::Duration iteration) {
  for (StepRecord& report : reports_) {
    report.iteration = iteration;
    report.phases = times_;
  }
  if (!undoable_.has_value()) Forget();
  return std::exchange(reports_, {});
}

std::vector<TensorDigest> PendingStep::TakeDigests() {
  std::sort(digests_.begin(), digests_.end(), Before);
  return std::exchange(digests_, {});
}

void PendingStep::Keep() {
  reducer_->Keep();
  undoable_.reset();
  Forget();
}

void PendingStep::Rewind(Step first) {
  if (undoable_.has_value() && *undoable_ < first) Keep();
  Undo();
  undoable_.reset();
  first_ = first;
  digests_.clear();
}

bool PendingStep::IsCompared() const {
  const auto every = static_cast<uint64_t>(options_.compare_every);
  return every > 0 && (step() == first_ || step().value() % every == 0);
}

void PendingStep::AddDigests(size_t bucket) {
  const std::vector<torch::Tensor> parameters = reducer_->ParametersOf(bucket);
  const std::vector<size_t> indices = reducer_->IndicesOf(bucket);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto* const elements = static_cast<const uint8_t*>(parameters[i].data_ptr());
    digests_.push_back({indices[i], Checksum({elements, parameters[i].nbytes()})});
  }
}

}  // namespace gradwire
