#include "tests/simulate/sim_worker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/wire/protocol.h"
#include "worker/ddp/model_layout.h"
#include "worker/options/traits.h"

namespace gradwire::simulate {
namespace {

// As in RunMember, Session and WaitConnected.
constexpr absl::Duration kVerdictTimeout = absl::Milliseconds(1800);
constexpr absl::Duration kLeaveTimeout = absl::Seconds(2);
constexpr absl::Duration kConnectTimeout = absl::Seconds(10);
constexpr absl::Duration kPreparing = absl::Minutes(1);
const LayoutId kLayout(0);

absl::Status Killed() { return absl::CancelledError("killed"); }

}  // namespace

SimWorker::SimWorker(Scene* scene, int index, Ports ports)
    : scene_(scene),
      index_(index),
      incarnation_(static_cast<uint64_t>(index)),
      ports_(std::move(ports)),
      process_([this] { LookUp(); }),
      site_(scene),
      fiber_([this] { Live(); }),
      continued_(scene->events.now()) {}

SimWorker::~SimWorker() { Kill(); }

void SimWorker::Start() {
  has_begun_ = true;
  fiber_.Resume();
  Beat();
}

void SimWorker::Kill() {
  if (is_killed_) return;
  is_killed_ = true;
  process_.Kill();
  site_.Close();
  if (has_begun_ && !fiber_.done()) fiber_.Resume();
}

// As Worker::Stop: the coordinator hears of it first.
void SimWorker::Stop() {
  if (fiber_.done() || left_) return;
  stopped_ = absl::CancelledError("stopped by signal 15");
  changes_.End(stopped_);
  TellLeave(/*finished=*/false);
  scene_->events.After(kLeaveTimeout, [this] {
    process_.Take([this] {
      if (exchange_ != nullptr) exchange_->Cancel(stopped_);
    });
  });
}

void SimWorker::Continue() {
  continued_ = scene_->events.now();
  process_.Continue();
}

bool SimWorker::Await(const std::string& what, std::function<bool()> ready, absl::Time deadline) {
  if (is_killed_) return false;
  if (!hangs_ && ready()) return true;
  ready_ = std::move(ready);
  awaited_ = what;
  waiting_since_ = scene_->events.now();
  deadline_ = deadline;
  if (deadline < absl::InfiniteFuture()) {
    scene_->events.At(deadline, [this] { process_.Take([] {}); });
  }
  fiber_.Yield();
  const bool is_ready = !is_killed_ && ready_();
  ready_ = nullptr;
  return is_ready;
}

void SimWorker::LookUp() {
  if (ready_ == nullptr || is_killed_ || hangs_) return;
  if (ready_() || scene_->events.now() >= deadline_) fiber_.Resume();
}

void SimWorker::Spend(absl::Duration duration) {
  Await(
      "its own work", [] { return false; }, scene_->events.now() + duration);
}

void SimWorker::Beat() {
  if (is_done()) return;
  if (!process_.is_paused()) {
    process_.Take([this] {
      v1::WorkerMessage message;
      const absl::optional<v1::Work> work = work_.At(scene_->events.now());
      v1::Heartbeat* const heartbeat = message.mutable_heartbeat();
      if (work && !scene_->IsPlanted(Plant::kWorkUntold)) *heartbeat->mutable_work() = *work;
      if (first_view_.has_value()) Tell(message);
      CheckWait();
    });
  }
  scene_->events.After(scene_->setup.heartbeat, [this] { Beat(); });
}

void SimWorker::CheckWait() {
  if (ready_ == nullptr || fiber_.running() || hangs_) return;
  const absl::Time since = std::max(waiting_since_, continued_);
  if (scene_->events.now() - since <= WaitBound(scene_->setup)) return;
  scene_->journal.Fail("worker ", index_, " has waited for ", awaited_, " for ",
                       absl::FormatDuration(scene_->events.now() - since));
}

void SimWorker::Live() {
  absl::Status status = Enter();
  if (status.ok()) status = TrainAndGoOn();
  if (is_killed_) return;
  if (status.ok()) {
    scene_->checks.OnFinished(incarnation_, Step(static_cast<uint64_t>(scene_->setup.steps)),
                              ParametersDigest(), BuffersDigest());
  } else {
    scene_->checks.OnGaveUp(incarnation_, stopped_.ok() ? status : stopped_);
  }
  if (!left_) TellLeave(status.ok());
  Await(
      "the coordinator's word", [this] { return session_ended_; },
      scene_->events.now() + kLeaveTimeout);
  if (is_killed_ || exchange_ == nullptr) return;
  exchange_->Cancel(absl::CancelledError("the worker ends"));
}

absl::Status SimWorker::Enter() {
  absl::Status status = Join();
  if (status.ok()) status = Declare();
  if (!status.ok()) return status;
  status = Connect();
  if (status.ok()) sync_->Attach(exchange_.get(), kLayout, first_ranks_);
  while (!status.ok() && GoesOn(status)) status = GoOn();
  return status;
}

absl::Status SimWorker::Join() {
  Spend(scene_->random.Between(absl::ZeroDuration(), absl::Milliseconds(50)));
  v1::WorkerMessage message;
  v1::Hello* hello = message.mutable_hello();
  hello->set_incarnation(incarnation_.value());
  hello->set_address(absl::StrCat("10.10.1.2:", 1000 + index_));
  hello->set_protocol(kProtocolVersion);
  Tell(message);
  if (!Await("the view", [this] { return first_view_.has_value() || session_ended_; })) {
    return Killed();
  }
  if (!first_view_.has_value()) return stopped_;
  view_ = *first_view_;
  work_.SetGeneration(view_.generation);
  first_ranks_ = view_.OwnRanks();
  model_ = std::make_shared<TinyModel>(scene_->setup.wide);
  MakeTrainer();
  applying_ = view_.first_step;
  // What all begin with.
  scene_->checks.OnRewound(incarnation_, applying_, ParametersDigest(), BuffersDigest());
  return absl::OkStatus();
}

absl::Status SimWorker::Declare() {
  v1::WorkerMessage message;
  *message.mutable_layout() = ToProto(LayoutOf(*model_), sync_->BucketSpecs());
  message.mutable_layout()->set_name("tiny");
  Tell(message);
  const auto ready = [this] { return agreed_ || session_ended_; };
  const absl::Duration timeout = scene_->setup.step_timeout + kPreparing;
  if (!Await("the layout", ready, scene_->events.now() + timeout)) {
    if (is_killed_) return Killed();
    const absl::Status late = absl::DeadlineExceededError("not all workers declared the layout");
    TellOfLate(late, Step(0));
    if (!Await("the verdict", ready, scene_->events.now() + kVerdictTimeout)) return late;
  }
  return stopped_;
}

absl::Status SimWorker::Ended() const { return stopped_.ok() ? changes_.Unchanged() : stopped_; }

// As RunMember and FoldBackend: what it sums is served before it reaches the others.
absl::Status SimWorker::Connect() {
  suspect_.reset();
  told_of_suspect_ = false;
  exchange_.reset();
  std::vector<SimEndpoint> endpoints = ports_.endpoints_of(view_);
  auto exchange = std::make_shared<SimExchange>(
      scene_, view_, &process_, scene_->setup.sharded ? &site_ : nullptr, endpoints,
      [this](const std::weak_ptr<SimExchange>& of, const Chunk& mean) { OnMean(of, mean); });
  Spend(scene_->random.Between(absl::ZeroDuration(), absl::Milliseconds(2)));
  const absl::Time deadline = scene_->events.now() + kConnectTimeout;
  for (const SimEndpoint& endpoint : endpoints) {
    const auto ready = [&] { return ports_.is_reachable(endpoint) || !Ended().ok(); };
    const bool is_ready = Await("a connection", ready, deadline);
    if (is_killed_) return Killed();
    if (absl::Status ended = Ended(); !ended.ok()) return ended;
    if (is_ready) continue;
    const absl::Status failure =
        absl::UnavailableError(absl::StrCat("worker ", endpoint.peer, " does not answer"));
    if (endpoint.worker.has_value()) {
      suspect_ = Suspect{*endpoint.worker, failure, scene_->events.now()};
    }
    return failure;
  }
  exchange_ = std::move(exchange);
  exchange_->Start();
  exchange_->AddLayout(kLayout, sync_->BucketSpecs());
  return Ended();
}

TrainerOptions SimWorker::OptionsOfTrainer() {
  const std::string& sync = scene_->setup.sync;
  TrainerOptions options;
  options.update.optimizer.name = scene_->setup.optimizer;
  options.learning_rate = [](Step step) { return 0.1 / static_cast<double>(1 + step.value()); };
  options.reducer.bucket_cap_bytes =
      TraitsOfSync(sync).bucket_cap_mb == 0 ? 0 : scene_->setup.bucket_cap_bytes;
  options.updates_late = TraitsOfSync(sync).updates_late;
  options.on_phase = [this](auto... phase) { BeginPhase(phase...); };
  options.seal = {[this](Step step, auto digests) { OnReady(step, digests); },
                  [this](Step step) { return AwaitSealed(step); }};
  options.update.compare_every = scene_->setup.compare_every;
  return options;
}

WaitingSync::Hooks SimWorker::HooksOfSync() {
  return {[this] { return AwaitBucket(); }, [this](size_t bucket) { OnBucket(bucket); },
          [this] { scene_->reached(Moment::kContribute, index_); }};
}

void SimWorker::MakeTrainer() {
  auto trainer = Trainer::Create(model_, OptionsOfTrainer());
  Reducer* reducer = &(*trainer)->reducer();
  auto inner = MakeSynchronizer(scene_->setup.sync, reducer);
  sync_ = std::make_unique<WaitingSync>(reducer, *std::move(inner), HooksOfSync());
  trainer_ = *std::move(trainer);
}

absl::Status SimWorker::TrainAndGoOn() {
  absl::Status status = TrainFrom(static_cast<int64_t>(view_.first_step.value()));
  while (!status.ok() && GoesOn(status)) {
    status = GoOn();
    if (status.ok()) status = TrainFrom(static_cast<int64_t>(view_.first_step.value()));
  }
  return status;
}

absl::Status SimWorker::TrainFrom(int64_t first) {
  next_batch_ = static_cast<uint64_t>(first) * view_.OwnRanks().size();
  absl::Status status;
  if (first < scene_->setup.steps) {
    status = trainer_->Run([this] { return NextBatch(); }, sync_.get(),
                           [this](absl::Span<const StepRecord> records) {
                             unsealed_ = records.front().step;
                             if (scene_->IsPlanted(Plant::kStepToldEarly)) TellOfStep();
                           },
                           [this] { return is_killed_ || !stopped_.ok(); });
  }
  if (!status.ok()) return status;
  const Step behind_all(static_cast<uint64_t>(scene_->setup.steps));
  TellReady(behind_all, /*last=*/true);
  BeginPhase("wait", behind_all, /*waits=*/true, absl::nullopt);
  return AwaitSealed(behind_all);
}

absl::StatusOr<Batch> SimWorker::NextBatch() {
  const std::vector<Rank> ranks = view_.OwnRanks();
  const Step step(next_batch_ / ranks.size());
  Rank rank = ranks[next_batch_ % ranks.size()];
  const bool begins_step = next_batch_ % ranks.size() == 0;
  if (begins_step && static_cast<int64_t>(step.value()) == scene_->setup.steps) {
    return absl::OutOfRangeError("the end");
  }
  ++next_batch_;
  Spend(scene_->random.Between(absl::Microseconds(100), absl::Milliseconds(10)));
  if (is_killed_) return Killed();
  const bool is_adopted =
      std::find(first_ranks_.begin(), first_ranks_.end(), rank) == first_ranks_.end();
  if (is_adopted && scene_->IsPlanted(Plant::kNotRecomputed)) rank = first_ranks_.front();
  return BatchOf(step, rank);
}

bool SimWorker::GoesOn(const absl::Status& status) {
  if (is_killed_ || !view_.seals) return false;
  absl::optional<View> view = AwaitView(status);
  if (!view.has_value()) return false;
  view_ = *std::move(view);
  return true;
}

// As RunMember::AwaitNextView.
absl::optional<View> SimWorker::AwaitView(const absl::Status& status) {
  if (!stopped_.ok()) return absl::nullopt;
  const absl::optional<Suspect> suspect = exchange_ ? exchange_->suspect() : suspect_;
  TellOfSuspect(suspect, applying_);
  if (absl::IsDeadlineExceeded(status)) TellOfLate(status, applying_);
  if (!suspect.has_value() && !MayBeALoss(status)) return absl::nullopt;
  Await(
      "the coordinator's verdict", [this] { return !stopped_.ok() || !changes_.Unchanged().ok(); },
      scene_->events.now() + kVerdictTimeout);
  Await("the end of a pause", [this] { return !stopped_.ok() || !paused_; });
  if (is_killed_) return absl::nullopt;
  // Does not wait: that time has passed.
  return changes_.AwaitView(absl::UnixEpoch());
}

void SimWorker::BeginPhase(const char* phase, Step step, bool waits,
                           absl::optional<Bucket> bucket) {
  work_.Begin(phase, step, waits, bucket, scene_->events.now());
}

void SimWorker::TellOfLate(const absl::Status& late, Step step) {
  if (told_of_suspect_ || !changes_.Unchanged().ok()) return;
  told_of_suspect_ = true;
  if (scene_->IsPlanted(Plant::kLateUntold)) return;
  v1::WorkerMessage message;
  message.mutable_suspect()->set_late(true);
  message.mutable_suspect()->set_step(step.value());
  message.mutable_suspect()->set_cause(std::string(late.message()));
  message.mutable_suspect()->set_generation(view_.generation.value());
  Tell(message);
}

void SimWorker::TellOfSuspect(const absl::optional<Suspect>& suspect, Step step) {
  if (!suspect.has_value() || told_of_suspect_ || !changes_.Unchanged().ok()) return;
  told_of_suspect_ = true;
  v1::WorkerMessage message;
  message.mutable_suspect()->set_incarnation(suspect->worker.value());
  message.mutable_suspect()->set_step(step.value());
  message.mutable_suspect()->set_cause(std::string(suspect->failure.message()));
  message.mutable_suspect()->set_broke_off(absl::IsAborted(suspect->failure));
  message.mutable_suspect()->set_generation(view_.generation.value());
  Tell(message);
}

absl::Status SimWorker::GoOn() {
  scene_->journal.Say("worker ", index_, " goes on in generation ", view_.generation.value());
  work_.SetGeneration(view_.generation);
  absl::Status status = Connect();
  if (!status.ok()) return status;
  if (unsealed_.has_value() && *unsealed_ < view_.first_step) TellOfStep();
  unsealed_.reset();
  Rewind();
  sync_->Attach(exchange_.get(), kLayout, view_.OwnRanks());
  applying_ = view_.first_step;
  scene_->reached(Moment::kRewound, index_);
  return absl::OkStatus();
}

void SimWorker::Rewind() {
  std::vector<torch::Tensor> buffers;
  for (const torch::Tensor& buffer : model_->buffers()) buffers.push_back(buffer.clone());
  if (!scene_->IsPlanted(Plant::kUndoNotDone)) trainer_->Rewind(view_.first_step);
  if (scene_->IsPlanted(Plant::kOptimizerNotRestored)) MakeTrainer();
  if (scene_->IsPlanted(Plant::kBuffersNotRestored)) {
    for (size_t i = 0; i < buffers.size(); ++i) model_->buffers()[i].copy_(buffers[i]);
  }
  scene_->checks.OnRewound(incarnation_, view_.first_step, ParametersDigest(), BuffersDigest());
}

absl::Status SimWorker::AwaitSealed(Step step) {
  if (scene_->IsPlanted(Plant::kSealNotAwaited)) return absl::OkStatus();
  const std::string what = absl::StrCat("the seal of step ", step.value());
  const auto is_known = [this, step] {
    TellOfSuspect(exchange_->suspect(), Step(step.value() + 1));
    return changes_.WhetherSealed(step).has_value();
  };
  const absl::Time deadline = scene_->events.now() + 2 * scene_->setup.step_timeout;
  if (!Await(what, is_known, deadline) && !is_killed_) {
    TellOfLate(absl::DeadlineExceededError(what), step);
    Await(what, is_known);
  }
  if (is_killed_) return Killed();
  absl::Status sealed = *changes_.WhetherSealed(step);
  if (sealed.ok()) TellOfStep();
  return sealed;
}

absl::Status SimWorker::AwaitBucket() {
  if (scene_->random.OneIn(3)) {
    Spend(scene_->random.Between(absl::ZeroDuration(), absl::Milliseconds(2)));
  }
  const bool there = Await(absl::StrCat("a mean of step ", applying_.value()),
                           [this] { return exchange_->CanTell(); });
  return there ? absl::OkStatus() : Killed();
}

void SimWorker::OnBucket(size_t bucket) {
  exchange_->OnTaken();
  scene_->checks.OnApply(incarnation_, applying_);
  if (bucket == trainer_->reducer().gradient_buckets()) {
    scene_->checks.OnBuffers(incarnation_, applying_, BuffersDigest());
  }
  scene_->reached(Moment::kBucketTaken, index_);
}

}  // namespace gradwire::simulate
