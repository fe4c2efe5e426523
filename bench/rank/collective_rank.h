#ifndef GRADWIRE_BENCH_RANK_COLLECTIVE_RANK_H_
#define GRADWIRE_BENCH_RANK_COLLECTIVE_RANK_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/rank/collective_loop.h"
#include "bench/rank/rank_options.h"
#include "common/rpc/grpc_server.h"
#include "common/session/session.h"
#include "worker/backends/backend.h"

namespace gradwire {

// One rank of a real run whose gradient is one bucket: it joins the coordinator,
// averages with the back end of choice, and leaves.
//
//   Session ── view, abort ──► Backend ◄── CollectiveLoop
//   GrpcServer (Neighbor) ───────┘
class CollectiveRank {
 public:
  // Errors of MakeBackend, StartGrpcServer, Session::Open, Session::Join and
  // Backend::OnView.
  static absl::StatusOr<std::unique_ptr<CollectiveRank>> Join(const RankOptions& options);
  ~CollectiveRank();
  CollectiveRank(const CollectiveRank&) = delete;
  CollectiveRank& operator=(const CollectiveRank&) = delete;

  // Errors of CollectiveLoop::Run, Backend::Finish and Session::Leave.
  absl::StatusOr<LoopResult> Measure();

 private:
  explicit CollectiveRank(const RankOptions& options) : options_(options) {}
  absl::Status Prepare();
  absl::StatusOr<std::string> ServeNeighbours();
  absl::StatusOr<View> JoinSession(const std::string& address,
                                   const std::vector<BucketSpec>& wire_buckets);

  const RankOptions options_;
  std::unique_ptr<Backend> backend_;
  GrpcServer server_;
  std::unique_ptr<Session> session_;
};

// One JSON object on one line, with its newline.
std::string ToJson(const RankOptions& options, const LoopResult& result);

}  // namespace gradwire

#endif  // GRADWIRE_BENCH_RANK_COLLECTIVE_RANK_H_
