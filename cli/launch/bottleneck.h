#ifndef GRADWIRE_CLI_LAUNCH_BOTTLENECK_H_
#define GRADWIRE_CLI_LAUNCH_BOTTLENECK_H_

#include <limits>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "common/telemetry/phases.h"

namespace gradwire {

// Means over the iterations of one rank, seconds.
struct RankTimes {
  int rank = 0;
  double iteration = 0;
  PhaseSeconds phases;
};

// A run, as far as it is known what it was.
struct RunTimes {
  std::vector<RankTimes> ranks;
  std::string sync;  // "": unknown, as the others
  std::string backend;
  std::string wire;
  // Of its communication, the part that links of the given speed need at least.
  absl::optional<double> link_share;
};

enum class BottleneckKind {
  kUnknown,
  kComputation,
  kExposedCommunication,
  kData,
  kOptimizer,
  kStraggler
};

// What an iteration mostly waits for, and a sentence for people that names it,
// its time, and what to try.
struct Bottleneck {
  BottleneckKind kind = BottleneckKind::kUnknown;
  std::string sentence;
};

// Judged in this order:
//   straggler   one rank's own work (iteration − exposed communication) is longer than
//               the median of the others' by at least a tenth of an iteration
//   exposed communication, waiting for data, optimizer: the longest of the three, if it
//               takes at least a sixth of an iteration (means over the ranks)
//   computation otherwise
// Unknown if no rank has times: none ran two iterations.
Bottleneck FindBottleneck(const RunTimes& run);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_LAUNCH_BOTTLENECK_H_
