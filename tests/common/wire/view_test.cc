#include "common/wire/view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Incarnation kFirst(71);
constexpr Incarnation kSecond(72);
constexpr Incarnation kStranger(73);

// Three ranks on two workers, the second of which carries two.
View ThreeRanks() {
  View view;
  view.run_id.fill(7);
  view.epoch = CoordinatorEpoch(1);
  view.generation = Generation(4);
  view.world_size = 3;
  view.self = kSecond;
  view.members = {{kFirst, "a:1", {Rank(2)}, 4711, "a host", {5, 0, MemoryLimits::kNoLimit, 7}},
                  {kSecond, "b:2", {Rank(0), Rank(1)}, 12, "a host"}};
  view.chunk_bytes = 64;
  view.threads = 2;
  view.first_step = Step(9);
  view.seals = true;
  view.records = true;
  view.keeps_state = true;
  view.checkpoint_every = 25;
  return view;
}

TEST(View, OwnRanks_OfEachMember_AreThoseItCarries) {
  View view = ThreeRanks();
  EXPECT_THAT(view.OwnRanks(), ElementsAre(Rank(0), Rank(1)));
  view.self = kFirst;
  EXPECT_THAT(view.OwnRanks(), ElementsAre(Rank(2)));
  view.self = kStranger;
  EXPECT_THAT(view.OwnRanks(), IsEmpty());
}

TEST(View, Carrier_EveryRank_IsTheMemberWithIt) {
  const View view = ThreeRanks();
  EXPECT_EQ(view.Carrier(Rank(0)).address, "b:2");
  EXPECT_EQ(view.Carrier(Rank(1)).address, "b:2");
  EXPECT_EQ(view.Carrier(Rank(2)).address, "a:1");
  EXPECT_TRUE(view.Carries(Rank(1)));
  EXPECT_FALSE(view.Carries(Rank(2)));
}

TEST(View, SharesMemory_OneHost_OnlyIfAllSayTheSame) {
  View view = ThreeRanks();
  EXPECT_TRUE(view.SharesMemory());
  view.members[1].memory = "another host";
  EXPECT_FALSE(view.SharesMemory());
  for (Member& member : view.members) member.memory = "";
  EXPECT_FALSE(view.SharesMemory());
}

TEST(View, SharesMemoryWith_AnotherMember_IfBothHaveTheSame) {
  View view = ThreeRanks();
  EXPECT_TRUE(view.SharesMemoryWith(view.members[0]));
  view.members[0].memory = "another host";
  EXPECT_FALSE(view.SharesMemoryWith(view.members[0]));
  for (Member& member : view.members) member.memory = "";
  EXPECT_FALSE(view.SharesMemoryWith(view.members[0]));
}

TEST(View, MemoryGroups_SeveralHosts_OfTwoWorkersOrMoreByTheirFirstRank) {
  View view;
  view.members = {{Incarnation(1), "a:1", {Rank(3)}, 1, "z"},
                  {Incarnation(2), "b:1", {Rank(1), Rank(6)}, 2, "y"},
                  {Incarnation(3), "c:1", {Rank(4), Rank(5)}, 3, "alone"},
                  {Incarnation(4), "a:2", {Rank(0)}, 4, "z"},
                  {Incarnation(5), "b:2", {Rank(2)}, 5, "y"},
                  {Incarnation(6), "d:1", {Rank(7)}, 6, ""},
                  {Incarnation(7), "d:2", {Rank(8)}, 7, ""}};
  EXPECT_THAT(view.MemoryGroups(),
              ElementsAre(ElementsAre(Rank(0), Rank(3)), ElementsAre(Rank(1), Rank(2), Rank(6))));
}

TEST(View, NameOf_OneAndSeveral_ForMessages) {
  EXPECT_EQ(NameOf({Rank(2)}), "rank 2");
  EXPECT_EQ(NameOf({Rank(0), Rank(1), Rank(5)}), "ranks 0, 1, 5");
  EXPECT_EQ(NameOf({}), "ranks ");
}

TEST(View, ViewFromProto_OfToProto_IsTheSame) {
  const View view = ThreeRanks();
  const absl::StatusOr<View> back = ViewFromProto(ToProto(view), kSecond);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(ToProto(*back).SerializeAsString(), ToProto(view).SerializeAsString());
  EXPECT_EQ(back->self, kSecond);
  EXPECT_EQ(back->first_step, Step(9));
  EXPECT_EQ(back->threads, 2);
  EXPECT_TRUE(back->seals);
  EXPECT_TRUE(back->records);
  EXPECT_TRUE(back->keeps_state);
  EXPECT_EQ(back->checkpoint_every, 25u);
  EXPECT_EQ(back->run_id, view.run_id);
  EXPECT_EQ(back->epoch, CoordinatorEpoch(1));
  EXPECT_EQ(back->generation, Generation(4));
  EXPECT_EQ(back->members[0].pid, 4711);
  EXPECT_EQ(back->members[1].memory, "a host");
  // 0 stands for none on the wire.
  EXPECT_EQ(back->members[0].limits, (MemoryLimits{5, 1, MemoryLimits::kNoLimit, 7}));
  EXPECT_EQ(back->members[1].limits, MemoryLimits());
  EXPECT_FALSE(back->aggregator.has_value());
}

