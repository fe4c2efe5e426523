#include "cli/ledger/ledger_report.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/state/manifest.h"
#include "common/state/run_dir.h"
#include "common/wire/view.h"

namespace gradwire {
namespace {

using Json = nlohmann::ordered_json;

std::string TimeOf(double unix_seconds) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::UnixEpoch() + absl::Seconds(unix_seconds),
                          absl::UTCTimeZone());
}

std::string Counted(uint64_t count, const std::string& noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

std::string RanksOf(const v1::LostWorker& lost) {
  std::vector<Rank> ranks;
  for (const uint32_t rank : lost.ranks()) ranks.emplace_back(static_cast<int>(rank));
  return NameOf(ranks);
}

// The lines of one run's table.
class EventLines {
 public:
  explicit EventLines(const LedgerRun& run) : run_(run) {}

  std::string Text() {
    const v1::StartRecord& start = run_.start;
    const uint64_t first = run_.views.empty() ? 0 : run_.views.front().view().first_step();
    Add(start.time(), first, "start",
        absl::StrCat("run ", absl::BytesToHexString(start.run_id()), ", ",
                     Counted(start.world_size(), "rank"), ", coordinator ", start.address(),
                     ", version ", start.version()));
    if (run_.resumed) {
      Add(run_.resumed->time(), run_.resumed->step(), "resumed",
          absl::StrCat("from ", run_.resumed->folder()));
    }
    for (const v1::ViewRecord& view : run_.views) AddView(view);
    for (const v1::CheckpointRecord& checkpoint : run_.checkpoints) {
      Add(checkpoint.time(), checkpoint.step(), "checkpoint", checkpoint.folder());
    }
    std::stable_sort(lines_.begin(), lines_.end(),
                     [](const Line& a, const Line& b) { return a.time < b.time; });
    AddEnd();
    std::string text;
    for (const Line& line : lines_) absl::StrAppend(&text, line.text);
    return text;
  }

 private:
  struct Line {
    double time;
    std::string text;
  };

  void Add(double time, uint64_t step, const char* event, const std::string& detail) {
    lines_.push_back({time, absl::StrFormat("%11d  %s  %7d  %-10s  %s\n", run_.epoch, TimeOf(time),
                                            step, event, detail)});
  }
  void AddLost(const google::protobuf::RepeatedPtrField<v1::LostWorker>& lost, double time) {
    for (const v1::LostWorker& worker : lost) {
      Add(time, worker.step(), "lost",
          absl::StrCat(RanksOf(worker), " (", worker.address(), "): ", worker.cause()));
    }
  }
  void AddView(const v1::ViewRecord& view) {
    AddLost(view.lost(), view.time());
    Add(view.time(), view.view().first_step(), "view",
        absl::StrCat("generation ", view.view().generation(), ": ",
                     Counted(view.view().members_size(), "worker")));
  }
  // A run without End has no time of its end.
  void AddEnd() {
    const uint64_t step = lines_.empty() ? 0 : run_.sealed + run_.unrecorded;
    if (run_.end) {
      AddLost(run_.end->lost(), run_.end->time());
      Add(run_.end->time(), FirstStep() + step, "end", run_.end->reason());
    } else {
      lines_.push_back(
          {0, absl::StrFormat("%11d  %-19s  %7d  %-10s  %s\n", run_.epoch, "", FirstStep() + step,
                              "no end", "the coordinator runs, or was killed")});
    }
    if (!run_.Seals()) {
      lines_.push_back({0, absl::StrCat("             no step is recorded: ",
                                        run_.start.cannot_recover(), "\n")});
    }
  }
  uint64_t FirstStep() const {
    return run_.views.empty() ? 0 : run_.views.front().view().first_step();
  }

  const LedgerRun& run_;
  std::vector<Line> lines_;
};

uint64_t StepsAgain(const LedgerReplay& replay) {
  return static_cast<uint64_t>(
      std::count_if(replay.steps().begin(), replay.steps().end(),
                    [](const auto& step) { return step.second.times > 1; }));
}

std::string StepsText(const LedgerReplay& replay) {
  if (replay.steps().empty()) return "no sealed step\n";
  const uint64_t again = StepsAgain(replay);
  return absl::StrCat(Counted(replay.steps().size(), "sealed step"), ", from ",
                      replay.steps().begin()->first, " to ", replay.steps().rbegin()->first, "; ",
                      again == 0 ? "none" : absl::StrCat(again),
                      " of them computed again after a restart\n");
}

Json LostJson(const google::protobuf::RepeatedPtrField<v1::LostWorker>& lost) {
  Json json = Json::array();
  for (const v1::LostWorker& worker : lost) {
    json.push_back({{"ranks", std::vector<uint32_t>(worker.ranks().begin(), worker.ranks().end())},
                    {"step", worker.step()},
                    {"cause", worker.cause()},
                    {"address", worker.address()}});
  }
  return json;
}

Json ViewsJson(const LedgerRun& run) {
  Json json = Json::array();
  for (const v1::ViewRecord& view : run.views) {
    json.push_back({{"generation", view.view().generation()},
                    {"first_step", view.view().first_step()},
                    {"workers", view.view().members_size()},
                    {"time", view.time()},
                    {"lost", LostJson(view.lost())}});
  }
  return json;
}

Json CheckpointsJson(const LedgerRun& run) {
  Json json = Json::array();
  for (const v1::CheckpointRecord& checkpoint : run.checkpoints) {
    json.push_back({{"step", checkpoint.step()},
                    {"folder", checkpoint.folder()},
                    {"time", checkpoint.time()}});
  }
  return json;
}

Json EndJson(const LedgerRun& run) {
  if (!run.end) return nullptr;
  return {{"finished", run.end->finished()},
          {"reason", run.end->reason()},
          {"time", run.end->time()},
          {"lost", LostJson(run.end->lost())}};
}

Json RunJson(const LedgerRun& run) {
  Json json = {{"segment", run.segment},
               {"epoch", run.epoch},
               {"run", absl::BytesToHexString(run.start.run_id())},
               {"world_size", run.start.world_size()},
               {"threads", run.start.threads()},
               {"coordinator", run.start.address()},
               {"version", run.start.version()},
               {"time", run.start.time()},
               {"settings", Json::object()},
               {"records_steps", run.Seals()},
               {"reason", run.start.cannot_recover()},
               {"sealed", run.sealed},
               {"unrecorded", run.unrecorded},
               {"resumed", nullptr},
               {"views", ViewsJson(run)},
               {"checkpoints", CheckpointsJson(run)},
               {"end", EndJson(run)}};
  for (const auto& [name, value] : std::map<std::string, std::string>(run.start.settings().begin(),
                                                                      run.start.settings().end())) {
    json["settings"][name] = value;
  }
  if (run.resumed) {
    json["resumed"] = {{"step", run.resumed->step()}, {"folder", run.resumed->folder()}};
  }
  return json;
}

// The file ends in a record that is not whole.
void JudgeTail(const LedgerEnd& end, LedgerVerdict* verdict) {
  if (!end.torn.has_value()) return;
  const std::string what = absl::StrCat("ledger/", SegmentName(end.segment), ": the last ",
                                        end.torn->bytes, " bytes, from byte ", end.torn->offset,
                                        " on, are no whole record: ", end.torn->why);
  if (end.torn->is_short) {
    verdict->notes.push_back(
        absl::StrCat(what, "; a crash leaves this, and the next coordinator cuts it off"));
  } else {
    verdict->findings.push_back(
        absl::StrCat(what, "; its bytes have changed, or the machine crashed"));
  }
}

std::string EpochText(const EpochOfData& epoch) {
  return absl::StrCat("epoch ", epoch.epoch, " of the data: ", Counted(epoch.read, "sample"),
                      " read, ", Counted(epoch.repeats, "repeat"), ", as declared\n");
}

std::string IncompleteText(const EpochOfData& epoch) {
  return absl::StrCat("epoch ", epoch.epoch, " of the data: incomplete, ", epoch.sealed, " of ",
                      Counted(epoch.of_steps, "step"), " sealed; ", Counted(epoch.read, "sample"),
                      " read\n");
}

// The last line of a verdict without findings.
std::string SoundText(const LedgerReport& report, const LedgerVerdict& verdict) {
  const std::string sound = "the ledger is sound";
  if (report.replay.steps().empty()) {
    return sound + ", but no step is sealed: it says nothing about steps and samples\n";
  }
  if (verdict.samples.steps == 0) return sound + ", but says nothing about samples\n";
  return sound + "\n";
}

Json EpochJson(const EpochOfData& epoch) {
  return {{"epoch", epoch.epoch}, {"samples", epoch.read}, {"repeats", epoch.repeats}};
}

}  // namespace

