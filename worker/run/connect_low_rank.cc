#include "worker/run/connect_low_rank.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/ddp/low_rank_plan_of.h"

namespace gradwire {

absl::StatusOr<std::unique_ptr<LowRankExchange>> ConnectLowRank(
    RunMember* member, const std::string& name, const Layout& tensors, const Reducer& reducer,
    const Compression& compression, std::vector<Rank> ranks) {
  LowRankPlan plan = LowRankPlanOf(reducer, compression.rank);
  const auto factors = member->Declare(name, tensors, plan.specs());
  if (!factors.ok()) return factors.status();
  LowRankLayouts layouts = {*factors, *factors, static_cast<uint64_t>(compression.warmup_steps)};
  if (layouts.whole_steps > 0) {
    const auto whole =
        member->Declare(absl::StrCat(name, ", whole gradients"), tensors, reducer.BucketSpecs());
    if (!whole.ok()) return whole.status();
    layouts.whole = *whole;
  }
  spdlog::info(
      "{}: {} of {} bytes of gradients travel in a step; each rank keeps {} bytes of residuals",
      name, plan.factor_bytes(), plan.gradient_bytes(), plan.residual_bytes());
  return std::make_unique<LowRankExchange>(&member->exchange(), std::move(plan), layouts,
                                           std::move(ranks));
}

}  // namespace gradwire
