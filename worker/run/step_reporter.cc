#include "worker/run/step_reporter.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <utility>

#include "absl/memory/memory.h"
#include "common/base/host.h"
#include "common/base/output_file.h"
#include "worker/run/from_options.h"

namespace gradwire {

void CurrentWork::Begin(const char* phase, Step step, bool waits, absl::optional<Bucket> bucket,
                        absl::Time now) {
  v1::Work work;
  work.set_phase(phase);
  work.set_step(step.value());
  work.set_waits(waits);
  if (bucket.has_value()) work.set_bucket(static_cast<uint32_t>(bucket->value()));
  MutexLock lock(&mutex_);
  work.set_generation(generation_.value());
  work_ = std::move(work);
  since_ = now;
}

void CurrentWork::SetGeneration(Generation generation) {
  MutexLock lock(&mutex_);
  generation_ = generation;
}

absl::optional<v1::Work> CurrentWork::At(absl::Time now) const {
  MutexLock lock(&mutex_);
  absl::optional<v1::Work> work = work_;
  if (work.has_value()) work->set_seconds(absl::ToDoubleSeconds(now - since_));
  return work;
}

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

// Returns the part of a process's bytes for its rank `index`: equal parts, because the process
// cannot attribute them. The parts add up to all bytes, and none ever shrinks.
uint64_t PartOf(uint64_t bytes, size_t index, size_t ranks) { return (bytes + index) / ranks; }

// Returns nothing if no answer had clocks, which are above 0 from the first step on.
absl::optional<StepRecord::Staleness> StalenessAfter(Step step, const ChunkClocks& clocks) {
  const uint64_t own = step.value() + 1;
  if (clocks.fastest < own || clocks.fastest < clocks.slowest) return absl::nullopt;
  return StepRecord::Staleness{clocks.fastest - own, clocks.fastest - clocks.slowest};
}

}  // namespace

absl::StatusOr<std::unique_ptr<StepReporter>> StepReporter::Create(const WorkerOptions& options,
                                                                   const Run& run,
                                                                   WorkerMetrics* metrics) {
  const absl::StatusOr<ProgressOptions> progress = ProgressOf(options, run);
  if (!progress.ok()) return progress.status();
  auto reporter = absl::WrapUnique(new StepReporter(options, run, *progress, metrics));
  const bool goes_on = run.first_step > Step(0);
  if (!goes_on) reporter->NoteEarlierLogs();
  for (size_t i = 0; i < run.ranks.size(); ++i) {
    absl::Status opened = reporter->OpenLog(run.ranks[i], goes_on, &reporter->ranks_[i]);
    if (!opened.ok()) return opened;
  }
  return reporter;
}

StepReporter::StepReporter(const WorkerOptions& options, const Run& run,
                           const ProgressOptions& progress, WorkerMetrics* metrics)
    : options_(options), run_(run), metrics_(metrics), progress_(progress, std::cerr) {
  metrics_->SetBackend(options.backend);
  metrics_->SetFirstStep(run.first_step);
  MutexLock lock(&mutex_);
  for (const Rank rank : run.ranks) {
    ranks_.push_back({SummaryCollector(options.print_every), EpochCollector(), nullptr});
    statuses_.emplace_back().set_rank(static_cast<uint32_t>(rank.value()));
  }
}

absl::Status StepReporter::OpenLog(Rank rank, bool goes_on, OfRank* of_rank) const {
  if (options_.log_jsonl.empty()) return absl::OkStatus();
  auto log = StepLog::Open(PathOfRank(options_.log_jsonl, rank), goes_on);
  if (!log.ok()) return log.status();
  of_rank->log = *std::move(log);
  return absl::OkStatus();
}

// No rank has a row of this run yet, because no step is sealed without this worker.
void StepReporter::NoteEarlierLogs() {
  if (options_.log_jsonl.empty()) return;
  for (int rank = 0; rank < run_.world_size; ++rank) {
    earlier_logs_.push_back(MarkOf(PathOfRank(options_.log_jsonl, Rank(rank))));
  }
}

