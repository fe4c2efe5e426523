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
  bool shuffle = true;     // false: keeps the order of the data set
  uint64_t seed = 0;       // seed of the order; epoch e is shuffled with seed + e
  bool drop_last = false;  // true: leaves out the tail; false: repeats samples to fill it up
};

// Divides the samples of a data set among ranks, for torch::data::make_data_loader. Gives the same
// indices as Python's torch.utils.data.DistributedSampler: it orders the samples (if shuffled, by a
// permutation) and repeats or cuts them to W equal shares. Rank r gets elements r, r + W, r + 2W, …
//
// Copies share their state: the data loader owns a copy, and set_epoch of another copy reaches it.
// One thread at a time (a data loader asks its sampler on the thread that iterates).
class GRADWIRE_EXPORT DistributedSampler : public torch::data::samplers::Sampler<> {
 public:
  // `size`: number of samples in the data set, 1 to 2^32 - 1. Throws Error (kInvalidArgument) if it
  // is outside of that range, if `rank` is not in 0 … world_size - 1, or if drop_last leaves no
  // sample for a rank.
  DistributedSampler(size_t size, int rank, int world_size,
                     const DistributedSamplerOptions& options = {});
  DistributedSampler(size_t size, const ProcessGroup& group,
                     const DistributedSamplerOptions& options = {})
      : DistributedSampler(size, group.rank(), group.world_size(), options) {}
  ~DistributedSampler() override;
  DistributedSampler(const DistributedSampler&);
  DistributedSampler& operator=(const DistributedSampler&);

  // Sets the epoch, and so the order, of passes that begin from now on. Without it all passes have
  // the same order.
  void set_epoch(int64_t epoch);
  // Returns the number of samples of this rank in a pass; equal on all ranks.
  size_t size() const;

  // Begins a pass; a data loader does so in begin(). `new_size`: samples in the data set from now
  // on. Throws as the constructor does.
  void reset(torch::optional<size_t> new_size = torch::nullopt) override;
  // Returns the next `batch_size` indices, fewer at the end, and none after that.
  torch::optional<std::vector<size_t>> next(size_t batch_size) override;
  // Save and load epoch and position within the pass.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  struct GRADWIRE_HIDDEN State;
  std::shared_ptr<State> state_;
};

}  // namespace gradwire

#endif  // GRADWIRE_DISTRIBUTED_SAMPLER_H_
