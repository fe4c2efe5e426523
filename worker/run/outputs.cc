#include "worker/run/outputs.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/output_file.h"
#include "common/wire/view.h"

namespace gradwire {
namespace {

// A trace is the worker's; a log and a summary are a rank's.
absl::Status CheckNames(const WorkerOptions& options, const std::vector<Rank>& ranks) {
  if (ranks.size() == 1) return absl::OkStatus();
  for (const std::string& path : {options.summary, options.log_jsonl}) {
    if (path.empty() || PathOfRank(path, ranks[0]) != PathOfRank(path, ranks[1])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("got file ", path, " for ", NameOf(ranks), ", expected {rank} in its name"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckOutputs(const WorkerOptions& options, const std::vector<Rank>& ranks) {
  if (absl::Status named = CheckNames(options, ranks); !named.ok()) return named;
  for (const std::string& path :
       {options.summary, options.log_jsonl, options.trace, options.save_weights}) {
    if (path.empty()) continue;
    const absl::Status status = CheckWritable(PathOfRank(path, ranks.front()));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace gradwire
