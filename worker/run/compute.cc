#include "worker/run/compute.h"

#include <spdlog/spdlog.h>
#include <torch/torch.h>

#include <mutex>
#include <string>

#include "common/base/host.h"
#include "worker/data/augment.h"

namespace gradwire {

namespace {

void LogBlas() {
  const absl::StatusOr<Blas> blas = FindBlas();
  if (!blas.ok()) {
    spdlog::warn("BLAS unknown: {}", std::string(blas.status().message()));
    return;
  }
  spdlog::info("BLAS: {}", Describe(*blas));
  if (!blas->warning.empty()) spdlog::warn("{}", blas->warning);
}

}  // namespace

void UseComputeThreads(int threads) {
  SetBlasThreads(threads);
  torch::set_num_threads(threads);
  LogBlas();
}

namespace {

constexpr uint64_t kForward = 0x0064'7261'7772'6f66;  // "forward\0"

}  // namespace

uint64_t ForwardSeed(uint64_t seed, Step step, Rank rank, int64_t micro_batch) {
  uint64_t state = kForward;
  for (const uint64_t value : {seed, step.value(), static_cast<uint64_t>(rank.value()),
                               static_cast<uint64_t>(micro_batch)}) {
    state = SplitMix64(state ^ value);
  }
  return state;
}

void SeedForward(uint64_t seed) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
}

}  // namespace gradwire
