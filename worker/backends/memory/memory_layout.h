#ifndef GRADWIRE_WORKER_BACKENDS_MEMORY_MEMORY_LAYOUT_H_
#define GRADWIRE_WORKER_BACKENDS_MEMORY_MEMORY_LAYOUT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/compress/compression_totals.h"
#include "common/fold/blocks.h"
#include "common/wire/layout.h"
#include "common/wire/view.h"
#include "worker/backends/compressors.h"
#include "worker/backends/exchange.h"
#include "worker/backends/memory/bucket_format.h"
#include "worker/backends/memory/shared_memory.h"

namespace gradwire {

// The buckets of a layout in the memory of the workers of a view, which are all on one host. Each
// worker makes one memory, to which only it writes:
//
//   progress of each bucket │ terms of each of its ranks │ its part of the means
//
// A bucket of a step goes through it without a lock. Each worker
//
//   1  writes its terms, then `contributed`;
//   2  once all have contributed: folds its part of the bucket from all workers' terms, then writes
//      `folded`;
//   3  once all have folded: reads the means, which are then whole.
//
// Steps only grow. Memory that a worker writes again is not read any more: terms of the next step
// are written after 3, so after all have folded them; means of the next step are written after all
// have contributed to it, so after all have read those of this step.
//
// Memory order: `contributed` and `folded` are stored with release after what they publish, and
// read with acquire before it (memory_orders.h; tests/model checks this protocol).
//
// Nothing is copied in 1 if the terms already lie in this worker's memory (TermsMemory), and
// nothing in 3 if the means are read where they are (MeansMemory). Then the argument above reads:
//
//   terms  this worker may write its terms of the next step once it is past 3: all have folded
//   means  this worker ends its reading before it publishes its terms of the next step: until then
//          nobody has all terms, so nobody writes means. A worker that was lost while it was
//          stopped is in the same position: it writes means only after terms that this one never
//          publishes in their view
//
// A bucket of bytes has no means: in 2 the workers copy what they get from the others' terms.
// Results may have more than the collective asks for, never less. BucketFormat says how terms and
// means are rounded.
class MemoryLayout {
 public:
  // How far a worker is with a bucket: the number of steps in which it is past that point.
  struct alignas(64) Progress {
    std::atomic<uint64_t> contributed;
    std::atomic<uint64_t> folded;
    // Before `folded`, of its part of the means: bytes as a payload, 0 if it is not coded; and the
    // result of FoldByHops.
    uint64_t coded_bytes;
    uint64_t overflow;
  };
  // The effect of rounding values for memory.
  struct Rounding {
    uint64_t overflow = 0;  // a bit for each rank, r mod 64, that made a finite value infinite
    CompressionTotals compressed = {};
  };

  // `buckets` are in float32. `compressors` belong to this worker's ranks, if `wire` is coded.
  MemoryLayout(const View& view, LayoutId id, std::vector<BucketSpec> buckets,
               const MemoryWire& wire, Compressors* compressors);

  // Returns the bytes that a worker with as many ranks makes for a layout.
  static uint64_t BytesOf(absl::Span<const BucketSpec> buckets, const MemoryWire& wire,
                          size_t ranks);

  // Makes this worker's memory. Errors: as for SharedMemory::Make.
  absl::Status Make();
  // Maps the memory of all others that exists. Returns NotFound if some does not yet; sets `at` to
  // the worker of another error.
  absl::Status Open(size_t* at);
  // Returns whether Make succeeded.
  bool is_made() const { return memory_[self_] != nullptr; }

  // Returns where this worker's memory has a term of one of its ranks, if it is there as the caller
  // has it; else empty.
  Exchange::Memory TermsMemory(Rank rank, Bucket bucket) const;
  // Returns where the mean of a bucket will be in one piece, if it is there as the caller needs it;
  // else empty. Not within Open.
  Exchange::Memory MeansMemory(Bucket bucket);

