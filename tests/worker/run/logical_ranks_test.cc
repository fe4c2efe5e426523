// It does not matter to any bit which worker carries which ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <ostream>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "common/telemetry/trace_log.h"
#include "common/wire/view.h"
#include "tests/worker/run/recorded_exchange.h"
#include "tests/worker/run/training.h"
#include "worker/ddp/model_layout.h"
#include "worker/options/traits.h"
#include "worker/run/compute.h"

namespace gradwire {
namespace {

using testing::Batches;
using testing::FoldingExchange;
using testing::HashOf;
using testing::RandomModel;
using testing::RecordedExchange;
using testing::Recording;
using testing::ReplayingExchange;
using testing::RunTrainer;
using testing::Training;
using testing::TrainRanks;

constexpr int kWorldSize = 4;
constexpr int64_t kSteps = 5;

struct Case {
  const char* name;
  const char* sync;
  bool broadcast_buffers;
  int64_t micro_batch;
  bool barrier;
  int64_t delay = 0;

  friend std::ostream& operator<<(std::ostream& out, const Case& one) { return out << one.name; }
};

std::vector<Rank> RanksFrom(int first, int last) {
  std::vector<Rank> ranks;
  for (int rank = first; rank <= last; ++rank) ranks.emplace_back(rank);
  return ranks;
}

class LogicalRanksTest : public ::testing::TestWithParam<Case> {
 protected:
  struct Outcome {
    std::string parameters;
    std::vector<std::string> buffers;  // by carried rank
    std::vector<double> losses;        // of each step and carried rank
  };
  TrainerOptions Options() const {
    TrainerOptions options;
    options.reducer.bucket_cap_bytes = 500;
    options.reducer.broadcast_buffers = GetParam().broadcast_buffers;
    options.micro_batch = GetParam().micro_batch;
    options.updates_late = TraitsOfSync(GetParam().sync).updates_late && !GetParam().barrier;
    if (TraitsOfSync(GetParam().sync).periodic) options.reducer.updater = Updater::kRank;
    return options;
  }
  static SyncOptions OfSync() {
    SyncOptions options;
    options.total_steps = kSteps;
    options.delay = GetParam().delay;
    return options;
  }
  Outcome Train(const std::vector<Rank>& ranks, RecordedExchange& exchange) const {
    auto model = std::make_shared<RandomModel>(0.5);
    auto trainer = Trainer::Create(model, Options()).value();
    Reducer& reducer = trainer->reducer();
    const auto sync = MakeSynchronizer(GetParam().sync, &reducer, OfSync()).value();
    exchange.AddLayout(LayoutId(0), sync->BucketSpecs());
    sync->Attach(&exchange, LayoutId(0), ranks);
    Outcome outcome;
    const absl::Status status = RunTrainer(*trainer, Batches(kSteps, kWorldSize, ranks), sync.get(),
                                           [&](absl::Span<const StepRecord> reports) {
                                             for (const StepRecord& report : reports)
                                               outcome.losses.push_back(report.loss);
                                           });
    EXPECT_TRUE(status.ok()) << status;
    for (const Rank rank : ranks) {
      reducer.BeginForward(rank);
      outcome.buffers.push_back(Sha256(model->buffers()));
    }
    outcome.parameters = Sha256(model->parameters());
    return outcome;
  }
};

TEST_P(LogicalRanksTest, Run_AnyDealOfRanks_BitsOfOneWorkerForAll) {
  Recording recording;
  FoldingExchange folding(kWorldSize, &recording);
  const Outcome expected = Train(RanksFrom(0, 3), folding);
  for (const auto& [first, last] : std::vector<std::pair<int, int>>{
           {0, 0}, {1, 1}, {2, 2}, {3, 3}, {0, 2}, {0, 1}, {2, 3}, {1, 3}}) {
    const std::vector<Rank> ranks = RanksFrom(first, last);
    ReplayingExchange replaying(ranks, &recording);
    const Outcome got = Train(ranks, replaying);
    EXPECT_EQ(got.parameters, expected.parameters) << NameOf(ranks);
    for (size_t i = 0; i < ranks.size(); ++i) {
      EXPECT_EQ(got.buffers[i], expected.buffers[first + i]) << "rank " << first + i;
      EXPECT_EQ(got.losses[i], expected.losses[first + i]) << "rank " << first + i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Deals, LogicalRanksTest,
    ::testing::Values(Case{"AfterBackward", "all-reduce", true, 0, false},
                      Case{"AfterBackwardOwnBuffers", "all-reduce", false, 0, false},
                      Case{"Late", "ddp", true, 0, false},
                      Case{"LateOwnBuffers", "ddp", false, 0, false},
                      Case{"LateInPieces", "ddp", true, 3, false},
                      Case{"Barrier", "ddp", true, 0, true},
                      Case{"LocalSgd", "local-sgd:2", true, 0, false},
                      Case{"LocalSgdInPieces", "local-sgd:2", true, 3, false},
                      Case{"LocalSgdDelayed", "local-sgd:2", true, 0, false, 1},
                      Case{"Diloco", "diloco:2", true, 0, false},
                      Case{"DilocoDelayed", "diloco:2", true, 0, false, 1}),
    [](const ::testing::TestParamInfo<Case>& info) { return std::string(info.param.name); });

class SlowModel : public RandomModel {
 public:
  SlowModel() : RandomModel(0) {}
  torch::Tensor forward(torch::Tensor images) override {
    absl::SleepFor(absl::Milliseconds(20));
    return RandomModel::forward(images);
  }
};

// The wait for a rank's batch begins after the rank before it was computed.
TEST(LogicalRanksTimesTest, Run_AllRanksOnOneWorker_PhasesAreNoLongerThanTheIteration) {
  auto trainer = Trainer::Create(std::make_shared<SlowModel>(), {}).value();
  const auto sync = MakeSynchronizer("all-reduce", &trainer->reducer(), {}).value();
  Recording recording;
  FoldingExchange folding(kWorldSize, &recording);
  folding.AddLayout(LayoutId(0), sync->BucketSpecs());
  const std::vector<Rank> ranks = RanksFrom(0, kWorldSize - 1);
  sync->Attach(&folding, LayoutId(0), ranks);
  int steps = 0;
  const auto check = [&steps](absl::Span<const StepRecord> reports) {
    ++steps;
    absl::Duration sum;
    for (const Phase phase : {Phase::kData, Phase::kForward, Phase::kBackward,
                              Phase::kExposedCommunication, Phase::kOptimizer}) {
      sum += reports.front().phases[phase];
    }
    EXPECT_LE(sum, reports.front().iteration + absl::Milliseconds(1));
  };
  const absl::Status status =
      RunTrainer(*trainer, Batches(kSteps, kWorldSize, ranks), sync.get(), check);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(steps, kSteps);
}

// Back end and sync.
class DealtTrainingTest : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(DealtTrainingTest, Run_AnyDealOverRealBackends_BitsOfOneWorkerForEach) {
  Training training;
  std::tie(training.backend, training.sync) = GetParam();
  training.ranks = kWorldSize;
  training.options.reducer.bucket_cap_bytes = 500;
  training.make = [] { return std::make_shared<RandomModel>(0); };
  const std::string expected = HashOf(*TrainRanks(training));
  for (const auto& deal : std::vector<std::vector<std::vector<int>>>{
           {{0, 1}, {2, 3}}, {{0, 1, 2}, {3}}, {{3}, {0, 1, 2}}, {{0, 1, 2, 3}}}) {
    training.deal = deal;
    EXPECT_EQ(HashOf(*TrainRanks(training)), expected) << deal.size() << " workers";
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, DealtTrainingTest,
                         ::testing::Combine(::testing::Values("coordinator", "sharded", "ring"),
                                            ::testing::Values("ddp", "diloco:2")),
                         [](const auto& info) {
                           const std::string sync = std::get<1>(info.param);
                           return std::string(std::get<0>(info.param)) + "_" +
                                  sync.substr(0, sync.find(':'));
                         });

TEST(LogicalRanks, Run_TwoRanks_ReportsOfEachWithTheWorkersTimes) {
  Recording recording;
  FoldingExchange folding(2, &recording);
  auto trainer = Trainer::Create(std::make_shared<RandomModel>(0.5), TrainerOptions()).value();
  folding.AddLayout(LayoutId(0), trainer->reducer().BucketSpecs());
  trainer->reducer().Attach(&folding, LayoutId(0), RanksFrom(0, 1));
  const auto sync = MakeSynchronizer("all-reduce", &trainer->reducer()).value();
  std::vector<StepRecord> reports;
  const absl::Status status = RunTrainer(
      *trainer, Batches(1, 2, RanksFrom(0, 1)), sync.get(),
      [&](absl::Span<const StepRecord> step) { reports.assign(step.begin(), step.end()); });
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].rank, Rank(0));
  EXPECT_EQ(reports[1].rank, Rank(1));
  EXPECT_EQ(reports[0].phases[Phase::kBackward], reports[1].phases[Phase::kBackward]);
  EXPECT_EQ(reports[0].iteration, reports[1].iteration);
}

// The ledger and the summary count by these.
TEST(LogicalRanks, Run_TwoRanks_ReportsOfEachWithItsBatch) {
  Recording recording;
  FoldingExchange folding(2, &recording);
  TrainerOptions options;
  options.learning_rate = [](Step step) { return step == Step(0) ? 0.5 : 0.25; };
  auto trainer = Trainer::Create(std::make_shared<RandomModel>(0), options).value();
  folding.AddLayout(LayoutId(0), trainer->reducer().BucketSpecs());
  trainer->reducer().Attach(&folding, LayoutId(0), RanksFrom(0, 1));
  const auto sync = MakeSynchronizer("all-reduce", &trainer->reducer()).value();
  Batches batches(2, 2, RanksFrom(0, 1));
  uint64_t made = 0;  // batches of step 0 and then of step 1, for each rank
  const auto next = [&]() -> absl::StatusOr<Batch> {
    absl::StatusOr<Batch> batch = batches.Next();
    if (!batch.ok()) return batch;
    batch->epoch = static_cast<int64_t>(made / 2);
    batch->padded = static_cast<int64_t>(made);
    batch->digest = 100 + made++;
    return batch;
  };
  std::vector<StepRecord> reports;
  const absl::Status status = trainer->Run(
      next, sync.get(),
      [&](absl::Span<const StepRecord> step) {
        reports.insert(reports.end(), step.begin(), step.end());
      },
      [] { return false; });
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(reports.size(), 4u);
  for (size_t i = 0; i < reports.size(); ++i) {
    EXPECT_EQ(reports[i].step, Step(i / 2)) << i;
    EXPECT_EQ(reports[i].rank, Rank(static_cast<int>(i % 2))) << i;
    EXPECT_EQ(reports[i].epoch, static_cast<int64_t>(i / 2)) << i;
    EXPECT_EQ(reports[i].samples, 4) << i;
    EXPECT_EQ(reports[i].padded, static_cast<int64_t>(i)) << i;
    EXPECT_EQ(reports[i].samples_digest, 100 + i) << i;
    EXPECT_EQ(reports[i].lr, i < 2 ? 0.5 : 0.25) << i;
  }
}

class PhasesOfRanksTest : public ::testing::TestWithParam<const char*> {};

// A log and a trace say the same of a step: all ranks and pieces of batches count.
TEST_P(PhasesOfRanksTest, Run_TwoRanksInPieces_PhasesAreTheSumsOfTheSpans) {
  std::map<std::string, absl::Duration> spans;  // by step and name
  TrainerOptions options;
  options.reducer.bucket_cap_bytes = 500;
  options.micro_batch = 3;
  options.updates_late = TraitsOfSync(GetParam()).updates_late;
  if (TraitsOfSync(GetParam()).periodic) options.reducer.updater = Updater::kRank;
  options.on_span = [&spans](const TraceSpan& span) {
    spans[absl::StrCat(span.step.value(), " ", span.name)] += span.end - span.begin;
  };
  auto trainer = Trainer::Create(std::make_shared<RandomModel>(0), options).value();
  SyncOptions of_sync;
  of_sync.total_steps = 3;
  const auto sync = MakeSynchronizer(GetParam(), &trainer->reducer(), of_sync).value();
  Recording recording;
  FoldingExchange folding(2, &recording);
  folding.AddLayout(LayoutId(0), sync->BucketSpecs());
  sync->Attach(&folding, LayoutId(0), RanksFrom(0, 1));
  std::vector<StepRecord> reports;
  const absl::Status status = RunTrainer(*trainer, Batches(3, 2, RanksFrom(0, 1)), sync.get(),
                                         [&](absl::Span<const StepRecord> step) {
                                           reports.insert(reports.end(), step.begin(), step.end());
                                         });
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(reports.size(), 6u);
  for (const StepRecord& report : reports) {
    const auto span = [&](const char* name) {
      return spans[absl::StrCat(report.step.value(), " ", name)];
    };
    EXPECT_EQ(report.phases[Phase::kData], span("data")) << report.step.value();
    EXPECT_EQ(report.phases[Phase::kForward], span("forward") + span("loss"));
    EXPECT_EQ(report.phases[Phase::kBackward], span("backward"));
    // An exchange of models adds its own.
    EXPECT_GE(report.phases[Phase::kOptimizer], span("optimizer"));
    if (TraitsOfSync(GetParam()).periodic) continue;
    EXPECT_EQ(report.phases[Phase::kOptimizer], span("optimizer"));
  }
}

INSTANTIATE_TEST_SUITE_P(Syncs, PhasesOfRanksTest,
                         ::testing::Values("all-reduce", "ddp", "local-sgd:2"),
                         [](const auto& info) {
                           const std::string sync = info.param;
                           return sync == "ddp" ? sync : sync.substr(0, sync.find('-'));
                         });

TEST(LogicalRanks, Run_StepIsSkipped_EachRankTellsIt) {
  Recording recording;
  FoldingExchange folding(2, &recording);
  TrainerOptions options;
  options.update.on_nonfinite = Nonfinite::kSkip;
  auto trainer = Trainer::Create(std::make_shared<RandomModel>(0), options).value();
  folding.AddLayout(LayoutId(0), trainer->reducer().BucketSpecs());
  trainer->reducer().Attach(&folding, LayoutId(0), RanksFrom(0, 1));
  const auto sync = MakeSynchronizer("all-reduce", &trainer->reducer()).value();
  Batches batches(2, 2, RanksFrom(0, 1));
  const auto next = [&]() -> absl::StatusOr<Batch> {
    absl::StatusOr<Batch> batch = batches.Next();
    if (!batch.ok() || batch->step != Step(1)) return batch;
    batch->images = batch->images * std::numeric_limits<float>::infinity();
    return batch;
  };
  std::vector<bool> skipped;  // of each step and rank
  const absl::Status status = trainer->Run(
      next, sync.get(),
      [&](absl::Span<const StepRecord> step) {
        for (const StepRecord& report : step) skipped.push_back(report.skipped);
      },
      [] { return false; });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(skipped, (std::vector<bool>{false, false, true, true}));
}

TEST(ForwardSeed, AnyArgument_ChangesIt) {
  const uint64_t seed = ForwardSeed(744, Step(5), Rank(2), 1);
  EXPECT_NE(ForwardSeed(745, Step(5), Rank(2), 1), seed);
  EXPECT_NE(ForwardSeed(744, Step(6), Rank(2), 1), seed);
  EXPECT_NE(ForwardSeed(744, Step(5), Rank(3), 1), seed);
  EXPECT_NE(ForwardSeed(744, Step(5), Rank(2), 2), seed);
}

// Runs of models that draw random numbers can be repeated with later versions.
TEST(ForwardSeed, Default_Pinned) {
  EXPECT_EQ(ForwardSeed(744, Step(0), Rank(0), 0), 13879904585765151929u);
  EXPECT_EQ(ForwardSeed(744, Step(1234), Rank(3), 7), 12978303532458349949u);
}

}  // namespace
}  // namespace gradwire
