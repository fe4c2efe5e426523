#include <gradwire/distributed_sampler.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <utility>

#include "library/errors.h"
#include "worker/data/sampler.h"

namespace gradwire {
namespace {

Sampler MakeSampler(size_t size, int rank, const SamplerOptions& options) {
  absl::StatusOr<Sampler> sampler = Sampler::Create(static_cast<int64_t>(size), options);
  absl::Status status = sampler.status();
  if (status.ok()) status = CheckRank(Rank(rank), options.world_size);
  if (!status.ok()) throw ToError(status, rank, -1);
  return *std::move(sampler);
}

void WriteNumber(torch::serialize::OutputArchive& archive, const char* key, int64_t value) {
  archive.write(key, torch::tensor(value, torch::kLong), /*is_buffer=*/true);
}

int64_t ReadNumber(torch::serialize::InputArchive& archive, const char* key) {
  torch::Tensor value = torch::empty(1, torch::kLong);
  archive.read(key, value, /*is_buffer=*/true);
  return value.item<int64_t>();
}

}  // namespace

struct DistributedSampler::State {
  SamplerOptions options;
  int rank;
  gradwire::Sampler sampler;  // not the inherited torch one
  int64_t epoch = 0;
  size_t position = 0;
  std::vector<int64_t> indices = {};  // of the pass; empty before it begins

  void Begin() {
    if (indices.empty()) indices = sampler.Indices(epoch, Rank(rank)).value();
  }
};

DistributedSampler::DistributedSampler(size_t size, int rank, int world_size,
                                       const DistributedSamplerOptions& options) {
  const SamplerOptions own = {world_size, options.shuffle, options.seed, options.drop_last};
  state_ = std::make_shared<State>(State{own, rank, MakeSampler(size, rank, own)});
}

DistributedSampler::~DistributedSampler() = default;
DistributedSampler::DistributedSampler(const DistributedSampler&) = default;
DistributedSampler& DistributedSampler::operator=(const DistributedSampler&) = default;

void DistributedSampler::set_epoch(int64_t epoch) { state_->epoch = epoch; }

size_t DistributedSampler::size() const { return static_cast<size_t>(state_->sampler.per_rank()); }

void DistributedSampler::reset(torch::optional<size_t> new_size) {
  if (new_size.has_value()) {
    state_->sampler = MakeSampler(*new_size, state_->rank, state_->options);
  }
  state_->position = 0;
  state_->indices.clear();
}

torch::optional<std::vector<size_t>> DistributedSampler::next(size_t batch_size) {
  State& state = *state_;
  state.Begin();
  const size_t count = std::min(batch_size, state.indices.size() - state.position);
  if (count == 0) return torch::nullopt;
  const auto first = state.indices.begin() + static_cast<std::ptrdiff_t>(state.position);
  state.position += count;
  return std::vector<size_t>(first, first + static_cast<std::ptrdiff_t>(count));
}

void DistributedSampler::save(torch::serialize::OutputArchive& archive) const {
  WriteNumber(archive, "epoch", state_->epoch);
  WriteNumber(archive, "position", static_cast<int64_t>(state_->position));
}

void DistributedSampler::load(torch::serialize::InputArchive& archive) {
  state_->epoch = ReadNumber(archive, "epoch");
  state_->indices.clear();
  state_->Begin();
  state_->position =
      std::min(static_cast<size_t>(ReadNumber(archive, "position")), state_->indices.size());
}

}  // namespace gradwire
