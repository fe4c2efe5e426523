#include "worker/backends/overflow_monitor.h"

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "common/wire/layout.h"

namespace gradwire {

void OverflowMonitor::Note(Step step, Rank rank) {
  uint64_t steps;
  {
    MutexLock lock(&mutex_);
    if (last_ == step) return;
    last_ = step;
    steps = ++steps_;
  }
  if ((steps & (steps - 1)) == 0) spdlog::warn("{}", OverflowMessage(wire_, step, rank, steps));
}

uint64_t OverflowMonitor::steps() const {
  MutexLock lock(&mutex_);
  return steps_;
}

std::string OverflowMessage(v1::DType wire, Step step, Rank rank, uint64_t steps) {
  const bool is_half = wire == v1::DTYPE_FLOAT16;
  return absl::StrCat(
      "step ", step.value(), ", rank ", rank.value(), ": a gradient is too large for ",
      WireName(wire), is_half ? " (above 65504)" : " (above 3.39e38)",
      " and became infinite on the wire, and so does the mean of all ranks; ",
      is_half ? "--wire bf16 has the range of fp32, and a smaller --lr keeps gradients small"
              : "a smaller --lr keeps gradients small",
      " (steps with such gradients: ", steps, ")");
}

}  // namespace gradwire
