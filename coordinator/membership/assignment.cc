#include "coordinator/membership/assignment.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/wire/view.h"

namespace gradwire {

namespace {

// Returns the ranks that are in no wish, ascending.
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
    return absl::InvalidArgumentError(absl::StrCat(
        NameOf(unwanted), " would be carried by no worker: got other ranks for all of ", workers,
        " workers, expected that they carry all ranks together"));
  }
  if (unwanted.size() >= takers) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("ranks: ", unwanted.size(), " would be left for ",
                                                 takers, " of ", workers,
                                                 " workers, expected at least one for each"));
}

// Returns the distance on the ring from `rank` to the next of `others`.
int DistanceTo(const std::vector<Rank>& others, Rank rank, int world_size) {
  int nearest = world_size;
  for (Rank other : others) {
    nearest = std::min(nearest, (other.value() - rank.value() + world_size) % world_size);
  }
  return nearest;
}

}  // namespace

void Adopt(const std::vector<Rank>& orphans, int world_size,
           std::vector<std::vector<Rank>*>* carried) {
  for (const Rank orphan : orphans) {
    const auto load = [&](const std::vector<Rank>* ranks) {
      return std::make_pair(ranks->size(), DistanceTo(*ranks, orphan, world_size));
    };
    std::vector<Rank>* taker = *std::min_element(
        carried->begin(), carried->end(), [&](auto* a, auto* b) { return load(a) < load(b); });
    taker->insert(std::lower_bound(taker->begin(), taker->end(), orphan), orphan);
  }
}

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
