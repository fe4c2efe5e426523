#ifndef GRADWIRE_TESTS_SIMULATE_SIM_WORKER_H_
#define GRADWIRE_TESTS_SIMULATE_SIM_WORKER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gradwire/v1/membership.pb.h"
#include "tests/simulate/fiber.h"
#include "tests/simulate/process.h"
#include "tests/simulate/scene.h"
#include "tests/simulate/sim_exchange.h"
#include "tests/simulate/site.h"
#include "tests/simulate/tiny_model.h"
#include "tests/simulate/waiting_sync.h"
#include "worker/member/view_changes.h"
#include "worker/run/step_reporter.h"
#include "worker/run/trainer.h"

namespace gradwire::simulate {

// A worker of the run. Shipped: the trainer with all that is below it (reducer, buffers, hooks,
// sliced optimisers with what they save, the sync), which runs in a fiber, and ViewChanges.
// Modelled after Worker and RunMember, which have threads and gRPC in them: the order of
// joining, connecting, going on and leaving (TrainFrom, GoesOn, GoOn, AwaitView).
class SimWorker {
 public:
  // What it needs of the others.
  struct Ports {
    std::function<void(v1::WorkerMessage)> tell;  // the coordinator
    std::function<std::vector<SimEndpoint>(const View&)> endpoints_of;
    // Whether a connection with it could be made.
    std::function<bool(const SimEndpoint&)> is_reachable;
  };

  SimWorker(Scene* scene, int index, Ports ports);
  // Unwinds.
  ~SimWorker();

  void Start();

  // Events, in its process.
  void OnMessage(const v1::CoordinatorMessage& message);
  // Its session ended: how.
  void OnSessionEnd(const absl::Status& status);

  // SIGKILL; its fiber unwinds, and nobody hears of that.
  void Kill();
  // SIGTERM.
  void Stop();
  void Pause() { process_.Pause(); }
  void Continue();
  // Its fiber does nothing any more.
  void Hang() { hangs_ = true; }

  Process* process() { return &process_; }
  const Process* process() const { return &process_; }
  Site* site() { return &site_; }
  SimExchange* exchange() { return exchange_.get(); }
  // When it went on after a pause.
  absl::Time continued() const { return continued_; }
  Incarnation incarnation() const { return incarnation_; }
  // It is through, or gone.
  bool is_done() const { return fiber_.done() || is_killed_; }

 private:
  // Gives way until `ready`, which is looked at after each event of the process, or until the
  // deadline. False if this worker was killed, or the deadline passed.
  bool Await(const std::string& what, std::function<bool()> ready,
             absl::Time deadline = absl::InfiniteFuture());
  void Spend(absl::Duration duration);
  void LookUp();
  void Resume();
  void Beat();
  void CheckWait();

  // In the fiber:
  void Live();
  absl::Status Enter();
  absl::Status Join();
  absl::Status Declare();
  absl::Status Connect();
  void MakeTrainer();
  TrainerOptions OptionsOfTrainer();
  WaitingSync::Hooks HooksOfSync();
  absl::Status TrainAndGoOn();
  absl::Status TrainFrom(int64_t first);
  absl::StatusOr<Batch> NextBatch();
  bool GoesOn(const absl::Status& status);
  absl::optional<View> AwaitView(const absl::Status& status);
  absl::Status GoOn();
  void TellOfSuspect(const absl::optional<Suspect>& suspect, Step step);
  void TellOfLate(const absl::Status& late, Step step);
  void BeginPhase(const char* phase, Step step, bool waits, absl::optional<Bucket> bucket);
  void Rewind();
  absl::Status AwaitSealed(Step step);
  absl::Status AwaitBucket();
  void OnBucket(size_t bucket);
  void OnReady(Step step, absl::Span<const TensorDigest> digests);
  void TellOfStep();

  void OnView(const v1::View& proto);
  void OnPaused(const std::string& reason);
  void OnAbort(const absl::Status& status);
  void OnMean(const std::weak_ptr<SimExchange>& exchange, const Chunk& mean);
  void Tell(const v1::WorkerMessage& message);
  void TellLeave(bool finished);
  void TellReady(Step step, bool last, absl::Span<const TensorDigest> digests = {});
  absl::Status Ended() const;
  uint64_t ParametersDigest() const { return DigestOf(model_->parameters()); }
  uint64_t BuffersDigest() const { return DigestOf(model_->buffers()); }

  Scene* const scene_;
  const int index_;
  const Incarnation incarnation_;
  const Ports ports_;
  Process process_;
  Site site_;
  Fiber fiber_;
  bool has_begun_ = false;
  bool is_killed_ = false;
  bool hangs_ = false;

  // What the fiber waits for.
  std::function<bool()> ready_;
  std::string awaited_;
  absl::Time waiting_since_;
  absl::Time deadline_;
  absl::Time continued_;

  // What the coordinator said.
  ViewChanges changes_;
  absl::optional<View> first_view_;
  bool agreed_ = false;
  bool paused_ = false;  // until the next view
  bool session_ended_ = false;
  bool left_ = false;     // this side said so
  absl::Status stopped_;  // how the run ended for this worker, if it did

  View view_;
  absl::optional<Suspect> suspect_;
  bool told_of_suspect_ = false;
  std::vector<Rank> first_ranks_;
  std::shared_ptr<TinyModel> model_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<WaitingSync> sync_;
  std::shared_ptr<SimExchange> exchange_;
  uint64_t next_batch_ = 0;
  CurrentWork work_;
  Step applying_;                  // the step whose means are taken
  absl::optional<Step> unsealed_;  // was told of by the trainer, and by nobody yet
};

}  // namespace gradwire::simulate

#endif  // GRADWIRE_TESTS_SIMULATE_SIM_WORKER_H_
