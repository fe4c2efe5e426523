#include "cli/launch/bottleneck.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "worker/options/traits.h"

namespace gradwire {
namespace {

// Parts of an iteration.
constexpr double kStragglerFrom = 0.1;
constexpr double kOverheadFrom = 1.0 / 6;
// Above this part of what its speed allows, a link is the limit.
constexpr double kLinkIsFull = 0.7;

double OwnWork(const RankTimes& rank) {
  return rank.iteration - rank.phases[Phase::kExposedCommunication];
}

template <typename Value>
double MeanOver(const RunTimes& run, Value value) {
  double sum = 0;
  for (const RankTimes& rank : run.ranks) sum += value(rank);
  return sum / static_cast<double>(run.ranks.size());
}

// `values` is not empty.
double Median(std::vector<double> values) {
  const size_t half = values.size() / 2;
  std::sort(values.begin(), values.end());
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::string Milliseconds(double seconds) { return absl::StrFormat("%.1f ms", seconds * 1000); }

// "210.0 of 512.0 ms an iteration (41 %)"
std::string PartOf(double part, double iteration) {
  return absl::StrFormat("%.1f of %.1f ms an iteration (%.0f %%)", part * 1000, iteration * 1000,
                         part / iteration * 100);
}

std::string AnyOf(std::vector<std::string> advice) {
  if (advice.size() == 1) return advice.front();
  const std::string last = std::move(advice.back());
  advice.pop_back();
  return absl::StrCat(absl::StrJoin(advice, ", "), " or ", last);
}

Bottleneck Computation(const RunTimes& run, double iteration) {
  const double computation = MeanOver(run, [](const RankTimes& rank) {
    return rank.phases[Phase::kForward] + rank.phases[Phase::kBackward];
  });
  const char* advice = run.ranks.size() == 1
                           ? "more workers on further hosts, or more --threads if cores are idle"
                           : "further hosts, faster ones, or more --threads if cores are idle";
  return {BottleneckKind::kComputation,
          absl::StrCat("Bottleneck: computation (forward and backward), ",
                       PartOf(computation, iteration), "; try ", advice, ".")};
}

Bottleneck Communication(const RunTimes& run, double exposed, double iteration) {
  std::vector<std::string> advice;
  if (run.sync.empty()) advice.push_back("--sync ddp and --wire bf16 if they were not used");
  if (!run.sync.empty() && !TraitsOfSync(run.sync).overlaps) {
    advice.push_back("--sync ddp (transfers run beside backward)");
  }
  if (run.wire == "fp32" && TraitsOfBackend(run.backend).halves) {
    advice.push_back("--wire bf16 (half the bytes)");
  }
  advice.push_back("a larger --batch-size or --accumulate");
  std::string link;
  if (run.link_share) {
    link = absl::StrFormat(", with the links at %.0f %% of their speed", *run.link_share * 100);
  }
  if (!run.link_share || *run.link_share >= kLinkIsFull) advice.push_back("more bandwidth");
  return {BottleneckKind::kExposedCommunication,
          absl::StrCat("Bottleneck: exposed communication, ", PartOf(exposed, iteration), link,
                       "; try ", AnyOf(std::move(advice)), ".")};
}

Bottleneck Data(double data, double iteration) {
  return {BottleneckKind::kData,
          absl::StrCat("Bottleneck: waiting for data, ", PartOf(data, iteration),
                       "; try fewer --threads, so that the loader has a core, a faster disk or "
                       "--augment false.")};
}

Bottleneck Optimizer(double optimizer, double iteration) {
  return {BottleneckKind::kOptimizer,
          absl::StrCat("Bottleneck: the optimizer, ", PartOf(optimizer, iteration),
                       "; try a larger --batch-size or --accumulate, so that it updates less "
                       "often for the same samples.")};
}

// Which phase of `rank` exceeds the others' mean by most.
const char* LongestExcess(const RunTimes& run, const RankTimes& slow) {
  const auto excess = [&](auto value) {
    const double mean_of_all = MeanOver(run, value);
    return value(slow) - mean_of_all;
  };
  const std::pair<double, const char*> candidates[] = {
      {excess([](const RankTimes& rank) { return rank.phases[Phase::kData]; }), "waiting for data"},
      {excess([](const RankTimes& rank) {
         return rank.phases[Phase::kForward] + rank.phases[Phase::kBackward];
       }),
       "forward and backward"},
      {excess([](const RankTimes& rank) { return rank.phases[Phase::kOptimizer]; }),
       "the optimizer"}};
  return std::max_element(std::begin(candidates), std::end(candidates))->second;
}

absl::optional<Bottleneck> Straggler(const RunTimes& run, double iteration) {
  if (run.ranks.size() < 2) return absl::nullopt;
  const auto slow = std::max_element(
      run.ranks.begin(), run.ranks.end(),
      [](const RankTimes& a, const RankTimes& b) { return OwnWork(a) < OwnWork(b); });
  std::vector<double> others;
  for (const RankTimes& rank : run.ranks) {
    if (rank.rank != slow->rank) others.push_back(OwnWork(rank));
  }
  if (others.empty()) return absl::nullopt;
  const double median = Median(others);
  if (OwnWork(*slow) - median < kStragglerFrom * iteration) return absl::nullopt;
  return Bottleneck{BottleneckKind::kStraggler,
                    absl::StrCat("Bottleneck: rank ", slow->rank, ", whose own work takes ",
                                 Milliseconds(OwnWork(*slow)), " an iteration, the others' ",
                                 Milliseconds(median), " (most of it ", LongestExcess(run, *slow),
                                 "); look at what else its host does, or give it another.")};
}

}  // namespace

Bottleneck FindBottleneck(const RunTimes& run) {
  RunTimes known = run;
  known.ranks.clear();
  for (const RankTimes& rank : run.ranks) {
    if (std::isfinite(rank.iteration) && rank.iteration > 0) known.ranks.push_back(rank);
  }
  if (known.ranks.empty()) {
    return {BottleneckKind::kUnknown,
            "Bottleneck: not known, for no rank ran two iterations (the first one warms up)."};
  }
  const double iteration = MeanOver(known, [](const RankTimes& rank) { return rank.iteration; });
  if (auto straggler = Straggler(known, iteration)) return *std::move(straggler);
  const double exposed = MeanOver(
      known, [](const RankTimes& rank) { return rank.phases[Phase::kExposedCommunication]; });
  const double data =
      MeanOver(known, [](const RankTimes& rank) { return rank.phases[Phase::kData]; });
  const double optimizer =
      MeanOver(known, [](const RankTimes& rank) { return rank.phases[Phase::kOptimizer]; });
  const double longest = std::max({exposed, data, optimizer});
  if (longest < kOverheadFrom * iteration) return Computation(known, iteration);
  if (longest == exposed) return Communication(known, exposed, iteration);
  return longest == data ? Data(data, iteration) : Optimizer(optimizer, iteration);
}

}  // namespace gradwire
