#ifndef GRADWIRE_WORKER_RUN_CONNECT_LOW_RANK_H_
#define GRADWIRE_WORKER_RUN_CONNECT_LOW_RANK_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/compress/compression.h"
#include "common/wire/layout.h"
#include "common/wire/view.h"
#include "worker/backends/low_rank_exchange.h"
#include "worker/ddp/reducer.h"
#include "worker/run/participation.h"

namespace gradwire {

// Connects the participation (see Participation::Connect), in place of the reducer's buckets, for
// what `compression`, which has factors, makes of them; to be given to the reducer, under any
// layout. `participation` outlives it. Says in the log what travels and what is kept. Errors: those
// of Connect and Declare.
absl::StatusOr<std::unique_ptr<LowRankExchange>> ConnectLowRank(Participation* participation,
                                                                const View& view,
                                                                const Layout& tensors,
                                                                const Reducer& reducer,
                                                                const Compression& compression);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_CONNECT_LOW_RANK_H_
