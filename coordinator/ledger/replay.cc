#include "coordinator/ledger/replay.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

namespace gradwire {
namespace {

// How each segment begins.
constexpr const char* kFirst[] = {"Start", "Epoch", "View"};

bool SameSamples(const v1::RankSamples& a, const v1::RankSamples& b) {
  return a.rank() == b.rank() && a.epoch() == b.epoch() && a.count() == b.count() &&
         a.padded() == b.padded() && a.digest() == b.digest();
}

bool SameSamples(const v1::SealedRecord& a, const v1::SealedRecord& b) {
  return std::equal(
      a.samples().begin(), a.samples().end(), b.samples().begin(), b.samples().end(),
      [](const v1::RankSamples& x, const v1::RankSamples& y) { return SameSamples(x, y); });
}

// Whether steps of the two runs may differ.
bool SameTraining(const v1::StartRecord& a, const v1::StartRecord& b) {
  return a.world_size() == b.world_size() && a.threads() == b.threads() &&
         a.settings_size() == b.settings_size() &&
         std::all_of(a.settings().begin(), a.settings().end(), [&b](const auto& setting) {
           const auto found = b.settings().find(setting.first);
           return found != b.settings().end() && found->second == setting.second;
         });
}

// "step 4", "steps 4 to 6".
std::string Steps(uint64_t first, uint64_t last) {
  return first == last ? absl::StrCat("step ", first) : absl::StrCat("steps ", first, " to ", last);
}

}  // namespace

std::vector<v1::LostWorker> LedgerRun::Lost() const {
  std::vector<v1::LostWorker> lost;
  for (const v1::ViewRecord& view : views) {
    lost.insert(lost.end(), view.lost().begin(), view.lost().end());
  }
  if (end) lost.insert(lost.end(), end->lost().begin(), end->lost().end());
  return lost;
}

absl::Status LedgerReplay::Add(const LedgerEntry& entry) {
  place_ = absl::StrCat("record ", entry.number, " (", SegmentName(entry.segment), ", byte ",
                        entry.offset, ", ", NameOf(entry.record), "): ");
  const auto* start = std::get_if<v1::StartRecord>(&entry.record);
  if (start != nullptr && start->format() > kLedgerFormat) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ledger: got format ", start->format(), ", expected at most ", kLedgerFormat, "; version ",
        start->version(), " of gradwire wrote it, or a later one can read it"));
  }
  if (runs_.empty() || runs_.back().segment != entry.segment) {
    runs_.emplace_back().segment = entry.segment;
    in_segment_ = 0;
  }
  if (const std::string wrong = CheckPlace(entry); !wrong.empty()) Find(wrong);
  ++in_segment_;
  std::visit([this](const auto& record) { Take(record); }, entry.record);
  return absl::OkStatus();
}

std::string LedgerReplay::CheckPlace(const LedgerEntry& entry) const {
  const absl::string_view name = NameOf(entry.record);
  if (runs_.back().end) return "got a record after End, expected none";
  if (in_segment_ < std::size(kFirst)) {
    if (name == kFirst[in_segment_]) return "";
    return absl::StrCat("expected ", kFirst[in_segment_],
                        "; each segment begins with Start, Epoch, View");
  }
  const bool only_first = name == kFirst[0] || name == kFirst[1];
  return only_first ? "expected it only at the beginning of a segment" : "";
}

void LedgerReplay::Take(const v1::StartRecord& start) { runs_.back().start = start; }

void LedgerReplay::TakeFirst(const v1::View& view) {
  // A run that begins with a later step was resumed, with settings that the coordinator compared.
  // Its length may differ. Any other one that trains otherwise continues no earlier one.
  if (view.first_step() > 0 || runs_.size() < 2) return;
  if (SameTraining(runs_[runs_.size() - 2].start, runs_.back().start)) return;
  steps_.clear();
  open_ = 0;
}

void LedgerReplay::Take(const v1::EpochRecord& epoch) {
  if (epoch.epoch() <= epoch_) {
    Find(absl::StrCat("got epoch ", epoch.epoch(), ", expected more than ", epoch_));
  }
  epoch_ = runs_.back().epoch = epoch.epoch();
  generation_ = 0;
}

