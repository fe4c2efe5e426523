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
#include "common/base/ids.h"
#include "common/compress/codec.h"
#include "common/fold/blocks.h"
#include "common/wire/chunk.h"
#include "common/wire/judge.h"
#include "common/wire/layout.h"
#include "common/wire/view.h"
#include "gradwire/v1/chunk.pb.h"

namespace gradwire {

// How one bucket is cut into pieces, and which of `owners` aggregators sums
// each. Everyone computes the same from the view and the layout:
//
//   pieces    n = ceil(bytes / chunk_bytes); a bucket of at least owners × 16 KiB
//             is cut into a multiple of `owners`, so that shares are equal
//   piece i   starts at i × p, where p = ceil(bytes / n) rounded up to 64 bytes, or to whole
//             units of a codec; the last one is shorter
//   owner     of piece i of bucket b: (b + i) mod owners, so that small buckets
//             are spread too
class Grid {
 public:
  // `alignment`: what pieces are multiples of, in bytes; AlignmentOf the bucket's dtype.
  Grid(Bucket bucket, uint64_t bytes, uint64_t chunk_bytes, int owners,
       uint64_t alignment = kPlainAlignment);

  // Whole cache lines, whole elements.
  static constexpr uint64_t kPlainAlignment = 64;
  static uint64_t AlignmentOf(v1::DType dtype);

  size_t pieces() const { return pieces_; }
  uint64_t Offset(size_t piece) const { return piece * piece_bytes_; }
  uint64_t Bytes(size_t piece) const;
  int Owner(size_t piece) const;
  // How many pieces of its owner's are before it in the bucket; this modulo the
  // number of connections to the owner says which of them carries the piece.
  size_t NumberInShard(size_t piece) const { return piece / owners_; }

  // The piece that starts at `offset` and is `bytes` long; none if there is none.
  absl::optional<size_t> Find(uint64_t offset, uint64_t bytes) const;

 private:
  int first_owner_;
  int owners_;
  uint64_t bytes_;
  uint64_t piece_bytes_ = 0;
  size_t pieces_ = 0;
};

// A finished piece of a bucket: the mean of all ranks' terms, or the root's bytes.
struct MeanChunk {
  Bucket bucket;
  size_t number_in_shard = 0;  // see Grid
  uint64_t offset = 0;
  uint64_t checksum = 0;
  uint64_t covers = 0;      // bytes of the bucket
  uint64_t term_bytes = 0;  // of the payloads that it was made of
  uint64_t bytes = 0;       // of `data`: as many as it covers, but of a coded dtype
  std::unique_ptr<uint8_t[]> data;
};

// Which pieces an aggregator sums: those that the grid gives to one of `indices`.
struct Shard {
  int owners = 1;
  std::vector<int> indices = {0};

  bool Has(int owner) const {
    return std::find(indices.begin(), indices.end(), owner) != indices.end();
  }
};

// Which piece of its bucket `chunk` is, of a bucket and rank that exist. InvalidArgument if it is
// none of the grid, or another share's. `grids` are by bucket.
absl::StatusOr<size_t> FindPieceOfShard(const std::vector<Grid>& grids, const Shard& share,
                                        const Chunk& chunk);

// The header of a result of `step` of a bucket as `spec`.
ChunkHeader HeaderOfMean(const View& view, LayoutId layout, const BucketSpec& spec, Step step,
                         const MeanChunk& mean);

// How long pieces of a step had to wait for each rank's term after the first rank's, at most. (Not
// when a rank's last term came: a rank that is ahead may send only as much as its window takes.)
using Waits = std::vector<absl::Duration>;

// The sums of one layout at one aggregator: what is held of the open step, and the
// results of steps that are over. Not thread-safe but for Fold; see Aggregator.
//
// A step opens when all results of the one before are there. The results of one
// finished step are kept, because a rank may have contributed its terms of the open
// step and not yet read those results. To a share of bytes alone the ranks that are no
// root send nothing that would hold it back; it can be one step further ahead of its
// readers, and keeps two. Held memory is at most W shares of terms and 2 of results;
// Judge refuses what would pass (W + 2) shares with ResourceExhausted. A codec whose means have
// a residual adds a share of float32.
class LayoutSums {
 public:
  // `buckets` are in the type of the wire, and every worker contributes to some of them.
  LayoutSums(LayoutId layout, const View& view, std::vector<BucketSpec> buckets,
             const Shard& share);