std::vector<CheckpointPlace> PlacesOfCheckpoints(const std::string& run_dir) {
  std::vector<CheckpointPlace> places;
  const auto folders = ListCheckpoints(run_dir);
  if (!folders.ok()) return places;
  for (const CheckpointFolder& folder : *folders) {
    const auto text = ReadSegmentFile(absl::StrCat(folder.path, "/", kManifestName));
    const auto manifest = text.ok() ? ParseManifest(*text) : text.status();
    if (!manifest.ok() || !manifest->ledger.has_value()) continue;
    places.push_back({folder.step, {manifest->ledger->number, manifest->ledger->chain}});
  }
  return places;
}

absl::StatusOr<LedgerReport> ReadReport(const std::string& run_dir,
                                        std::vector<CheckpointPlace> places) {
  LedgerReport report;
  auto end = ReadLedger(run_dir, [&](const LedgerEntry& entry) {
    const LedgerPosition position{entry.number + 1, entry.chain};
    places.erase(std::remove_if(places.begin(), places.end(),
                                [&](const auto& place) { return place.position == position; }),
                 places.end());
    return report.replay.Add(entry);
  });
  if (!end.ok()) return end.status();
  report.end = *std::move(end);
  report.missing = std::move(places);
  return report;
}

std::string LedgerText(const LedgerReport& report) {
  if (report.replay.runs().empty()) return "the ledger has no record\n";
  std::string text = absl::StrFormat("%11s  %-19s  %7s  %-10s  %s\n", "coordinator", "time (UTC)",
                                     "step", "event", "detail");
  for (const LedgerRun& run : report.replay.runs()) text += EventLines(run).Text();
  return text + StepsText(report.replay);
}

