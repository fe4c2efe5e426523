#include "worker/run/worker.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/environment.h"
#include "common/base/output_file.h"
#include "common/base/status_util.h"
#include "worker/data/dataset.h"
#include "worker/ddp/model_layout.h"
#include "worker/models/emulated_model.h"
#include "worker/options/choices.h"
#include "worker/report/progress.h"
#include "worker/run/compute.h"
#include "worker/run/evaluator.h"
#include "worker/run/from_options.h"

namespace gradwire {
namespace {

constexpr int64_t kEvaluationBatch = 250;

// For the ledger.
std::vector<v1::RankSamples> SamplesOf(absl::Span<const StepRecord> records) {
  std::vector<v1::RankSamples> all;
  for (const StepRecord& record : records) {
    v1::RankSamples samples;
    samples.set_rank(static_cast<uint32_t>(record.rank.value()));
    samples.set_epoch(static_cast<uint64_t>(record.epoch));
    samples.set_count(static_cast<uint64_t>(record.samples));
    samples.set_padded(static_cast<uint64_t>(record.padded));
    samples.set_digest(record.samples_digest);
    all.push_back(std::move(samples));
  }
  return all;
}

// Smaller images would be padded, so the model would be evaluated on others than it is trained on.
// `test` may be null.
absl::Status CheckSizes(const Dataset* train, const Dataset* test, const ImageShape& shape) {
  const bool fits = test == nullptr || shape.scaled ||
                    (test->height == train->height && test->width == train->width);
  if (fits) return absl::OkStatus();
  return Unexpected(absl::StrCat(test->name, ": test images"),
                    absl::StrCat(test->width, "x", test->height, " pixels"),
                    absl::StrCat(train->width, "x", train->height,
                                 " as the training images have; --image-size scales both"));
}

}  // namespace

Worker::Worker(const WorkerOptions& options)
    : options_(options),
      sync_traits_(TraitsOfSync(options.sync)),
      metrics_(options.sync, options.backend),
      stopper_(std::make_unique<Stopper>(
          [this](const absl::Status& reason, int exit_code) { SummarizeEnd(reason, exit_code); })),
      held_state_([this](const v1::Holds& holds) { member_->ReportHolds(holds); }),
      state_service_([this](const RunId& run_id, Step step, Generation generation) {
        return held_state_.Find(run_id, step, generation);
      }) {}

// The report of a copy goes through the member.
Worker::~Worker() { held_state_.Finish(); }

int Worker::Run() {
  absl::Status status = Prepare();
  if (status.ok()) status = Train();
  const bool trained = status.ok();
  if (status.ok() && member_ != nullptr) status = member_->Leave();
  status = ExplainFailure(std::move(status));
  const int exit_code = EndCode(status.ok() ? EndWithoutOutputs() : status);
  SummarizeEnd(trained ? absl::OkStatus() : status, exit_code);
  return exit_code;
}

// Logs outputs that cannot be written; the exit code reports them at the end. The run continues for
// the others.
void Worker::NoteOutputs(const absl::Status& written) {
  if (!written.ok()) spdlog::warn("{}", std::string(written.message()));
  outputs_.Update(written);
}

// An exit code of a failure makes a launcher end the other workers, so they must end first.
absl::Status Worker::EndWithoutOutputs() {
  if (!outputs_.ok() && member_ != nullptr) member_->AwaitEndOfRun();
  return outputs_;
}

int Worker::EndCode(const absl::Status& status) {
  if (status.ok()) return kExitDone;
  spdlog::error("{}", std::string(status.message()));
  if (stopper_->requested()) return stopper_->exit_code();
  // Before the run, an error is a wrong option or an unreachable address; later, it is a failure. A
  // worker alone has a reporter once its run begins.
  const bool begun = member_ != nullptr ? member_->joined() : reporter_ != nullptr;
  return begun ? kExitFailed : ExitCode(status);
}

void Worker::Stop(const std::string& reason, int exit_code) {
  const absl::Status status = absl::CancelledError(reason);
  stopper_->Request(status, exit_code);
  RunMember* member;
  {
    MutexLock lock(&mutex_);
    member = shown_member_;
  }
  if (member != nullptr) member->Stop(status);
}

absl::Status Worker::ExplainFailure(absl::Status status) {
  if (status.ok()) return status;
  if (member_ != nullptr && member_->joined() && !stopper_->requested()) {
    metrics_.CountRpcError(status.code());
    member_->Fail(status, CurrentStep(), IsOfAll(status)).IgnoreError();
  }
  return stopper_->requested() ? stopper_->reason() : status;
}

// Finds a wrong option or missing data before this worker joins, so that it ends no other worker's
// run.
absl::Status Worker::Prepare() {
  absl::Status status = DetectMode(CurrentEnvironment(), /*is_terminal=*/false).status();
  if (status.ok()) {
    status = CheckOutputs(options_,
                          options_.ranks.empty() ? std::vector<Rank>{Rank(0)} : options_.ranks);
  }
  if (status.ok()) status = ServeMetrics();
  if (status.ok()) status = LoadData();
  if (status.ok()) status = MakeTheModel();
  if (status.ok()) status = CheckData();
  if (status.ok()) status = Join();
  if (status.ok()) status = OpenTrace();
  if (status.ok()) status = DivideModel();
  if (status.ok()) status = options_.inference.empty() ? PrepareTraining() : MakeTestBatches();
  if (status.ok()) status = MakeReporter();
  if (status.ok() && state_ != nullptr) status = state_->Resume(view_);
  if (status.ok()) status = Attach();
  // A worker may be lost while the others connect with it.
  while (!status.ok() && reporter_ != nullptr && GoesOn(status)) status = GoOn();
  if (status.ok()) status = DivideEvaluations();
  return status;
}

absl::Status Worker::ServeMetrics() {
  if (options_.metrics.empty()) return absl::OkStatus();
  auto ready = [this] {
    MutexLock lock(&mutex_);
    return shown_reporter_ != nullptr || !sync_traits_.averages;
  };
  absl::StatusOr<std::unique_ptr<MetricsServer>> server = MetricsServer::Start(
      options_.metrics, metrics_.registry(), ready, nullptr, {}, {"", options_.security});
  if (!server.ok()) return server.status();
  metrics_server_ = *std::move(server);
  spdlog::info("metrics at {}/metrics", metrics_server_->url());
  return absl::OkStatus();
}

absl::Status Worker::LoadData() {
  absl::StatusOr<std::shared_ptr<const Dataset>> train =
      LoadDataset(options_.dataset, options_.data_dir, Split::kTrain);
  if (!train.ok()) return train.status();
  train_ = *std::move(train);
  if (!options_.evaluate && options_.inference.empty()) return absl::OkStatus();
  absl::StatusOr<std::shared_ptr<const Dataset>> test =
      LoadDataset(options_.dataset, options_.data_dir, Split::kTest);
  if (!test.ok()) return test.status();
  test_ = *std::move(test);
  return absl::OkStatus();
}

// One thread draws the initial weights, whatever the number of threads in the view.
absl::Status Worker::MakeTheModel() {
  torch::manual_seed(options_.seed);
  absl::StatusOr<std::shared_ptr<Model>> model =
      PrepareModel(ModelOptionsOf(options_, train_->classes));
  if (!model.ok()) return model.status();
  model_ = *std::move(model);
  if (options_.compute_seconds.has_value()) EmulateComputation();
  model_->train();
  frozen_sha256_ = HashOfFrozen();
  return absl::OkStatus();
}

// Whether the model takes the data. The batches are made again when the view is known.
absl::Status Worker::CheckData() const {
  const ImageShape shape = ShapeFor(*model_, options_.image_size);
  if (test_ != nullptr) {
    absl::Status status = EvaluationBatches::Create(test_, shape, kEvaluationBatch).status();
    if (!status.ok()) return status;
  }
  if (!options_.inference.empty()) return absl::OkStatus();
  if (absl::Status sizes = CheckSizes(train_.get(), test_.get(), shape); !sizes.ok()) return sizes;
  const int world_size = std::max(1, options_.world_size);  // 0: the coordinator knows it
  return TrainingBatches::Create(train_, shape, BatchOptionsOf(options_, world_size)).status();
}

void Worker::EmulateComputation() {
  const ComputeSeconds seconds = SleepsOf(options_);
  spdlog::warn(
      "computation is emulated: sleeps of {} s (forward, backward) per step; nothing is learned",
      ToString(seconds));
  model_ = std::make_shared<EmulatedModel>(model_, ShapeFor(*model_, options_.image_size),
                                           train_->classes, seconds,
                                           options_.batch_size * options_.accumulate);
}

absl::Status Worker::Join() {
  view_.world_size = 1;
  view_.threads = options_.threads;
  first_ranks_ = ranks_ = {Rank(0)};
  if (!sync_traits_.averages) return absl::OkStatus();
  absl::StatusOr<MemberOptions> options = MemberOptionsOf(options_, SpanListener());
  if (!options.ok()) return options.status();
  MemberHooks hooks;
  hooks.status = [this] { return GetStatus(); };
  hooks.work = [this] { return work_.At(SteadyNow()); };
  hooks.on_save = [this](Step step) {
    MutexLock lock(&mutex_);
    if (shown_state_ == nullptr) return asked_early_.push_back(step);
    shown_state_->Ask(step);
  };
  hooks.on_saved = [this](const v1::Saved& saved) { held_state_.Release(saved); };
  hooks.services = {&state_service_};
  hooks.on_end = [this](const absl::Status& end) { stopper_->Request(end, ExitCode(end)); };
  auto member = RunMember::Create(*options, std::move(hooks));
  if (!member.ok()) return member.status();
  member_ = *std::move(member);
  {
    MutexLock lock(&mutex_);
    shown_member_ = member_.get();
  }
  if (stopper_->requested())
    return stopper_->reason();  // it may have come before member_ was shown
  v1::Hello hello = MakeHello(options_, train_->size());
  if (!options_.weights.empty()) {
    (*hello.mutable_settings())["SHA-256 of weights"] = Sha256(AllTensors(*model_));
  }
  if (metrics_server_ != nullptr) {
    hello.set_metrics(ReachableAt(metrics_server_->address(), member_->address()));
  }
  absl::StatusOr<View> view = member_->Join(std::move(hello));
  if (!view.ok()) return view.status();
  view_ = *std::move(view);
  first_ranks_ = ranks_ = view_.OwnRanks();
  first_step_ = view_.first_step;
  spdlog::info("{} of {}, run {}", NameOf(ranks_), view_.world_size, ToHex(view_.run_id));
  trained_view_ = view_;
  work_.SetGeneration(view_.generation);
  metrics_.SetView(static_cast<int>(view_.members.size()), view_.generation);
  return CheckOutputs(options_, ranks_);
}

absl::Status Worker::OpenTrace() {
  if (options_.trace.empty()) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<TraceLog>> log = TraceLog::Open(
      PathOfRank(options_.trace, ranks_.front()), ranks_.front().value(), NameOf(ranks_));
  if (!log.ok()) return log.status();
  trace_log_ = *std::move(log);
  return absl::OkStatus();
}

// Returns nothing without --trace. Opens the log before the first span.
OnSpan Worker::SpanListener() {
  if (options_.trace.empty()) return nullptr;
  return [this](const TraceSpan& span) { trace_log_->Add(span); };
}

absl::Status Worker::PrepareTraining() {
  absl::Status status = MakeBatches();
  if (status.ok()) status = CheckResumedStep();
  if (status.ok()) status = MakeTrainer();
  if (status.ok()) status = MakeEvaluator();
  return status.ok() ? StartLoader(static_cast<int64_t>(first_step_.value())) : status;
}

absl::Status Worker::DivideModel() {
  UseComputeThreads(view_.threads);
  auto devices = OnDevices(options_, train_->classes, model_);
  if (!devices.ok()) return devices.status();
  devices_ = *std::move(devices);
  return absl::OkStatus();
}

absl::Status Worker::MakeTrainer() {
  auto options = TrainerOptionsOf(options_, Size(), SpanListener());
  if (!options.ok()) return options.status();
  if (view_.seals) {
    options->seal = {[this](Step step, absl::Span<const TensorDigest> digests) {
                       member_->ReportReady(step, /*last=*/false, digests,
                                            SamplesOf(unsealed_.records));
                     },
                     [this](Step step) { return AwaitSealed(step); }};
  }
  options->before_step = [this](Step next) {
    if (state_ != nullptr) state_->BeforeStep(next, view_);
  };
  options->on_phase = [this](auto... phase) { BeginPhase(phase...); };
  options->is_border = [this](Step step) {
    return view_.keeps_state && state_ != nullptr && state_->IsBorder(step);
  };
  auto trainer = Trainer::Create(devices_ != nullptr ? devices_ : model_, *options);
  if (!trainer.ok()) return trainer.status();
  trainer_ = *std::move(trainer);
  trainer_->BeginAt(first_step_);
  auto sync_options = SyncOptionsOf(options_, Size(), *model_);
  if (!sync_options.ok()) return sync_options.status();
  auto sync = MakeSynchronizer(options_.sync, &trainer_->reducer(), *std::move(sync_options));
  if (!sync.ok()) return sync.status();
  sync_ = *std::move(sync);
  if (sync_ == nullptr) return absl::OkStatus();
  sync_->BeginAt(first_step_);
  MakeStateKeeper(*options);
  return absl::OkStatus();
}

absl::Status Worker::MakeTestBatches() {
  auto batches =
      EvaluationBatches::Create(test_, ShapeFor(*model_, options_.image_size), options_.batch_size);
  if (!batches.ok()) return batches.status();
  test_batches_ = *std::move(batches);
  return absl::OkStatus();
}

absl::Status Worker::Attach() {
  if (member_ == nullptr) return absl::OkStatus();
  const absl::StatusOr<Compression> compression = CompressionOf(options_);
  if (!compression.ok()) return compression.status();
  if (absl::Status kept = CheckKept(*compression, backend_in_force_, view_); !kept.ok())
    return kept;
  return compression->has_factors() ? AttachLowRank(*compression) : AttachBuckets();
}

// Declares before it connects, so that the next view's exchange knows the layout if a worker is
// lost.
absl::Status Worker::AttachBuckets() {
  const absl::StatusOr<LayoutId> layout = member_->Declare(
      options_.model, LayoutOf(*model_), sync_->BucketSpecs(), ServingOf(options_, Size()));
  if (!layout.ok()) return layout.status();
  layout_ = *layout;
  if (absl::Status connected = member_->Connect(view_); !connected.ok()) return connected;
  sync_->Attach(&member_->exchange(), layout_, ranks_);
  if (absl::Status resumed = state_->ResumeRanks(view_); !resumed.ok()) return resumed;
  return sync_->Start();
}

absl::Status Worker::AttachLowRank(const Compression& compression) {
  if (absl::Status connected = member_->Connect(view_); !connected.ok()) return connected;
  auto low_rank = ConnectLowRank(member_.get(), options_.model, LayoutOf(*model_),
                                 trainer_->reducer(), compression, view_);
  if (!low_rank.ok()) return low_rank.status();
  low_rank_ = *std::move(low_rank);
  sync_->Attach(low_rank_.get(), LayoutId(0), ranks_);
  return state_->ResumeRanks(view_);
}

TrainingSize Worker::Size() const { return {view_.world_size, StepsPerEpoch(), TotalSteps()}; }

int64_t Worker::StepsPerEpoch() const {
  return test_batches_ != nullptr ? test_batches_->count() : batches_->steps_per_epoch();
}

int64_t Worker::TotalSteps() const {
  return options_.iterations > 0 ? options_.iterations : options_.epochs * StepsPerEpoch();
}

absl::Status Worker::MakeBatches() {
  absl::StatusOr<std::unique_ptr<const TrainingBatches>> batches = TrainingBatches::Create(
      train_, ShapeFor(*model_, options_.image_size), BatchOptionsOf(options_, view_.world_size));
  if (!batches.ok()) return batches.status();
  batches_ = *std::move(batches);
  spdlog::info("samples {}", batches_->sampler().Describe());
  return absl::OkStatus();
}

absl::Status Worker::MakeEvaluator() {
  if (test_ == nullptr) return absl::OkStatus();
  auto batches =
      EvaluationBatches::Create(test_, ShapeFor(*model_, options_.image_size), kEvaluationBatch);
  if (!batches.ok()) return batches.status();
  const absl::StatusOr<Loss> loss = FindLoss(options_.loss);
  if (!loss.ok()) return loss.status();
  evaluator_ =
      std::make_unique<Evaluator>(model_.get(), &trainer_->reducer(), *std::move(batches), *loss);
  return absl::OkStatus();
}

absl::Status Worker::StartLoader(int64_t first) {
  next_batch_ = static_cast<uint64_t>(first) * ranks_.size();
  LoaderOptions loader_options;
  loader_options.first = Step(static_cast<uint64_t>(first));
  loader_options.steps = TotalSteps() - first;
  loader_options.run_ahead = std::max(loader_options.run_ahead, int64_t{2} * options_.loaders);
  loader_options.ranks = ranks_;
  loader_options.threads = options_.loaders;
  absl::StatusOr<std::unique_ptr<Loader>> loader = Loader::Create(
      [this](Step step, Rank rank) { return batches_->Make(step, rank); }, loader_options);
  if (!loader.ok()) return loader.status();
  loader_ = *std::move(loader);
  return absl::OkStatus();
}

absl::Status Worker::MakeReporter() {
  WorkerOptions in_force = options_;
  const absl::StatusOr<MemberOptions> member = MemberOptionsOf(options_, nullptr);
  if (!member.ok()) return member.status();
  const std::vector<BucketSpec> buckets =
      sync_ == nullptr ? std::vector<BucketSpec>() : sync_->BucketSpecs();
  in_force.backend = ChosenBackend(options_.backend, view_, member->transport, buckets);
  backend_in_force_ = in_force.backend;
  auto reporter =
      StepReporter::Create(in_force,
                           {ranks_, view_.world_size, TotalSteps(), StepsPerEpoch(), first_step_,
                            GroupsInMemory(options_.backend, view_, member->transport, buckets)},
                           &metrics_);
  if (!reporter.ok()) return reporter.status();
  reporter_ = *std::move(reporter);
  NoteEarlierSummaries();
  MutexLock lock(&mutex_);
  shown_reporter_ = reporter_.get();
  return absl::OkStatus();
}

// Ranks with equal buffers share the work.
absl::Status Worker::DivideEvaluations() {
  if (evaluator_ == nullptr || view_.world_size == 1 || !options_.broadcast_buffers) {
    return absl::OkStatus();
  }
  const std::vector<BucketSpec> buckets = evaluator_->BucketSpecs(view_.world_size);
  const absl::StatusOr<LayoutId> layout = member_->Declare(kEvaluationLayout, {}, buckets);
  if (!layout.ok()) return layout.status();
  evaluations_ = *layout;
  ShareEvaluations();
  return absl::OkStatus();
}

void Worker::ShareEvaluations() {
  if (!evaluations_.has_value()) return;
  evaluator_->Divide(&member_->exchange(), *evaluations_, view_,
                     absl::Seconds(options_.step_timeout_seconds));
}

absl::Status Worker::Infer() {
  Model& model = devices_ != nullptr ? *devices_ : *model_;
  const absl::StatusOr<Loss> loss = FindLoss(options_.loss);
  if (!loss.ok()) return loss.status();
  absl::StatusOr<std::string> hash = gradwire::Infer(
      model, *test_batches_, *loss, TotalSteps(),
      [this](const StepRecord& report) {
        OnStep({&report, 1});
      },
      [this] { return stopper_->requested(); });
  if (!hash.ok()) return hash.status();
  outputs_sha256_ = *std::move(hash);
  return absl::OkStatus();
}

// A step that may be computed again is not reported.
void Worker::OnStep(absl::Span<const StepRecord> reports) {
  std::vector<StepRecord> records(reports.begin(), reports.end());
  for (StepRecord& record : records) record.time = absl::Now();
  TransferTotals totals = member_ ? member_->totals() : TransferTotals();
  if (low_rank_ != nullptr) totals.compressed = low_rank_->totals().compressed;
  if (devices_ != nullptr) {
    records.front().phases += devices_->TakeTimes();
    totals.bytes_sent = totals.bytes_received = devices_->bytes_moved();
  }
  unsealed_ = {std::move(records), std::move(totals), view_.generation};
  if (!view_.seals) TellOfStep();
}

void Worker::TellOfStep() {
  if (unsealed_.records.empty()) return;
  const bool is_first = unsealed_.records.front().step == first_step_;
  std::vector<v1::StepDone> done =
      reporter_->OnStep(std::exchange(unsealed_.records, {}), unsealed_.totals);
  if (member_ == nullptr) return;
  for (v1::StepDone& of_rank : done) {
    of_rank.set_generation(unsealed_.generation.value());
    member_->ReportStep(of_rank);
  }
  if (is_first && trace_log_ != nullptr) {
    trace_log_->SetClockOffset(member_->clock_offset());
  }
}

v1::StatusReply Worker::GetStatus() {
  v1::StatusReply reply;
  reply.set_program("gradwire-worker");
  reply.set_version(GRADWIRE_VERSION);
  StepReporter* reporter;
  View view;  // of a worker that has joined: until then another thread writes it without the lock
  {
    MutexLock lock(&mutex_);
    reporter = shown_reporter_;
    if (reporter != nullptr) view = view_;
  }
  reply.set_state(stopper_->requested() ? "aborted" : reporter ? "running" : "waiting");
  reply.set_reason(std::string(stopper_->reason().message()));
  if (reporter == nullptr) return reply;
  reply.set_run_id(ToBytes(view.run_id));
  reply.set_epoch(view.epoch.value());
  reply.set_generation(view.generation.value());
  reply.set_world_size(view.world_size);
  for (v1::RankStatus& status : reporter->Status()) {
    status.set_address(view.Carrier(Rank(static_cast<int>(status.rank()))).address);
    *reply.add_ranks() = std::move(status);
  }
  return reply;
}

}  // namespace gradwire