bool StepReporter::IsOfEarlierRun(Rank rank) const {
  if (earlier_logs_.empty()) return false;
  const absl::optional<FileMark>& earlier = earlier_logs_[static_cast<size_t>(rank.value())];
  return earlier.has_value() && earlier == MarkOf(PathOfRank(options_.log_jsonl, rank));
}

void StepReporter::GoOn(Recovery recovery) {
  MutexLock lock(&records_mutex_);
  recovery.adopted = SetRanks(recovery.ranks);
  ++failures_.views;
  failures_.retries += recovery.recomputes ? 1 : 0;
  failures_.losses += static_cast<int64_t>(recovery.change.lost.size());
  failures_.recomputed_ranks += static_cast<int64_t>(recovery.adopted.size());
  failures_.lost += recovery.lost;
  metrics_->CountLostTime("computing", recovery.lost.computing);
  metrics_->CountLostTime("waiting", recovery.lost.waiting);
  metrics_->CountLostTime("connecting", recovery.lost.connecting);
  const size_t logged = FirstWithLog();
  WriteLog(logged, ToJsonLine(run_.ranks[logged], recovery));
  failures_.recoveries.push_back(std::move(recovery));
}

size_t StepReporter::FirstWithLog() const {
  const auto has_log = [](const OfRank& rank) { return rank.log != nullptr; };
  const auto first = std::find_if(ranks_.begin(), ranks_.end(), has_log);
  return first == ranks_.end() ? 0 : static_cast<size_t>(first - ranks_.begin());
}

std::vector<Rank> StepReporter::SetRanks(const std::vector<Rank>& ranks) {
  std::vector<Rank> adopted;
  std::vector<OfRank> carried;
  std::vector<v1::RankStatus> statuses;
  MutexLock lock(&mutex_);
  for (const Rank rank : ranks) {
    const auto had = std::find(run_.ranks.begin(), run_.ranks.end(), rank);
    if (had != run_.ranks.end()) {
      carried.push_back(std::move(ranks_[had - run_.ranks.begin()]));
      statuses.push_back(std::move(statuses_[had - run_.ranks.begin()]));
      continue;
    }
    adopted.push_back(rank);
    carried.push_back({SummaryCollector(options_.print_every), EpochCollector(), nullptr});
    statuses.emplace_back().set_rank(static_cast<uint32_t>(rank.value()));
    GiveUpLog(OpenLog(rank, !IsOfEarlierRun(rank), &carried.back()), &carried.back());
  }
  // A worker never gives up a rank.
  shown_ = std::find(ranks.begin(), ranks.end(), run_.ranks[shown_]) - ranks.begin();
  run_.ranks = ranks;
  ranks_ = std::move(carried);
  statuses_ = std::move(statuses);
  return adopted;
}

std::vector<v1::StepDone> StepReporter::OnStep(std::vector<StepRecord> records,
                                               const TransferTotals& totals) {
  MutexLock lock(&records_mutex_);
  Count(totals, &records);
  std::vector<v1::StepDone> done;
  for (size_t i = 0; i < records.size(); ++i) {
    StepRecord& record = records[i];
    AddStep(i, record);
    done.push_back(Done(record));
    ShowStatus(i, done.back());
  }
  Measure(records);
  return done;
}

void StepReporter::AddStep(size_t index, const StepRecord& record) {
  OfRank& rank = ranks_[index];
  rank.collector.Add(record, ranks_.size());
  OnEpoch(index, rank.epochs.Add(record));
  WriteLog(index, ToJsonLine(record));
}

// Reports a finished epoch, if there is one.
void StepReporter::OnEpoch(size_t index, const absl::optional<EpochRow>& row) {
  if (!row.has_value()) return;
  if (index == shown_) progress_.OnEpoch(*row);
  WriteLog(index, ToJsonLine(run_.ranks[index], *row));
}

void StepReporter::WriteLog(size_t index, const std::string& line) {
  OfRank& rank = ranks_[index];
  if (rank.log == nullptr) return;
  GiveUpLog(rank.log->Write(line), &rank);
}

void StepReporter::GiveUpLog(const absl::Status& failure, OfRank* of_rank) {
  if (failure.ok()) return;
  of_rank->log.reset();
  log_failure_.Update(failure);
  progress_.Pause();
  spdlog::warn("{}; the run goes on without this log", std::string(failure.message()));
}