  // Writes a term of this worker.
  Rounding Write(const BucketKey& key, Rank rank, absl::Span<const uint8_t> terms);
  void Publish(std::atomic<uint64_t> Progress::*point, const BucketKey& key);
  // Returns the workers, by index in the view, that are not past a point of a bucket which they
  // must pass.
  std::vector<size_t> Missing(std::atomic<uint64_t> Progress::*point, const BucketKey& key) const;

  // Returns what this worker keeps from step to step; see Exchange::Kept.
  std::vector<KeptValues> Kept();

  // Folds this worker's part of a bucket of floats, after all have contributed.
  void Fold(Bucket bucket);
  // Copies what this worker gets of a bucket of bytes, after those who have some have contributed.
  void ReadTerms(Bucket bucket, absl::Span<uint8_t> result) const;
  // Copies the means that this worker gets, after all have folded.
  Rounding Read(Bucket bucket, absl::Span<uint8_t> result) const;
  // Returns whether `result` is what MeansMemory returned, so that Read is not needed.
  bool IsJoined(Bucket bucket, absl::Span<uint8_t> result) const;

 private:
  // A range of elements of a bucket.
  struct Part {
    uint64_t first = 0;
    uint64_t count = 0;
  };

  // Returns whether a worker contributes to a bucket, and whether this one gets a result.
  bool HasTerms(size_t worker, const BucketSpec& spec) const;
  bool Receives(const BucketSpec& spec) const;
  void ReadParts(Bucket bucket, absl::Span<uint8_t> result) const;
  Rounding ReadMeans(Bucket bucket, absl::Span<uint8_t> result) const;
  Rounding WriteCoded(const BucketKey& key, Rank rank, absl::Span<const float> values);
  void FoldByHops(Bucket bucket, const Part& part);
  void FoldWhole(Bucket bucket, const Part& part, uint8_t* out);
  void FoldCoded(Bucket bucket, const Part& part);
  // Returns the part's blocks, in bytes of a term.
  std::vector<FoldRange> BlocksOf(Bucket bucket, const Part& part) const;
  // Returns where a worker's memory has its part of the mean.
  uint8_t* MeansOf(size_t worker, Bucket bucket, const Part& part) const;
  size_t MeansAt(size_t worker) const;
  uint8_t* At(size_t worker) const;
  absl::Status MapMeansOf(size_t worker, JoinedMemory* joined) const;
  const uint8_t* Terms(Rank rank, Bucket bucket) const;
  Progress* ProgressOf(size_t worker, Bucket bucket) const;
  Part PartOf(size_t worker, Bucket bucket) const;
  size_t BytesOf(size_t worker) const;
  std::string NameOf(size_t worker) const;

  const View view_;
  const LayoutId id_;
  const std::vector<BucketSpec> buckets_;
  Compressors* const compressors_;
  const std::vector<BucketFormat> formats_;  // by bucket
  const FoldBlocks blocks_;                  // of terms
  std::vector<uint64_t> term_offsets_;       // of each bucket in a rank's terms
  std::vector<uint64_t> mean_offsets_;       // of each bucket in the means
  uint64_t term_bytes_ = 0;                  // of a rank
  uint64_t mean_bytes_ = 0;
  std::vector<std::vector<float>> residuals_;  // of this worker's parts of coded means, by bucket
  std::vector<float> folded_;                  // for FoldCoded
  size_t self_ = 0;                            // index in the view
  bool open_ = false;
  std::vector<std::shared_ptr<const SharedMemory>> memory_;  // by worker; null: not mapped
  std::shared_ptr<JoinedMemory> joined_;  // the means of all parts; null: not asked for
  std::vector<size_t> carrier_;           // by rank: index of its worker
  std::vector<size_t> place_;             // by rank: among those of its worker
};

// Returns the name of a worker's shared memory; no other worker, view or run has the same.
std::string MemoryName(const View& view, Incarnation worker, const std::string& what);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_MEMORY_MEMORY_LAYOUT_H_
