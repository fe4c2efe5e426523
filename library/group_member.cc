#include "library/group_member.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/host.h"
#include "common/base/output_file.h"
#include "worker/options/choices.h"
#include "worker/run/from_options.h"

namespace gradwire {
namespace {

constexpr char kSync[] = "ddp";  // the sync of DistributedDataParallel, as a worker's option

}  // namespace

absl::StatusOr<std::unique_ptr<GroupMember>> GroupMember::Join(const GroupSettings& settings,
                                                               const Environment& environment) {
  auto member = absl::WrapUnique(new GroupMember(settings, environment));
  if (absl::Status status = member->Start(); !status.ok()) return status;
  return member;
}

GroupMember::GroupMember(const GroupSettings& settings, const Environment& environment)
    : settings_(settings),
      environment_(environment),
      metrics_(kSync, settings.backend),
      held_state_([this](const v1::Holds& holds) { member_->ReportHolds(holds); }),
      state_service_([this](const RunId& run_id, Step step, Generation generation) {
        return held_state_.Find(run_id, step, generation);
      }) {}

// The report of a copy goes through the member.
GroupMember::~GroupMember() {
  Forget();
  held_state_.Finish();
  if (member_ != nullptr)
    member_->Stop(absl::CancelledError("the process left before the end of the run"));
}

absl::Status GroupMember::Start() {
  if (absl::Status status = Host(); !status.ok()) return status;
  if (absl::Status status = ServeMetrics(); !status.ok()) return status;
  if (absl::Status status = Join(); !status.ok()) return status;
  if (absl::Status status = OpenTrace(); !status.ok()) return status;
  const absl::Status connected = member_->Connect(view_);
  return connected.ok() ? connected : Fail(connected);
}

absl::Status GroupMember::Host() {
  if (!settings_.host_coordinator || settings_.rank != 0 || settings_.world_size == 0) {
    return absl::OkStatus();
  }
  auto hosted =
      HostedCoordinator::StartUnlessServed({settings_.coordinator, settings_.world_size,
                                            settings_.coordinator_metrics, settings_.security},
                                           environment_);
  if (!hosted.ok()) return hosted.status();
  hosted_ = *std::move(hosted);
  if (hosted_ != nullptr) settings_.coordinator = hosted_->address();
  return absl::OkStatus();
}

std::string GroupMember::page() const {
  return hosted_ == nullptr ? "" : hosted_->metrics_address();
}

absl::Status GroupMember::ServeMetrics() {
  if (settings_.metrics.empty()) return absl::OkStatus();
  auto ready = [this] {
    MutexLock lock(&mutex_);
    return shown_member_ != nullptr;
  };
  auto server = MetricsServer::Start(settings_.metrics, metrics_.registry(), ready, nullptr, {},
                                     {"", settings_.security});
  if (!server.ok()) return server.status();
  metrics_server_ = *std::move(server);
  spdlog::info("metrics at {}/metrics", metrics_server_->url());
  return absl::OkStatus();
}

OnSpan GroupMember::span_listener() {
  if (settings_.trace.empty()) return nullptr;
  return [this](const TraceSpan& span) { trace_log_->Add(span); };
}

MemberOptions GroupMember::OptionsOfMember() {
  MemberOptions options;
  options.endpoint = {settings_.coordinator, settings_.listen,
                      settings_.advertise,   settings_.connect_timeout,
                      settings_.security,    SharesMemory(settings_.shared_memory)};
  options.backend = settings_.backend;
  options.transport.wire = settings_.wire_dtype;
  options.transport.compression = settings_.compression;
  options.transport.connections = settings_.connections;
  options.transport.on_span = span_listener();
  options.step_timeout = settings_.step_timeout;
  options.shares_exchange = settings_.compression.has_factors();
  return options;
}

v1::Hello GroupMember::MakeHello() const {
  v1::Hello hello;
  if (settings_.rank >= 0) hello.add_ranks(static_cast<uint32_t>(settings_.rank));
  hello.set_world_size(static_cast<uint32_t>(settings_.world_size));
  if (metrics_server_ != nullptr) {
    hello.set_metrics(ReachableAt(metrics_server_->address(), member_->address()));
  }
  auto& words = *hello.mutable_settings();
  hello.set_cannot_recover("programs on libgradwire end together");
  hello.set_cannot_checkpoint(WhyNotKept(settings_.compression, settings_.backend));
  words["sync"] = kSync;
  words["backend"] = settings_.backend;
  words["wire"] = settings_.wire;
  words["compress"] = settings_.compress;
  words["compress-warmup"] = absl::StrCat(settings_.compression.warmup_steps);
  words["model"] = settings_.name;
  words["optimizer"] = "of the program";
  return hello;
}

absl::Status GroupMember::Join() {
  MemberHooks hooks;
  hooks.status = [this] { return GetStatus(); };
  hooks.on_save = [this](Step step) { OnSave(step); };
  hooks.on_saved = [this](const v1::Saved& saved) { OnSaved(saved); };
  hooks.services = {&state_service_};
  auto member = RunMember::Create(OptionsOfMember(), std::move(hooks));
  if (!member.ok()) return member.status();
  member_ = *std::move(member);
  absl::StatusOr<View> view = member_->Join(MakeHello());
  if (!view.ok()) return view.status();
  rank_ = view->OwnRanks().front();
  step_ = view->first_step;
  spdlog::info("rank {} of {}, run {}", rank_.value(), view->world_size, ToHex(view->run_id));
  metrics_.SetView(static_cast<int>(view->members.size()), view->generation);
  metrics_.SetBackend(ChosenBackend(settings_.backend, *view, OptionsOfMember().transport));
  metrics_.SetFirstStep(view->first_step);
  MutexLock lock(&mutex_);
  view_ = *std::move(view);
  rank_status_.set_rank(static_cast<uint32_t>(rank_.value()));
  rank_status_.set_address(member_->address());
  shown_member_ = member_.get();
  return member_->ended();
}

absl::Status GroupMember::OpenTrace() {
  if (settings_.trace.empty()) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<TraceLog>> log = TraceLog::Open(
      PathOfRank(settings_.trace, rank_), rank_.value(), absl::StrCat("rank ", rank_.value()));
  if (!log.ok()) return Fail(log.status());
  trace_log_ = *std::move(log);
  return absl::OkStatus();
}

absl::Status GroupMember::state() {
  absl::Status ended = member_->ended();
  MutexLock lock(&mutex_);
  if (left_ && ended.ok()) return absl::FailedPreconditionError("the process group is closed");
  return ended;
}

absl::StatusOr<LayoutId> GroupMember::Declare(const std::string& name, const Layout& tensors,
                                              const std::vector<BucketSpec>& buckets) {
  const absl::StatusOr<LayoutId> id = member_->Declare(name, tensors, buckets);
  if (!id.ok()) return Fail(id.status());
  return id;
}

absl::Status GroupMember::Fail(const absl::Status& cause, bool of_all) {
  if (absl::Status known = state(); !known.ok()) return known;
  metrics_.CountRpcError(cause.code());
  return member_->Fail(cause, step_, of_all);
}

void GroupMember::CountTransfers(StepRecord* record) {
  const TransferTotals totals = member_->totals();
  record->bytes_sent = totals.bytes_sent - counted_.bytes_sent;
  record->bytes_received = totals.bytes_received - counted_.bytes_received;
  if (const auto told = compression_.OnStep(totals.compressed); told.has_value()) {
    record->compressed = told;
  }
  metrics_.CountWireOverflows(totals.overflow_steps - counted_.overflow_steps);
  counted_ = totals;
}

void GroupMember::Report(StepRecord record, absl::Time end) {
  last_end_ = end;
  record.step = step_;
  record.rank = rank_;
  record.time = absl::Now();
  record.peak_memory_bytes = PeakMemoryBytes();
  CountTransfers(&record);
  metrics_.Observe(record);
  v1::StepDone done = ToStepDone(record);
  done.set_generation(view_.generation.value());
  member_->ReportStep(done);
  if (step_ == view_.first_step && trace_log_ != nullptr) {
    trace_log_->SetClockOffset(member_->clock_offset());
  }
  ++step_;
  MutexLock lock(&mutex_);
  rank_status_.set_steps_done(step_.value());
  *rank_status_.mutable_last_step() = std::move(done);
}

absl::Status GroupMember::CloseTrace() {
  if (trace_log_ == nullptr) return absl::OkStatus();
  return trace_log_->Close(member_->clock_offset());
}

absl::StatusOr<Step> GroupMember::Keep(StateOwner* owner,
                                       std::function<v1::OptimizerConfig(Step)> optimizer) {
  const std::string backend = ChosenBackend(settings_.backend, view_, OptionsOfMember().transport);
  absl::Status kept = CheckKept(settings_.compression, backend, view_);
  if (!kept.ok()) return kept;
  StateKeeper::Run run;
  run.checkpoint_every = view_.checkpoint_every;
  run.optimizer = std::move(optimizer);
  keeper_ = std::make_unique<StateKeeper>(owner, std::move(run), member_.get(), &held_state_);
  {
    MutexLock lock(&mutex_);
    shown_keeper_ = keeper_.get();
    for (const Step step : asked_early_) shown_keeper_->Ask(step);
    asked_early_.clear();
  }
  absl::Status resumed = keeper_->Resume(view_);
  if (resumed.ok()) resumed = keeper_->ResumeRanks(view_);
  if (!resumed.ok()) return resumed;
  return view_.first_step;
}

void GroupMember::Forget() {
  {
    MutexLock lock(&mutex_);
    shown_keeper_ = nullptr;
  }
  keeper_.reset();
}

void GroupMember::KeepsNoState() {
  if (!view_.keeps_state) return;
  std::vector<Step> asked;
  {
    MutexLock lock(&mutex_);
    if (std::exchange(keeps_none_, true)) return;
    asked.swap(asked_early_);
  }
  spdlog::warn(
      "rank {}: the run has a run directory, but there will be no checkpoints, because the program "
      "trains without resume()",
      rank_.value());
  for (const Step step : asked) OnSave(step);
}

// The coordinator asks for a copy before `step`.
void GroupMember::OnSave(Step step) {
  v1::Holds declined;
  {
    MutexLock lock(&mutex_);
    if (shown_keeper_ != nullptr) return shown_keeper_->Ask(step);
    if (!keeps_none_) return asked_early_.push_back(step);
    declined.set_generation(view_.generation.value());
  }
  declined.set_step(step.value());
  declined.set_declined("the program trains without resume()");
  member_->ReportHolds(declined);
}

void GroupMember::OnSaved(const v1::Saved& saved) {
  if (saved.written()) {
    MutexLock lock(&mutex_);
    written_.emplace_back(saved.step());
  }
  held_state_.Release(saved);
}

absl::Status GroupMember::KeepLast(Step last) {
  const absl::Time deadline = SteadyNow() + settings_.step_timeout;
  while (SteadyNow() < deadline &&
         !held_state_.AwaitRelease(SteadyNow() + absl::Milliseconds(100)).has_value()) {
    if (absl::Status running = state(); !running.ok()) return running;
  }
  return keeper_->AwaitLast(last, view_, settings_.step_timeout);
}

std::vector<Step> GroupMember::TakeWritten() {
  MutexLock lock(&mutex_);
  return std::exchange(written_, {});
}

absl::Status GroupMember::Leave() {
  absl::Status status = state();
  if (status.ok()) {
    // The other ranks may continue for any time; if one is lost, the run ends.
    status = member_->Finish(absl::InfiniteFuture());
    if (!status.ok()) status = Fail(status);
  }
  if (status.ok()) {
    status = member_->Leave("the process group was closed");
    if (!status.ok()) member_->Stop(status);
  }
  if (hosted_ != nullptr) hosted_->AwaitEnd();
  const absl::Status traced = CloseTrace();
  MutexLock lock(&mutex_);
  left_ = true;
  return status.ok() ? traced : status;
}

v1::StatusReply GroupMember::GetStatus() {
  v1::StatusReply reply;
  reply.set_program(settings_.name);
  reply.set_version(GRADWIRE_VERSION);
  MutexLock lock(&mutex_);
  const bool joined = shown_member_ != nullptr;
  const absl::Status ended = joined ? shown_member_->ended() : absl::OkStatus();
  reply.set_state(!ended.ok() ? "aborted" : joined ? "running" : "waiting");
  reply.set_reason(std::string(ended.message()));
  if (!joined) return reply;
  reply.set_run_id(ToBytes(view_.run_id));
  reply.set_epoch(view_.epoch.value());
  reply.set_generation(view_.generation.value());
  reply.set_world_size(static_cast<uint32_t>(view_.world_size));
  *reply.add_ranks() = rank_status_;
  return reply;
}

}  // namespace gradwire
