#ifndef GRADWIRE_WORKER_RUN_CONNECT_LOW_RANK_H_
#define GRADWIRE_WORKER_RUN_CONNECT_LOW_RANK_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/compress/compression.h"
#include "common/wire/layout.h"
#include "worker/backends/low_rank_exchange.h"
#include "worker/ddp/reducer.h"
#include "worker/member/member.h"

namespace gradwire {

// Declares, under `name` and in place of the reducer's buckets, what `compression`, which has
// factors, makes of the gradients of `tensors`, and gives the exchange for them; the reducer may
// use it under any layout. `member` is connected and outlives it; `ranks` are those that it
// carries. Says in the log what travels and what is kept. Errors: those of RunMember::Declare.
absl::StatusOr<std::unique_ptr<LowRankExchange>> ConnectLowRank(
    RunMember* member, const std::string& name, const Layout& tensors, const Reducer& reducer,
    const Compression& compression, std::vector<Rank> ranks);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_CONNECT_LOW_RANK_H_
