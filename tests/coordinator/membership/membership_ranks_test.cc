// Workers that carry several ranks, and the layouts that they declare.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/membership/membership.h"
#include "tests/coordinator/membership/outcome.h"
#include "tests/coordinator/membership/test_hello.h"

namespace gradwire {
namespace {

using ::gradwire::testing::All;
using ::gradwire::testing::TestHello;
using ::gradwire::testing::TestLayout;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// A run of two workers that carry four ranks; sessions and incarnations are 1 and 2.
class MembershipRanksTest : public ::testing::Test {
 protected:
  static MembershipConfig Config() {
    MembershipConfig config;
    config.world_size = 4;
    config.workers = 2;
    return config;
  }

  Outcome Hello(int session, const std::vector<int>& ranks = {}) {
    return membership_.OnHello(SessionId(session), TestHello(session, ranks), now_);
  }
  Outcome Form() {
    Hello(1);
    return Hello(2);
  }
  Outcome StepDone(int session, int rank, uint64_t step) {
    v1::StepDone done;
    done.set_rank(rank);
    done.set_step(step);
    return membership_.OnStepDone(SessionId(session), done, now_);
  }
  Outcome Declare(int session, const v1::Layout& layout) {
    return membership_.OnLayout(SessionId(session), layout, now_);
  }
  Outcome Finish(int session) {
    v1::Leave leave;
    leave.set_finished(true);
    return membership_.OnLeave(SessionId(session), leave, now_);
  }
  Outcome Broke(int session) {
    return membership_.OnStreamClosed(SessionId(session), "its session stream broke", now_);
  }

  absl::Time now_ = absl::FromUnixSeconds(1000);
  Membership membership_{Config(), now_};
};

TEST_F(MembershipRanksTest, OnHello_LastWorker_DealsTheRanksEvenly) {
  const auto views = All<SendView>(Form());
  ASSERT_EQ(views.size(), 2u);
  EXPECT_THAT(views[0].view.OwnRanks(), ElementsAre(Rank(0), Rank(1)));
  EXPECT_THAT(views[1].view.OwnRanks(), ElementsAre(Rank(2), Rank(3)));
}

TEST_F(MembershipRanksTest, OnHello_UnevenWish_TheOtherGetsTheRest) {
  EXPECT_EQ(Hello(1).why, "a worker at 10.10.1.2:1 joined; 1 of 2 workers are present");
  const auto views = All<SendView>(Hello(2, {0, 1, 3}));
  EXPECT_THAT(views.at(0).view.OwnRanks(), ElementsAre(Rank(0), Rank(1), Rank(3)));
  EXPECT_EQ(views.at(1).session, SessionId(1));
  EXPECT_THAT(views.at(1).view.OwnRanks(), ElementsAre(Rank(2)));
}

// Four workers on two hosts, which join in turn.
class HostsOfWorkersTest : public ::testing::Test {
 protected:
  explicit HostsOfWorkersTest(int aggregators = 0) : membership_(Config(aggregators), now_) {}

  static MembershipConfig Config(int aggregators) {
    MembershipConfig config;
    config.world_size = 5;
    config.workers = 4;
    config.aggregators = aggregators;
    return config;
  }

  Outcome Hello(int worker, const std::string& host, const std::vector<int>& ranks = {}) {
    v1::Hello hello = TestHello(worker, ranks);
    hello.set_address(absl::StrCat(host, ":", worker));
    return membership_.OnHello(SessionId(worker), hello, now_);
  }
  // Returns "port: ranks" of each worker, by lowest rank.
  static std::string Deal(const Outcome& last) {
    const View view = All<SendView>(last).at(0).view;
    std::vector<std::string> workers;
    for (const auto& member : view.members) {
      workers.push_back(absl::StrCat(
          member.address.substr(member.address.rfind(':') + 1), ": ",
          absl::StrJoin(member.ranks, " ",
                        [](std::string* out, Rank rank) { absl::StrAppend(out, rank.value()); })));
    }
    return absl::StrJoin(workers, ", ");
  }

