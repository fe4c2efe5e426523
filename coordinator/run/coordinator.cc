#include "coordinator/run/coordinator.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "absl/memory/memory.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/clock.h"
#include "common/base/output_file.h"
#include "common/wire/view.h"
#include "coordinator/pages/run_pages.h"
#include "coordinator/run/coordinator_options.h"

namespace gradwire {
namespace {

constexpr absl::Duration kAbortGrace = absl::Milliseconds(400);
// An open live page requests the status every second.
constexpr absl::Duration kViewerPause = absl::Seconds(3);
constexpr absl::Duration kViewerGrace = absl::Milliseconds(1500);
// Then it requests the history, with the steps that it lacks.
constexpr absl::Duration kViewerRest = absl::Milliseconds(500);
// Limit of both waits together if the coordinator was told to stop.
constexpr absl::Duration kStoppedGrace = absl::Milliseconds(700);
constexpr absl::Duration kStoppedRest = absl::Milliseconds(300);
constexpr char kJson[] = "application/json; charset=utf-8";

// A run that continues a checkpoint keeps its id.
RunId RunIdOf(const RunFolder* folder) {
  if (folder == nullptr || folder->resumed() == nullptr) return MakeRunId();
  const std::string bytes = absl::HexStringToBytes(folder->resumed()->manifest().run_id);
  const absl::StatusOr<RunId> run_id = RunIdFromBytes(bytes);
  return run_id.ok() ? *run_id : MakeRunId();
}

MembershipConfig ConfigOf(const CoordinatorOptions& options, const RunId& run_id,
                          const RunFolder* folder, const RunLedger* ledger) {
  MembershipConfig config;
  config.run_id = run_id;
  config.world_size = options.world_size;
  config.workers = options.workers;
  config.aggregators = options.aggregators;
  config.min_lease = absl::Seconds(options.min_lease_seconds);
  config.lease = absl::Seconds(options.lease_seconds);
  config.rendezvous_timeout = absl::Seconds(options.rendezvous_timeout_seconds);
  config.chunk_bytes = options.chunk_kib * 1024;
  config.recover = options.on_loss == kRecover;
  config.min_workers = options.min_workers;
  config.pause_timeout = absl::Seconds(options.pause_timeout_seconds);
  if (folder == nullptr) return config;
  config.epoch = ledger->epoch();
  config.records = true;
  config.keeps_state = true;
  config.checkpoint_every = options.checkpoint_every;
  if (folder->resumed() != nullptr) config.resumed = folder->resumed_run();
  return config;
}

absl::Status CheckOptions(const CoordinatorOptions& options) {
  if (options.world_size < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("world size: got ", options.world_size, ", expected 1 or more"));
  }
  if (options.workers < 0 || options.workers > options.world_size) {
    return absl::InvalidArgumentError(absl::StrCat("workers: got ", options.workers,
                                                   ", expected at most the world size, ",
                                                   options.world_size));
  }
  const int workers = options.workers == 0 ? options.world_size : options.workers;
  if (options.min_workers > workers) {
    return absl::InvalidArgumentError(absl::StrCat("min-workers: got ", options.min_workers,
                                                   ", expected at most the number of workers, ",
                                                   workers));
  }
  if (options.chunk_kib < 1 || options.chunk_kib > 4096) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunk size: got ", options.chunk_kib, " KiB, expected 1 to 4096"));
  }
  return absl::OkStatus();
}

// The live page is "/"; its files are "/assets/NAME".
const WebAsset* AssetAt(absl::string_view path) {
  if (path == "/") return FindWebAsset("");
  if (!absl::ConsumePrefix(&path, "/assets/") || path.empty()) return nullptr;
  return FindWebAsset(path);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Start(const CoordinatorOptions& options,
                                                                OnSpan on_fold) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  const absl::StatusOr<Security> security = Security::Read(options.security);
  if (!security.ok()) return security.status();
  const bool never_waits = options.on_loss != kRecover || options.min_workers == 1;
  if (options.pause_timeout_seconds > 0 && never_waits) {
    spdlog::warn("{}--pause-timeout has no effect: the run {}", options.log_prefix,
                 options.on_loss == kRecover ? "continues with one worker (--min-workers 1)"
                                             : "ends after a loss (--on-loss stop)");
  }
  std::unique_ptr<RunFolder> folder;
  std::unique_ptr<RunLedger> ledger;
  if (!options.run_dir.empty()) {
    auto opened =
        RunFolder::Open(options.run_dir, options.resume, options.world_size, options.log_prefix);
    if (!opened.ok()) return opened.status();
    folder = *std::move(opened);
    // The epoch must grow even if the ledger was removed.
    const CoordinatorEpoch least(folder->LastEpoch() + 1);
    auto recorded = RunLedger::Open(options.run_dir, least, &RealDisk());
    if (!recorded.ok()) return recorded.status();
    ledger = *std::move(recorded);
  }
  auto coordinator = absl::WrapUnique(new Coordinator(options, std::move(folder), std::move(ledger),
                                                      *security, std::move(on_fold)));
  if (absl::Status status = coordinator->Listen(options, *security); !status.ok()) return status;
  return coordinator;
}

