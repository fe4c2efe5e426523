#include <ATen/TensorIterator.h>

#include <array>
#include <cstring>
#include <utility>

#include "worker/learning/update.h"

namespace gradwire {
namespace {

// Old and new moments take turns in two buffers, so a step that may be undone copies none of them.
// Parameters have one place, where all others read them; the pass that updates them also saves
// them.
class FusedUpdate : public Update {
 public:
  FusedUpdate(absl::Span<const torch::Tensor> parameters, const OptimizerKind& kind)
      : kind_(kind), moments_(kind.fused.moments()) {
    for (const torch::Tensor& parameter : parameters) {
      parameters_.push_back(parameter.detach().view({-1}));
      elements_ += parameter.numel();
    }
  }

  void Step(const torch::Tensor& gradient, double learning_rate) override;
  void Save() override { saves_next_ = true; }
  void Undo() override;
  std::vector<torch::Tensor> State() const override;
  void SetState(const std::vector<torch::Tensor>& state) override;

 private:
  using Moments = std::vector<torch::Tensor>;  // of all parameters, one after the other

  bool has_state() const { return step_ > 0 && moments_ > 0; }
  void MakeMoments(Moments* moments) const;
  void StepOf(size_t parameter, int64_t first, const torch::Tensor& gradient, double rate);

  const OptimizerKind kind_;
  const size_t moments_;
  std::vector<torch::Tensor> parameters_;
  int64_t elements_ = 0;
  int64_t step_ = 0;  // steps done; for SGD only whether it is 0 counts
  std::array<Moments, 2> turns_;
  size_t turn_ = 0;  // of turns_: the moments after step_
  std::vector<torch::Tensor> saved_;
  int64_t saved_step_ = 0;
  size_t saved_turn_ = 0;
  bool saves_next_ = false;  // Save was called, and no step since
};

void FusedUpdate::MakeMoments(Moments* moments) const {
  while (moments->size() < moments_) moments->push_back(torch::empty({elements_}));
}

void FusedUpdate::Step(const torch::Tensor& gradient, double learning_rate) {
  const size_t next = saves_next_ ? 1 - turn_ : turn_;
  MakeMoments(&turns_[turn_]);
  MakeMoments(&turns_[next]);
  if (saves_next_) {
    saved_step_ = step_;
    saved_turn_ = std::exchange(turn_, next);
    while (saved_.size() < parameters_.size()) {
      saved_.push_back(torch::empty_like(parameters_[saved_.size()]));
    }
  }
  ++step_;
  int64_t first = 0;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    StepOf(i, first, gradient, learning_rate);
    first += parameters_[i].numel();
  }
  saves_next_ = false;
}

// torch's iterator divides the elements among torch's threads.
void FusedUpdate::StepOf(size_t parameter, int64_t first, const torch::Tensor& gradient,
                         double rate) {
  const torch::Tensor& values = parameters_[parameter];
  const int64_t count = values.numel();
  const bool saves = saves_next_;
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false).resize_outputs(false).add_owned_output(values);
  if (saves) config.add_owned_output(saved_[parameter]);
  for (const torch::Tensor& moment : turns_[turn_]) {
    config.add_owned_output(moment.narrow(0, first, count));
  }
  for (const torch::Tensor& moment : turns_[saves ? saved_turn_ : turn_]) {
    config.add_owned_input(moment.narrow(0, first, count));
  }
  config.add_owned_input(gradient.narrow(0, first, count));
  at::TensorIterator iterator = config.build();
  iterator.for_each([&](char** data, const int64_t* /*strides*/, int64_t elements) {
    FusedRange range;
    range.count = static_cast<size_t>(elements);
    const auto take = [&data] { return reinterpret_cast<float*>(*data++); };
    range.parameters = take();
    if (saves) range.saved = take();
    for (size_t i = 0; i < moments_; ++i) range.new_moments[i] = take();
    for (size_t i = 0; i < moments_; ++i) range.old_moments[i] = take();
    range.gradient = take();
    kind_.kernel(kind_.fused, rate, step_, range);
  });
}

void FusedUpdate::Undo() {
  if (std::exchange(saves_next_, false)) return;  // no step since
  for (size_t i = 0; i < parameters_.size(); ++i) {
    std::memcpy(parameters_[i].data_ptr(), saved_[i].data_ptr(), saved_[i].nbytes());
  }
  step_ = saved_step_;
  turn_ = saved_turn_;
}

std::vector<torch::Tensor> FusedUpdate::State() const {
  std::vector<torch::Tensor> state;
  if (!has_state()) return state;
  if (kind_.fused.kind == FusedRule::Kind::kAdam) {
    state.push_back(torch::scalar_tensor(step_, torch::kLong));
  }
  for (const torch::Tensor& moment : turns_[turn_]) state.push_back(moment.clone());
  return state;
}

void FusedUpdate::SetState(const std::vector<torch::Tensor>& state) {
  saves_next_ = false;
  step_ = 0;
  if (state.empty()) return;
  const bool has_step = kind_.fused.kind == FusedRule::Kind::kAdam;
  step_ = has_step ? state.front().item<int64_t>() : 1;
  MakeMoments(&turns_[turn_]);
  for (size_t i = 0; i < moments_; ++i) turns_[turn_][i].copy_(state[i + (has_step ? 1 : 0)]);
}

// Gives the bits of torch's optimizer for several steps of values of all sizes.
bool HasBitsOfTorch(const OptimizerKind& kind) {
  constexpr int64_t kElements = 1031;  // not a multiple of a vector or tile
  constexpr double kRates[] = {0.1, 0.03, 0.007};
  const torch::Tensor values = torch::linspace(-3, 3, kElements).pow(3);
  const torch::Tensor expected = values.clone(), got = values.clone();
  const std::unique_ptr<Update> torch_update = MakeTorchUpdate({expected}, kind);
  const std::unique_ptr<Update> fused = MakeFusedUpdate({got}, kind);
  for (const double rate : kRates) {
    const torch::Tensor gradient = values.mul(rate).sin();
    torch_update->Step(gradient, rate);
    fused->Save();
    fused->Step(gradient, rate);
    if (std::memcmp(expected.data_ptr(), got.data_ptr(), got.nbytes()) != 0) return false;
  }
  return true;
}

}  // namespace

std::unique_ptr<Update> MakeFusedUpdate(absl::Span<const torch::Tensor> parameters,
                                        const OptimizerKind& kind) {
  return std::make_unique<FusedUpdate>(parameters, kind);
}

FusedKernel FindFusedKernel(const OptimizerKind& kind) {
  OptimizerKind tried = kind;
  for (const FusedKernel kernel : FusedKernels()) {
    tried.kernel = kernel;
    if (HasBitsOfTorch(tried)) return kernel;
  }
  return nullptr;
}

}  // namespace gradwire