  absl::Time now_ = absl::FromUnixSeconds(1000);
  Membership membership_;
};

TEST_F(HostsOfWorkersTest, OnHello_HostsInTurn_RanksOfAHostAreConsecutive) {
  Hello(1, "10.10.1.3");
  EXPECT_EQ(Hello(2, "10.10.1.2").why,
            "a worker at 10.10.1.2:2 joined; 2 of 4 workers are present");
  Hello(3, "10.10.1.3");
  const Outcome last = Hello(4, "10.10.1.2");
  EXPECT_EQ(Deal(last), "1: 0 1, 3: 2, 2: 3, 4: 4");
  EXPECT_THAT(last.why, EndsWith("the run begins with generation 1; ranks 0, 1 are 10.10.1.3:1, "
                                 "rank 2 is 10.10.1.3:3, rank 3 is 10.10.1.2:2, "
                                 "rank 4 is 10.10.1.2:4"));
}

TEST_F(HostsOfWorkersTest, OnHello_WithWishes_TheOthersGetTheRestByHost) {
  Hello(1, "10.10.1.3");
  EXPECT_THAT(Hello(2, "10.10.1.2", {1}).why, StartsWith("rank 1 (10.10.1.2:2) joined; 2 of 4 "));
  Hello(3, "10.10.1.2");
  const Outcome last = Hello(4, "10.10.1.3");
  EXPECT_EQ(Deal(last), "1: 0 2, 2: 1, 4: 3, 3: 4");
  EXPECT_THAT(last.why, EndsWith("generation 1; ranks 0, 2 are 10.10.1.3:1, rank 3 is 10.10.1.3:4, "
                                 "rank 4 is 10.10.1.2:3"));
}

TEST_F(HostsOfWorkersTest, OnHello_LastHasAWish_RanksOfTheOthersAreSaid) {
  Hello(1, "10.10.1.3");
  Hello(2, "10.10.1.2");
  Hello(3, "10.10.1.3");
  EXPECT_THAT(Hello(4, "10.10.1.2", {4}).why,
              EndsWith("generation 1; ranks 0, 1 are 10.10.1.3:1, rank 2 is 10.10.1.3:3, "
                       "rank 3 is 10.10.1.2:2"));
}

TEST_F(HostsOfWorkersTest, OnHello_AddressesThatBeginAlike_AreTwoHosts) {
  Hello(1, "[fd00::1]");
  Hello(2, "[fd00::12]");
  Hello(3, "[fd00::1]");
  EXPECT_EQ(Deal(Hello(4, "[fd00::12]")), "1: 0 1, 3: 2, 2: 3, 4: 4");
}

class HostsAndAggregatorTest : public HostsOfWorkersTest {
 protected:
  HostsAndAggregatorTest() : HostsOfWorkersTest(/*aggregators=*/1) {}
};

TEST_F(HostsAndAggregatorTest, OnHello_AggregatorCameFirst_ItsHostDoesNot) {
  membership_.OnOffer(SessionId(9), testing::TestOffer(9, "10.10.1.2:9"), now_);
  Hello(1, "10.10.1.3");
  Hello(2, "10.10.1.2");
  Hello(3, "10.10.1.3");
  EXPECT_EQ(Deal(Hello(4, "10.10.1.2")), "1: 0 1, 3: 2, 2: 3, 4: 4");
}

TEST_F(HostsOfWorkersTest, OnHello_AnotherHostForEach_OrderOfJoining) {
  Hello(1, "[fd00::3]");
  Hello(2, "[fd00::2]");
  Hello(3, "[fd00::1]");
  const Outcome last = Hello(4, "[fd00::4]");
  EXPECT_EQ(Deal(last), "1: 0 1, 2: 2, 3: 3, 4: 4");
}

TEST_F(HostsOfWorkersTest, OnHello_OneHost_OrderOfJoining) {
  for (const int worker : {2, 4, 3}) Hello(worker, "10.10.1.2");
  const Outcome last = Hello(1, "10.10.1.2");
  EXPECT_EQ(Deal(last), "2: 0 1, 4: 2, 3: 3, 1: 4");
}

TEST_F(MembershipRanksTest, OnHello_AfterSomebodyWithAWishLeft_ItsRanksAreDealtAnew) {
  Hello(1, {0, 1, 2});
  Broke(1);
  Hello(3);
  EXPECT_THAT(All<SendView>(Hello(2)).at(0).view.OwnRanks(), ElementsAre(Rank(0), Rank(1)));
}

TEST_F(MembershipRanksTest, OnHello_LastWorker_ViewHasTheThreadsOfAll) {
  v1::Hello hello = TestHello(1);
  hello.set_cores(8);
  membership_.OnHello(SessionId(1), hello, now_);
  hello = TestHello(2);
  hello.set_cores(8);
  const Outcome outcome = membership_.OnHello(SessionId(2), hello, now_);
  EXPECT_EQ(All<FormRun>(outcome).at(0).view.threads, 2);
}

TEST_F(MembershipRanksTest, OnStepDone_OfOneRank_CountsForThatRankAlone) {
  Form();
  EXPECT_EQ(All<TakeStep>(StepDone(1, 1, 0)).at(0).done.rank(), 1u);
  EXPECT_EQ(membership_.Status().ranks(0).steps_done(), 0u);
  EXPECT_EQ(membership_.Status().ranks(1).steps_done(), 1u);
}

TEST_F(MembershipRanksTest, OnStepDone_OfAnEarlierStep_TakesNothingBack) {
  Form();
  StepDone(1, 1, 4);
  StepDone(1, 1, 2);
  EXPECT_EQ(membership_.Status().ranks(1).steps_done(), 5u);
}

TEST_F(MembershipRanksTest, OnStepDone_OfAGenerationToCome_LosesTheSender) {
  Form();
  v1::StepDone done;
  done.set_generation(1);
  EXPECT_EQ(membership_.OnStepDone(SessionId(1), done, now_).why, "");
  done.set_generation(2);
  EXPECT_THAT(membership_.OnStepDone(SessionId(1), done, now_).why,
              HasSubstr("StepDone of generation 2, expected at most 1"));
}

TEST_F(MembershipRanksTest, OnStepDone_OfAnothersRank_LosesTheSender) {
  Form();
  EXPECT_THAT(StepDone(1, 2, 0).why,
              HasSubstr("ranks 0, 1 (10.10.1.2:1) were lost in step 0: it broke the protocol: "
                        "StepDone of rank 2"));
}

TEST_F(MembershipRanksTest, OnStepDone_OfNoRank_LosesTheSender) {
  Form();
  EXPECT_THAT(StepDone(1, 4, 0).why, HasSubstr("it broke the protocol: StepDone of rank 4"));
}

TEST_F(MembershipRanksTest, OnStepDone_BeforeTheView_LosesItsPlace) {
  Hello(1);
  EXPECT_THAT(StepDone(1, 0, 0).why, HasSubstr("it broke the protocol: StepDone before the View"));
}

TEST_F(MembershipRanksTest, OnStepDone_OfAllRanks_EntersTheNextStep) {
  Form();
  StepDone(1, 0, 0);
  StepDone(2, 2, 0);
  StepDone(2, 3, 0);
  EXPECT_THAT(All<EnterStep>(StepDone(1, 1, 0)), ::testing::SizeIs(1));
}

TEST_F(MembershipRanksTest, OnStreamClosed_MidRun_NamesAllRanksAndTheStepThatTheyAreAt) {
  Form();
  StepDone(2, 2, 6);
  StepDone(2, 3, 5);
  const Outcome outcome = Broke(2);
  const TellLoss told = All<TellLoss>(outcome).at(0);
  EXPECT_THAT(told.ranks, ElementsAre(Rank(2), Rank(3)));
  EXPECT_EQ(told.step, Step(6));
  EXPECT_EQ(All<SendAbort>(outcome).at(0).reason,
            "ranks 2, 3 (10.10.1.2:2) were lost in step 6: its session stream broke");
}

TEST(MembershipStatus, HelloWithAProcessId_IsToldOfItsRanksAndOfItsLoss) {
  MembershipConfig config;
  config.world_size = 2;
  Membership membership(config, absl::UnixEpoch());
  v1::Hello hello = testing::TestHello(1, {0});
  hello.set_pid(4711);
  membership.OnHello(SessionId(1), hello, absl::UnixEpoch());
  membership.OnHello(SessionId(2), testing::TestHello(2, {1}), absl::UnixEpoch());
  EXPECT_EQ(membership.Status().ranks(0).pid(), 4711u);
  EXPECT_EQ(membership.Status().ranks(1).pid(), 0u);
  const Outcome outcome = membership.OnStreamClosed(SessionId(1), "it broke", absl::UnixEpoch());
  EXPECT_EQ(All<TellLoss>(outcome).at(0).pid, 4711u);
}

TEST(MembershipView, HelloWithProcessAndMemory_TheOthersGetBoth) {
  MembershipConfig config;
  config.world_size = 1;
  Membership membership(config, absl::UnixEpoch());
  v1::Hello hello = testing::TestHello(1, {0});
  hello.set_pid(4711);
  hello.set_memory("a host");
  const Outcome outcome = membership.OnHello(SessionId(1), hello, absl::UnixEpoch());
  const Member& member = All<SendView>(outcome).at(0).view.members.at(0);
  EXPECT_EQ(member.pid, 4711u);
  EXPECT_EQ(member.memory, "a host");
}

TEST_F(MembershipRanksTest, Status_MidRun_HasEachRankWithItsCarrier) {
  Form();
  const v1::StatusReply status = membership_.Status(now_);
  ASSERT_EQ(status.ranks_size(), 4);
  EXPECT_EQ(status.ranks(1).rank(), 1u);
  EXPECT_EQ(status.ranks(1).address(), "10.10.1.2:1");
  EXPECT_EQ(status.ranks(2).address(), "10.10.1.2:2");
  EXPECT_TRUE(status.ranks(3).has_silent_seconds());
}

TEST_F(MembershipRanksTest, OnTick_RendezvousTimeout_NamesTheRanksWithoutAWorker) {
  Hello(1, {2});
  Outcome outcome;
  while (outcome.actions.empty()) {
    now_ += absl::Milliseconds(100);
    membership_.OnHeartbeat(SessionId(1), {}, now_);
    outcome = membership_.OnTick(now_);
  }
  EXPECT_EQ(All<EndRun>(outcome).at(0).status,
            absl::DeadlineExceededError("1 of 2 workers came within 600 s; missing ranks 0, 1, 3"));
}

TEST_F(MembershipRanksTest, OnLayout_ByAll_IsAgreedBeforeAnybodyHearsOfIt) {
  Form();
  EXPECT_THAT(Declare(1, TestLayout()).actions, IsEmpty());
  const Outcome outcome = Declare(2, TestLayout());
  ASSERT_EQ(outcome.actions.size(), 3u);
  const auto* agreed = std::get_if<AgreeLayout>(&outcome.actions[0]);
  ASSERT_NE(agreed, nullptr);
  EXPECT_EQ(agreed->layout, LayoutId(0));
  EXPECT_THAT(agreed->buckets, ElementsAre(BucketSpec{24, v1::DTYPE_FLOAT32}));
  EXPECT_EQ(All<SendLayoutAgreed>(outcome).size(), 2u);
}

TEST_F(MembershipRanksTest, OnLayout_Different_EndsTheRunAndNamesTheTensor) {
  Form();
  Declare(1, TestLayout());
  v1::Layout other = TestLayout();
  other.mutable_tensors(0)->set_name("fc2.weight");
  const Outcome outcome = Declare(2, other);
  const std::string difference =
      "layout 0: tensor 0: got 'fc2.weight' float32 [2, 3], expected 'fc1.weight' float32 [2, 3] "
      "(ranks 0, 1)";
  EXPECT_EQ(All<CloseSession>(outcome).at(0).status, absl::InvalidArgumentError(difference));
  EXPECT_EQ(All<SendAbort>(outcome).at(0).reason,
            "ranks 2, 3 (10.10.1.2:2) were lost in step 0: " + difference);
}

TEST_F(MembershipRanksTest, OnLayout_BeforeTheView_LosesItsPlace) {
  Hello(1);
  EXPECT_THAT(Declare(1, TestLayout()).why,
              HasSubstr("it broke the protocol: Layout before the View"));
}

TEST_F(MembershipRanksTest, OnLeave_FinishedWithoutALayoutOfOthers_EndsTheRun) {
  Form();
  Declare(1, TestLayout());
  EXPECT_EQ(All<EndRun>(Finish(2)).at(0).status,
            absl::AbortedError("ranks 2, 3 (10.10.1.2:2) finished without declaring layout 0, as "
                               "others did"));
}

TEST_F(MembershipRanksTest, OnLayout_AfterAnotherHasFinished_EndsTheRun) {
  Form();
  Finish(2);
  EXPECT_THAT(Declare(1, TestLayout()).why, HasSubstr("finished without declaring layout 0"));
}

}  // namespace
}  // namespace gradwire
