#ifndef GRADWIRE_BENCH_RANK_COLLECTIVE_RANK_H_
#define GRADWIRE_BENCH_RANK_COLLECTIVE_RANK_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/rank/collective_loop.h"
#include "bench/rank/rank_options.h"
#include "worker/member/member.h"

namespace gradwire {

// One rank of a real run whose gradient is one bucket. It joins the run, repeats one collective
// with the chosen back end, and leaves.
class CollectiveRank {
 public:
  // Errors of RunMember::Create, Join, Connect and Declare.
  static absl::StatusOr<std::unique_ptr<CollectiveRank>> Join(const RankOptions& options);
  // Runs the loop. Returns its results (with --show, its values): one JSON object on one line, with
  // a newline. Errors of CollectiveLoop, RunMember::Finish and RunMember::Leave.
  absl::StatusOr<std::string> Measure();

 private:
  CollectiveRank(const RankOptions& options, std::unique_ptr<RunMember> member)
      : options_(options), member_(std::move(member)) {}
  absl::StatusOr<std::string> Report(const absl::StatusOr<LoopResult>& result) const;
  absl::StatusOr<std::string> Report(const absl::StatusOr<Shown>& shown) const;

  const RankOptions options_;
  const std::unique_ptr<RunMember> member_;
};

}  // namespace gradwire

#endif  // GRADWIRE_BENCH_RANK_COLLECTIVE_RANK_H_