Coordinator::Coordinator(const CoordinatorOptions& options, std::unique_ptr<RunFolder> folder,
                         std::unique_ptr<RunLedger> ledger, const Security& security,
                         OnSpan on_fold)
    : folder_(std::move(folder)),
      run_id_(RunIdOf(folder_.get())),
      linger_(absl::Seconds(options.linger_seconds)),
      min_workers_(options.on_loss == kRecover ? std::max(1, options.min_workers) : 0),
      on_fold_(std::move(on_fold)),
      log_prefix_(options.log_prefix),
      ledger_(std::move(ledger)),
      aggregation_({[this](uint64_t bytes) { metrics_.CountReceived(bytes); },
                    [this](uint64_t bytes) { metrics_.CountSent(bytes); },
                    [this](absl::StatusCode code) { metrics_.CountRpcError(code); }}),
      rendezvous_(run_id_, &rendezvous_store_),
      membership_(ConfigOf(options, run_id_, folder_.get(), ledger_.get()), this,
                  options.log_prefix),
      status_([this] { return Status(); }),
      state_service_(
          [this](const RunId& run_id, Step step, Generation) { return FindState(run_id, step); }) {
  if (folder_ != nullptr) {
    KeeperOptions keeper;
    keeper.run_dir = folder_->path();
    keeper.keep = options.keep_checkpoints;
    keeper.run_id = run_id_;
    keeper.epoch = ledger_->epoch();
    keeper.world_size = options.world_size;
    keeper.security = security;
    keeper.ledger_position = [this] { return SyncLedger(); };
    keeper.on_published = [this](Step step) { return RecordCheckpoint(step); };
    keeper_ = std::make_unique<CheckpointKeeper>(
        std::move(keeper), [this](const KeptCheckpoint& kept) { OnKept(kept); });
    NoteResume();
    metrics_.SetLedgerDurable(true);
    ledger_->Listen({[this](auto took, auto cpu) { metrics_.ObserveLedgerSync(took, cpu); },
                     [this](const absl::Status& why) { OnNotDurable(why); }});
  }
  metrics_.SetMinWorkers(options.workers == 0 ? options.world_size : options.workers);
}

Coordinator::~Coordinator() {
  if (grpc_.server != nullptr) Stop("the coordinator was stopped");
}

absl::Status Coordinator::Listen(const CoordinatorOptions& options, const Security& security) {
  // Metrics first: workers may join as soon as gRPC is served.
  if (absl::Status status = ServeMetrics(options, security); !status.ok()) return status;
  absl::StatusOr<GrpcServer> grpc = StartGrpcServer(
      options.listen, {&membership_, &aggregation_, &rendezvous_, &status_, &state_service_},
      security);
  if (!grpc.ok()) return grpc.status();
  grpc_ = *std::move(grpc);
  grpc_.AllowCalls(CallsOf(options.world_size));
  spdlog::info("{}coordinator listens on {} (run {}, world size {})", log_prefix_, grpc_.address,
               ToHex(run_id_), options.world_size);
  if (options.port_file.empty()) return absl::OkStatus();
  return WritePortFile(options.port_file, grpc_.address, metrics_address());
}

absl::Status Coordinator::ServeMetrics(const CoordinatorOptions& options,
                                       const Security& security) {
  if (options.metrics == "off") return absl::OkStatus();
  auto ready = [this] { return membership_.Status().state() == "running"; };
  const std::vector<std::string> names =
      absl::StrSplit(options.http_names, absl::ByAnyChar(", "), absl::SkipEmpty());
  auto server =
      MetricsServer::Start(options.metrics, metrics_.registry(), ready,
                           [this](const PageRequest& request) { return Answer(request); }, names,
                           {options.http_token ? security.token() : "", options.security});
  if (!server.ok()) return server.status();
  metrics_server_ = *std::move(server);
  spdlog::info("{}metrics are on {}/metrics", log_prefix_, metrics_server_->url());
  spdlog::info("{}watch the run on {}/", log_prefix_, metrics_server_->url());
  return absl::OkStatus();
}

absl::Status Coordinator::On(const FormRun& form) {
  const bool is_first = aggregator_ == nullptr;
  BeginView(form.view);
  if (ledger_ == nullptr) return absl::OkStatus();
  const v1::StatusReply status = Status();
  if (is_first) NoteSettings({status.settings().begin(), status.settings().end()});
  const absl::Status recorded = ledger_->OnView(form, status, address());
  if (recorded.ok()) return recorded;
  return absl::AbortedError(
      absl::StrCat("a view cannot be recorded, so no worker may act on it: ", recorded.message()));
}

