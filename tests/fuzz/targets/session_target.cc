// What members say in their sessions: a run from its rendezvous to its end, with every message in
// any order, some of them with a field changed, and some that are any bytes. Each goes over the
// wire.
//
//   input[0 … 3]  ranks, workers, separate aggregators; whether the run recovers, or may wait
//   the rest      events, one after the other

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/membership/membership.h"
#include "coordinator/pages/run_pages.h"
#include "tests/coordinator/membership/test_hello.h"
#include "tests/fuzz/alter_field.h"
#include "tests/fuzz/fuzz_target.h"

namespace gradwire {
namespace {

using testing::TestHello;
using testing::TestLayout;
using testing::TestOffer;

constexpr int kMostEvents = 200;

enum Kind : uint8_t {
  kHello,
  kOffer,
  kHeartbeat,
  kLayout,
  kStepDone,
  kReady,
  kSuspect,
  kLeave,
  kAnyBytes,
  kStreamBreaks,
  kTicks,
  kShutdown,
  kKinds,
};

MembershipConfig ConfigOf(InputReader* input) {
  MembershipConfig config;
  config.world_size = 1 + static_cast<int>(input->Below(4));
  config.workers = 1 + static_cast<int>(input->Below(static_cast<uint64_t>(config.world_size)));
  config.aggregators = static_cast<int>(input->Below(4) / 2);
  const uint64_t on_loss = input->Below(4);
  config.recover = on_loss % 2 == 1;
  if (on_loss == 3) config.min_workers = config.workers;
  if (on_loss == 3) config.pause_timeout = absl::Seconds(5);
  config.rendezvous_timeout = absl::Seconds(60);
  config.keeps_state = config.world_size % 2 == 0;
  return config;
}

// Whether a string may stand in a message.
bool IsUtf8(const std::string& text) {
  v1::Abort abort;
  abort.set_reason(text);
  return v1::Abort().ParseFromString(abort.SerializeAsString());
}

// A coordinator's sessions around a Membership, as its service has them.
class Sessions {
 public:
  explicit Sessions(InputReader* input)
      : input_(*input), config_(ConfigOf(input)), membership_(config_, now_) {}

  // Lets events happen until the input is used up or something is violated.
  std::string Run() {
    for (int event = 0; event < kMostEvents && !input_.is_done() && violated_.empty(); ++event) {
      Apply(static_cast<Kind>(input_.Below(kKinds)));
      CheckStatus();
    }
    CheckPages();
    return violated_;
  }

 private:
  void Check(bool holds, absl::string_view what) {
    if (!holds && violated_.empty()) violated_ = std::string(what);
  }

  void Apply(Kind kind) {
    now_ += absl::Milliseconds(10 * input_.Below(8));
    switch (kind) {
      case kTicks:
        if (input_.Below(4) == 0) now_ += absl::Seconds(input_.Below(16));
        return Enact(membership_.OnTick(now_));
      case kShutdown:
        if (input_.Byte() == 0xff) Enact(membership_.OnShutdown("the coordinator was stopped"));
        return;
      case kStreamBreaks:
        if (!open_.empty()) Break(AnyOpen());
        return;
      default:
        return Send(kind);
    }
  }

  void Send(Kind kind) {
    const bool is_first = kind == kHello || kind == kOffer || open_.empty();
    if (is_first && (input_.Below(8) > 0 || open_.empty())) {
      open_.insert(SessionId(++last_session_));
    }
    const SessionId session = is_first ? *open_.rbegin() : AnyOpen();
    v1::WorkerMessage message = MessageOf(kind, session);
    if (input_.Below(4) == 0) AlterField(&input_, &message);
    const std::string wire = kind == kAnyBytes ? input_.Bytes() : message.SerializeAsString();
    v1::WorkerMessage received;
    received.ParseFromString(wire) ? Enact(membership_.OnMessage(session, received, now_))
                                   : Break(session);
  }
  SessionId AnyOpen() { return *std::next(open_.begin(), input_.Below(open_.size())); }
  void Break(SessionId session) {
    open_.erase(session);
    Enact(membership_.OnStreamClosed(session, "its session stream broke", now_));
  }

