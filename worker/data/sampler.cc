#include "worker/data/sampler.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/wire/xxh3.h"

namespace gradwire {
namespace {

// One 32-bit number per swap, reduced by modulo, as in torch.randperm; any other way would give
// another order.
void Shuffle(uint64_t seed, std::vector<int64_t>& order) {
  std::mt19937 generator(static_cast<uint32_t>(seed));
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    const size_t offset = generator() % (order.size() - i);
    std::swap(order[i], order[i + offset]);
  }
}

}  // namespace

absl::Status CheckRank(Rank rank, int world_size) {
  if (rank.value() >= 0 && rank.value() < world_size) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("rank ", rank.value(), ", expected 0 to ", world_size - 1));
}

absl::StatusOr<Sampler> Sampler::Create(int64_t samples, const SamplerOptions& options) {
  if (samples < 1 || samples > std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(samples, " samples, expected 1 to 4294967295"));
  }
  if (options.world_size < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("world size ", options.world_size, ", expected 1 or more"));
  }
  Sampler sampler(samples, options);
  if (sampler.per_rank_ == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(samples, " samples for ", options.world_size,
                     " ranks: without the tail no rank has a sample"));
  }
  return sampler;
}

Sampler::Sampler(int64_t samples, const SamplerOptions& options)
    : samples_(samples), options_(options) {
  const int64_t ranks = options.world_size;
  per_rank_ = options.drop_last ? samples / ranks : (samples + ranks - 1) / ranks;
}

int64_t Sampler::padded() const { return std::max<int64_t>(0, total() - samples_); }

int64_t Sampler::dropped() const { return std::max<int64_t>(0, samples_ - total()); }

std::vector<int64_t> Sampler::Order(int64_t epoch) const {
  std::vector<int64_t> order(samples_);
  std::iota(order.begin(), order.end(), 0);
  const auto shuffled = static_cast<uint64_t>(options_.set_epoch ? epoch : 0);
  if (options_.shuffle) Shuffle(options_.seed + shuffled, order);
  return order;
}

int64_t Sampler::OrderIndex(Rank rank, int64_t position) const {
  return (position * options_.world_size + rank.value()) % samples_;
}

int64_t Sampler::PaddedAmong(Rank rank, int64_t first, int64_t count) const {
  // Positions from this one on are after the end of the order.
  const int64_t own = (samples_ - rank.value() + options_.world_size - 1) / options_.world_size;
  return std::clamp<int64_t>(first + count - own, 0, count);
}

absl::StatusOr<std::vector<int64_t>> Sampler::Indices(int64_t epoch, Rank rank) const {
  if (absl::Status status = CheckRank(rank, options_.world_size); !status.ok()) return status;
  const std::vector<int64_t> order = Order(epoch);
  std::vector<int64_t> indices(per_rank_);
  for (int64_t i = 0; i < per_rank_; ++i) indices[i] = order[OrderIndex(rank, i)];
  return indices;
}

int64_t StepsPerEpoch(const Sampler& sampler, int64_t batch_size) {
  return (sampler.per_rank() - 1) / batch_size + 1;
}

SampleRange RangeOf(const Sampler& sampler, int64_t batch_size, Step step) {
  const auto steps = static_cast<uint64_t>(StepsPerEpoch(sampler, batch_size));
  SampleRange range;
  range.epoch = static_cast<int64_t>(step.value() / steps);
  range.first = static_cast<int64_t>(step.value() % steps) * batch_size;
  range.count = std::min(batch_size, sampler.per_rank() - range.first);
  return range;
}

uint64_t DigestOfIndices(absl::Span<const int64_t> indices) {
  return Xxh3InUse().whole(indices.data(), indices.size() * sizeof(int64_t));
}

std::string Sampler::Describe() const {
  std::string words =
      absl::StrCat(samples_, "/", options_.world_size, ": ", per_rank_, " each, total ", total());
  if (padded() > 0) absl::StrAppend(&words, ", ", padded(), " padded");
  if (dropped() > 0) absl::StrAppend(&words, ", ", dropped(), " dropped");
  return words;
}

}  // namespace gradwire