  // The verdict on a chunk of this layout whose run and generation were judged, and with
  // kAccept its piece. Errors: those of JudgeHeader; InvalidArgument if the chunk is no piece
  // of the grid, another aggregator's, not from the root, or its payload none of its codec;
  // ResourceExhausted.
  absl::StatusOr<Verdict> Judge(const Chunk& chunk, size_t* piece) const;

  // Holds a chunk that was judged. True if the piece has all its terms, which are then moved
  // to `terms`, by rank.
  bool Hold(Chunk chunk, size_t piece, absl::Time now, std::vector<Chunk>* terms);

  // The mean of the terms that Hold gave. From any thread, for each piece once in a step.
  std::shared_ptr<MeanChunk> Fold(const std::vector<Chunk>& terms);

  // Adds a result. Its step's waits if it was the last one, else empty.
  Waits Publish(std::shared_ptr<MeanChunk> mean);

  Step open_step() const { return open_.step; }
  // The results of a step so far, in the order in which they were completed; null if they are
  // not held.
  const std::vector<std::shared_ptr<const MeanChunk>>* Results(Step step) const;

  // Whether `wants` is true of a piece of this share, by its bucket and its number in the share.
  bool HasPieceFor(absl::FunctionRef<bool(Bucket, size_t)> wants) const;

  // The ranks that hold up the open step: pieces lack their terms, but have others'. If
  // no piece has any term, all ranks whose terms lack.
  std::set<int> Missing() const;

  // Lets go of all terms.
  void DropTerms();

  // The header of a result.
  ChunkHeader HeaderOf(Step step, const MeanChunk& mean) const {
    return HeaderOfMean(view_, layout_, buckets_[mean.bucket.value()], step, mean);
  }

  // Payload bytes held, terms and results.
  uint64_t held_bytes() const { return held_bytes_; }

  // Buckets of the open step of which every rank has begun to send its term, and some term is
  // incomplete.
  int receiving() const { return open_.receiving; }
  // Whether this share has buckets that all ranks contribute to.
  bool has_terms_of_all() const { return has_terms_of_all_; }

 private:
  // One piece of the grid, while its terms come in.
  struct PieceTerms {
    std::vector<Chunk> terms;         // by rank, or of the root alone; empty once folded
    std::vector<uint64_t> checksums;  // likewise
    std::vector<bool> has_term;       // likewise
    int missing = 0;                  // terms that are still to come
    absl::Time begun;                 // when the first came
  };
  struct StepState {
    Step step;
    // By bucket, by piece; of a bucket empty until it has a term, and others' pieces' always.
    std::vector<std::vector<PieceTerms>> slots;
    std::vector<std::shared_ptr<const MeanChunk>> results;
    Waits waits;
    // By bucket: pieces of this share that lack each rank's term, by place; empty as `slots`.
    std::vector<std::vector<size_t>> missing;
    int receiving = 0;
  };

  StepState NewStep(Step step) const;
  std::vector<PieceTerms> NewSlots(int bucket) const;
  absl::Status CheckCoded(const Chunk& chunk) const;
  // Payload of a mean of coded terms.
  std::vector<uint8_t> FoldCoded(const Coding& coding, const std::vector<Chunk>& terms,
                                 const MeanChunk& mean);
  absl::StatusOr<size_t> FindPiece(const Chunk& chunk) const;
  // Counts a term that has come; `open_.missing` is that of its bucket.
  void CountTerm(int bucket, size_t index);
  // How many ranks have a term in a bucket: all, or the root alone.
  int TermsOf(const BucketSpec& bucket) const;
  // Which of a slot's terms is that of `rank`.
  static size_t TermIndexOf(const BucketSpec& bucket, Rank rank);
  static Rank RankAt(const BucketSpec& bucket, size_t index);

  const LayoutId layout_;
  const View view_;
  const std::vector<BucketSpec> buckets_;
  const Shard shard_;
  const FoldBlocks blocks_;
  std::vector<Grid> grids_;  // by bucket
  // What the means of this share left out so far, by bucket and piece; of codecs that do, from
  // their first sum on.
  std::vector<std::vector<std::vector<float>>> residuals_;
  size_t pieces_per_step_ = 0;  // of this share
  std::vector<size_t> pieces_;  // likewise, by bucket
  bool has_terms_of_all_ = false;
  size_t kept_steps_ = 1;
  uint64_t limit_bytes_ = 0;
  uint64_t held_bytes_ = 0;
  StepState open_;
  std::deque<StepState> finished_;  // those kept, oldest first
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_SUMS_LAYOUT_SUMS_H_
