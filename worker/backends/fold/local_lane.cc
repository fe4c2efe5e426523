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
  absl::StatusOr<std::vector<Rank>> Missing(LayoutId layout, Step step) override {
    return aggregator_->MissingRanks(layout, step);
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
    MeanCursor cursor;
    absl::Status status;
    while (status.ok()) {
      absl::StatusOr<Mean> mean = aggregator_->Next(&cursor, absl::InfiniteFuture());
      if (!mean.ok()) {
        status = mean.status();
      } else {
        const absl::Span<const uint8_t> bytes(mean->chunk->data.get(), mean->chunk->bytes);
        status = Take({mean->header, {bytes}, mean->chunk});
      }
    }
    context_.host->OnFailure(status, absl::nullopt);
  }

 private:
  Aggregator* const aggregator_;
};

}  // namespace

std::unique_ptr<Lane> MakeLocalLane(const LaneContext& context, Aggregator* aggregator) {
  return std::make_unique<LocalLane>(context, aggregator);
}

}  // namespace gradwire
