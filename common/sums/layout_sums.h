#ifndef GRADWIRE_COMMON_SUMS_LAYOUT_SUMS_H_
#define GRADWIRE_COMMON_SUMS_LAYOUT_SUMS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/compress/codec.h"
#include "common/fold/blocks.h"
#include "common/wire/chunk.h"
#include "common/wire/judge.h"
#include "common/wire/layout.h"
#include "common/wire/view.h"
#include "gradwire/v1/chunk.pb.h"

namespace gradwire {

// How one bucket is cut into pieces, and which of `owners` aggregators sums each piece. Every
// process computes the same from the view and the layout:
//
//   pieces    n = ceil(bytes / chunk_bytes); a bucket of at least owners × 16 KiB
//             is cut into a multiple of `owners`, so that shares are equal
//   piece i   starts at i × p, where p = ceil(bytes / n) rounded up to 64 bytes, or to whole
//             units of a codec; the last one is shorter
//   owner     of piece i of bucket b: (b + i) mod owners, so that small buckets
//             are distributed, too
class Grid {
 public:
  // `alignment`: pieces are multiples of it, in bytes; AlignmentOf the bucket's dtype.
  Grid(Bucket bucket, uint64_t bytes, uint64_t chunk_bytes, int owners,
       uint64_t alignment = kPlainAlignment);

  // Whole cache lines, whole elements.
  static constexpr uint64_t kPlainAlignment = 64;
  static uint64_t AlignmentOf(v1::DType dtype);

  // The most bytes of a piece whose payloads are coded: these may be half as long again, and must
  // not exceed kMaxPayloadBytes.
  static constexpr uint64_t kMostCodedBytes = kMaxPayloadBytes / 8 * 5;

  size_t pieces() const { return pieces_; }
  uint64_t Offset(size_t piece) const { return piece * piece_bytes_; }
  uint64_t Bytes(size_t piece) const;
  int Owner(size_t piece) const;
  // Returns the number of its owner's earlier pieces in the bucket. Modulo the number of
  // connections to the owner, it selects the connection that carries the piece.
  size_t NumberInShard(size_t piece) const { return piece / owners_; }

  // Returns the piece that starts at `offset` and is `bytes` long, if it exists.
  absl::optional<size_t> Find(uint64_t offset, uint64_t bytes) const;

 private:
  int first_owner_;
  int owners_;
  uint64_t bytes_;
  uint64_t piece_bytes_ = 0;
  size_t pieces_ = 0;
};

// How many bytes of a rank's terms may be on their way to an aggregator while their means have not
// come: large enough to hide a round trip, small enough that an urgent bucket waits only briefly.
constexpr uint64_t kWindowBytes = 1 << 20;

// A finished piece of a bucket: the mean of all ranks' terms, or the root's bytes.
struct MeanChunk {
  Bucket bucket;
  size_t number_in_shard = 0;  // see Grid
  uint64_t offset = 0;
  uint64_t checksum = 0;
  uint64_t covers = 0;      // bytes of the bucket
  uint64_t term_bytes = 0;  // of the payloads of its terms
  uint64_t bytes = 0;       // of `data`: equal to `covers`, except for a coded dtype
  std::unique_ptr<uint8_t[]> data;
};

// The pieces that an aggregator sums: those that the grid assigns to one of `indices`.
struct Shard {
  int owners = 1;
  std::vector<int> indices = {0};

  bool Has(int owner) const {
    return std::find(indices.begin(), indices.end(), owner) != indices.end();
  }
};

// Returns the piece of its bucket that `chunk` is; bucket and rank must exist. InvalidArgument if
// it is not a piece of the grid, or belongs to another share. `grids` are by bucket.
absl::StatusOr<size_t> FindPieceOfShard(const std::vector<Grid>& grids, const Shard& share,
                                        const Chunk& chunk);

// Returns the header of a result of `step`, for a bucket with `spec`.
ChunkHeader HeaderOfMean(const View& view, LayoutId layout, const BucketSpec& spec, Step step,
                         const MeanChunk& mean);

// The accumulated error of a piece's means.
struct MeanResidual {
  Bucket bucket;
  uint64_t first = 0;        // its first element in the bucket
  absl::Span<float> values;  // one for each element of the piece
};

// The longest wait of a step's pieces for each rank's term after the first rank's. (The time of a
// rank's last term would not show this: a rank that is ahead sends only as much as its window
// allows.)
using Waits = std::vector<absl::Duration>;

// The sums of one layout at one aggregator: the terms of the open step, and the results of finished
// steps. Not thread-safe, except for Fold; see Aggregator.
//
// A step opens when all results of the previous one exist. The results of one finished step are
// kept, because a rank may have contributed its terms of the open step before it reads those
// results. If a share has only bytes, ranks other than the root send nothing that could hold it
// back; it can be one more step ahead of its readers, and keeps two. Held memory is at most W
// shares of terms and 2 of results; Judge refuses chunks beyond (W + 2) shares with
// ResourceExhausted. A codec whose means have a residual adds a share of float32.
class LayoutSums {
 public:
  // `buckets` have the type on the wire, and every worker contributes to some of them.
  LayoutSums(LayoutId layout, const View& view, std::vector<BucketSpec> buckets,
             const Shard& share);

