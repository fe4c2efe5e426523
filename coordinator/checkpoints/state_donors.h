#ifndef GRADWIRE_COORDINATOR_CHECKPOINTS_STATE_DONORS_H_
#define GRADWIRE_COORDINATOR_CHECKPOINTS_STATE_DONORS_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/rpc/security.h"
#include "common/state/state_plan.h"
#include "common/state_transfer/state_fetcher.h"
#include "coordinator/membership/membership.h"

namespace gradwire {

// The workers that hold one state. Not thread-safe.
class StateDonors {
 public:
  StateDonors(const SaveState& save, const RunId& run_id, const Security& security);

  // Fills `out`, as many bytes as the part has. Donors take turns by part. One that fails is not
  // asked again, and the log says so. If no worker is left that holds some tensor:
  // FailedPrecondition if one had given up its copy, else Unavailable.
  absl::Status Fetch(const StatePlan& plan, int part, absl::Span<uint8_t> out);

 private:
  struct Donor {
    std::string name;
    std::unique_ptr<StateFetcher> fetcher;
    bool lost = false;
  };

  // Returns the donor for a tensor; null if none is left.
  Donor* Select(const std::string& section, const std::string& key, size_t turn);

  std::vector<Donor> donors_;
  bool gave_up_ = false;  // a worker had another copy, or none
  std::map<std::pair<std::string, std::string>, std::vector<size_t>> holders_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_CHECKPOINTS_STATE_DONORS_H_
