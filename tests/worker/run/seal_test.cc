// What a trainer says of steps that others may have to compute anew, and how it takes them back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/chunk.h"
#include "tests/worker/run/recorded_exchange.h"
#include "tests/worker/run/training.h"

namespace gradwire::seal_test {
namespace {

using testing::Batches;
using ::testing::ElementsAre;
using testing::FoldingExchange;
using testing::HashOf;
using ::testing::IsEmpty;
using testing::PlainModel;
using testing::Recording;
using testing::RunTrainer;

constexpr int kSamples = 4;

// For one rank. All buckets come but the second one.
class BreakingExchange : public FoldingExchange {
 public:
  explicit BreakingExchange(Recording* recording) : FoldingExchange(1, recording) {}
  void Expect(const BucketKey& key, absl::Span<uint8_t> result, absl::Time deadline,
              Done done) override {
    if (IsLost(key)) return done(absl::UnavailableError("a worker was lost"));
    FoldingExchange::Expect(key, result, deadline, std::move(done));
  }
  void Contribute(const BucketKey& key, Rank rank, absl::Span<const uint8_t> terms) override {
    if (!IsLost(key)) FoldingExchange::Contribute(key, rank, terms);
  }

 private:
  static bool IsLost(const BucketKey& key) { return key.bucket == Bucket(1); }
};

// The same, and the mean of the first bucket is infinite.
class OverflowingExchange : public BreakingExchange {
 public:
  using BreakingExchange::BreakingExchange;
  void Contribute(const BucketKey& key, Rank rank, absl::Span<const uint8_t> terms) override {
    const std::vector<float> infinite(terms.size() / sizeof(float),
                                      std::numeric_limits<float>::infinity());
    BreakingExchange::Contribute(key, rank,
                                 {reinterpret_cast<const uint8_t*>(infinite.data()), terms.size()});
  }
};

class SealTest : public ::testing::Test {
 protected:
  void Make(int64_t compare_every, const std::string& optimizer = "sgd") {
    TrainerOptions options;
    options.reducer.bucket_cap_bytes = 0;
    options.update.optimizer.name = optimizer;
    options.learning_rate = [](Step) { return 0.01; };
    options.seal.ready = [this](Step step, absl::Span<const TensorDigest> digests) {
      ready_.push_back(step.value());
      if (!digests.empty()) digests_[step.value()] = {digests.begin(), digests.end()};
      if (!digests.empty()) expected_[step.value()] = DigestsOfModel();
    };
    options.seal.await = [this](Step step) {
      absl::SleepFor(seal_takes_);
      return step == lost_ ? absl::AbortedError("a worker was lost") : absl::OkStatus();
    };
    options.update.compare_every = compare_every;
    options.update.on_nonfinite = on_nonfinite_;
    options.updates_late = updates_late_;
    options.on_phase = [this](const char* phase, Step step, bool, absl::optional<Bucket>) {
      steps_in_[phase].insert(step.value());
    };
    model_ = std::make_shared<PlainModel>();
    trainer_ = Trainer::Create(model_, options).value();
  }

  std::vector<TensorDigest> DigestsOfModel() const {
    std::vector<TensorDigest> digests;
    for (const torch::Tensor& parameter : model_->parameters()) {
      const auto* const bytes = static_cast<const uint8_t*>(parameter.data_ptr());
      digests.push_back({digests.size(), Checksum({bytes, parameter.nbytes()})});
    }
    return digests;
  }

  // From step `first` to step `end`.
  absl::Status Run(
      int64_t first, int64_t end, Synchronizer* sync = nullptr,
      const Trainer::OnStep& on_step = [](absl::Span<const StepRecord>) {}) {
    Batches batches(end, kSamples, 0, kSamples);
    for (int64_t step = 0; step < first; ++step) batches.Next().value();
    return RunTrainer(*trainer_, std::move(batches), sync, on_step);
  }
  // The first step, through `exchange`, one bucket after the other.
  absl::Status RunStepThrough(Exchange* exchange) {
    const auto sync = MakeSynchronizer("per-layer", &trainer_->reducer()).value();
    exchange->AddLayout(LayoutId(0), sync->BucketSpecs());
    sync->Attach(exchange, LayoutId(0), {Rank(0)});
    return Run(0, 1, sync.get());
  }

  std::vector<uint64_t> ComparedSteps() const {
    std::vector<uint64_t> steps;
    for (const auto& [step, digests] : digests_) steps.push_back(step);
    return steps;
  }

