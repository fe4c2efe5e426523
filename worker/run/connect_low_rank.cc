#include "worker/run/connect_low_rank.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "worker/ddp/low_rank_plan_of.h"

namespace gradwire {

absl::StatusOr<std::unique_ptr<LowRankExchange>> ConnectLowRank(Participation* participation,
                                                                const View& view,
                                                                const Layout& tensors,
                                                                const Reducer& reducer,
                                                                const Compression& compression) {
  LowRankPlan plan = LowRankPlanOf(reducer, compression.rank);
  const auto factors = participation->Connect(view, tensors, plan.specs());
  if (!factors.ok()) return factors.status();
  LowRankLayouts layouts = {*factors, *factors, static_cast<uint64_t>(compression.warmup_steps)};
  if (layouts.whole_steps > 0) {
    const auto whole = participation->Declare("whole gradients", reducer.BucketSpecs());
    if (!whole.ok()) return whole.status();
    layouts.whole = *whole;
  }
  spdlog::info(
      "{} of {} bytes of gradients travel in a step; each rank keeps {} bytes of residuals",
      plan.factor_bytes(), plan.gradient_bytes(), plan.residual_bytes());
  return std::make_unique<LowRankExchange>(&participation->exchange(), std::move(plan), layouts,
                                           view.OwnRanks());
}

}  // namespace gradwire
