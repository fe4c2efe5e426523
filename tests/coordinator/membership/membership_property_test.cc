#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "coordinator/membership/membership.h"
#include "tests/coordinator/membership/test_hello.h"

namespace gradwire {
namespace {

using ::gradwire::testing::TestHello;
using ::gradwire::testing::TestLayout;
using ::gradwire::testing::TestOffer;

// Something that happens to a run, by numbers that mean whatever `kind` takes them for.
struct Event {
  int kind;
  int session;  // index among the open sessions
  int number;
};

std::ostream& operator<<(std::ostream& out, const Event& event) {
  return out << "{" << event.kind << " " << event.session << " " << event.number << "}";
}

rc::Gen<Event> AnyEvent() {
  return rc::gen::construct<Event>(rc::gen::inRange(0, 13), rc::gen::inRange(0, 100),
                                   rc::gen::inRange(0, 6));
}

// Drives a Membership as the service would, and checks after every event what must always hold.
class Simulator {
 public:
  explicit Simulator(const RunSize& size) : size_(size), membership_(Config(size), now_) {}

  void Apply(const Event& event) {
    const Outcome outcome = Send(event);
    for (const Action& action : outcome.actions) {
      std::visit([this](const auto& a) { Enact(a); }, action);
    }
    Check();
  }

  const std::set<SessionId>& open() const { return open_; }
  int ended_runs() const { return ended_runs_; }
  Membership& membership() { return membership_; }

 private:
  static MembershipConfig Config(const RunSize& size) {
    MembershipConfig config;
    config.world_size = size.world_size;
    config.workers = size.workers;
    config.aggregators = size.aggregators;
    config.rendezvous_timeout = absl::Seconds(60);
    return config;
  }

  Outcome Send(const Event& event) {
    now_ += absl::Milliseconds(50 * event.number);
    if (event.kind <= 3 || open_.empty()) return SayHello(event.number);
    const SessionId session = *std::next(open_.begin(), event.session % open_.size());
    switch (event.kind) {
      case 4:
        open_.erase(session);
        return membership_.OnStreamClosed(session, "it broke", now_);
      case 5:
        return membership_.OnHeartbeat(session, Asking(), now_);
      case 6:
        return Suspect(session, event.number);
      case 7:
        return Leave(session, event.number > 0);
      case 8:
        return membership_.OnHello(session, TestHello(1), now_);
      case 9:
        return event.number == 0 ? membership_.OnShutdown("stop") : membership_.OnTick(now_);
      case 10:
        return StepDone(session, event.number);
      case 11:
        return Offer(event.number);
      case 12:
        return membership_.OnLayout(session, TestLayout(event.number / 3), now_);
      default:
        return membership_.OnTick(now_);
    }
  }

  static v1::Heartbeat Asking() {
    v1::Heartbeat heartbeat;
    heartbeat.set_sent(1);
    return heartbeat;
  }
  // With a wish for ranks now and then, and now and then an old incarnation.
  Outcome SayHello(int number) {
    const SessionId session(++last_session_);
    open_.insert(session);
    v1::Hello hello = TestHello(number == 5 ? 1 : last_session_);
    if (number < size_.world_size && number % 2 == 0) hello.add_ranks(number);
    if (number == 3 && size_.world_size > 3) {
      hello.add_ranks(1);
      hello.add_ranks(3);
    }
    hello.set_threads(number == 4 ? 2 : 0);
    return membership_.OnHello(session, hello, now_);
  }
  Outcome Offer(int number) {
    const SessionId session(++last_session_);
    open_.insert(session);
    const v1::Offer offer = TestOffer(number == 5 ? 1 : last_session_, "10.10.1.9:1");
    return membership_.OnOffer(session, offer, now_);
  }
  Outcome Suspect(SessionId session, int incarnation) {
    v1::Suspect suspect;
    suspect.set_incarnation(incarnation);
    return membership_.OnSuspect(session, suspect, now_);
  }
  Outcome Leave(SessionId session, bool finished) {
    v1::Leave leave;
    leave.set_finished(finished);
    return membership_.OnLeave(session, leave, now_);
  }
  Outcome StepDone(SessionId session, int step) {
    v1::StepDone done;
    done.set_step(step);
    const std::vector<Rank>& ranks = ranks_[session];
    done.set_rank(ranks.empty() ? 0 : ranks[step % ranks.size()].value());
    return membership_.OnStepDone(session, done, now_);
  }