void LedgerReplay::Take(const v1::ViewRecord& record) {
  const v1::View& view = record.view();
  const bool is_first = runs_.back().views.empty();
  if (is_first) TakeFirst(view);
  if (record.has_unrecorded()) TakeUnrecorded(record.unrecorded());
  if (view.run_id() != runs_.back().start.run_id()) Find("got a view of another run");
  if (view.epoch() != epoch_) {
    Find(absl::StrCat("got epoch ", view.epoch(), ", expected ", epoch_));
  }
  if (view.generation() <= generation_) {
    Find(absl::StrCat("got generation ", view.generation(), ", expected more than ", generation_));
  }
  generation_ = view.generation();
  if (view.seals() && is_first && !ContinuesRecords()) {
    open_ = view.first_step();  // earlier steps were not recorded at all
  } else if (view.seals() &&
             (view.first_step() > open_ || (!is_first && view.first_step() < open_))) {
    Find(absl::StrCat("got first step ", view.first_step(), ", expected ",
                      is_first ? "at most " : "", open_));
  }
  if (view.seals()) open_ = view.first_step();
  runs_.back().views.push_back(record);
}

bool LedgerReplay::ContinuesRecords() const {
  return runs_.size() < 2 || runs_[runs_.size() - 2].Seals();
}

void LedgerReplay::Take(const v1::SealedRecord& sealed) {
  const uint64_t step = sealed.step();
  if (step < open_) Find(absl::StrCat("step ", step, " is sealed twice in this run"));
  if (step > open_) Find(absl::StrCat("no record of ", Steps(open_, step - 1)));
  if (sealed.generation() != generation_) {
    Find(absl::StrCat("step ", step, ": got generation ", sealed.generation(), ", expected ",
                      generation_));
  }
  CheckSamples(sealed);
  const auto [found, is_new] = steps_.emplace(step, LedgerStep{sealed});
  if (!is_new) {
    CheckAgain(found->second.record, sealed);
    found->second.record = sealed;
    ++found->second.times;
  }
  open_ = std::max(open_, step + 1);
  ++runs_.back().sealed;
}

void LedgerReplay::CheckSamples(const v1::SealedRecord& sealed) {
  if (sealed.samples().empty()) return;
  const uint32_t ranks = runs_.back().start.world_size();
  uint32_t expected = 0;
  for (const v1::RankSamples& samples : sealed.samples()) {
    if (samples.rank() != expected++) break;
    if (expected == ranks && sealed.samples_size() == static_cast<int>(ranks)) return;
  }
  Find(absl::StrCat("step ", sealed.step(), ": got samples of ", sealed.samples_size(),
                    " ranks, expected those of ranks 0 to ", ranks - 1, ", once each"));
}

void LedgerReplay::CheckAgain(const v1::SealedRecord& before, const v1::SealedRecord& sealed) {
  if (!SameSamples(before, sealed)) {
    Find(absl::StrCat("step ", sealed.step(), " was computed again from other samples"));
  }
  if (!before.has_digest() || !sealed.has_digest() || before.digest() == sealed.digest()) return;
  Find(absl::StrCat("step ", sealed.step(),
                    " was computed again with other parameters: got digest ",
                    absl::Hex(sealed.digest(), absl::kZeroPad16), ", expected ",
                    absl::Hex(before.digest(), absl::kZeroPad16)));
}

void LedgerReplay::Take(const v1::CheckpointRecord& checkpoint) {
  if (checkpoint.has_unrecorded()) TakeUnrecorded(checkpoint.unrecorded());
  if (runs_.back().Seals() && checkpoint.step() > open_) {
    Find(absl::StrCat("got step ", checkpoint.step(), ", expected at most ", open_,
                      ", the first step that is not sealed"));
  }
  runs_.back().checkpoints.push_back(checkpoint);
}

void LedgerReplay::Take(const v1::ResumedRecord& resumed) {
  const LedgerRun& run = runs_.back();
  if (!run.views.empty() && resumed.step() != run.views.front().view().first_step()) {
    Find(absl::StrCat("got step ", resumed.step(), ", expected ",
                      run.views.front().view().first_step(), ", the first step of the first view"));
  }
  runs_.back().resumed = resumed;
}

void LedgerReplay::Take(const v1::EndRecord& end) {
  if (end.has_unrecorded()) TakeUnrecorded(end.unrecorded());
  runs_.back().end = end;
}

void LedgerReplay::TakeUnrecorded(const v1::Unrecorded& unrecorded) {
  if (unrecorded.count() == 0) return;
  const uint64_t end = unrecorded.first() + unrecorded.count();
  Find(
      absl::StrCat("no record of ", Steps(unrecorded.first(), end - 1), ": ", unrecorded.reason()));
  if (unrecorded.first() != open_) {
    Find(absl::StrCat("got step ", unrecorded.first(), " as first that was not recorded, expected ",
                      open_));
  }
  open_ = std::max(open_, end);
  runs_.back().unrecorded += unrecorded.count();
}

void LedgerReplay::Find(absl::string_view sentence) {
  findings_.push_back(absl::StrCat(place_, sentence));
}

}  // namespace gradwire