  // Judges a chunk of this layout whose run and generation were checked; with kAccept also sets its
  // piece. Errors: as for JudgeHeader; InvalidArgument if the chunk is not a piece of the grid,
  // belongs to another aggregator, is not from the root, or its payload is invalid for its codec;
  // ResourceExhausted.
  absl::StatusOr<Verdict> Judge(const Chunk& chunk, size_t* piece) const;

  // Holds a judged chunk. Returns true if the piece has all its terms, which are then moved to
  // `terms`, by rank.
  bool Hold(Chunk chunk, size_t piece, absl::Time now, std::vector<Chunk>* terms);

  // Returns the mean of the terms from Hold. From any thread, once per piece and step.
  std::shared_ptr<MeanChunk> Fold(const std::vector<Chunk>& terms);

  // Returns the residuals of this share, for codecs whose means have one; 0 before the first sum.
  // They change with each Fold, and stay where they are as long as this object.
  std::vector<MeanResidual> MeanResiduals();

  // Adds a result. Returns the waits of its step if it was the last one, else empty.
  Waits Publish(std::shared_ptr<MeanChunk> mean);

  Step open_step() const { return open_.step; }
  // Returns the results of a step so far, in order of completion; null if they are not held.
  const std::vector<std::shared_ptr<const MeanChunk>>* Results(Step step) const;

  // Returns whether `wants` is true of a piece of this shard, by its bucket and its number in the
  // shard.
  bool HasPieceFor(absl::FunctionRef<bool(Bucket, size_t)> wants) const;

  // Returns the ranks that hold up the open step: pieces lack their terms, but have others'. A rank
  // with a whole window of terms that wait for others is not one of them: it may not send more. If
  // no rank is left so, returns all ranks whose terms are missing.
  std::set<int> Missing() const;

  // Drops all terms.
  void DropTerms();

  // Returns the header of a result.
  ChunkHeader HeaderOf(Step step, const MeanChunk& mean) const {
    return HeaderOfMean(view_, layout_, buckets_[mean.bucket.value()], step, mean);
  }

  // Returns the payload bytes of terms and results held.
  uint64_t held_bytes() const { return held_bytes_; }

  // Returns the number of buckets of the open step of which every rank has begun to send its term,
  // and some term is incomplete.
  int receiving() const { return open_.receiving; }

 private:
  // One piece of the grid, while its terms arrive.
  struct PieceTerms {
    std::vector<Chunk> terms;         // by rank, or only the root's; empty after the fold
    std::vector<uint64_t> checksums;  // the same order
    std::vector<bool> has_term;       // the same order
    int missing = 0;                  // number of terms still to come
    absl::Time begun;                 // arrival of the first
  };
  struct StepState {
    Step step;
    // By bucket, by piece. Empty for a bucket without a term, and for pieces of other aggregators.
    std::vector<std::vector<PieceTerms>> slots;
    std::vector<std::shared_ptr<const MeanChunk>> results;
    Waits waits;
    // By bucket: number of pieces of this share that lack each rank's term, by index; empty like
    // `slots`.
    std::vector<std::vector<size_t>> missing;
    int receiving = 0;
  };

  StepState NewStep(Step step) const;
  std::vector<PieceTerms> NewSlots(int bucket) const;
  absl::Status CheckCoded(const Chunk& chunk) const;
  // Returns the payload of a mean of coded terms.
  std::vector<uint8_t> FoldCoded(const Coding& coding, const std::vector<Chunk>& terms,
                                 const MeanChunk& mean);
  absl::StatusOr<size_t> FindPiece(const Chunk& chunk) const;
  // Counts a term that has arrived; `open_.missing` belongs to its bucket.
  void CountTerm(int bucket, size_t index);
  // Returns how many ranks have a term in a bucket: all, or only the root.
  int TermsOf(const BucketSpec& bucket) const;
  // Returns the index of `rank`'s term in a slot.
  static size_t TermIndexOf(const BucketSpec& bucket, Rank rank);
  static Rank RankAt(const BucketSpec& bucket, size_t index);

  const LayoutId layout_;
  const View view_;
  const std::vector<BucketSpec> buckets_;
  const Shard shard_;
  const FoldBlocks blocks_;
  std::vector<Grid> grids_;  // by bucket
  // The accumulated error of this share's means, by bucket and piece; for codecs with a residual,
  // from their first sum on.
  std::vector<std::vector<std::vector<float>>> residuals_;
  size_t pieces_per_step_ = 0;  // of this share
  std::vector<size_t> pieces_;  // of this share, by bucket
  size_t kept_steps_ = 1;
  uint64_t limit_bytes_ = 0;
  uint64_t held_bytes_ = 0;
  StepState open_;
  std::deque<StepState> finished_;  // those still kept, oldest first
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_SUMS_LAYOUT_SUMS_H_
