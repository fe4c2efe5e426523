// DistributedDataParallel::join: for ranks with different numbers of batches.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "library/ddp_impl.h"

namespace gradwire {
namespace {

// Bits of a rank's answer: whether it has data, and its options.
constexpr uint8_t kHasData = 1, kDividesByAll = 2, kThrowsEarly = 4;

uint8_t AnswerOf(bool has_data, const JoinOptions& options) {
  return static_cast<uint8_t>((has_data ? kHasData : 0) |
                              (options.divide_by_initial_world_size ? kDividesByAll : 0) |
                              (options.throw_on_early_termination ? kThrowsEarly : 0));
}

int OptionsIn(uint8_t answer) { return answer & (kDividesByAll | kThrowsEarly); }

bool AnyOf(const std::vector<bool>& active) {
  return std::find(active.begin(), active.end(), true) != active.end();
}

Rank HighestOf(const std::vector<bool>& active) {
  int rank = static_cast<int>(active.size()) - 1;
  while (rank > 0 && !active[static_cast<size_t>(rank)]) --rank;
  return Rank(rank);
}

}  // namespace

// All ranks ask in each pass, before they contribute anything.
void DistributedDataParallel::Impl::AskWhoIsActive(bool self) {
  const uint8_t answer = AnswerOf(self, join_options_);
  if (absl::Status status = run_->collectives().BeginAsk(answer); !status.ok()) Fail(status);
}

DistributedDataParallel::Impl::Active DistributedDataParallel::Impl::TakeAnswers() {
  const absl::StatusOr<std::vector<uint8_t>> answers = run_->collectives().EndAsk();
  if (!answers.ok()) Fail(answers.status());
  const int own = OptionsIn(AnswerOf(true, join_options_));
  Active active;
  for (const uint8_t answer : *answers) {
    if (OptionsIn(answer) != own) {
      Fail(absl::InvalidArgumentError(
          absl::StrCat("join: rank ", active.size(), " has other JoinOptions than rank ",
                       member_.rank().value(), ", expected the same on all ranks")));
    }
    active.push_back((answer & kHasData) != 0);
  }
  return active;
}

// The run itself continues: all ranks throw this at the same point.
void DistributedDataParallel::Impl::ThrowIfEarly(const Active& active) {
  const auto first = std::find(active.begin(), active.end(), false);
  if (!join_options_.throw_on_early_termination || first == active.end()) return;
  reducer_->Abandon(absl::CancelledError("a rank has run out of data"));
  Arm();
  run_->Check(absl::AbortedError(absl::StrCat(
                  "rank ", first - active.begin(),
                  " has run out of data, and the option throw_on_early_termination is set")),
              static_cast<int64_t>(member_.step().value()));
}

// As in PyTorch, join takes the buffers of the highest rank that has data: rank 0's, which arrive
// with the gradients, are outdated once it has none.
void DistributedDataParallel::Impl::KeepBuffers() {
  own_buffers_.clear();
  if (!joining_ || !options_.broadcast_buffers) return;
  for (const torch::Tensor& buffer : buffers_) own_buffers_.push_back(buffer.clone());
}

absl::Status DistributedDataParallel::Impl::ShareBuffers(const Active& active) {
  if (active.empty() || !options_.broadcast_buffers) return absl::OkStatus();
  const Rank source = HighestOf(active);
  if (source == Rank(0)) return absl::OkStatus();
  const torch::NoGradGuard values_only;
  for (size_t i = 0; i < own_buffers_.size(); ++i) buffers_[i].copy_(own_buffers_[i]);
  return run_->collectives().BroadcastAll(buffers_, source);
}

// Runs one averaging pass without data.
void DistributedDataParallel::Impl::Shadow(const Active& active) {
  reducer_->Abandon(absl::CancelledError("the rank has run out of data"));
  reducer_->EndForward(member_.rank());
  KeepBuffers();
  reducer_->ZeroTerms(member_.rank());
  const size_t gradients = reducer_->gradient_buckets();
  if (reducer_->bucket_count() > gradients) reducer_->Contribute(gradients, member_.rank());
  begin_ = backward_end_ = SteadyNow();
  if (absl::Status status = Finish(active, /*has_data=*/false); !status.ok()) Fail(status);
  Report();
  ++step_;
  Arm();
}

void DistributedDataParallel::Impl::Join(const std::function<void()>& loop,
                                         const JoinOptions& options) {
  join_options_ = options;
  Active last(static_cast<size_t>(member_.world_size()), true);
  struct Joining {
    explicit Joining(bool* joining) : joining(joining) { *joining = true; }
    ~Joining() { *joining = false; }
    bool* const joining;
  } joining(&joining_);
  active_.clear();
  loop();
  if (!active_.empty()) last = active_;
  while (true) {
    AskWhoIsActive(false);
    const Active active = TakeAnswers();
    if (!AnyOf(active)) break;
    ThrowIfEarly(active);
    Shadow(active);
    last = active;
  }
  std::vector<torch::Tensor> values = module_->parameters();
  values.insert(values.end(), buffers_.begin(), buffers_.end());
  const absl::Status status = run_->collectives().BroadcastAll(values, HighestOf(last));
  if (!status.ok()) Fail(status);
}

}  // namespace gradwire
