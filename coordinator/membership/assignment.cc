#include "coordinator/membership/assignment.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/wire/view.h"

namespace gradwire {
namespace {

// Those that stand in no wish, ascending.
std::vector<Rank> UnwantedRanks(const std::vector<Wish>& wishes, int world_size) {
  std::vector<bool> wanted(world_size, false);
  for (const Wish& wish : wishes) {
    for (Rank rank : wish) wanted[rank.value()] = true;
  }
  std::vector<Rank> unwanted;
  for (int rank = 0; rank < world_size; ++rank) {
    if (!wanted[rank]) unwanted.emplace_back(rank);
  }
  return unwanted;
}

absl::Status CheckDeal(const std::vector<Rank>& unwanted, size_t takers, size_t workers) {
  if (takers == 0 && !unwanted.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(NameOf(unwanted), " would be carried by nobody: got other ranks for all of ",
                     workers, " workers, expected that they carry all ranks together"));
  }
  if (unwanted.size() >= takers) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("ranks: ", unwanted.size(), " would be left for ",
                                                 takers, " of ", workers,
                                                 " workers, expected at least one for each"));
}

}  // namespace

absl::StatusOr<std::vector<std::vector<Rank>>> Assign(const std::vector<Wish>& wishes,
                                                      int world_size) {
  std::vector<std::vector<Rank>> ranks = wishes;
  const std::vector<Rank> unwanted = UnwantedRanks(wishes, world_size);
  const size_t takers = std::count(wishes.begin(), wishes.end(), Wish());
  absl::Status status = CheckDeal(unwanted, takers, wishes.size());
  if (!status.ok()) return status;
  auto next = unwanted.begin();
  size_t taker = 0;
  for (std::vector<Rank>& own : ranks) {
    std::sort(own.begin(), own.end());
    if (!own.empty()) continue;
    const size_t count = unwanted.size() / takers + (taker < unwanted.size() % takers ? 1 : 0);
    own.assign(next, next + count);
    next += count;
    ++taker;
  }
  return ranks;
}

}  // namespace gradwire
