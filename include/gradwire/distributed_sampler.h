#ifndef GRADWIRE_DISTRIBUTED_SAMPLER_H_
#define GRADWIRE_DISTRIBUTED_SAMPLER_H_

#include <gradwire/export.h>
#include <gradwire/process_group.h>
#include <torch/data/samplers/base.h>
#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace gradwire {

struct DistributedSamplerOptions {
  bool shuffle = true;     // false: in the order of the data set
  uint64_t seed = 0;       // of the order; epoch e is shuffled with seed + e
  bool drop_last = false;  // true: leave out the tail; false: repeat samples to fill it up
};

// Deals the samples of a data set to ranks, for torch::data::make_data_loader: index for index
// what Python's torch.utils.data.DistributedSampler gives. The samples are put in an order (a
// permutation, if shuffled), which is repeated or cut to W equal shares; rank r gets
// elements r, r + W, r + 2W, …
//
// Copies share their state: the data loader takes one, and set_epoch of another tells it.
// One thread at a time (a data loader asks its sampler on the thread that iterates).
class GRADWIRE_EXPORT DistributedSampler : public torch::data::samplers::Sampler<> {
 public:
  // `size`: samples in the data set, 1 to 2^32 - 1. Throws Error (kInvalidArgument) if it is not,
  // if `rank` is none of 0 … world_size - 1, or if drop_last leaves no sample for a rank.
  DistributedSampler(size_t size, int rank, int world_size,
                     const DistributedSamplerOptions& options = {});
  DistributedSampler(size_t size, const ProcessGroup& group,
                     const DistributedSamplerOptions& options = {})
      : DistributedSampler(size, group.rank(), group.world_size(), options) {}
  ~DistributedSampler() override;
  DistributedSampler(const DistributedSampler&);
  DistributedSampler& operator=(const DistributedSampler&);

  // The order of the passes that begin from now on. Without it each pass has the same one.
  void set_epoch(int64_t epoch);
  // Samples of this rank in a pass; the same for all ranks.
  size_t size() const;

  // Begins a pass; a data loader does so in begin(). `new_size`: samples in the data set from
  // here on; Error as the constructor.
  void reset(torch::optional<size_t> new_size = torch::nullopt) override;
  // The next `batch_size` indices, fewer at the end; none when all were given.
  torch::optional<std::vector<size_t>> next(size_t batch_size) override;
  // Epoch and position within the pass.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  struct GRADWIRE_HIDDEN State;
  std::shared_ptr<State> state_;
};

}  // namespace gradwire

#endif  // GRADWIRE_DISTRIBUTED_SAMPLER_H_