  Step lost_{1000};  // will never be sealed
  absl::Duration seal_takes_;
  bool updates_late_ = false;
  Nonfinite on_nonfinite_ = Nonfinite::kIgnore;
  std::map<std::string, std::set<uint64_t>> steps_in_;  // by phase
  std::shared_ptr<PlainModel> model_;
  std::unique_ptr<Trainer> trainer_;
  std::vector<uint64_t> ready_;
  std::map<uint64_t, std::vector<TensorDigest>> digests_;
  std::map<uint64_t, std::vector<TensorDigest>> expected_;
};

TEST_F(SealTest, Run_EachStep_IsReadyOnce) {
  Make(0);
  EXPECT_TRUE(Run(0, 3).ok());
  EXPECT_THAT(ready_, ElementsAre(0, 1, 2));
  EXPECT_THAT(digests_, IsEmpty());
}

// The others have not finished the step before. Without this a report blames nobody for the time.
TEST_F(SealTest, Run_SealIsLate_TheWaitIsExposedCommunication) {
  seal_takes_ = absl::Milliseconds(30);
  Make(0);
  std::vector<PhaseTimes> phases;
  EXPECT_TRUE(Run(0, 3, nullptr, [&](absl::Span<const StepRecord> reports) {
                for (const StepRecord& report : reports) phases.push_back(report.phases);
              }).ok());
  ASSERT_EQ(phases.size(), 3);
  EXPECT_EQ(phases[0][Phase::kExposedCommunication], absl::ZeroDuration());
  EXPECT_GE(phases[1][Phase::kExposedCommunication], seal_takes_);
  EXPECT_GE(phases[1][Phase::kCommunication], phases[1][Phase::kExposedCommunication]);
}

// A worker that hangs in an update holds up the seal of that step. The others wait in the next one.
TEST_F(SealTest, Run_UpdatesLate_PhasesAreOfTheStepThatIsUpdatedOrWaitedFor) {
  updates_late_ = true;
  Make(0);
  EXPECT_TRUE(Run(0, 3).ok());
  EXPECT_THAT(steps_in_["optimizer"], ElementsAre(0, 1, 2));
  EXPECT_THAT(steps_in_["wait"], ElementsAre(1, 2));
  EXPECT_THAT(steps_in_["forward"], ElementsAre(0, 1, 2));
}

TEST_F(SealTest, Run_EverySecondStepIsCompared_DigestsOfWhatTheStepLeft) {
  Make(2);
  EXPECT_TRUE(Run(0, 5).ok());
  EXPECT_THAT(ComparedSteps(), ElementsAre(0, 2, 4));
  EXPECT_EQ(digests_, expected_);
  EXPECT_EQ(digests_[0].size(), model_->parameters().size());
  EXPECT_NE(digests_[0], digests_[2]);
}

// Else what a second loss costs would be counted from there.
TEST_F(SealTest, Rewind_StepsThatHadBegun_HaveNotBegunAnyMore) {
  Make(0);
  lost_ = Step(1);
  EXPECT_TRUE(absl::IsAborted(Run(0, 4)));
  EXPECT_TRUE(trainer_->BegunAt(Step(1)).has_value());
  EXPECT_TRUE(trainer_->BegunAt(Step(2)).has_value());
  trainer_->Rewind(Step(1));
  EXPECT_FALSE(trainer_->BegunAt(Step(1)).has_value());
  EXPECT_FALSE(trainer_->BegunAt(Step(2)).has_value());
}

// Else what a loss costs would leave out the wait for the lost worker.
TEST_F(SealTest, BegunAt_UpdatesLateAndSealIsAwaited_ThreeStepsHaveBegun) {
  updates_late_ = true;
  Make(0);
  lost_ = Step(1);
  EXPECT_TRUE(absl::IsAborted(Run(0, 5)));
  for (const int step : {1, 2, 3}) EXPECT_TRUE(trainer_->BegunAt(Step(step)).has_value()) << step;
  EXPECT_LT(*trainer_->BegunAt(Step(1)), *trainer_->BegunAt(Step(3)));
}

// Else what a loss costs would leave out the wait for the step's data.
TEST_F(SealTest, BegunAt_AnyStep_BeforeItsDataAreThere) {
  Make(0);
  Batches batches(2, kSamples, 0, kSamples);
  absl::Time asked;  // for the data of the last step
  const auto next = [&] {
    absl::StatusOr<Batch> batch = batches.Next();
    if (batch.ok()) asked = SteadyNow();
    while (SteadyNow() == asked) {
    }
    return batch;
  };
  const absl::Status status = trainer_->Run(
      next, nullptr, [](absl::Span<const StepRecord>) {}, [] { return false; });
  EXPECT_TRUE(status.ok()) << status;
  ASSERT_TRUE(trainer_->BegunAt(Step(1)).has_value());
  EXPECT_LE(*trainer_->BegunAt(Step(1)), asked);
}

TEST_F(SealTest, Rewind_FirstStepOfTheViewIsCompared) {
  Make(100);
  lost_ = Step(1);
  EXPECT_TRUE(absl::IsAborted(Run(0, 4)));
  lost_ = Step(1000);
  trainer_->Rewind(Step(1));
  EXPECT_TRUE(Run(1, 4).ok());
  EXPECT_THAT(ComparedSteps(), ElementsAre(0, 1));
  EXPECT_THAT(ready_, ElementsAre(0, 1, 1, 2, 3));
  EXPECT_EQ(digests_, expected_);
}

TEST_F(SealTest, Rewind_StepThatWasAppliedInPart_DigestsOfWhatItLeftWhenItWasComputedAnew) {
  Make(1);
  Recording recording;
  BreakingExchange breaking(&recording);
  EXPECT_TRUE(absl::IsUnavailable(RunStepThrough(&breaking)));
  trainer_->Rewind(Step(0));
  FoldingExchange whole(1, &recording);
  EXPECT_TRUE(RunStepThrough(&whole).ok());
  EXPECT_THAT(ready_, ElementsAre(0));
  EXPECT_EQ(digests_[0].size(), model_->parameters().size());
  EXPECT_EQ(digests_, expected_);
}

// What was found in the mean that arrived says nothing of the one that is computed anew.
TEST_F(SealTest, Rewind_PartThatWasNotFinite_IsForgotten) {
  on_nonfinite_ = Nonfinite::kStop;
  Make(0);
  Recording recording;
  OverflowingExchange overflowing(&recording);
  EXPECT_TRUE(absl::IsUnavailable(RunStepThrough(&overflowing)));
  trainer_->Rewind(Step(0));
  FoldingExchange whole(1, &recording);
  EXPECT_EQ(RunStepThrough(&whole), absl::OkStatus());
}

TEST_F(SealTest, BeginAt_FirstStepOfAResumedRunIsCompared) {
  Make(100);
  trainer_->BeginAt(Step(3));
  EXPECT_EQ(trainer_->current_step(), Step(3));
  EXPECT_TRUE(Run(3, 6).ok());
  EXPECT_THAT(ComparedSteps(), ElementsAre(3));
  EXPECT_EQ(digests_, expected_);
}

class SealOptimizerTest : public SealTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(SealOptimizerTest, Rewind_StepThatWasApplied_BitsOfTheUndisturbedRun) {
  Make(0, GetParam());
  EXPECT_TRUE(Run(0, 5).ok());
  const std::string undisturbed = HashOf(*model_);
  for (const uint64_t lost : {0, 1, 3}) {
    Make(0, GetParam());
    lost_ = Step(lost);
    EXPECT_TRUE(absl::IsAborted(Run(0, 5))) << lost;
    EXPECT_EQ(trainer_->current_step(), Step(lost + 1));
    lost_ = Step(1000);
    trainer_->Rewind(Step(lost));
    EXPECT_TRUE(Run(static_cast<int64_t>(lost), 5).ok());
    EXPECT_EQ(HashOf(*model_), undisturbed) << lost;
  }
}

TEST_P(SealOptimizerTest, Rewind_ToTheStepBehind_KeepsWhatWasApplied) {
  Make(0, GetParam());
  EXPECT_TRUE(Run(0, 4).ok());
  const std::string undisturbed = HashOf(*model_);
  Make(0, GetParam());
  lost_ = Step(1);
  EXPECT_TRUE(absl::IsAborted(Run(0, 4)));
  lost_ = Step(1000);
  trainer_->Rewind(Step(2));  // it was sealed, which this worker hears with the view
  EXPECT_TRUE(Run(2, 4).ok());
  EXPECT_EQ(HashOf(*model_), undisturbed);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, SealOptimizerTest, ::testing::Values("sgd", "adam", "adamw"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace gradwire::seal_test