TEST(View, ViewFromProto_LargestNumbers_AreKept) {
  View view = ThreeRanks();
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  view.epoch = CoordinatorEpoch(kMost);
  view.generation = Generation(kMost);
  view.first_step = Step(kMost);
  view.chunk_bytes = kMost - 63;
  const absl::StatusOr<View> back = ViewFromProto(ToProto(view), kSecond);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->generation.value(), kMost);
  EXPECT_EQ(back->first_step.value(), kMost);
  EXPECT_EQ(back->chunk_bytes, kMost - 63);
}

TEST(View, ViewFromProto_OneRank_IsTaken) {
  View view = ThreeRanks();
  view.world_size = 1;
  view.members = {{kSecond, "b:2", {Rank(0)}}};
  EXPECT_TRUE(ViewFromProto(ToProto(view), kSecond).ok());
}

TEST(View, ViewFromProto_ToAnAggregator_NeedsNoRankOfItsOwn) {
  View view = ThreeRanks();
  view.aggregators = {"c:3", "d:4"};
  view.aggregator = 1;
  const absl::StatusOr<View> back = ViewFromProto(ToProto(view), kStranger);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->aggregator, 1);
  EXPECT_THAT(back->aggregators, ElementsAre("c:3", "d:4"));
  EXPECT_THAT(back->OwnRanks(), IsEmpty());
}

struct WrongView {
  std::function<void(v1::View*)> spoil;
  std::string message;
};

// One field at a time is not as it must be.
std::vector<WrongView> WrongViews() {
  return {
      {[](v1::View* v) { v->set_run_id("short"); }, "run_id: got 5 bytes, expected 16"},
      {[](v1::View* v) { v->clear_run_id(); }, "run_id: got 0 bytes, expected 16"},
      {[](v1::View* v) { v->set_chunk_bytes(0); },
       "view: got chunk_bytes 0, expected a positive multiple of 64"},
      {[](v1::View* v) { v->set_chunk_bytes(65); },
       "view: got chunk_bytes 65, expected a positive multiple of 64"},
      {[](v1::View* v) { v->set_threads(0); }, "view: got 0 threads, expected 1 or more"},
      {[](v1::View* v) { v->set_threads(0xFFFFFFFF); }, "view: got -1 threads, expected 1 or more"},
      {[](v1::View* v) { v->set_world_size(0); }, "view: got world size 0, expected 1 to 1048576"},
      {[](v1::View* v) { v->set_world_size(0xFFFFFFFF); },
       "view: got world size -1, expected 1 to 1048576"},
      {[](v1::View* v) { v->set_world_size((1 << 20) + 1); },
       "view: got world size 1048577, expected 1 to 1048576"},
      {[](v1::View* v) { v->set_world_size(4); }, "view: rank 3 has 0 carriers, expected 1"},
      {[](v1::View* v) { v->set_world_size(2); }, "view: got rank 2, expected 0 to 1"},
      {[](v1::View* v) { v->mutable_members(0)->set_ranks(0, 0xFFFFFFFF); },
       "view: got rank -1, expected 0 to 2"},
      {[](v1::View* v) { v->mutable_members(0)->add_ranks(1); },
       "view: rank 1 has 2 carriers, expected 1"},
      {[](v1::View* v) { v->clear_members(); }, "view: rank 0 has 0 carriers, expected 1"},
      {[](v1::View* v) { v->mutable_members(1)->set_incarnation(99); },
       "view: got no rank for its receiver, expected one or more"},
      {[](v1::View* v) { v->set_aggregator(0); }, "view: got aggregator 0 of 0"},
      {[](v1::View* v) {
         v->add_aggregators("c:3");
         v->set_aggregator(1);
       },
       "view: got aggregator 1 of 1"},
      {[](v1::View* v) {
         v->add_aggregators("c:3");
         v->set_aggregator(0xFFFFFFFF);
       },
       "view: got aggregator -1 of 1"},
  };
}

TEST(View, ViewFromProto_OneFieldWrong_InvalidArgumentNamesIt) {
  for (const WrongView& wrong : WrongViews()) {
    v1::View proto = ToProto(ThreeRanks());
    wrong.spoil(&proto);
    EXPECT_EQ(ViewFromProto(proto, kSecond).status(), absl::InvalidArgumentError(wrong.message));
  }
}

TEST(View, RunIdFromBytes_SixteenOfAnyValue_AreTakenAndGivenBack) {
  const std::string bytes("\0\x01\xff\x80zyxwvutsrqpo", 16);
  const absl::StatusOr<RunId> run_id = RunIdFromBytes(bytes);
  ASSERT_TRUE(run_id.ok());
  EXPECT_EQ(ToBytes(*run_id), bytes);
  EXPECT_EQ(RunIdFromBytes(bytes + "n").status(),
            absl::InvalidArgumentError("run_id: got 17 bytes, expected 16"));
}

}  // namespace
}  // namespace gradwire