  v1::WorkerMessage MessageOf(Kind kind, SessionId session) {
    v1::WorkerMessage message;
    switch (kind) {
      case kHello:
        *message.mutable_hello() = Hello(session);
        break;
      case kOffer:
        *message.mutable_offer() = TestOffer(session.value(), "10.10.1.9:1");
        break;
      case kHeartbeat:
        message.mutable_heartbeat()->set_sent(static_cast<double>(input_.Below(2)));
        break;
      case kLayout:
        *message.mutable_layout() = TestLayout(static_cast<int>(input_.Below(3)));
        break;
      case kStepDone:
        *message.mutable_step_done() = StepDone(session);
        break;
      case kReady:
        message.mutable_ready()->set_step(open_step_.value() + input_.Below(8) / 7);
        message.mutable_ready()->set_generation(generation_ - input_.Below(8) / 7);
        message.mutable_ready()->set_last(input_.Below(4) == 0);
        break;
      case kSuspect:
        message.mutable_suspect()->set_incarnation(input_.Below(last_session_ + 2));
        message.mutable_suspect()->set_generation(generation_);
        break;
      case kLeave:
        message.mutable_leave()->set_finished(input_.Flag());
        break;
      default:
        break;
    }
    return message;
  }
  v1::Hello Hello(SessionId session) {
    v1::Hello hello = TestHello(session.value());
    if (input_.Below(4) == 0) hello.add_ranks(static_cast<uint32_t>(input_.Below(4)));
    return hello;
  }
  v1::StepDone StepDone(SessionId session) {
    v1::StepDone done;
    const std::vector<Rank>& ranks = ranks_[session];
    done.set_rank(ranks.empty() ? 0 : ranks[input_.Below(ranks.size())].value());
    done.set_step(input_.Below(8));
    done.set_loss(0.5);
    done.set_iteration_seconds(0.1);
    done.set_total_steps(8);
    return done;
  }

  void Enact(const Outcome& outcome) {
    sealed_.reset();
    for (const Action& action : outcome.actions) {
      std::visit([this](const auto& a) { EnactOne(a); }, action);
    }
    if (sealed_) open_step_ = Step(sealed_->value() + 1);
  }
  void CheckOpen(SessionId session) {
    Check(open_.count(session) == 1, "something is sent in a session that has ended");
  }

  void EnactOne(const FormRun& form) {
    ++generation_;
    agreed_ = 0;
    Check(generation_ == 1 || config_.recover, "a run that does not recover has a second view");
    Check(form.view.generation == Generation(generation_), "a view is not the next one");
    Check(form.view.first_step == open_step_, "a view does not begin with the first open step");
    for (const Member& member : form.view.members) {
      Check(ViewFromProto(ToProto(form.view), member.incarnation).ok(), "a view is no view");
    }
    if (generation_ == 1) history_.Begin(form.view.world_size, now_);
  }
  void EnactOne(const SendView& send) {
    CheckOpen(send.session);
    Check(send.view.generation == Generation(generation_), "a view is sent that is not formed");
    ranks_[send.session] = send.view.OwnRanks();
  }
  void EnactOne(const AgreeLayout& agree) {
    Check(agree.layout == LayoutId(agreed_++), "layouts are not agreed in order");
  }
  void EnactOne(const SendLayoutAgreed& send) { CheckOpen(send.session); }
  void EnactOne(const SendSealed& send) {
    CheckOpen(send.session);
    Check(config_.recover && send.step == open_step_, "another step than the open one is sealed");
    sealed_ = send.step;
  }
  void EnactOne(const RecordStep&) { Check(false, "a step is recorded unasked"); }
  void EnactOne(const SendAbort& send) {
    CheckOpen(send.session);
    Check(!send.reason.empty() && IsUtf8(send.reason), "an abort's reason is no text");
  }
  void EnactOne(const SendFinish& send) { CheckOpen(send.session); }
  void EnactOne(const SendSave& send) { CheckOpen(send.session); }
  void EnactOne(const SendSaved& send) { CheckOpen(send.session); }
  void EnactOne(const SaveState& save) {
    Check(!save.donors.empty(), "a state that no worker holds is saved");
  }
  void EnactOne(const TellNoCheckpoint& tell) {
    Check(IsUtf8(tell.why), "a reason for no checkpoint is no text");
  }
  void EnactOne(const SendEcho& send) { CheckOpen(send.session); }
  void EnactOne(const CloseSession& close) {
    Check(open_.erase(close.session) == 1, "a session ends twice");
  }
  void EnactOne(const TakeStep& take) {
    const std::string of_nobody = absl::StrCat("a step of rank ", take.done.rank(), " is taken");
    Check(take.done.rank() < static_cast<uint32_t>(config_.world_size), of_nobody);
    history_.Add(FromStepDone(take.done), take.done.total_steps(), now_);
  }
  void EnactOne(const TellLoss& tell) { Check(!tell.ranks.empty(), "nobody was lost"); }
  void EnactOne(const TellCost& tell) {
    Check(tell.lost.total() >= absl::ZeroDuration(), "a loss gave time back");
  }
  void EnactOne(const SendPaused& send) { CheckOpen(send.session); }
  void EnactOne(const PauseRun& pause) { Check(!pause.reason.empty(), "nobody says why"); }
  void EnactOne(const TellStraggler& tell) { Check(!tell.ranks.empty(), "nobody is slow"); }
  void EnactOne(const EnterStep& enter) {
    Check(entered_ < enter.step, "a step is entered again");
    entered_ = enter.step;
  }
  void EnactOne(const EndRun&) { Check(++ends_ == 1, "the run ends twice"); }

