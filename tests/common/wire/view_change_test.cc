#include <gmock/gmock.h>

#include "common/wire/view.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Of members that are known by a number, each with its ranks.
View ViewOf(const std::vector<std::pair<int, std::vector<int>>>& members) {
  View view;
  for (const auto& [number, ranks] : members) {
    Member member{Incarnation(number), "10.10.1.1:" + std::to_string(number), {}};
    for (const int rank : ranks) member.ranks.emplace_back(rank);
    view.members.push_back(std::move(member));
  }
  return view;
}

TEST(ChangeOf, SameView_Nothing) {
  const View view = ViewOf({{1, {0}}, {2, {1}}});
  const ViewChange change = ChangeOf(view, view);
  EXPECT_THAT(change.lost, IsEmpty());
  EXPECT_THAT(change.adoptions, IsEmpty());
  EXPECT_THAT(change.LostRanks(), IsEmpty());
}

TEST(ChangeOf, OneIsLost_NeighbourAdoptsItsRank) {
  const ViewChange change =
      ChangeOf(ViewOf({{1, {0}}, {2, {1}}, {3, {2}}}), ViewOf({{1, {0}}, {3, {1, 2}}}));
  ASSERT_EQ(change.lost.size(), 1u);
  EXPECT_EQ(change.lost[0].incarnation, Incarnation(2));
  EXPECT_THAT(change.LostRanks(), ElementsAre(Rank(1)));
  ASSERT_EQ(change.adoptions.size(), 1u);
  EXPECT_EQ(change.adoptions[0].by.incarnation, Incarnation(3));
  EXPECT_THAT(change.adoptions[0].by.ranks, ElementsAre(Rank(1), Rank(2)));
  EXPECT_THAT(change.adoptions[0].ranks, ElementsAre(Rank(1)));
}

TEST(ChangeOf, OneIsLostAndAnotherComes_TheNewOneAdoptsAllItsRanks) {
  const ViewChange change =
      ChangeOf(ViewOf({{1, {0}}, {2, {1, 2}}}), ViewOf({{1, {0}}, {3, {1, 2}}}));
  EXPECT_THAT(change.LostRanks(), ElementsAre(Rank(1), Rank(2)));
  ASSERT_EQ(change.adoptions.size(), 1u);
  EXPECT_EQ(change.adoptions[0].by.incarnation, Incarnation(3));
  EXPECT_THAT(change.adoptions[0].ranks, ElementsAre(Rank(1), Rank(2)));
}

TEST(ChangeOf, TwoAreLostAtOnce_RanksOfBothAscending) {
  const ViewChange change = ChangeOf(ViewOf({{1, {2, 5}}, {2, {1}}, {3, {0, 3}}, {4, {4}}}),
                                     ViewOf({{2, {0, 1, 2}}, {4, {3, 4, 5}}}));
  EXPECT_THAT(change.LostRanks(), ElementsAre(Rank(0), Rank(2), Rank(3), Rank(5)));
  ASSERT_EQ(change.adoptions.size(), 2u);
  EXPECT_THAT(change.adoptions[0].ranks, ElementsAre(Rank(0), Rank(2)));
  EXPECT_THAT(change.adoptions[1].ranks, ElementsAre(Rank(3), Rank(5)));
}

}  // namespace
}  // namespace gradwire
