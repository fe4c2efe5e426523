#include "worker/run/worker.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/base/address.h"
#include "common/base/output_file.h"
#include "common/base/status_util.h"
#include "common/session/local_address.h"
#include "worker/backends/traced_backend.h"
#include "worker/data/datasets/dataset.h"
#include "worker/ddp/hash.h"
#include "worker/ddp/model_layout.h"
#include "worker/options/choices.h"
#include "worker/run/compute.h"

namespace gradwire {
namespace {

// The coordinator knows the cause of a broken transfer within about a second.
constexpr absl::Duration kVerdictTimeout = absl::Milliseconds(1800);
// Calls that are just ending may end.
constexpr std::chrono::milliseconds kCallGrace(500);
constexpr int64_t kEvaluationBatch = 250;

std::string BackendNameOf(const WorkerOptions& options) {
  return options.backend.empty() ? DefaultBackend(options.sync) : options.backend;
}

TrainerOptions TrainerOptionsOf(const WorkerOptions& options, OnSpan on_span) {
  return {options.lr,
          options.momentum,
          options.weight_decay,
          options.broadcast_buffers,
          options.bucket_cap_mb * (1 << 20),
          absl::Seconds(options.step_timeout_seconds),
          options.batch_size,
          options.barrier,
          std::move(on_span)};
}

}  // namespace

Worker::Worker(const WorkerOptions& options)
    : options_(options),
      backend_name_(BackendNameOf(options)),
      metrics_(options.sync, backend_name_),
      stopper_(std::make_unique<Stopper>()) {
  rank_status_.set_rank(std::max(options.rank, 0));
}

Worker::~Worker() {
  if (backend_ != nullptr) backend_->Cancel(absl::CancelledError("the worker ends"));
  if (server_.server != nullptr) {
    server_.server->Shutdown(std::chrono::system_clock::now() + kCallGrace);
  }
}

int Worker::Run() {
  absl::Status status = Prepare();
  if (status.ok()) status = Train();
  if (status.ok()) status = EvaluateAndReport();
  if (status.ok() && session_ != nullptr) status = session_->Leave(true, "all steps are done");
  return EndCode(ExplainFailure(std::move(status)));
}

int Worker::EndCode(const absl::Status& status) {
  if (status.ok()) return kExitDone;
  spdlog::error("{}", std::string(status.message()));
  if (stopper_->requested()) return stopper_->exit_code();
  // Before the run, an error is one of options or reach; in it, it is a failure.
  MutexLock lock(&mutex_);
  return joined_ ? kExitFailed : ExitCode(status);
}

void Worker::Stop(const std::string& reason, int exit_code) {
  const absl::Status status = absl::CancelledError(reason);
  stopper_->Request(status, exit_code);
  Session* session;
  bool joined;
  {
    MutexLock lock(&mutex_);
    session = session_.get();
    joined = joined_;
  }
  if (joined) {
    session->Leave(false, reason).IgnoreError();
    backend_->Cancel(status);
  } else if (session != nullptr) {
    session->Cancel();
  }
}

void Worker::OnAbort(const absl::Status& status) {
  stopper_->Request(status, ExitCode(status));
  backend_->Cancel(status);
}

absl::Status Worker::ExplainFailure(absl::Status status) {
  if (status.ok()) return status;
  const absl::optional<Rank> suspect = backend_ ? backend_->suspect() : absl::nullopt;
  bool joined;
  {
    MutexLock lock(&mutex_);
    joined = joined_;
  }
  if (!stopper_->requested() && joined) {
    metrics_.CountRpcError(status.code());
    if (suspect.has_value()) {
      session_->ReportSuspect(*suspect, trainer_->current_step(), std::string(status.message()));
    }
    const bool peer_failed =
        suspect.has_value() || absl::IsUnavailable(status) || absl::IsAborted(status);
    if (peer_failed) stopper_->WaitForRequest(absl::Now() + kVerdictTimeout);
    if (!stopper_->requested()) {
      session_->Leave(false, std::string(status.message())).IgnoreError();
    }
  }
  return stopper_->requested() ? stopper_->reason() : status;
}

absl::Status Worker::Prepare() {
  if (absl::Status status = CheckOutputs(); !status.ok()) return status;
  if (absl::Status status = ServeMetrics(); !status.ok()) return status;
  if (absl::Status status = LoadData(); !status.ok()) return status;
  if (absl::Status status = MakeModelAndTrainer(); !status.ok()) return status;
  if (absl::Status status = JoinRun(); !status.ok()) return status;
  return StartLoader();
}

absl::Status Worker::CheckOutputs() {
  const Rank rank(std::max(options_.rank, 0));
  for (const std::string& path : {options_.summary, options_.log_jsonl, options_.trace}) {
    if (path.empty()) continue;
    if (absl::Status status = CheckWritable(PathOfRank(path, rank)); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Worker::ServeMetrics() {
  if (options_.metrics.empty()) return absl::OkStatus();
  auto ready = [this] {
    MutexLock lock(&mutex_);
    return joined_ || options_.sync == "none";
  };
  absl::StatusOr<std::unique_ptr<MetricsServer>> server =
      MetricsServer::Start(options_.metrics, metrics_.registry(), ready);
  if (!server.ok()) return server.status();
  metrics_server_ = *std::move(server);
  spdlog::info("metrics at http://{}/metrics", metrics_server_->address());
  return absl::OkStatus();
}

absl::Status Worker::LoadData() {
  absl::StatusOr<std::shared_ptr<const Dataset>> train =
      LoadDataset(options_.dataset, options_.data_dir, Split::kTrain);
  if (!train.ok()) return train.status();
  train_ = *std::move(train);
  if (!options_.evaluate) return absl::OkStatus();
  absl::StatusOr<std::shared_ptr<const Dataset>> test =
      LoadDataset(options_.dataset, options_.data_dir, Split::kTest);
  if (!test.ok()) return test.status();
  test_ = *std::move(test);
  return absl::OkStatus();
}

absl::Status Worker::MakeModelAndTrainer() {
  UseComputeThreads(options_.threads);
  torch::manual_seed(options_.seed);
  absl::StatusOr<std::shared_ptr<Model>> model = MakeModel(options_.model, train_->classes);
  if (!model.ok()) return model.status();
  model_ = *std::move(model);
  model_->train();
  trainer_ = std::make_unique<Trainer>(model_, TrainerOptionsOf(options_, SpanListener()));
  return absl::OkStatus();
}

absl::Status Worker::OpenTrace() {
  if (options_.trace.empty()) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<TraceLog>> log = TraceLog::Open(
      PathOfRank(options_.trace, rank()), rank().value(), absl::StrCat("rank ", rank().value()));
  if (!log.ok()) return log.status();
  trace_log_ = *std::move(log);
  return absl::OkStatus();
}

// Empty without --trace. The log is opened before anything that spans tell of.
OnSpan Worker::SpanListener() {
  if (options_.trace.empty()) return nullptr;
  return [this](const TraceSpan& span) { trace_log_->Add(span); };
}

absl::Status Worker::JoinRun() {
  if (backend_name_ != "none") {
    const absl::StatusOr<v1::DType> wire = ParseWire(options_.wire);
    if (!wire.ok()) return wire.status();
    wire_ = *wire;
    BackendOptions backend_options;
    backend_options.coordinator = options_.coordinator;
    backend_options.wire = wire_;
    backend_options.connections = options_.connections;
    backend_options.on_span = SpanListener();
    absl::StatusOr<std::unique_ptr<Backend>> backend = MakeBackend(backend_name_, backend_options);
    if (!backend.ok()) return backend.status();
    backend_ = *std::move(backend);
    if (const OnSpan on_span = SpanListener()) {
      backend_ = TraceBackend(std::move(backend_), on_span);
    }
  }
  absl::StatusOr<std::unique_ptr<Synchronizer>> sync =
      MakeSynchronizer(options_.sync, backend_.get());
  if (!sync.ok()) return sync.status();
  sync_ = *std::move(sync);
  if (backend_ != nullptr) return JoinSession();
  {
    MutexLock lock(&mutex_);
    view_.world_size = 1;
  }
  return OpenTrace();
}

absl::Status Worker::JoinSession() {
  absl::StatusOr<std::string> address = ServePeers();
  if (!address.ok()) return address.status();
  SessionOptions session_options;
  session_options.coordinator = options_.coordinator;
  session_options.connect_timeout = absl::Seconds(options_.connect_timeout_seconds);
  session_options.cancelled = [this] { return stopper_->requested(); };
  absl::StatusOr<std::unique_ptr<Session>> session =
      Session::Open(session_options, [this](const absl::Status& status) { OnAbort(status); });
  if (!session.ok()) return session.status();
  {
    MutexLock lock(&mutex_);
    session_ = *std::move(session);
  }
  if (stopper_->requested()) return stopper_->reason();
  absl::StatusOr<View> view = session_->Join(MakeHello(*address));
  if (!view.ok()) return view.status();
  spdlog::info("rank {} of {}, run {}", view->rank.value(), view->world_size, ToHex(view->run_id));
  metrics_.SetView(static_cast<int>(view->members.size()), view->generation);
  {
    MutexLock lock(&mutex_);
    view_ = *view;
    rank_status_.set_rank(view->rank.value());
    rank_status_.set_address(*address);
    joined_ = true;
  }
  if (absl::Status opened = OpenTrace(); !opened.ok()) return opened;
  return backend_->OnView(*view, trainer_->BucketSpecs());
}

absl::StatusOr<std::string> Worker::ServePeers() {
  status_service_ = std::make_unique<StatusService>([this] { return GetStatus(); });
  std::vector<grpc::Service*> services = {status_service_.get()};
  if (backend_->service() != nullptr) services.push_back(backend_->service());
  absl::StatusOr<GrpcServer> server = StartGrpcServer(options_.listen, services);
  if (!server.ok()) return server.status();
  server_ = *std::move(server);
  return AdvertisedAddress(options_.advertise, options_.coordinator, server_.address);
}

v1::Hello Worker::MakeHello(const std::string& address) const {
  v1::Hello hello;
  if (options_.rank >= 0) hello.set_rank(options_.rank);
  hello.set_world_size(options_.world_size);
  hello.set_address(address);
  if (metrics_server_ != nullptr) {
    hello.set_metrics(ReachableAt(metrics_server_->address(), address));
  }
  ToProto(LayoutOf(*model_), &hello);
  ToProto(WireSpecs(trainer_->BucketSpecs(), wire_), &hello);
  auto& settings = *hello.mutable_settings();
  settings["sync"] = options_.sync;
  settings["backend"] = backend_name_;
  settings["wire"] = options_.wire;
  settings["bucket-cap-mb"] = absl::StrCat(options_.bucket_cap_mb);
  settings["broadcast-buffers"] = options_.broadcast_buffers ? "true" : "false";
  settings["model"] = options_.model;
  settings["dataset"] = options_.dataset;
  settings["training samples"] = absl::StrCat(train_->size());
  settings["batch-size"] = absl::StrCat(options_.batch_size);
  settings["accumulate"] = absl::StrCat(options_.accumulate);
  settings["iterations"] = absl::StrCat(options_.iterations);
  settings["epochs"] = absl::StrCat(options_.epochs);
  settings["lr"] = absl::StrCat(options_.lr);
  settings["momentum"] = absl::StrCat(options_.momentum);
  settings["weight-decay"] = absl::StrCat(options_.weight_decay);
  settings["seed"] = absl::StrCat(options_.seed);
  settings["sampler-seed"] = absl::StrCat(options_.sampler_seed);
  settings["augment"] = options_.augment ? "true" : "false";
  settings["drop-last"] = options_.drop_last ? "true" : "false";
  return hello;
}

Rank Worker::rank() {
  MutexLock lock(&mutex_);
  return view_.rank;
}

int Worker::world_size() {
  MutexLock lock(&mutex_);
  return view_.world_size;
}

int64_t Worker::TotalSteps() const {
  return options_.iterations > 0 ? options_.iterations
                                 : options_.epochs * batches_->steps_per_epoch();
}

absl::Status Worker::StartLoader() {
  TrainingBatchOptions batch_options;
  batch_options.sampler = {world_size(), true, options_.sampler_seed, options_.drop_last};
  batch_options.batch_size = options_.batch_size * options_.accumulate;
  batch_options.augment = options_.augment;
  batch_options.seed = options_.seed;
  absl::StatusOr<std::unique_ptr<const TrainingBatches>> batches =
      TrainingBatches::Create(train_, model_->image_shape(), batch_options);
  if (!batches.ok()) return batches.status();
  batches_ = *std::move(batches);
  spdlog::info("samples {}", batches_->sampler().Describe());
  LoaderOptions loader_options;
  loader_options.steps = TotalSteps();
  absl::StatusOr<std::unique_ptr<Loader>> loader = Loader::Create(
      [this, rank = rank()](Step step) { return batches_->Make(step, rank); }, loader_options);
  if (!loader.ok()) return loader.status();
  loader_ = *std::move(loader);
  return MakeReports();
}

absl::Status Worker::MakeReports() {
  const Environment environment = CurrentEnvironment();
  absl::StatusOr<ProgressMode> mode = DetectMode(environment, isatty(STDERR_FILENO) == 1);
  if (!mode.ok()) return mode.status();
  ProgressOptions progress;
  progress.total_steps = TotalSteps();
  progress.steps_per_epoch = batches_->steps_per_epoch();
  progress.epochs =
      (progress.total_steps + progress.steps_per_epoch - 1) / progress.steps_per_epoch;
  progress.print_every = options_.print_every;
  progress.world_size = world_size();
  progress.mode = *mode;
  progress.colour = UseColour(environment);
  progress.width = TerminalWidth(environment, STDERR_FILENO);
  progress_ = std::make_unique<ProgressReporter>(progress, std::cerr);
  collector_ = std::make_unique<SummaryCollector>(options_.print_every);
  if (options_.log_jsonl.empty()) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<StepLog>> log =
      StepLog::Open(PathOfRank(options_.log_jsonl, rank()));
  if (!log.ok()) return log.status();
  step_log_ = *std::move(log);
  return absl::OkStatus();
}

absl::Status Worker::Train() {
  absl::Status status = trainer_->Run([this] { return loader_->Next(); }, *sync_,
                                      [this](const StepReport& report) { OnStep(report); },
                                      [this] { return stopper_->requested(); });
  progress_->Finish();
  if (status.ok() && backend_ != nullptr) {
    // Neighbours are done with each other before slow evaluations begin.
    status = backend_->Finish(absl::Now() + absl::Seconds(options_.step_timeout_seconds));
  }
  if (trace_log_ == nullptr) return status;
  const auto offset = session_ ? session_->clock_offset() : absl::ZeroDuration();
  const absl::Status traced = trace_log_->Close(offset);
  return status.ok() ? traced : status;
}

void Worker::OnStep(const StepReport& report) {
  metrics_.ObserveIteration(report.times, report.samples);
  metrics_.SetLoss(report.loss);
  metrics_.CountCorrect(report.correct);
  metrics_.SetStep(report.step);
  const uint64_t step = report.step.value();
  collector_->Add(step, report.loss, report.samples, report.padded, report.times);
  const int64_t step_in_epoch =
      static_cast<int64_t>(step) - report.epoch * batches_->steps_per_epoch();
  progress_->OnStep(report.epoch, step_in_epoch, step, report.loss, report.samples, report.times);
  const TransferTotals transfers = CountTransfers(report);
  if (session_ != nullptr) TellCoordinator(report, transfers);
  if (step == 0 && session_ != nullptr && trace_log_ != nullptr) {
    trace_log_->SetClockOffset(session_->clock_offset());
  }
}

TransferTotals Worker::CountTransfers(const StepReport& report) {
  const TransferTotals totals = backend_ ? backend_->totals() : TransferTotals();
  const TransferTotals step = {totals.bytes_sent - counted_.bytes_sent,
                               totals.bytes_received - counted_.bytes_received,
                               totals.overflow_steps - counted_.overflow_steps};
  counted_ = totals;
  metrics_.CountSent(step.bytes_sent);
  metrics_.CountReceived(step.bytes_received);
  metrics_.CountWireOverflows(step.overflow_steps);
  if (step_log_ == nullptr) return step;
  absl::Status logged = step_log_->Write({report.step.value(), report.epoch, rank().value(),
                                          report.loss, report.samples, report.times,
                                          step.bytes_sent, step.bytes_received, absl::Now()});
  if (!logged.ok()) Stop(std::string(logged.message()), ExitCode(logged));
  return step;
}

void Worker::TellCoordinator(const StepReport& report, const TransferTotals& transfers) {
  v1::StepDone done;
  done.set_step(report.step.value());
  done.set_loss(report.loss);
  done.set_iteration_seconds(absl::ToDoubleSeconds(report.times.iteration));
  done.set_communication_seconds(absl::ToDoubleSeconds(report.times.communication));
  done.set_exposed_communication_seconds(absl::ToDoubleSeconds(report.times.exposed_communication));
  done.set_data_seconds(absl::ToDoubleSeconds(report.times.data));
  done.set_forward_seconds(absl::ToDoubleSeconds(report.times.forward));
  done.set_backward_seconds(absl::ToDoubleSeconds(report.times.backward));
  done.set_optimizer_seconds(absl::ToDoubleSeconds(report.times.optimizer));
  done.set_samples(static_cast<uint64_t>(report.samples));
  done.set_bytes_sent(transfers.bytes_sent);
  done.set_bytes_received(transfers.bytes_received);
  done.set_total_steps(static_cast<uint64_t>(TotalSteps()));
  session_->ReportStep(done);
  MutexLock lock(&mutex_);
  rank_status_.set_steps_done(done.step() + 1);
  rank_status_.set_loss(done.loss());
  rank_status_.set_iteration_seconds(done.iteration_seconds());
  rank_status_.set_communication_seconds(done.communication_seconds());
  rank_status_.set_exposed_communication_seconds(done.exposed_communication_seconds());
}

v1::StatusReply Worker::GetStatus() {
  v1::StatusReply reply;
  reply.set_program("gradwire-worker");
  reply.set_version(GRADWIRE_VERSION);
  MutexLock lock(&mutex_);
  reply.set_state(stopper_->requested() ? "aborted" : joined_ ? "running" : "waiting");
  reply.set_reason(std::string(stopper_->reason().message()));
  if (!joined_) return reply;
  reply.set_run_id(ToBytes(view_.run_id));
  reply.set_epoch(view_.epoch.value());
  reply.set_generation(view_.generation.value());
  reply.set_world_size(view_.world_size);
  *reply.add_ranks() = rank_status_;
  return reply;
}

Summary Worker::MakeSummary() {
  Summary summary;
  summary.rank = rank().value();
  summary.world_size = world_size();
  summary.sync = options_.sync;
  summary.backend = backend_name_;
  summary.wire = options_.wire;
  summary.model = options_.model;
  summary.dataset = options_.dataset;
  summary.batch_size = options_.batch_size;
  collector_->Fill(summary);
  summary.bytes_sent = counted_.bytes_sent;
  summary.bytes_received = counted_.bytes_received;
  if (evaluation_.has_value()) summary.test = {evaluation_->loss, evaluation_->accuracy};
  summary.parameters_sha256 = Sha256(model_->parameters());
  summary.buffers_sha256 = Sha256(model_->buffers());
  return summary;
}

absl::Status Worker::EvaluateAndReport() {
  if (test_ != nullptr) {
    auto batches = EvaluationBatches::Create(test_, model_->image_shape(), kEvaluationBatch);
    if (!batches.ok()) return batches.status();
    absl::StatusOr<Evaluation> evaluation =
        Evaluate(*model_, **batches, [this] { return stopper_->requested(); });
    if (!evaluation.ok()) return evaluation.status();
    spdlog::info("test loss {:.4f}, accuracy {:.2f} % ({} of {})", evaluation->loss,
                 100 * evaluation->accuracy,
                 static_cast<int64_t>(evaluation->accuracy * evaluation->samples + 0.5),
                 evaluation->samples);
    evaluation_ = *evaluation;
  }
  if (options_.summary.empty()) return absl::OkStatus();
  return WriteSummary(PathOfRank(options_.summary, rank()), MakeSummary());
}

}  // namespace gradwire
