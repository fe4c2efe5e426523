#ifndef GRADWIRE_COMMON_AGGREGATION_AGGREGATOR_H_
#define GRADWIRE_COMMON_AGGREGATION_AGGREGATOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/aggregation/aggregation_clock.h"
#include "common/base/mutex.h"
#include "common/parameter_server/parameter_server.h"
#include "common/sums/layout_sums.h"
#include "common/telemetry/trace_log.h"

namespace gradwire {

// Callbacks of an aggregator, on the thread that did the work, with no lock held.
struct AggregatorHooks {
  // A step is over; not called for a layout of evaluations.
  std::function<void(LayoutId, Step, const Waits&)> on_step;
  OnSpan on_fold;  // a sum was made; not called for a layout that begins with bytes
  std::function<void(const AggregationTimes&)> on_iteration =
      nullptr;  // a counted iteration is over
};

// A finished piece for a reader.
struct Mean {
  ChunkHeader header;
  std::shared_ptr<const MeanChunk> chunk;
};

// The position of one reader of means: the next result of the next step of each layout.
struct MeanCursor {
  struct Position {
    Step step;
    size_t index = 0;
  };
  // Whether this reader gets the means of a piece. Readers that share the means of one aggregator
  // ("lanes") take turns by piece, or by bucket.
  bool Wants(Bucket bucket, size_t number_in_shard) const {
    const uint64_t turn = by_bucket ? static_cast<uint64_t>(bucket.value()) : number_in_shard;
    return turn % lanes == lane;
  }

  std::map<LayoutId, Position> positions;
  uint32_t lane = 0;
  uint32_t lanes = 1;  // at least 1
  bool by_bucket = false;
  Incarnation reader;  // for its answers, in served layouts
  bool sends = false;  // the reader has taken a result, and not asked for the next
};

// Sums the terms of all ranks in one view, piece by piece, as the fold defines. The coordinator has
// one that sums everything; with back end `sharded` each rank, or each separate aggregator, has one
// for its share.
//
//   Add(rank 0) ──┐   slot of (layout, bucket, piece): W terms, any order of arrival
//   Add(rank 1) ──┼─► full? ──► Fold ──► results of the step, in order of completion
//   Add(rank 2) ──┘                        ▲
//   Next(cursor) ──────────────────────────┘  one reader per worker and lane, blocking
//
// See LayoutSums for the data that it holds. Thread-safe. Folds run on the thread whose Add filled
// the slot, with no lock held.
class Aggregator {
 public:
  Aggregator(const View& view, const Shard& share, AggregatorHooks hooks);

  const View& view() const { return view_; }

  // Begins with the view's first step of a layout, and with step 0 of a served one. `buckets` have
  // the type on the wire, and every worker contributes to some of them. Earlier chunks wait for
  // this call. If `serving` names an optimizer, the model is served (see ParameterServer): Next
  // then returns answers instead of means. `is_evaluation`: its steps belong to no iteration;
  // it begins with bytes.
  void AddLayout(LayoutId layout, std::vector<BucketSpec> buckets, const v1::Serving& serving = {},
                 bool is_evaluation = false);

  // Takes one term. kAccept: held or summed. Other verdicts: dropped, not an error. Waits some
  // seconds for a layout that this side does not have yet. Errors: as for LayoutSums::Judge or
  // ParameterServer::Add, and CheckPayload; FailedPrecondition if the layout does not come, or if
  // the optimizer does not exist, which ends all calls; Aborted after Abort.
  absl::StatusOr<Verdict> Add(Chunk chunk);

  // The same for a chunk of this process, without a check of its checksum.
  absl::StatusOr<Verdict> AddOwn(Chunk chunk);

  // Checks whether a reader with this view may call Next: PermissionDenied if it is of another run,
  // Aborted if it is of another epoch or generation; else OK or the error of Abort.
  absl::Status CheckReader(const RunId& run_id, CoordinatorEpoch epoch,
                           Generation generation) const;

  // Waits for the next result after `cursor`, and advances the cursor. The reader's worker sends
  // terms only for steps of which it has all results. So a dropped step was over for any cursor at
  // or after an earlier one.
  //   DeadlineExceeded  no result came
  //   OutOfRange        a new cursor is late: its first results are no longer available
  //   Aborted           see Abort
  absl::StatusOr<Mean> Next(MeanCursor* cursor, absl::Time deadline);
  // The reader does not return: its last result is on its way.
  void Leave(MeanCursor* cursor);

  // See LayoutSums::Missing; empty if the step is not the open one.
  std::vector<Rank> MissingRanks(LayoutId layout, Step step) const;

  // Returns LayoutSums::MeanResiduals of a layout; none of a served one. The caller may read and
  // change them while no sum of the layout can be complete: between two steps, before some rank has
  // contributed its terms of the next.
  std::vector<MeanResidual> MeanResiduals(LayoutId layout);

  // Ends all waits and all further calls with `reason`, which must not be OK.
  void Abort(absl::Status reason);

  // Returns the payload bytes of terms and results held now.
  uint64_t held_bytes() const;

 private:
  // Waits until the layout exists; then OK.
  absl::Status WaitForLayout(const ChunkHeader& header) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // kAccept if the chunk is of this view and its layout exists.
  absl::StatusOr<Verdict> JudgeEarly(const ChunkHeader& header)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Verdict> Serve(ParameterServer* model, Chunk chunk);
  // The part of AddOwn that needs the lock; `terms` receives the terms that must be summed now. If
  // the chunk is for a model, `model` receives that, and the chunk stays.
  absl::StatusOr<Verdict> Hold(Chunk* chunk, std::vector<Chunk>* terms, ParameterServer** model);
  void FoldAndPublish(LayoutId layout, Step step, std::vector<Chunk> terms);
  // A step of a layout is over. Returns the times of the iteration if that ends a counted one.
  absl::optional<AggregationTimes> EndStep(LayoutId layout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts the time until now; `sends`: whether the reader sends from now on.
  void CountSend(MeanCursor* cursor, bool sends) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the next result of one layout; null if it is not ready.
  absl::StatusOr<std::shared_ptr<const MeanChunk>> NextOf(const LayoutSums& sums,
                                                          const MeanCursor& cursor,
                                                          MeanCursor::Position* position) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Mean> TryNext(MeanCursor* cursor) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const View view_;
  const Shard shard_;
  const AggregatorHooks hooks_;

  mutable Mutex mutex_;
  CondVar changed_;
  absl::Status state_ ABSL_GUARDED_BY(mutex_);
  AggregationClock clock_ ABSL_GUARDED_BY(mutex_);  // not for served layouts
  std::map<LayoutId, LayoutSums> layouts_ ABSL_GUARDED_BY(mutex_);
  std::set<LayoutId> of_bytes_ ABSL_GUARDED_BY(mutex_);     // those that begin with bytes
  std::set<LayoutId> evaluations_ ABSL_GUARDED_BY(mutex_);  // some of these
  // The served layouts. An entry may be used without the lock, and is never removed.
  std::map<LayoutId, std::unique_ptr<ParameterServer>> models_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_AGGREGATION_AGGREGATOR_H_