void StepReporter::OnEvaluation(absl::Span<const Evaluation> evaluations) {
  MutexLock lock(&records_mutex_);
  for (size_t i = 0; i < ranks_.size(); ++i) {
    ranks_[i].epochs.SetTest({evaluations[i].loss, evaluations[i].accuracy});
  }
}

absl::Status StepReporter::Finish() {
  MutexLock lock(&records_mutex_);
  for (size_t i = 0; i < ranks_.size(); ++i) OnEpoch(i, ranks_[i].epochs.Finish());
  progress_.Finish();
  return log_failure_;
}

void StepReporter::Count(const TransferTotals& totals, std::vector<StepRecord>* records) {
  const size_t ranks = records->size();
  const auto compressed = compression_.OnStep(totals.compressed);
  const uint64_t peak_memory_bytes = PeakMemoryBytes();
  for (size_t i = 0; i < ranks; ++i) {
    StepRecord& record = (*records)[i];
    record.bytes_sent = PartOf(totals.bytes_sent, i, ranks) - PartOf(counted_.bytes_sent, i, ranks);
    record.bytes_received =
        PartOf(totals.bytes_received, i, ranks) - PartOf(counted_.bytes_received, i, ranks);
    record.staleness = StalenessAfter(record.step, totals.clocks);
    record.compressed = compressed;
    record.peak_memory_bytes = peak_memory_bytes;
  }
  metrics_->CountWireOverflows(totals.overflow_steps - counted_.overflow_steps);
  counted_ = totals;
}

// Metrics are of the whole worker.
void StepReporter::Measure(absl::Span<const StepRecord> records) {
  metrics_->Observe(RecordOfWorker(records));
  progress_.OnStep(records[shown_]);
}

v1::StepDone StepReporter::Done(const StepRecord& record) const {
  v1::StepDone done = ToStepDone(record);
  done.set_total_steps(static_cast<uint64_t>(run_.total_steps));
  return done;
}

void StepReporter::ShowStatus(size_t index, const v1::StepDone& done) {
  MutexLock lock(&mutex_);
  statuses_[index].set_steps_done(done.step() + 1);
  *statuses_[index].mutable_last_step() = done;
}

std::vector<v1::RankStatus> StepReporter::Status() const {
  MutexLock lock(&mutex_);
  return statuses_;
}

std::vector<Summary> StepReporter::Summaries() const {
  MutexLock lock(&records_mutex_);
  std::vector<Summary> summaries;
  for (size_t i = 0; i < ranks_.size(); ++i) summaries.push_back(SummaryOf(i));
  return summaries;
}

Summary StepReporter::SummaryOf(size_t index) const {
  Summary summary;
  summary.rank = run_.ranks[index].value();
  summary.world_size = run_.world_size;
  summary.sync = options_.sync;
  summary.backend = options_.backend;
  summary.wire = options_.wire;
  summary.compress = options_.compress;
  summary.model = options_.model;
  summary.dataset = options_.dataset;
  summary.batch_size = options_.batch_size;
  summary.accumulate = options_.accumulate;
  summary.first_step = static_cast<int64_t>(run_.first_step.value());
  if (options_.compute_seconds.has_value()) {
    const ComputeSeconds seconds = SleepsOf(options_);
    summary.emulated = {seconds.forward, seconds.backward};
  }
  summary.failures = failures_;
  for (const auto& group : run_.in_memory) {
    auto& ranks = summary.in_memory.emplace_back();
    for (const Rank rank : group) ranks.push_back(rank.value());
  }
  for (const Rank rank : run_.ranks) summary.ranks_of_worker.push_back(rank.value());
  ranks_[index].collector.Fill(summary);
  summary.epochs = ranks_[index].epochs.rows();
  if (!summary.epochs.empty()) summary.train = summary.epochs.back().train;
  summary.test = ranks_[index].epochs.test();
  if (counted_.compressed.coded_bytes > 0) {
    summary.compression_ratio = static_cast<double>(counted_.compressed.whole_bytes) /
                                static_cast<double>(counted_.compressed.coded_bytes);
  }
  return summary;
}

}  // namespace gradwire
