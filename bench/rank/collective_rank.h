#ifndef GRADWIRE_BENCH_RANK_COLLECTIVE_RANK_H_
#define GRADWIRE_BENCH_RANK_COLLECTIVE_RANK_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/rank/collective_loop.h"
#include "bench/rank/rank_options.h"
#include "common/base/mutex.h"
#include "common/rpc/grpc_server.h"
#include "common/session/session.h"
#include "worker/backends/backend.h"

namespace gradwire {

// One rank of a real run whose gradient is one bucket: it joins the coordinator,
// does one collective with the back end of choice, and leaves.
//
//   Session ── view ──► Backend ── Connect ──► Exchange ◄── CollectiveLoop
//      └────── abort ─────────────────────────────┘
class CollectiveRank {
 public:
  // Errors of Security::Read, MakeBackend, StartGrpcServer, Session::Open, Join and DeclareLayout,
  // and of Backend::Connect.
  static absl::StatusOr<std::unique_ptr<CollectiveRank>> Join(const RankOptions& options);
  ~CollectiveRank();
  CollectiveRank(const CollectiveRank&) = delete;
  CollectiveRank& operator=(const CollectiveRank&) = delete;

  // What was measured, or is to be shown: one JSON object on one line, with its newline. Errors of
  // CollectiveLoop, Exchange::Finish and Session::Leave.
  absl::StatusOr<std::string> Measure();

 private:
  explicit CollectiveRank(const RankOptions& options) : options_(options) {}
  absl::Status Prepare();
  absl::StatusOr<std::string> ServeNeighbours();
  absl::StatusOr<View> JoinSession(const std::string& address);
  // Connects, and makes the one bucket known.
  absl::Status Connect(const View& view, v1::DType wire);
  Exchange* exchange();  // null before Connect
  absl::StatusOr<std::string> Report(const absl::StatusOr<LoopResult>& result) const;
  absl::StatusOr<std::string> Report(const absl::StatusOr<Shown>& shown) const;
  void OnAbort(const absl::Status& status);

  const RankOptions options_;
  Security security_;
  std::unique_ptr<Backend> backend_;
  Mutex mutex_;
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);                  // how the run ended early
  std::unique_ptr<Exchange> exchange_ ABSL_GUARDED_BY(mutex_);  // set once; null before
  GrpcServer server_;
  std::unique_ptr<Session> session_;  // last: its threads use the above
};

}  // namespace gradwire

#endif  // GRADWIRE_BENCH_RANK_COLLECTIVE_RANK_H_
