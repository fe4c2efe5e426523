#include "cli/ledger/sample_check.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "worker/data/sampler.h"

namespace gradwire {
namespace {

// The settings that decide who reads what.
struct Plan {
  Sampler sampler;
  int64_t batch_size = 0;  // samples of a rank in a step
};

// Returns the setting, or `otherwise` if it has its default and is therefore not stated.
absl::StatusOr<int64_t> Number(const v1::StartRecord& start, const std::string& name,
                               absl::optional<int64_t> otherwise = absl::nullopt) {
  const auto found = start.settings().find(name);
  if (found == start.settings().end() && otherwise.has_value()) return *otherwise;
  int64_t value = 0;
  if (found != start.settings().end() && absl::SimpleAtoi(found->second, &value)) return value;
  return absl::NotFoundError(absl::StrCat("the program states no number as '", name, "'"));
}

bool Switched(const v1::StartRecord& start, const std::string& name, bool otherwise) {
  const auto found = start.settings().find(name);
  return found == start.settings().end() ? otherwise : found->second == "true";
}

absl::StatusOr<Plan> PlanOf(const v1::StartRecord& start) {
  const auto samples = Number(start, "training samples");
  const auto seed = Number(start, "sampler-seed");
  const auto batch_size = Number(start, "batch-size");
  const auto accumulate = Number(start, "accumulate", 1);
  for (const auto* number : {&samples, &seed, &batch_size, &accumulate}) {
    if (!number->ok()) return number->status();
  }
  SamplerOptions options;
  options.world_size = static_cast<int>(start.world_size());
  options.seed = static_cast<uint64_t>(*seed);
  options.drop_last = Switched(start, "drop-last", false);
  options.set_epoch = Switched(start, "set-epoch", true);
  auto sampler = Sampler::Create(*samples, options);
  if (!sampler.ok()) return sampler.status();
  if (*batch_size < 1 || *accumulate < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("got batch size ", *batch_size, " and ", *accumulate, " passes"));
  }
  return Plan{*std::move(sampler), *batch_size * *accumulate};
}

std::string Describe(const v1::RankSamples& samples) {
  return absl::StrCat(samples.count(), " samples of epoch ", samples.epoch(), ", ",
                      samples.padded(), " of them repeats, with digest ",
                      absl::Hex(samples.digest(), absl::kZeroPad16));
}

// Goes through the steps in order.
class Comparison {
 public:
  Comparison(Plan plan, SampleReport* report) : plan_(std::move(plan)), report_(report) {}

  void Take(uint64_t step, const v1::SealedRecord& record) {
    const SampleRange range = RangeOf(plan_.sampler, plan_.batch_size, Step(step));
    if (range.epoch != epoch_) Begin(range.epoch);
    bool is_right = true;
    for (const v1::RankSamples& samples : record.samples()) {
      is_right = Compare(step, range, samples) && is_right;
    }
    ++steps_of_epoch_;
    if (is_right) ++report_->steps;
  }

  // All steps were taken.
  void End() {
    EpochOfData epoch{epoch_};
    epoch.sealed = steps_of_epoch_;
    epoch.of_steps = StepsPerEpoch(plan_.sampler, plan_.batch_size);
    for (const int64_t reads : reads_) {
      epoch.read += reads > 0 ? 1 : 0;
      epoch.repeats += std::max<int64_t>(0, reads - 1);
    }
    if (epoch.sealed < epoch.of_steps) {
      report_->incomplete.push_back(epoch);
      return;
    }
    CompareCount(epoch, "different samples", epoch.read,
                 static_cast<int64_t>(reads_.size()) - plan_.sampler.dropped());
    CompareCount(epoch, "repeats", epoch.repeats, plan_.sampler.padded());
    report_->epochs.push_back(epoch);
  }

 private:
  void Begin(int64_t epoch) {
    if (epoch_ >= 0) End();
    epoch_ = epoch;
    steps_of_epoch_ = 0;
    order_ = plan_.sampler.Order(epoch);
    reads_.assign(order_.size(), 0);
  }

  bool Compare(uint64_t step, const SampleRange& range, const v1::RankSamples& samples) {
    const Rank rank(static_cast<int>(samples.rank()));
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < range.count; ++i) {
      indices.push_back(order_[plan_.sampler.OrderIndex(rank, range.first + i)]);
    }
    v1::RankSamples expected;
    expected.set_epoch(static_cast<uint64_t>(range.epoch));
    expected.set_count(static_cast<uint64_t>(range.count));
    expected.set_padded(
        static_cast<uint64_t>(plan_.sampler.PaddedAmong(rank, range.first, range.count)));
    expected.set_digest(DigestOfIndices(indices));
    if (Describe(samples) != Describe(expected)) {
      report_->findings.push_back(absl::StrCat("step ", step, ", rank ", samples.rank(), ": got ",
                                               Describe(samples), "; expected ",
                                               Describe(expected)));
      return false;
    }
    for (const int64_t index : indices) ++reads_[index];
    return true;
  }

  void CompareCount(const EpochOfData& epoch, const char* what, int64_t got, int64_t expected) {
    if (got == expected) return;
    report_->findings.push_back(absl::StrCat("epoch ", epoch.epoch, " of the data: got ", got, " ",
                                             what, ", expected ", expected));
  }

  const Plan plan_;
  SampleReport* const report_;
  int64_t epoch_ = -1;
  int64_t steps_of_epoch_ = 0;
  std::vector<int64_t> order_;  // of the epoch
  std::vector<int64_t> reads_;  // by sample
};

}  // namespace

SampleReport CompareSamples(const v1::StartRecord& start,
                            const std::map<uint64_t, LedgerStep>& steps) {
  SampleReport report;
  if (steps.empty()) return report;
  const bool has_samples = std::any_of(steps.begin(), steps.end(), [](const auto& step) {
    return step.second.record.samples_size() > 0;
  });
  absl::StatusOr<Plan> plan = PlanOf(start);
  if (!has_samples || !plan.ok()) {
    report.notes.push_back(
        absl::StrCat("samples are not compared with a sampler: ",
                     has_samples ? plan.status().message() : "the program reports no samples"));
    return report;
  }
  Comparison comparison(*std::move(plan), &report);
  for (const auto& [number, step] : steps) {
    if (step.record.samples().empty()) {
      report.findings.push_back(
          absl::StrCat("step ", number, ": got no samples, although other steps have some"));
    } else {
      comparison.Take(number, step.record);
    }
  }
  comparison.End();
  return report;
}

}  // namespace gradwire
