#include "common/wire/view_change.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace gradwire {
namespace {

// Null if it is in the view no more.
const Member* FindMember(const View& view, Incarnation incarnation) {
  const auto found = std::find_if(
      view.members.begin(), view.members.end(),
      [incarnation](const Member& member) { return member.incarnation == incarnation; });
  return found == view.members.end() ? nullptr : &*found;
}

std::vector<Rank> Without(const std::vector<Rank>& ranks, const Member* member) {
  if (member == nullptr) return ranks;
  std::vector<Rank> left;
  std::set_difference(ranks.begin(), ranks.end(), member->ranks.begin(), member->ranks.end(),
                      std::back_inserter(left));
  return left;
}

}  // namespace

std::vector<Rank> ViewChange::LostRanks() const {
  std::vector<Rank> ranks;
  for (const Member& member : lost) {
    ranks.insert(ranks.end(), member.ranks.begin(), member.ranks.end());
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

ViewChange ChangeOf(const View& before, const View& now) {
  ViewChange change;
  for (const Member& member : before.members) {
    if (FindMember(now, member.incarnation) == nullptr) change.lost.push_back(member);
  }
  for (const Member& member : now.members) {
    std::vector<Rank> adopted = Without(member.ranks, FindMember(before, member.incarnation));
    if (!adopted.empty()) change.adoptions.push_back({member, std::move(adopted)});
  }
  return change;
}

}  // namespace gradwire