void Coordinator::BeginView(const View& view) {
  const bool is_first = aggregator_ == nullptr;
  if (!is_first) aggregator_->Abort(absl::AbortedError("a newer view has begun"));
  auto on_step = [this](LayoutId, Step, const Waits& waits) { OnWaits(waits); };
  auto on_iteration = [this](const AggregationTimes& times) { history_.AddAggregation(times); };
  aggregator_ =
      std::make_shared<Aggregator>(view, Shard(), AggregatorHooks{on_step, on_fold_, on_iteration});
  aggregation_.Serve(aggregator_);
  metrics_.SetView(static_cast<int>(view.members.size()), view.generation);
  if (view.seals && min_workers_ > 0) metrics_.SetMinWorkers(min_workers_);
  const absl::Time begun = absl::Now();
  if (!is_first) OnNextView(view, begun);
  view_ = view;
  if (!is_first) return;
  history_.Begin(view.world_size, begun);
  metrics_.SetStep(view.first_step);
  history_.AddEvent({begun, view.first_step, "started",
                     absl::StrCat("the run began with ", view.members.size(), " workers")});
}

void Coordinator::OnNextView(const View& view, absl::Time now) {
  const ViewChange change = ChangeOf(view_, view);
  if (change.lost.empty()) {
    return history_.AddEvent(
        {now, view.first_step, "resumed",
         absl::StrCat("all workers are back; generation ", view.generation.value(),
                      " begins with step ", view.first_step.value())});
  }
  history_.losses().GoOn({view.generation, view.first_step, change.adoptions, std::nullopt});
  metrics_.CountRecovery(change.LostRanks().size());
  history_.AddEvent(
      {now, view.first_step, "recovered",
       absl::StrCat(Describe(change.adoptions), "; generation ", view.generation.value(),
                    " begins with step ", view.first_step.value())});
}

void Coordinator::OnNotDurable(const absl::Status& why) {
  spdlog::error(
      "{}steps are not recorded any more: {}; the run goes on, and ends if it needs another "
      "view that cannot be recorded",
      log_prefix_, std::string(why.message()));
  metrics_.SetLedgerDurable(false);
  history_.AddEvent({absl::Now(), Step(sealed_steps_), "not-durable",
                     absl::StrCat("steps are not recorded any more: ", why.message())});
}

void Coordinator::On(const EndRun& end) {
  const absl::Status& status = end.status;
  if (ledger_ != nullptr) {
    const absl::Status recorded = ledger_->OnRunOver(status);
    if (!recorded.ok()) {
      spdlog::warn("{}the end of the run is not recorded: {}", log_prefix_,
                   std::string(recorded.message()));
    }
  }
  const absl::Status reason =
      status.ok() ? absl::AbortedError("the run is over: all ranks finished") : status;
  aggregation_.Abort(reason);
  rendezvous_store_.Abort(reason);
  const Step step(StepsDone(membership_.Status()));
  // Else alerts take a program that never said how many steps it does for one that stands still.
  if (status.ok() && history_.total_steps() == 0) metrics_.SetTotalSteps(step.value());
  history_.AddEvent({absl::Now(), step, status.ok() ? "finished" : "aborted",
                     status.ok() ? "all ranks finished" : std::string(status.message())});
  metrics_.SetView(0, Generation(membership_.Status().generation()));
  metrics_.SetMinWorkers(0);  // else alerts take a run that ended early for one that lacks workers
  MutexLock lock(&mutex_);
  over_ = status;
  over_changed_.NotifyAll();
}

void Coordinator::On(const AgreeLayout& agree) {
  aggregator_->AddLayout(agree.layout, agree.buckets, agree.serving, agree.is_evaluation);
}

void Coordinator::OnWaits(const Waits& waits) {
  sees_waits_ = true;
  for (size_t rank = 0; rank < waits.size(); ++rank) {
    metrics_.ObserveRankLag(Rank(static_cast<int>(rank)), waits[rank]);
  }
}

void Coordinator::On(const TakeStep& take) {
  const v1::StepDone& done = take.done;
  const StepRecord record = FromStepDone(done);
  metrics_.Observe(record);
  const auto step = history_.Add(record, done.total_steps(), absl::Now());
  metrics_.SetTotalSteps(done.total_steps());
  if (!step) return;
  if (const auto loss = MeanLoss(*step)) metrics_.SetLoss(*loss);
  if (sees_waits_) return;
  absl::Duration least = absl::InfiniteDuration();
  for (const StepRecord& of_rank : *step) least = std::min(least, OwnWork(of_rank));
  for (const StepRecord& of_rank : *step) {
    metrics_.ObserveRankLag(of_rank.rank, OwnWork(of_rank) - least);
  }
}

