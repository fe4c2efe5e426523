#ifndef GRADWIRE_BENCH_COLLECTIVE_ROW_H_
#define GRADWIRE_BENCH_COLLECTIVE_ROW_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/base/table.h"

namespace gradwire {

// What all ranks measured for one size, back end and wire.
struct CollectiveRun {
  std::string backend;
  std::string wire;
  uint64_t bytes = 0;  // of the bucket, as float32
  // What each rank printed: see bench/rank/collective_rank.h, ToJson.
  std::vector<nlohmann::json> ranks;
  // Of the coordinator over the whole run, if it moves gradients and is known.
  absl::optional<double> coordinator_cpu_seconds;
  absl::optional<double> link_gbit;
};

// A row of the table; the fields are those of CollectiveColumns().
//
//   time    of an iteration is the longest of all ranks' times of that iteration
//   algbw   bytes / median time, busbw 2(W-1)/W of that, in 10^9 bytes a second
//   bound   least time on the links (see bounds.h) / median time, in per cent
//   cpu     seconds of all processes for each 10^9 bytes of payload that any of
//           them sent; null if a part is unknown or nothing was sent
//   wrong   of all values that any rank checked
//
// Internal if a rank's report lacks a field or ranks did not measure alike.
absl::StatusOr<nlohmann::ordered_json> MakeCollectiveRow(const CollectiveRun& run);

const std::vector<TableColumn>& CollectiveColumns();

}  // namespace gradwire

#endif  // GRADWIRE_BENCH_COLLECTIVE_ROW_H_
