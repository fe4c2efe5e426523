#ifndef GRADWIRE_TESTS_SIMULATE_SIM_COORDINATOR_H_
#define GRADWIRE_TESTS_SIMULATE_SIM_COORDINATOR_H_

#include <functional>
#include <set>

#include "absl/strings/string_view.h"
#include "coordinator/membership/membership.h"
#include "gradwire/v1/membership.pb.h"
#include "tests/simulate/process.h"
#include "tests/simulate/scene.h"
#include "tests/simulate/site.h"

namespace gradwire::simulate {

// The coordinator of the run. Shipped: Membership with all below it, and the aggregator. Modelled
// after MembershipService and Coordinator, which have threads and gRPC in them: which event a
// message is, and what becomes of an action. The session of worker i is number i + 1.
class SimCoordinator {
 public:
  struct Ports {
    std::function<void(SessionId, v1::CoordinatorMessage)> tell;
    std::function<void(SessionId, absl::Status)> close;  // behind what was told
    std::function<void()> begun;                         // all have declared what they exchange
  };

  SimCoordinator(Scene* scene, Ports ports);

  void Start() { Tick(); }

  // Events, in its process.
  void OnMessage(SessionId session, const v1::WorkerMessage& message);
  void OnStreamClosed(SessionId session, absl::string_view cause);

  Process* process() { return &process_; }
  Site* site() { return &site_; }

 private:
  void Tick();
  void OnReady(SessionId session, const v1::WorkerMessage& message);
  void ForgeReady(SessionId except, const v1::Ready& ready);
  void SealEarly(const v1::Ready& ready);
  void Carry(const Outcome& outcome);
  View Falsified(View view) const;

  void Enact(const FormRun& form);
  void Enact(const SendView& send);
  void Enact(const AgreeLayout& agree);
  void Enact(const SendSealed& send);
  void Enact(const SendLayoutAgreed& send);
  void Enact(const SendAbort& send);
  void Enact(const CloseSession& close);
  void Enact(const EndRun& end);
  void Enact(const PauseRun& pause);
  void Enact(const SendPaused& send);
  void Enact(const SendFinish&) {}
  void Enact(const SendSave&) {}
  void Enact(const SendSaved&) {}
  void Enact(const SaveState&) {}
  void Enact(const TellNoCheckpoint&) {}
  void Enact(const SendEcho&) {}
  void Enact(const TakeStep&) {}
  void Enact(const RecordStep&) {}
  void Enact(const TellLoss&) {}
  void Enact(const TellCost&) {}
  void Enact(const TellStraggler&) {}
  void Enact(const EnterStep&) {}

  Scene* const scene_;
  const Ports ports_;
  Process process_;
  Site site_;
  Membership membership_;
  std::set<SessionId> open_;  // sessions that said Hello, and have not ended
  View view_;
  std::set<SessionId> ready_;  // for the open step, as far as this side was told
};

}  // namespace gradwire::simulate

#endif  // GRADWIRE_TESTS_SIMULATE_SIM_COORDINATOR_H_
