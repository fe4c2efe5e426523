#ifndef GRADWIRE_WORKER_DATA_SAMPLER_H_
#define GRADWIRE_WORKER_DATA_SAMPLER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"

namespace gradwire {

struct SamplerOptions {
  int world_size = 1;      // ranks that share the samples
  bool shuffle = true;     // false: in the order of the data set
  uint64_t seed = 0;       // of the order; epoch e is shuffled with seed + e
  bool drop_last = false;  // true: leave out the tail; false: repeat samples to fill it up
  bool set_epoch = true;   // false: every epoch in the order of epoch 0
};

// Deals the samples of a data set to ranks: index for index what
// torch.utils.data.DistributedSampler gives, with epoch as set_epoch sets it, or never set.
//
// The samples are put in an order (a permutation, if shuffled), which is
// repeated or cut to W equal shares; rank r gets elements r, r + W, r + 2W, …
// The shuffle is torch.randperm's, on the 32-bit Mersenne twister that torch's
// CPU generator is; it is done here so that no thread of torch's is woken.
//
// Immutable; safe to use from any thread.
class Sampler {
 public:
  // `samples`: how many the data set holds.
  //   InvalidArgument  no samples or 2^32 and more; a world size below 1; fewer
  //                    samples than ranks under drop_last, which leaves no share
  static absl::StatusOr<Sampler> Create(int64_t samples, const SamplerOptions& options);

  // Samples that each rank sees in an epoch; the same number for every rank.
  int64_t per_rank() const { return per_rank_; }
  // Samples that all ranks see together in an epoch.
  int64_t total() const { return per_rank_ * options_.world_size; }
  // How many of total() are repeats of samples seen already.
  int64_t padded() const;
  // How many samples no rank sees in an epoch.
  int64_t dropped() const;

  // All samples in the order of `epoch`, before they are repeated or cut.
  std::vector<int64_t> Order(int64_t epoch) const;
  // Position within Order() of a rank's sample number `position` (< per_rank()).
  // Needs 0 ≤ rank < W.
  int64_t OrderIndex(Rank rank, int64_t position) const;
  // How many of a rank's samples number first … first + count - 1 are repeats.
  int64_t PaddedAmong(Rank rank, int64_t first, int64_t count) const;
  // A rank's samples in `epoch`, per_rank() of them.
  //   InvalidArgument  no such rank
  absl::StatusOr<std::vector<int64_t>> Indices(int64_t epoch, Rank rank) const;

  // The shares in words: `256/3: 86 each, total 258, 2 padded`, or with
  // drop_last `256/3: 85 each, total 255, 1 dropped`.
  std::string Describe() const;

 private:
  Sampler(int64_t samples, const SamplerOptions& options);

  int64_t samples_;
  SamplerOptions options_;
  int64_t per_rank_;
};

// OK if 0 ≤ rank < world_size, else InvalidArgument.
absl::Status CheckRank(Rank rank, int world_size);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DATA_SAMPLER_H_