Json LedgerJson(const LedgerReport& report) {
  Json runs = Json::array();
  for (const LedgerRun& run : report.replay.runs()) runs.push_back(RunJson(run));
  return {{"runs", runs},
          {"steps",
           {{"sealed", report.replay.steps().size()},
            {"again", StepsAgain(report.replay)},
            {"open", report.replay.open_step()}}}};
}

LedgerVerdict Judge(const LedgerReport& report) {
  LedgerVerdict verdict;
  verdict.findings = report.replay.findings();
  JudgeTail(report.end, &verdict);
  for (const CheckpointPlace& place : report.missing) {
    verdict.findings.push_back(absl::StrCat(
        "the checkpoint before step ", place.step, " names record ", place.position.number,
        " as the next one, but the ledger has another record before it, or ends earlier, with ",
        Counted(report.end.position.number, "record")));
  }
  const std::vector<LedgerRun>& runs = report.replay.runs();
  if (runs.empty()) {
    verdict.notes.push_back("the ledger has no record");
    return verdict;
  }
  for (const LedgerRun& run : runs) {
    if (run.Seals()) continue;
    verdict.notes.push_back(absl::StrCat("the run of coordinator ", run.epoch,
                                         " records no step: ", run.start.cannot_recover()));
  }
  verdict.samples = CompareSamples(runs.back().start, report.replay.steps());
  const SampleReport& samples = verdict.samples;
  verdict.findings.insert(verdict.findings.end(), samples.findings.begin(), samples.findings.end());
  verdict.notes.insert(verdict.notes.end(), samples.notes.begin(), samples.notes.end());
  return verdict;
}

std::string VerdictText(const LedgerReport& report, const LedgerVerdict& verdict) {
  std::string text = absl::StrCat(Counted(report.end.position.number, "record"), " in ",
                                  Counted(static_cast<uint64_t>(report.end.segment), "segment"),
                                  ", one chain\n", StepsText(report.replay));
  if (verdict.samples.steps > 0) {
    absl::StrAppend(&text, "samples of ", Counted(verdict.samples.steps, "step"),
                    " are those of the sampler\n");
  }
  for (const EpochOfData& epoch : verdict.samples.epochs) text += EpochText(epoch);
  for (const EpochOfData& epoch : verdict.samples.incomplete) text += IncompleteText(epoch);
  for (const std::string& note : verdict.notes) absl::StrAppend(&text, "note: ", note, "\n");
  for (const std::string& finding : verdict.findings) {
    absl::StrAppend(&text, "finding: ", finding, "\n");
  }
  const size_t findings = verdict.findings.size();
  return text +
         (findings == 0
              ? SoundText(report, verdict)
              : absl::StrCat("the ledger is not sound: ", Counted(findings, "finding"), "\n"));
}

Json VerdictJson(const LedgerReport& report, const LedgerVerdict& verdict) {
  Json epochs = Json::array();
  for (const EpochOfData& epoch : verdict.samples.epochs) epochs.push_back(EpochJson(epoch));
  Json incomplete = Json::array();
  for (const EpochOfData& epoch : verdict.samples.incomplete) {
    Json json = EpochJson(epoch);
    json["sealed"] = epoch.sealed;
    json["of_steps"] = epoch.of_steps;
    incomplete.push_back(json);
  }
  return {{"sound", verdict.findings.empty()},
          {"records", report.end.position.number},
          {"segments", report.end.segment},
          {"sealed", report.replay.steps().size()},
          {"again", StepsAgain(report.replay)},
          {"steps_with_samples", verdict.samples.steps},
          {"epochs", epochs},
          {"incomplete_epochs", incomplete},
          {"findings", verdict.findings},
          {"notes", verdict.notes}};
}

}  // namespace gradwire
