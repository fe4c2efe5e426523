#include "worker/run/compute.h"

#include <spdlog/spdlog.h>
#include <torch/torch.h>

#include <string>

#include "common/base/blas.h"

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

}  // namespace gradwire
