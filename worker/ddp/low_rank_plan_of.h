#ifndef GRADWIRE_WORKER_DDP_LOW_RANK_PLAN_OF_H_
#define GRADWIRE_WORKER_DDP_LOW_RANK_PLAN_OF_H_

#include <cstdint>

#include "common/compress/low_rank/low_rank_plan.h"
#include "worker/ddp/reducer.h"

namespace gradwire {

// How the reducer's buckets travel as products of `rank`.
LowRankPlan LowRankPlanOf(const Reducer& reducer, uint64_t rank);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DDP_LOW_RANK_PLAN_OF_H_