  void Enact(const FormRun& form) {
    RC_ASSERT(static_cast<int>(form.view.members.size()) == size_.workers);
    for (const Member& member : form.view.members) {
      // Every rank is carried once, and the receiver carries some.
      RC_ASSERT(ViewFromProto(ToProto(form.view), member.incarnation).ok());
    }
    RC_ASSERT(++formed_ == 1);
  }
  void Enact(const AgreeLayout& agree) {
    RC_ASSERT(formed_ == 1);
    RC_ASSERT(agree.layout == LayoutId(agreed_++));
  }
  void Enact(const SendLayoutAgreed& send) {
    RC_ASSERT(open_.count(send.session) == 1);
    RC_ASSERT(send.layout == LayoutId(agreed_ - 1));
  }
  void Enact(const SendSealed&) { RC_FAIL("a run that does not recover seals nothing"); }
  void Enact(const SendEcho& send) { RC_ASSERT(open_.count(send.session) == 1); }
  void Enact(const TakeStep& take) {
    RC_ASSERT(formed_ == 1);
    RC_ASSERT(static_cast<int>(take.done.rank()) < size_.world_size);
  }
  void Enact(const TellStraggler&) {}
  void Enact(const RecordStep&) { RC_FAIL("a run records steps unasked"); }
  void Enact(const TellCost&) { RC_FAIL("a run that does not recover goes on with no view"); }
  void Enact(const PauseRun&) { RC_FAIL("a run that does not recover is not paused"); }
  void Enact(const SendSave&) { RC_FAIL("a run without checkpoints saves nothing"); }
  void Enact(const SendSaved&) { RC_FAIL("a run without checkpoints saves nothing"); }
  void Enact(const SaveState&) { RC_FAIL("a run without checkpoints saves nothing"); }
  void Enact(const TellNoCheckpoint&) { RC_FAIL("a run without checkpoints saves nothing"); }
  void Enact(const SendPaused&) { RC_FAIL("a run that does not recover is not paused"); }
  void Enact(const TellLoss& tell) {
    RC_ASSERT(formed_ == 1);
    RC_ASSERT(!tell.ranks.empty());
    RC_ASSERT(++losses_ == 1);
  }
  void Enact(const SendView& send) {
    RC_ASSERT(formed_ == 1);
    RC_ASSERT(open_.count(send.session) == 1);
    if (send.view.aggregator.has_value()) {
      RC_ASSERT(viewed_aggregators_.insert(*send.view.aggregator).second);
    } else {
      ranks_[send.session] = send.view.OwnRanks();
      for (Rank rank : send.view.OwnRanks()) RC_ASSERT(viewed_.insert(rank).second);
    }
  }
  void Enact(const SendAbort& send) {
    RC_ASSERT(open_.count(send.session) == 1);
    RC_ASSERT(!send.reason.empty());
  }
  void Enact(const SendFinish& send) { RC_ASSERT(open_.count(send.session) == 1); }
  void Enact(const CloseSession& close) { RC_ASSERT(open_.erase(close.session) == 1); }
  void Enact(const EnterStep& enter) {
    RC_ASSERT(formed_ == 1);
    RC_ASSERT(step_ < enter.step);
    step_ = enter.step;
  }
  void Enact(const EndRun&) { RC_ASSERT(++ended_runs_ == 1); }

  void Check() {
    const v1::StatusReply status = membership_.Status();
    RC_ASSERT(status.generation() >= generation_);
    generation_ = status.generation();
    std::set<uint32_t> ranks;
    for (const v1::RankStatus& rank : status.ranks()) {
      RC_ASSERT(rank.rank() < static_cast<uint32_t>(size_.world_size));
      RC_ASSERT(ranks.insert(rank.rank()).second);
    }
    const bool over = status.state() == "aborted" || status.state() == "finished";
    RC_ASSERT(over == (ended_runs_ == 1));
    // A run that is over keeps no session; one that said no Hello does not exist here.
    if (over) RC_ASSERT(open_.empty());
  }

  const RunSize size_;
  absl::Time now_ = absl::FromUnixSeconds(1000);
  Membership membership_;
  uint64_t last_session_ = 0;
  std::set<SessionId> open_;
  std::set<Rank> viewed_;
  std::map<SessionId, std::vector<Rank>> ranks_;
  int agreed_ = 0;  // layouts
  std::set<int> viewed_aggregators_;
  Step step_;
  int formed_ = 0;
  int losses_ = 0;
  int ended_runs_ = 0;
  uint64_t generation_ = 0;
};

RunSize AnySize() {
  const int world_size = *rc::gen::inRange(1, 5);
  return {world_size, *rc::gen::inRange(1, world_size + 1), world_size / 3};
}

RC_GTEST_PROP(MembershipProperty, AnyEvents_KeepTheInvariants, ()) {
  Simulator simulator(AnySize());
  for (const Event& event : *rc::gen::container<std::vector<Event>>(AnyEvent())) {
    simulator.Apply(event);
  }
}

RC_GTEST_PROP(MembershipProperty, AnyEventsThenAStop_EndsEverySessionAndTheRun, ()) {
  Simulator simulator(AnySize());
  for (const Event& event : *rc::gen::container<std::vector<Event>>(AnyEvent())) {
    simulator.Apply(event);
  }
  simulator.Apply({3, 0, 1});  // so that there is a session to stop with
  if (!simulator.open().empty()) simulator.Apply({9, 0, 0});
  RC_ASSERT(simulator.ended_runs() == 1);
  RC_ASSERT(simulator.open().empty());
}

}  // namespace
}  // namespace gradwire