  void CheckStatus() {
    const v1::StatusReply status = membership_.Status(now_);
    std::set<uint32_t> ranks;
    for (const v1::RankStatus& rank : status.ranks()) {
      Check(rank.rank() < static_cast<uint32_t>(config_.world_size), "status has a rank too many");
      Check(ranks.insert(rank.rank()).second, "status has a rank twice");
    }
    const bool is_over = status.state() == "aborted" || status.state() == "finished";
    Check(is_over == (ends_ == 1), "the state does not say whether the run is over");
    Check(!is_over || open_.empty(), "a session outlives the run");
  }
  // What people see of it.
  void CheckPages() {
    const v1::StatusReply status = membership_.Status(now_);
    Check(v1::StatusReply().ParseFromString(status.SerializeAsString()), "status is no message");
    for (const std::string& page :
         {StatusJson(status, history_, now_), TargetsJson(status, history_.losses(), "h:1"),
          HistoryJson(history_, "run", 10)}) {
      Check(nlohmann::json::accept(page), "a page is no JSON");
    }
  }

  InputReader& input_;
  absl::Time now_ = absl::FromUnixSeconds(1000);
  const MembershipConfig config_;
  Membership membership_;
  RunHistory history_;
  std::string violated_;
  uint64_t last_session_ = 0;
  std::set<SessionId> open_;
  std::map<SessionId, std::vector<Rank>> ranks_;
  uint64_t generation_ = 0;
  int agreed_ = 0;              // layouts, in this view
  Step open_step_{0};           // the first that is not sealed
  std::optional<Step> sealed_;  // by the outcome that is enacted
  Step entered_{0};
  int ends_ = 0;
};

// Bytes behind the kind: time, then what MessageOf asks for, then whether to alter it.
std::string Event(Kind kind, const std::vector<int>& choices = {}) {
  std::string event = {static_cast<char>(kind), 0};
  for (const int choice : choices) event.push_back(static_cast<char>(choice));
  return event;
}
std::string Join() { return Event(kHello, {1, 1, 1}); }
std::string Say(Kind kind, int session, const std::vector<int>& choices) {
  std::vector<int> all = {session};
  all.insert(all.end(), choices.begin(), choices.end());
  all.push_back(1);  // not altered
  return Event(kind, all);
}

// Three workers of as many ranks, through `steps` steps.
std::string Steps(int workers, int steps) {
  std::string events;
  for (int worker = 0; worker < workers; ++worker) events += Say(kLayout, worker, {0});
  for (int step = 0; step < steps; ++step) {
    for (int worker = 0; worker < workers; ++worker) events += Say(kReady, worker, {0, 0, 1});
    for (int worker = 0; worker < workers; ++worker) events += Say(kStepDone, worker, {0, step});
    events += Say(kHeartbeat, 0, {1}) + Event(kTicks, {1});
  }
  return events;
}

}  // namespace

std::string ViolatedBySession(absl::string_view bytes) {
  static const auto silent = google::protobuf::SetLogHandler(nullptr);
  (void)silent;
  InputReader input(bytes);
  return Sessions(&input).Run();
}

std::vector<std::string> SessionSeeds() {
  const std::string three = {2, 2, 0, 0}, recovering = {2, 2, 0, 1}, with_aggregator = {1, 1, 2, 0};
  const std::string joined = Join() + Join() + Join();
  const std::string finish = Say(kLeave, 0, {1}) + Say(kLeave, 0, {1}) + Say(kLeave, 0, {1});
  const std::string last = Say(kReady, 0, {0, 0, 0}) + Say(kReady, 1, {0, 0, 0});
  return {"",
          three + joined + Steps(3, 2) + finish,
          three + joined + Steps(3, 1) + Event(kStreamBreaks, {1}),
          three + joined + Say(kLeave, 0, {0}) + Join(),
          recovering + joined + Steps(3, 2) + last + Say(kReady, 2, {0, 0, 0}) + finish,
          recovering + joined + Steps(3, 2) + Event(kStreamBreaks, {1}) + Steps(2, 1) + last +
              Say(kLeave, 0, {1}) + Say(kLeave, 0, {1}),
          recovering + joined + Steps(3, 1) + Say(kSuspect, 0, {2}) + Event(kTicks, {0, 15}) +
              Steps(2, 1),
          recovering + joined + Steps(3, 1) + Event(kAnyBytes, {1, 1, 2, 0x1a, 0}),
          with_aggregator + Event(kOffer, {1, 1}) + Join() + Join() + Event(kShutdown, {0xff})};
}

}  // namespace gradwire
