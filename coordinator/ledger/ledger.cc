#include "coordinator/ledger/ledger.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <utility>
#include <variant>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"

namespace gradwire {
namespace {

constexpr char kReserve[] = "/reserve";

// Returns the record's statement of dropped steps; null if its kind has none.
v1::Unrecorded* UnrecordedIn(Record* record) {
  if (auto* view = std::get_if<v1::ViewRecord>(record)) return view->mutable_unrecorded();
  if (auto* end = std::get_if<v1::EndRecord>(record)) return end->mutable_unrecorded();
  auto* checkpoint = std::get_if<v1::CheckpointRecord>(record);
  return checkpoint == nullptr ? nullptr : checkpoint->mutable_unrecorded();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Ledger>> Ledger::Open(const std::string& run_dir, Disk* disk) {
  auto ledger = absl::WrapUnique(new Ledger(run_dir, disk));
  absl::Status status = disk->MakeFolder(ledger->folder_);
  if (!status.ok() && !absl::IsAlreadyExists(status)) return status;
  status = disk->SyncFolder(run_dir);
  if (status.ok()) status = ledger->ReadBefore(run_dir);
  if (status.ok()) status = ledger->MakeReserve();
  if (!status.ok()) return status;
  ledger->thread_ = std::thread([ledger = ledger.get()] { ledger->Run(); });
  return ledger;
}

Ledger::Ledger(const std::string& run_dir, Disk* disk)
    : folder_(LedgerFolder(run_dir)), disk_(disk) {}

Ledger::~Ledger() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

absl::Status Ledger::ReadBefore(const std::string& run_dir) {
  const absl::StatusOr<LedgerEnd> end =
      ReadLedger(run_dir, [this](const LedgerEntry& entry) { return before_.Add(entry); });
  if (!end.ok()) return end.status();
  segment_ = end->segment + 1;
  {
    MutexLock lock(&mutex_);
    position_ = end->position;
  }
  return end->segment == 0 ? absl::OkStatus() : CloseBefore(*end);
}

// The coordinator before may have been killed between a write and its sync, and no segment but the
// last may be torn.
absl::Status Ledger::CloseBefore(const LedgerEnd& end) {
  const std::string path = absl::StrCat(folder_, "/", SegmentName(end.segment));
  if (end.torn.has_value()) {
    spdlog::warn(
        "{}: the last {} bytes, from byte {} on, are no whole record ({}), as after a crash; "
        "cut off",
        path, end.torn->bytes, end.torn->offset, end.torn->why);
  }
  const absl::Status cut = disk_->Truncate(path, static_cast<int64_t>(end.bytes));
  return cut.ok() ? disk_->SyncFolder(folder_) : cut;
}

absl::Status Ledger::MakeReserve() {
  const std::string path = absl::StrCat(folder_, kReserve);
  if (std::filesystem::exists(path)) {
    if (absl::Status removed = disk_->Remove(path); !removed.ok()) return removed;
  }
  absl::StatusOr<std::unique_ptr<DiskFile>> file = disk_->Create(path);
  if (!file.ok()) return file.status();
  // Zeros that are written take space; a file that is only made longer may not.
  absl::Status status = (*file)->Write(0, std::string(kReserveBytes, '\0'));
  if (status.ok()) status = (*file)->Sync();
  has_reserve_ = status.ok();
  return status;
}

void Ledger::Listen(LedgerHooks hooks) {
  MutexLock lock(&mutex_);
  hooks_ = std::move(hooks);
}

LedgerHooks Ledger::Hooks() const {
  MutexLock lock(&mutex_);
  return hooks_;
}

void Ledger::Record(v1::SealedRecord record) {
  MutexLock lock(&mutex_);
  if (!not_recording_.ok()) return CountDropped(record);
  if (queue_.empty()) group_since_ = SteadyNow();
  queue_.push_back({{std::move(record)}, nullptr});
  changed_.NotifyAll();
}

absl::Status Ledger::RecordDurably(std::vector<gradwire::Record> records) {
  const absl::Time deadline = SteadyNow() + kDurableTimeout;
  const auto waiting = std::make_shared<Waiting>();
  MutexLock lock(&mutex_);
  if (!failed_.ok()) return failed_;
  if (queue_.empty()) group_since_ = SteadyNow();
  queue_.push_back({std::move(records), waiting});
  is_urgent_ = true;
  changed_.NotifyAll();
  while (!waiting->done) {
    if (!changed_.WaitWithDeadline(&mutex_, deadline) || waiting->done) continue;
    return absl::DeadlineExceededError(absl::StrCat(folder_,
                                                    ": the disk did not confirm a record within ",
                                                    absl::FormatDuration(kDurableTimeout)));
  }
  return waiting->result;
}

LedgerPosition Ledger::position() const {
  MutexLock lock(&mutex_);
  return position_;
}

absl::Status Ledger::durability() const {
  MutexLock lock(&mutex_);
  return not_recording_;
}

void Ledger::Run() {
  while (true) {
    std::deque<Queued> group = NextGroup();
    if (group.empty()) return;
    WriteGroup(std::move(group));
  }
}

std::deque<Ledger::Queued> Ledger::NextGroup() {
  MutexLock lock(&mutex_);
  while (!stopping_ && !is_urgent_) {
    if (queue_.empty()) {
      changed_.Wait(&mutex_);
    } else if (changed_.WaitWithDeadline(&mutex_, group_since_ + kGroup)) {
      break;
    }
  }
  is_urgent_ = false;
  return std::exchange(queue_, {});
}

void Ledger::WriteGroup(std::deque<Queued> group) {
  absl::Status written;
  {
    MutexLock lock(&mutex_);
    written = failed_;
  }
  if (written.ok()) written = WriteOut(&group);
  if (absl::IsResourceExhausted(written)) {
    OnFull(written);
    written = WriteOut(&group);
  }
  if (!written.ok() && !absl::IsResourceExhausted(written)) OnFailed(written);
  Answer(group, written);
}

absl::Status Ledger::WriteOut(std::deque<Queued>* group) {
  if (!durability().ok()) DropSteps(group);
  const uint64_t stated = StateDropped(group);
  LedgerPosition end = position();
  std::string bytes;
  for (const Queued& queued : *group) {
    for (const gradwire::Record& record : queued.records) {
      const uint32_t begins = bytes.empty() ? kBeginsGroup : 0;
      bytes += EncodeFrame(TypeOf(record) | begins, PayloadOf(record), &end);
    }
  }
  if (bytes.empty()) return absl::OkStatus();
  if (absl::Status appended = Append(bytes, end); !appended.ok()) return appended;
  // More may have been dropped since.
  MutexLock lock(&mutex_);
  unrecorded_.set_first(unrecorded_.first() + stated);
  unrecorded_.set_count(unrecorded_.count() - stated);
  return absl::OkStatus();
}

absl::Status Ledger::Append(const std::string& bytes, const LedgerPosition& end) {
  if (file_ == nullptr) {
    if (absl::Status made = MakeSegment(); !made.ok()) return made;
  }
  const absl::Time begun = SteadyNow();
  absl::Status written = file_->Write(offset_, bytes);
  if (!written.ok()) {
    // A part of the bytes would be damage before the next record.
    const absl::Status cut = file_->Truncate(offset_);
    return cut.ok() ? written : absl::InternalError(cut.message());
  }
  if (absl::Status synced = file_->Sync(); !synced.ok()) {
    return absl::InternalError(absl::StrCat(synced.message(), " (sync)"));
  }
  offset_ += static_cast<int64_t>(bytes.size());
  {
    MutexLock lock(&mutex_);
    position_ = end;
  }
  TellSync(SteadyNow() - begun);
  return absl::OkStatus();
}

absl::Status Ledger::MakeSegment() {
  auto file = disk_->Create(absl::StrCat(folder_, "/", SegmentName(segment_)));
  if (!file.ok()) return file.status();
  if (absl::Status synced = disk_->SyncFolder(folder_); !synced.ok()) {
    return absl::InternalError(synced.message());
  }
  file_ = *std::move(file);
  return absl::OkStatus();
}

void Ledger::DropSteps(std::deque<Queued>* group) {
  MutexLock lock(&mutex_);
  const auto is_step = [this](const Queued& queued) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (queued.waiting != nullptr) return false;
    CountDropped(std::get<v1::SealedRecord>(queued.records.front()));
    return true;
  };
  for (auto it = group->begin(); it != group->end();) it = is_step(*it) ? group->erase(it) : it + 1;
}

void Ledger::CountDropped(const v1::SealedRecord& record) {
  const bool is_first = unrecorded_.count() == 0 || record.step() < unrecorded_.first();
  if (is_first) unrecorded_.set_first(record.step());
  unrecorded_.set_count(unrecorded_.count() + 1);
  unrecorded_.set_reason(std::string(not_recording_.message()));
}

uint64_t Ledger::StateDropped(std::deque<Queued>* group) const {
  MutexLock lock(&mutex_);
  if (unrecorded_.count() == 0) return 0;
  for (Queued& queued : *group) {
    for (gradwire::Record& record : queued.records) {
      v1::Unrecorded* const stated = UnrecordedIn(&record);
      if (stated == nullptr) continue;
      *stated = unrecorded_;
      return unrecorded_.count();
    }
  }
  return 0;
}

void Ledger::OnFull(const absl::Status& why) {
  const bool is_first = StopRecording(why);
  if (std::exchange(has_reserve_, false)) {
    // If this fails, the next write does, too, and says so.
    const absl::Status freed = disk_->Remove(absl::StrCat(folder_, kReserve));
    if (!freed.ok()) spdlog::warn("{}", std::string(freed.message()));
  }
  if (is_first) TellNotDurable(why);
}

void Ledger::OnFailed(const absl::Status& why) {
  {
    MutexLock lock(&mutex_);
    failed_ = why;
  }
  if (StopRecording(why)) TellNotDurable(why);
}

void Ledger::TellSync(absl::Duration took) {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);  // cannot fail for the caller's own thread
  const absl::Duration cpu = absl::DurationFromTimespec(now);
  const absl::Duration since = cpu - std::exchange(cpu_, cpu);
  if (const LedgerHooks hooks = Hooks(); hooks.on_sync) hooks.on_sync(took, since);
}

void Ledger::TellNotDurable(const absl::Status& why) const {
  if (const LedgerHooks hooks = Hooks(); hooks.on_not_durable) hooks.on_not_durable(why);
}

bool Ledger::StopRecording(const absl::Status& why) {
  MutexLock lock(&mutex_);
  if (!not_recording_.ok()) return false;
  not_recording_ = why;
  return true;
}

void Ledger::Answer(const std::deque<Queued>& group, const absl::Status& result) {
  MutexLock lock(&mutex_);
  for (const Queued& queued : group) {
    if (queued.waiting == nullptr) continue;
    queued.waiting->done = true;
    queued.waiting->result = result;
  }
  changed_.NotifyAll();
}

}  // namespace gradwire