void Coordinator::On(const RecordStep& record) {
  sealed_steps_ = record.record.step() + 1;
  ledger_->OnSealed(record.record);
}

void Coordinator::On(const TellLoss& loss) {
  if (ledger_ != nullptr) ledger_->OnLoss(loss);
  metrics_.CountLostWorker();
  history_.losses().Add(
      {absl::Now(), loss.step, loss.ranks, loss.cause, loss.address, loss.pid, std::nullopt});
  const absl::string_view was = loss.ranks.size() > 1 ? " were" : " was";
  history_.AddEvent({absl::Now(), loss.step, "lost",
                     absl::StrCat(NameOf(loss.ranks), was, " lost: ", loss.cause)});
}

// No worker may wait for contributions of the missing ones.
void Coordinator::On(const PauseRun& pause) {
  aggregator_->Abort(absl::AbortedError(pause.reason));
  metrics_.SetView(pause.workers, view_.generation);
  history_.AddEvent({absl::Now(), pause.step, "paused", pause.reason});
}

void Coordinator::On(const TellStraggler& straggler) {
  for (const Rank rank : straggler.ranks) metrics_.CountStraggler(rank);
  history_.AddEvent({absl::Now(), straggler.step, "straggler", straggler.what});
}

Page Coordinator::StatusPage() {
  bool ended;  // read before the page is made, so that the page surely shows the end
  {
    MutexLock lock(&mutex_);
    ended = over_.has_value();
  }
  const std::string body = StatusJson(Status(), history_, absl::Now());
  MutexLock lock(&mutex_);
  viewed_ = SteadyNow();
  end_viewed_ = ended;
  over_changed_.NotifyAll();
  return {200, kJson, body};
}

absl::optional<Page> Coordinator::Answer(const PageRequest& request) {
  if (request.path == "/metrics") return AnswerOtherRun(request.query, ToHex(run_id_));
  if (request.path == "/status.json") return StatusPage();
  if (request.path == "/sd") {
    const std::string own(request.host.empty() ? metrics_address() : request.host);
    return Page{200, kJson, TargetsJson(Status(), history_.losses(), own)};
  }
  if (const WebAsset* asset = AssetAt(request.path)) {
    return Page{200, std::string(asset->content_type), std::string(asset->body)};
  }
  if (request.path != "/history.json") return absl::nullopt;
  const absl::StatusOr<size_t> points = PointsOfQuery(request.query);
  if (!points.ok()) {
    return Page{400, "text/plain; charset=utf-8", absl::StrCat(points.status().message(), "\n")};
  }
  return Page{200, kJson, HistoryJson(history_, ToBytes(run_id_), *points)};
}

absl::Status Coordinator::Wait() {
  MutexLock lock(&mutex_);
  while (!over_) over_changed_.Wait(&mutex_);
  return *over_;
}

absl::Status Coordinator::WriteSummary(const std::string& path) const {
  return ReplaceFile(path, CoordinatorSummary(history_));
}

void Coordinator::Linger() {
  if (metrics_server_ == nullptr || linger_ == absl::ZeroDuration()) return;
  const absl::Time deadline = SteadyNow() + linger_;
  MutexLock lock(&mutex_);
  if (stopping_) return;
  spdlog::info("{}metrics stay available for {} after the run; a signal ends this", log_prefix_,
               absl::FormatDuration(linger_));
  while (!stopping_ && !over_changed_.WaitWithDeadline(&mutex_, deadline)) {
  }
}

void Coordinator::WaitForViewer() {
  MutexLock lock(&mutex_);
  const absl::Time deadline = SteadyNow() + (stopping_ ? kStoppedGrace : kViewerGrace);
  if (viewed_ + kViewerPause < SteadyNow()) return;
  while (!end_viewed_ && !over_changed_.WaitWithDeadline(&mutex_, deadline)) {
  }
  const absl::Time rested = SteadyNow() + (stopping_ ? kStoppedRest : kViewerRest);
  while (end_viewed_ && !over_changed_.WaitWithDeadline(&mutex_, rested)) {
  }
}

void Coordinator::Stop(absl::string_view reason) {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    over_changed_.NotifyAll();
  }
  membership_.Stop(reason, kAbortGrace);
  grpc_.Shutdown();
}

std::string Coordinator::metrics_address() const {
  return metrics_server_ == nullptr ? "" : metrics_server_->address();
}

v1::StatusReply Coordinator::Status() const {
  v1::StatusReply reply = membership_.Status();
  reply.set_program("gradwire-coordinator");
  reply.set_version(GRADWIRE_VERSION);
  if (ledger_ != nullptr) reply.set_not_durable(std::string(ledger_->durability().message()));
  return reply;
}

}  // namespace gradwire
