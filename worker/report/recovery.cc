#include "worker/report/recovery.h"

#include <nlohmann/json.hpp>

namespace gradwire {
namespace {

// As the other rows have it: of whole microseconds.
double Seconds(absl::Time time) { return static_cast<double>(absl::ToUnixMicros(time)) / 1e6; }

std::vector<int> Numbers(const std::vector<Rank>& ranks) {
  std::vector<int> numbers;
  for (const Rank rank : ranks) numbers.push_back(rank.value());
  return numbers;
}

nlohmann::ordered_json CarriersJson(const ViewChange& change) {
  nlohmann::ordered_json carriers = nlohmann::ordered_json::array();
  for (const Adoption& adoption : change.adoptions) {
    carriers.push_back(
        {{"ranks", Numbers(adoption.by.ranks)}, {"adopted", Numbers(adoption.ranks)}});
  }
  return carriers;
}

}  // namespace

nlohmann::ordered_json RecoveryJson(const Recovery& recovery) {
  return {{"generation", recovery.generation.value()},
          {"first_step", recovery.step.value()},
          {"losses", recovery.change.lost.size()},
          {"lost_ranks", Numbers(recovery.change.LostRanks())},
          {"carriers", CarriersJson(recovery.change)},
          {"ranks", Numbers(recovery.ranks)},
          {"adopted", Numbers(recovery.adopted)},
          {"heard", Seconds(recovery.heard)},
          {"gone_on", Seconds(recovery.gone_on)},
          {"seconds_lost", absl::ToDoubleSeconds(recovery.lost.total())},
          {"seconds_lost_by_phase", PhasesOf(recovery.lost)}};
}

}  // namespace gradwire
