#ifndef GRADWIRE_WORKER_DATA_SAMPLER_H_
#define GRADWIRE_WORKER_DATA_SAMPLER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"

namespace gradwire {

struct SamplerOptions {
  int world_size = 1;      // ranks that share the samples
  bool shuffle = true;     // false: keeps the order of the data set
  uint64_t seed = 0;       // seed of the order; epoch e is shuffled with seed + e
  bool drop_last = false;  // true: leaves out the tail; false: repeats samples to fill it up
  bool set_epoch = true;   // false: every epoch has the order of epoch 0
};

// Divides the samples of a data set among ranks, with the same indices as
// torch.utils.data.DistributedSampler whose set_epoch is called, or never called.
//
// The samples are put in an order (a permutation, if shuffled), which is repeated or cut to W equal
// shares; rank r gets elements r, r + W, r + 2W, … The shuffle is torch.randperm's, with the 32-bit
// Mersenne twister of torch's CPU generator; it is computed here to wake no thread of torch.
//
// Immutable; safe to use from any thread.
class Sampler {
 public:
  // `samples`: number in the data set.
  //   InvalidArgument  no samples, or 2^32 or more; a world size below 1; fewer samples than ranks
  //                    with drop_last, which leaves no share
  static absl::StatusOr<Sampler> Create(int64_t samples, const SamplerOptions& options);

  // Returns the number of samples of each rank in an epoch; equal on all ranks.
  int64_t per_rank() const { return per_rank_; }
  // Returns the number of samples of all ranks in an epoch.
  int64_t total() const { return per_rank_ * options_.world_size; }
  // Returns how many of total() are repeats.
  int64_t padded() const;
  // Returns the number of samples that no rank gets in an epoch.
  int64_t dropped() const;

  // Returns all samples in the order of `epoch`, before they are repeated or cut.
  std::vector<int64_t> Order(int64_t epoch) const;
  // Returns the index in Order() of a rank's sample `position` (< per_rank()). Needs 0 ≤ rank < W.
  int64_t OrderIndex(Rank rank, int64_t position) const;
  // Returns how many of a rank's samples first … first + count - 1 are repeats.
  int64_t PaddedAmong(Rank rank, int64_t first, int64_t count) const;
  // Returns a rank's samples in `epoch`, per_rank() of them. InvalidArgument: no such rank.
  absl::StatusOr<std::vector<int64_t>> Indices(int64_t epoch, Rank rank) const;

  // Describes the shares: `256/3: 86 each, total 258, 2 padded`, or with drop_last `256/3: 85 each,
  // total 255, 1 dropped`.
  std::string Describe() const;

 private:
  Sampler(int64_t samples, const SamplerOptions& options);

  int64_t samples_;
  SamplerOptions options_;
  int64_t per_rank_;
};

// The samples of a rank in one step, as positions among its samples of an epoch.
struct SampleRange {
  int64_t epoch = 0;
  int64_t first = 0;
  int64_t count = 0;
};

// Returns the number of steps of an epoch, with `batch_size` samples per rank and step.
int64_t StepsPerEpoch(const Sampler& sampler, int64_t batch_size);
// Returns the samples of every rank in `step`. Steps count through the epochs; an epoch's last step
// has the remaining samples.
SampleRange RangeOf(const Sampler& sampler, int64_t batch_size, Step step);

// Returns XXH3_64bits of the indices, 8 bytes each, little endian; see RankSamples in
// membership.proto.
uint64_t DigestOfIndices(absl::Span<const int64_t> indices);

// Returns OK if 0 ≤ rank < world_size, else InvalidArgument.
absl::Status CheckRank(Rank rank, int world_size);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DATA_SAMPLER_H_
