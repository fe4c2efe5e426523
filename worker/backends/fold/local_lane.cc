#include <utility>

#include "absl/time/time.h"
#include "common/aggregation/aggregator.h"
#include "worker/backends/fold/lane.h"

namespace gradwire {
namespace {

class LocalLane : public Lane {
 public:
  LocalLane(const LaneContext& context, Aggregator* aggregator)
      : Lane(context), aggregator_(aggregator) {}

  absl::Status Connect(const std::function<absl::Status()>&) override { return absl::OkStatus(); }
  void Finish() override {
    queue_.Close();
    if (sender_.joinable()) sender_.join();
  }
  absl::StatusOr<std::vector<Rank>> Missing(Step step) override {
    return aggregator_->MissingRanks(step);
  }

 protected:
  void SendAll() override {
    while (absl::optional<Piece> piece = queue_.Pop()) {
      Chunk term = TermOf(*piece);
      piece.reset();
      absl::StatusOr<Verdict> verdict = aggregator_->AddOwn(std::move(term));
      if (!verdict.ok()) return context_.host->OnFailure(verdict.status(), absl::nullopt);
    }
  }

  void ReceiveAll() override {
    absl::Status status;
    for (Step step(0); status.ok(); step = Step(step.value() + 1)) status = ReceiveStep(step);
    context_.host->OnFailure(status, absl::nullopt);
  }

 private:
  absl::Status ReceiveStep(Step step) {
    for (size_t index = 0;; ++index) {
      const bool continues = index > 0 || step > Step(0);
      auto mean = aggregator_->Next(step, index, absl::InfiniteFuture(), continues);
      if (!mean.ok()) return mean.status();
      if (*mean == nullptr) return absl::OkStatus();
      const Pieces payload = {{(*mean)->data.get(), (*mean)->bytes}};
      absl::Status taken = Take(aggregator_->HeaderFor(step, **mean), payload);
      if (!taken.ok()) return taken;
    }
  }

  Aggregator* const aggregator_;
};

}  // namespace

std::unique_ptr<Lane> MakeLocalLane(const LaneContext& context, Aggregator* aggregator) {
  return std::make_unique<LocalLane>(context, aggregator);
}

}  // namespace gradwire
