#ifndef GRADWIRE_COMMON_AGGREGATION_AGGREGATOR_H_
#define GRADWIRE_COMMON_AGGREGATION_AGGREGATOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
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

// Who hears of an aggregator's work; called on the thread that did it, with no lock held.
struct AggregatorHooks {
  std::function<void(LayoutId, Step, const Waits&)> on_step;            // a step is over
  OnSpan on_fold;                                                       // a sum was made
  std::function<void(const AggregationTimes&)> on_iteration = nullptr;  // one that counts is over
};

// A finished piece, as a reader gets it.
struct Mean {
  ChunkHeader header;
  std::shared_ptr<const MeanChunk> chunk;
};

// Where one reader of means stands: which result of which step of each layout comes next.
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
  Incarnation reader;  // whose answers it gets of layouts that are served
  bool sends = false;  // the reader has got a result, and not come back for the next
};

// Sums the terms of all ranks in one view, piece by piece, as the fold says. The
// coordinator has one that sums everything; with back end `sharded` every rank, or every
// separate aggregator, has one for its share.
//
//   Add(rank 0) ──┐   slot of (layout, bucket, piece): W terms, any order of arrival
//   Add(rank 1) ──┼─► full? ──► Fold ──► results of the step, in order of completion
//   Add(rank 2) ──┘                        ▲
//   Next(cursor) ──────────────────────────┘  one reader per worker and lane, blocking
//
// See LayoutSums for what is held. Thread-safe. Folds run on the thread whose Add filled
// the slot, with no lock held.
class Aggregator {
 public:
  Aggregator(const View& view, const Shard& share, AggregatorHooks hooks);

  const View& view() const { return view_; }

  // Begins with the view's first step of a layout, a served one with 0. `buckets` are in the type
  // of the wire, and every worker contributes to some of them. Chunks that come earlier wait for
  // it. If `serving` names an optimiser, its model is served (see ParameterServer): what Next gives
  // are answers in position of means.
  void AddLayout(LayoutId layout, std::vector<BucketSpec> buckets, const v1::Serving& serving = {});

  // Takes one term. kAccept: held or summed; other verdicts: dropped, fine. Waits some
  // seconds for a layout that this side does not have yet.
  // Errors: those of LayoutSums::Judge or ParameterServer::Add, and CheckPayload;
  // FailedPrecondition if the layout did not come, or if there is no optimiser, which ends all;
  // Aborted after Abort.
  absl::StatusOr<Verdict> Add(Chunk chunk);

  // The same for a chunk of this process: its checksum is not looked at.
  absl::StatusOr<Verdict> AddOwn(Chunk chunk);

  // Whether a reader with this view may call Next: PermissionDenied if it is of
  // another run, Aborted if it is of another epoch or generation, else OK or the
  // error of Abort.
  absl::Status CheckReader(const RunId& run_id, CoordinatorEpoch epoch,
                           Generation generation) const;

  // The next result behind `cursor`, which moves on, waiting for it. The reader's worker sends
  // terms only of steps that it has all results of: so a step that is gone was over for a
  // cursor that is within or behind an earlier one.
  //   DeadlineExceeded  none came
  //   OutOfRange        a new cursor is late: its first results are gone
  //   Aborted           see Abort
  absl::StatusOr<Mean> Next(MeanCursor* cursor, absl::Time deadline);
  // The reader does not come back: what it got last is on its way.
  void Leave(MeanCursor* cursor);

  // See LayoutSums::Missing; empty if the step is not the open one.
  std::vector<Rank> MissingRanks(LayoutId layout, Step step) const;

  // Ends all waits, and all further calls, with `reason`, which is not OK.
  void Abort(absl::Status reason);

  // Payload bytes held at present, terms and results.
  uint64_t held_bytes() const;

 private:
  // OK once the layout is there, waiting for it.
  absl::Status WaitForLayout(const ChunkHeader& header) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // kAccept if the chunk is of this view and its layout is there.
  absl::StatusOr<Verdict> JudgeEarly(const ChunkHeader& header)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Verdict> Serve(ParameterServer* model, Chunk chunk);
  // What AddOwn does with the lock held; `terms` gets what has to be summed now. If the chunk is
  // for a model, `model` gets that, and the chunk stays.
  absl::StatusOr<Verdict> Hold(Chunk* chunk, std::vector<Chunk>* terms, ParameterServer** model);
  void FoldAndPublish(LayoutId layout, Step step, std::vector<Chunk> terms);
  // A step of a layout is over. The times of the iteration, if that ends one that counts.
  absl::optional<AggregationTimes> EndStep(LayoutId layout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts the time until now, and whether the reader sends from now on.
  void CountSend(MeanCursor* cursor, bool sends) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The next result of one layout if it is there; null if not.
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
  AggregationClock clock_ ABSL_GUARDED_BY(mutex_);  // not of layouts that are served
  std::map<LayoutId, LayoutSums> layouts_ ABSL_GUARDED_BY(mutex_);
  // Those that are served. What stands in it is there to be called without the lock, and stays.
  std::map<LayoutId, std::unique_ptr<ParameterServer>> models_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_AGGREGATION_AGGREGATOR_H_
