#include "worker/run/step_reporter.h"

#include <unistd.h>

#include <iostream>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/time/clock.h"
#include "common/base/output_file.h"

namespace gradwire {
namespace {

absl::StatusOr<ProgressOptions> ProgressOf(const WorkerOptions& options,
                                           const StepReporter::Run& run) {
  const Environment environment = CurrentEnvironment();
  absl::StatusOr<ProgressMode> mode = DetectMode(environment, isatty(STDERR_FILENO) == 1);
  if (!mode.ok()) return mode.status();
  ProgressOptions progress;
  progress.total_steps = run.total_steps;
  progress.steps_per_epoch = run.steps_per_epoch;
  progress.epochs = (run.total_steps + run.steps_per_epoch - 1) / run.steps_per_epoch;
  progress.print_every = options.print_every;
  progress.world_size = run.world_size;
  progress.mode = *mode;
  progress.colour = UseColour(environment);
  progress.width = TerminalWidth(environment, STDERR_FILENO);
  return progress;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StepReporter>> StepReporter::Create(const WorkerOptions& options,
                                                                   const Run& run,
                                                                   WorkerMetrics* metrics) {
  const absl::StatusOr<ProgressOptions> progress = ProgressOf(options, run);
  if (!progress.ok()) return progress.status();
  auto reporter = absl::WrapUnique(new StepReporter(options, run, *progress, metrics));
  if (absl::Status opened = reporter->OpenLogs(); !opened.ok()) return opened;
  return reporter;
}

StepReporter::StepReporter(const WorkerOptions& options, const Run& run,
                           const ProgressOptions& progress, WorkerMetrics* metrics)
    : options_(options), run_(run), metrics_(metrics), progress_(progress, std::cerr) {
  MutexLock lock(&mutex_);
  for (const Rank rank : run.ranks) {
    ranks_.push_back({SummaryCollector(options.print_every), nullptr});
    statuses_.emplace_back().set_rank(static_cast<uint32_t>(rank.value()));
  }
}

absl::Status StepReporter::OpenLogs() {
  if (options_.log_jsonl.empty()) return absl::OkStatus();
  for (size_t i = 0; i < ranks_.size(); ++i) {
    auto log = StepLog::Open(PathOfRank(options_.log_jsonl, run_.ranks[i]));
    if (!log.ok()) return log.status();
    ranks_[i].log = *std::move(log);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<v1::StepDone>> StepReporter::OnStep(absl::Span<const StepReport> reports,
                                                               const TransferTotals& totals) {
  TransferTotals step = {totals.bytes_sent - counted_.bytes_sent,
                         totals.bytes_received - counted_.bytes_received,
                         totals.overflow_steps - counted_.overflow_steps};
  counted_ = totals;
  Count(step);
  Measure(reports);
  std::vector<v1::StepDone> done;
  for (size_t i = 0; i < reports.size(); ++i) {
    const StepReport& report = reports[i];
    ranks_[i].collector.Add(report.step.value(), report.loss, report.samples, report.padded,
                            report.times);
    if (absl::Status logged = Log(ranks_[i], report, step); !logged.ok()) return logged;
    done.push_back(Done(report, step));
    ShowStatus(i, done.back());
    step = {};
  }
  return done;
}

void StepReporter::Count(const TransferTotals& step) {
  metrics_->CountSent(step.bytes_sent);
  metrics_->CountReceived(step.bytes_received);
  metrics_->CountWireOverflows(step.overflow_steps);
}

// Of the worker as a whole; people see the first rank's loss.
void StepReporter::Measure(absl::Span<const StepReport> reports) {
  const StepReport& first = reports.front();
  int64_t samples = 0;
  int64_t correct = 0;
  double loss = 0;
  for (const StepReport& report : reports) {
    samples += report.samples;
    correct += report.correct;
    loss += report.loss / static_cast<double>(reports.size());
  }
  metrics_->ObserveIteration(first.times, samples);
  metrics_->SetLoss(loss);
  metrics_->CountCorrect(correct);
  metrics_->SetStep(first.step);
  const uint64_t step = first.step.value();
  const int64_t step_in_epoch = static_cast<int64_t>(step) - first.epoch * run_.steps_per_epoch;
  progress_.OnStep(first.epoch, step_in_epoch, step, first.loss, first.samples, first.times);
}

absl::Status StepReporter::Log(const OfRank& rank, const StepReport& report,
                               const TransferTotals& step) {
  if (rank.log == nullptr) return absl::OkStatus();
  return rank.log->Write({report.step.value(), report.epoch, report.rank.value(), report.loss,
                          report.samples, report.times, step.bytes_sent, step.bytes_received,
                          absl::Now()});
}

v1::StepDone StepReporter::Done(const StepReport& report, const TransferTotals& step) const {
  v1::StepDone done;
  done.set_step(report.step.value());
  done.set_rank(static_cast<uint32_t>(report.rank.value()));
  done.set_loss(report.loss);
  done.set_iteration_seconds(absl::ToDoubleSeconds(report.times.iteration));
  done.set_communication_seconds(absl::ToDoubleSeconds(report.times.communication));
  done.set_exposed_communication_seconds(absl::ToDoubleSeconds(report.times.exposed_communication));
  done.set_data_seconds(absl::ToDoubleSeconds(report.times.data));
  done.set_forward_seconds(absl::ToDoubleSeconds(report.times.forward));
  done.set_backward_seconds(absl::ToDoubleSeconds(report.times.backward));
  done.set_optimizer_seconds(absl::ToDoubleSeconds(report.times.optimizer));
  done.set_samples(static_cast<uint64_t>(report.samples));
  done.set_bytes_sent(step.bytes_sent);
  done.set_bytes_received(step.bytes_received);
  done.set_total_steps(static_cast<uint64_t>(run_.total_steps));
  return done;
}

void StepReporter::ShowStatus(size_t index, const v1::StepDone& done) {
  MutexLock lock(&mutex_);
  v1::RankStatus& status = statuses_[index];
  status.set_steps_done(done.step() + 1);
  status.set_loss(done.loss());
  status.set_iteration_seconds(done.iteration_seconds());
  status.set_communication_seconds(done.communication_seconds());
  status.set_exposed_communication_seconds(done.exposed_communication_seconds());
}

std::vector<v1::RankStatus> StepReporter::Status() const {
  MutexLock lock(&mutex_);
  return statuses_;
}

Summary StepReporter::SummaryOf(size_t index) const {
  Summary summary;
  summary.rank = run_.ranks[index].value();
  summary.world_size = run_.world_size;
  summary.sync = options_.sync;
  summary.backend = options_.backend;
  summary.wire = options_.wire;
  summary.model = options_.model;
  summary.dataset = options_.dataset;
  summary.batch_size = options_.batch_size;
  ranks_[index].collector.Fill(summary);
  if (index > 0) return summary;
  summary.bytes_sent = counted_.bytes_sent;
  summary.bytes_received = counted_.bytes_received;
  return summary;
}

}  // namespace gradwire
