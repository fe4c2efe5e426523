// Ranks with models of their own, beside a plain computation with torch that knows nothing of
// ranks, exchanges and slices.
#include "worker/sync/local_sync.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <set>
#include <thread>

#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "tests/worker/ddp/fake_exchange.h"
#include "tests/worker/run/recorded_exchange.h"
#include "tests/worker/run/training.h"
#include "worker/ddp/model_layout.h"

namespace gradwire::local_sync_test {
namespace {

using testing::Batches;
using ::testing::ElementsAre;
using testing::ExpectNear;
using testing::FakeExchange;
using testing::FoldingExchange;
using testing::HashOf;
using testing::RandomModel;
using testing::Recording;
using testing::RunTrainer;
using testing::Training;
using testing::TrainRanks;

constexpr int kRanks = 4;
constexpr int64_t kSteps = 8;

struct Case {
  const char* name;
  const char* sync;
  const char* optimizer;
  int64_t delay;
  double outer_lr;
  double outer_momentum;
  int64_t micro_batch = 0;
  double inner_momentum = 0.9;

  friend std::ostream& operator<<(std::ostream& out, const Case& one) { return out << one.name; }
};

std::vector<Rank> AllRanks() { return {Rank(0), Rank(1), Rank(2), Rank(3)}; }

TrainerOptions OptionsOf(const Case& one) {
  TrainerOptions options;
  options.update.optimizer.name = one.optimizer;
  options.update.optimizer.momentum = one.inner_momentum;
  options.learning_rate = [](Step step) { return step.value() < 4 ? 0.05 : 0.01; };
  options.reducer.updater = Updater::kRank;
  options.reducer.bucket_cap_bytes = 500;
  options.micro_batch = one.micro_batch;
  return options;
}

// One worker that carries all ranks, and the exchange that it has with itself.
struct OneWorker {
  explicit OneWorker(const Case& one, int64_t total_steps = kSteps)
      : trainer(Trainer::Create(model, OptionsOf(one)).value()) {
    SyncOptions options;
    options.delay = one.delay;
    options.outer.lr = one.outer_lr;
    options.outer.momentum = one.outer_momentum;
    options.total_steps = total_steps;
    for (const torch::Tensor& buffer : model->buffers()) {
      if (buffer.scalar_type() == torch::kFloat) options.averaged_buffers.push_back(buffer);
    }
    sync = MakeSynchronizer(one.sync, &trainer->reducer(), options).value();
    exchange.AddLayout(LayoutId(0), sync->BucketSpecs());
    sync->Attach(&exchange, LayoutId(0), AllRanks());
  }
  // Up to step `end` of the run.
  void Train(int64_t end = kSteps) {
    const absl::Status status = trainer->Run(
        [&]() -> absl::StatusOr<Batch> {
          if (next == end * kRanks) return absl::OutOfRangeError("an evaluation");
          ++next;
          return batches.Next();
        },
        sync.get(),
        [&](absl::Span<const StepRecord> reports) {
          for (const StepRecord& report : reports) losses.push_back(report.loss);
          times.push_back(reports.front().phases);
        },
        [] { return false; });
    EXPECT_TRUE(status.ok()) << status;
  }
  // Of a rank's model.
  std::string Hash(int rank) {
    trainer->reducer().BeginForward(Rank(rank));
    return HashOf(*model);
  }
  // And goes on behind its last step.
  void TakeModelsOf(OneWorker& other) {
    const torch::NoGradGuard values_only;
    for (const Rank rank : AllRanks()) {
      other.trainer->reducer().BeginForward(rank);
      trainer->reducer().BeginForward(rank);
      Copy(other.model->parameters(), model->parameters());
      Copy(other.model->buffers(), model->buffers());
      trainer->reducer().EndForward(rank);
    }
    for (; next < other.next; ++next) (void)batches.Next();
  }
  static void Copy(const std::vector<torch::Tensor>& from, std::vector<torch::Tensor> to) {
    for (size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
  }
  LocalSync& local() { return static_cast<LocalSync&>(*sync); }

  std::shared_ptr<RandomModel> model = std::make_shared<RandomModel>(0);
  std::unique_ptr<Trainer> trainer;
  std::unique_ptr<Synchronizer> sync;
  Recording recording;
  FoldingExchange exchange{kRanks, &recording};
  Batches batches{kSteps, kRanks, AllRanks()};
  int64_t next = 0;
  std::vector<double> losses;  // of each step and rank
  std::vector<PhaseTimes> times;
};

// The same, with nothing but torch: a model and an optimiser for each rank.
class Plain {
 public:
  explicit Plain(const Case& one) : case_(one) {
    interval_ = std::stoll(std::string(one.sync).substr(std::string(one.sync).find(':') + 1));
    outer_ = std::string(one.sync).front() == 'd';
    for (int rank = 0; rank < kRanks; ++rank) {
      models_.push_back(std::make_shared<RandomModel>(0));
      optimizers_.push_back(MakeOptimizer(models_.back()->parameters()));
    }
    for (const torch::Tensor& tensor : Tensors(0)) anchor_.push_back(tensor.detach().clone());
    const auto sgd = torch::optim::SGDOptions(outer_ ? one.outer_lr : 1)
                         .momentum(outer_ ? one.outer_momentum : 0)
                         .nesterov(outer_ && one.outer_momentum > 0);
    const auto parameters = models_[0]->parameters().size();
    outer_step_ = std::make_unique<torch::optim::SGD>(
        std::vector<torch::Tensor>(anchor_.begin(), anchor_.begin() + parameters), sgd);
    plain_step_ = std::make_unique<torch::optim::SGD>(
        std::vector<torch::Tensor>(anchor_.begin() + parameters, anchor_.end()),
        torch::optim::SGDOptions(1));
  }

  void Train() {
    Batches batches(kSteps, kRanks, AllRanks());
    for (int64_t step = 0; step < kSteps; ++step) {
      for (int rank = 0; rank < kRanks; ++rank) TrainRank(rank, step, batches.Next().value());
      const bool last = step + 1 == kSteps;
      if (!sent_.empty() && (step == due_ || last)) Use(/*one=*/false);
      if (!last && (step + 1) % interval_ != 0) continue;
      for (int rank = 0; rank < kRanks; ++rank) sent_.push_back(Drift(rank));
      due_ = step + case_.delay;
      if (case_.delay == 0 || last) Use(/*one=*/true);
    }
  }
  std::string Hash(int rank) const { return HashOf(*models_[rank]); }

  std::vector<double> losses;

 private:
  std::unique_ptr<torch::optim::Optimizer> MakeOptimizer(std::vector<torch::Tensor> parameters) {
    const OptimizerOptions defaults;
    if (std::string(case_.optimizer) == "adamw") {
      return std::make_unique<torch::optim::AdamW>(
          parameters, torch::optim::AdamWOptions().weight_decay(defaults.weight_decay));
    }
    return std::make_unique<torch::optim::SGD>(parameters,
                                               torch::optim::SGDOptions(0)
                                                   .momentum(case_.inner_momentum)
                                                   .weight_decay(defaults.weight_decay));
  }
  // Parameters and float buffers.
  std::vector<torch::Tensor> Tensors(int rank) const {
    std::vector<torch::Tensor> tensors = models_[rank]->parameters();
    for (const torch::Tensor& buffer : models_[rank]->buffers()) {
      if (buffer.scalar_type() == torch::kFloat) tensors.push_back(buffer);
    }
    return tensors;
  }
  void TrainRank(int rank, int64_t step, const Batch& batch) {
    optimizers_[rank]->zero_grad();
    const int64_t piece = case_.micro_batch > 0 ? case_.micro_batch : batch.size();
    double sum = 0;
    for (int64_t first = 0; first < batch.size(); first += piece) {
      const int64_t count = std::min(piece, batch.size() - first);
      torch::Tensor loss = torch::nn::functional::cross_entropy(
          models_[rank]->forward(batch.images.narrow(0, first, count)),
          batch.labels.narrow(0, first, count));
      if (count < batch.size()) {
        loss = loss * (static_cast<double>(count) / static_cast<double>(batch.size()));
      }
      sum += loss.item<double>();
      loss.backward();
    }
    losses.push_back(sum);
    for (auto& group : optimizers_[rank]->param_groups()) {
      group.options().set_lr(step < 4 ? 0.05 : 0.01);
    }
    optimizers_[rank]->step();
  }
  std::vector<torch::Tensor> Drift(int rank) const {
    const torch::NoGradGuard no_grad;
    std::vector<torch::Tensor> pseudo_gradient;
    const auto tensors = Tensors(rank);
    for (size_t i = 0; i < tensors.size(); ++i) pseudo_gradient.push_back(anchor_[i] - tensors[i]);
    return pseudo_gradient;
  }
  void Use(bool one) {
    const torch::NoGradGuard no_grad;
    std::vector<torch::Tensor> before;
    for (size_t i = 0; i < anchor_.size(); ++i) {
      before.push_back(anchor_[i].clone());
      torch::Tensor sum = sent_[0][i].clone();
      for (int rank = 1; rank < kRanks; ++rank) sum += sent_[rank][i];
      anchor_[i].mutable_grad() = sum * 0.25;
    }
    outer_step_->step();
    plain_step_->step();
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto tensors = Tensors(rank);
      for (size_t i = 0; i < tensors.size(); ++i) {
        torch::Tensor tensor = tensors[i];
        if (one) tensor.copy_(anchor_[i]);
        if (!one) tensor.add_(sent_[rank][i] + (anchor_[i] - before[i]));
      }
    }
    sent_.clear();
  }

  const Case case_;
  int64_t interval_;
  bool outer_;
  std::vector<std::shared_ptr<RandomModel>> models_;
  std::vector<std::unique_ptr<torch::optim::Optimizer>> optimizers_;
  std::vector<torch::Tensor> anchor_;
  std::unique_ptr<torch::optim::SGD> outer_step_, plain_step_;
  std::vector<std::vector<torch::Tensor>> sent_;
  int64_t due_ = 0;
};

class LocalSyncTest : public ::testing::TestWithParam<Case> {};

TEST_P(LocalSyncTest, Train_FourRanks_LossesAndModelsOfPlainTorch) {
  OneWorker worker(GetParam());
  worker.Train();
  Plain plain(GetParam());
  plain.Train();
  EXPECT_EQ(worker.losses, plain.losses);
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(worker.Hash(rank), plain.Hash(0)) << rank;
}

TEST_P(LocalSyncTest, Evaluation_InTheMiddle_OfTheMeanAndChangesNothing) {
  OneWorker without(GetParam()), with(GetParam());
  without.Train();
  for (const int64_t end : {1, 3, 5, 6}) {
    with.Train(end);
    std::vector<std::string> before;
    for (int rank = 0; rank < kRanks; ++rank) before.push_back(with.Hash(rank));
    ASSERT_TRUE(with.sync->BeginEvaluation().ok());
    std::set<std::string> evaluated;
    for (int rank = 0; rank < kRanks; ++rank) evaluated.insert(with.Hash(rank));
    EXPECT_EQ(evaluated.size(), 1u) << end;
    with.sync->EndEvaluation();
    for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(with.Hash(rank), before[rank]) << end;
  }
  with.Train();
  EXPECT_EQ(with.losses, without.losses);
  EXPECT_EQ(with.Hash(0), without.Hash(0));
}

INSTANTIATE_TEST_SUITE_P(
    Syncs, LocalSyncTest,
    ::testing::Values(Case{"EveryStep", "local-sgd:1", "sgd", 0, 0.7, 0.9},
                      Case{"EveryThird", "local-sgd:3", "sgd", 0, 0.7, 0.9},
                      Case{"Accumulated", "local-sgd:3", "sgd", 0, 0.7, 0.9, 3},
                      Case{"Delayed", "local-sgd:3", "sgd", 2, 0.7, 0.9},
                      Case{"OnlyAtTheEnd", "local-sgd:100", "adamw", 0, 0.7, 0.9},
                      Case{"Diloco", "diloco:3", "sgd", 0, 0.7, 0.9},
                      Case{"DilocoAdamW", "diloco:2", "adamw", 0, 0.7, 0.9},
                      Case{"DilocoDelayed", "diloco:3", "adamw", 1, 0.4, 0.5},
                      Case{"EndsWithinADelay", "diloco:5", "sgd", 4, 0.7, 0.9},
                      Case{"DilocoNoMomentum", "diloco:4", "sgd", 3, 0.7, 0}),
    [](const auto& info) { return std::string(info.param.name); });

const Case kDiloco = {"", "diloco:3", "sgd", 0, 0.7, 0.9};

// At step 5 of an interval from 3 to 6: the parameters' mean, but for rounding.
TEST(LocalSync, BeginEvaluation_ModelsApart_TheirMean) {
  OneWorker worker(kDiloco);
  worker.Train(5);
  std::vector<torch::Tensor> mean;
  for (int rank = 0; rank < kRanks; ++rank) {
    worker.trainer->reducer().BeginForward(Rank(rank));
    const auto parameters = worker.model->parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (rank == 0) mean.push_back(torch::zeros_like(parameters[i]));
      mean[i] += parameters[i].detach() / kRanks;
    }
  }
  ASSERT_TRUE(worker.sync->BeginEvaluation().ok());
  const auto parameters = worker.model->parameters();
  for (size_t i = 0; i < mean.size(); ++i) {
    EXPECT_TRUE(torch::allclose(parameters[i], mean[i], 1e-5, 1e-6)) << i;
  }
  worker.sync->EndEvaluation();
}

// The last model that all ranks had in common is the same on all workers, whatever ranks they
// carry.
TEST(LocalSync, BeginEvaluation_ModelsApart_MeanIsMeasuredFromTheAnchor) {
  OneWorker worker(kDiloco);
  const auto copies_of = [&worker](int rank) {
    worker.trainer->reducer().BeginForward(Rank(rank));
    std::vector<torch::Tensor> copies;
    for (const torch::Tensor& one : worker.model->parameters())
      copies.push_back(one.detach().clone());
    return copies;
  };
  worker.Train(3);
  const std::vector<torch::Tensor> anchor = copies_of(0);
  worker.Train(5);
  std::vector<torch::Tensor> sum;
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::vector<torch::Tensor> own = copies_of(rank);
    for (size_t i = 0; i < own.size(); ++i) {
      if (rank == 0) sum.push_back(torch::zeros_like(own[i]));
      sum[i] += anchor[i] - own[i];
    }
  }
  ASSERT_TRUE(worker.sync->BeginEvaluation().ok());
  const std::vector<torch::Tensor> mean = copies_of(0);
  for (size_t i = 0; i < mean.size(); ++i) {
    EXPECT_TRUE(mean[i].equal(anchor[i] - sum[i] / kRanks)) << i;
  }
  worker.sync->EndEvaluation();
}

// Step 4 exchanges nothing.
TEST(LocalSync, BeginEvaluation_ModelsApart_ItsExchangeIsInNoStep) {
  OneWorker worker(kDiloco);
  worker.Train(4);
  ASSERT_TRUE(worker.sync->BeginEvaluation().ok());
  worker.sync->EndEvaluation();
  worker.Train(5);
  EXPECT_EQ(worker.times.back()[Phase::kCommunication], absl::ZeroDuration());
  EXPECT_EQ(worker.times.back()[Phase::kExposedCommunication], absl::ZeroDuration());
}

// All models are the anchor; an exchange would be bytes that nobody needs.
TEST(LocalSync, BeginEvaluation_BehindAnExchange_ExchangesNothing) {
  OneWorker worker(kDiloco);
  worker.Train(3);
  const size_t before = worker.recording.entries.size();
  ASSERT_TRUE(worker.sync->BeginEvaluation().ok());
  EXPECT_EQ(worker.recording.entries.size(), before);
  worker.sync->EndEvaluation();
}

TEST(LocalSync, Diloco_OuterLrOneAndNoMomentum_BitsOfLocalSgd) {
  for (const int64_t delay : {0, 1}) {
    OneWorker local({"", "local-sgd:3", "sgd", delay, 0.7, 0.9});
    OneWorker diloco({"", "diloco:3", "sgd", delay, 1, 0});
    local.Train();
    diloco.Train();
    EXPECT_EQ(diloco.losses, local.losses);
    EXPECT_EQ(diloco.Hash(0), local.Hash(0));
  }
}

TEST(LocalSync, LocalSgdEveryStepOfPlainSgd_GatherScatterButForRounding) {
  Training training;
  training.ranks = 3;
  training.options.update.optimizer.momentum = 0;
  training.make = [] { return std::make_shared<RandomModel>(0); };
  training.sync = "gather-scatter";
  const auto expected = TrainRanks(training);
  training.sync = "local-sgd:1";
  ExpectNear(*TrainRanks(training), *expected, 1e-6);
}

// Without momentum inner SGD keeps nothing, so models, anchors and outer momentum are all there is.
TEST(LocalSync, Restore_CapturedAfterAnExchange_EndsWithTheHashOfOneRun) {
  Case one = kDiloco;
  one.inner_momentum = 0;
  OneWorker whole(one), before(one), after(one);
  whole.Train();
  before.Train(3);
  after.TakeModelsOf(before);
  ASSERT_TRUE(after.local().outer()->Restore(before.local().outer()->Capture()).ok());
  after.Train();
  EXPECT_EQ(after.Hash(0), whole.Hash(0));
}

// With a delay the models of a border differ: each rank has trained during the exchange. A run that
// resumes there evaluates their mean, as the run that was not interrupted does.
TEST(LocalSync, BeginEvaluation_FirstAfterAResumeWithADelay_MeanOfTheModels) {
  const Case one = {"", "diloco:3", "sgd", 1, 0.7, 0.9};
  OneWorker before(one), after(one);
  before.Train(4);
  ASSERT_TRUE(before.sync->IsAtBorder());
  after.TakeModelsOf(before);
  ASSERT_TRUE(after.local().outer()->Restore(before.local().outer()->Capture()).ok());
  after.sync->BeginAt(Step(4));
  ASSERT_TRUE(before.sync->BeginEvaluation().ok());
  ASSERT_TRUE(after.sync->BeginEvaluation().ok());
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(after.Hash(rank), before.Hash(0)) << rank;
  after.sync->EndEvaluation();
  before.sync->EndEvaluation();
}

// Without a delay all ranks begin with the anchor, so an evaluation needs no exchange.
TEST(LocalSync, BeginEvaluation_FirstAfterAResumeWithoutDelay_ExchangesNothing) {
  OneWorker before(kDiloco), after(kDiloco);
  before.Train(3);
  after.TakeModelsOf(before);
  after.sync->BeginAt(Step(3));
  ASSERT_TRUE(after.sync->BeginEvaluation().ok());
  EXPECT_TRUE(after.recording.entries.empty());
  EXPECT_EQ(after.Hash(0), before.Hash(0));
  after.sync->EndEvaluation();
}

// One parameter in one bucket, rank 0 alone; transfers end when the test says so.
class LocalSyncTransfers : public ::testing::Test {
 protected:
  void Make(const std::string& sync, const SyncOptions& options) {
    ReducerOptions own;
    own.updater = Updater::kRank;
    reducer_ = Reducer::Create({parameter_}, {}, own).value();
    sync_ = MakeSynchronizer(sync, reducer_.get(), options).value();
    sync_->Attach(&exchange_, LayoutId(0), {Rank(0)});
  }
  std::vector<uint64_t> ExchangeSteps() {
    std::vector<uint64_t> steps;
    for (const auto& expected : exchange_.expected()) steps.push_back(expected.key.step.value());
    return steps;
  }

  FakeExchange exchange_;
  torch::Tensor parameter_ = torch::ones({2}, torch::requires_grad());
  std::unique_ptr<Reducer> reducer_;
  std::unique_ptr<Synchronizer> sync_;
};

TEST_F(LocalSyncTransfers, OnStepDone_BetweenExchanges_NothingLeaves) {
  exchange_.on_contribute = [this](const BucketKey&) { exchange_.End(0); };
  Make("local-sgd:3", {});
  std::vector<size_t> sent;
  for (uint64_t step = 0; step < 7; ++step) {
    ASSERT_TRUE(sync_->OnStepDone(Step(step)).ok());
    sent.push_back(exchange_.expected().size());
    EXPECT_EQ(sync_->TakeTimes()[Phase::kCommunication] > absl::ZeroDuration(), step % 3 == 2)
        << step;
  }
  EXPECT_THAT(sent, ElementsAre(0, 0, 1, 1, 1, 2, 2));
  EXPECT_THAT(ExchangeSteps(), ElementsAre(0, 1));
}

TEST_F(LocalSyncTransfers, OnStepDone_Delayed_WaitsOnlyWhenItIsDue) {
  SyncOptions options;
  options.delay = 1;
  Make("local-sgd:2", options);
  ASSERT_TRUE(sync_->OnStepDone(Step(0)).ok());
  ASSERT_TRUE(sync_->OnStepDone(Step(1)).ok());
  EXPECT_EQ(exchange_.under_way(), 1u);  // and nobody waited
  EXPECT_GT(sync_->TakeTimes()[Phase::kCommunication], absl::ZeroDuration());
  exchange_.End(0);
  ASSERT_TRUE(sync_->OnStepDone(Step(2)).ok());
}

TEST_F(LocalSyncTransfers, OnStepDone_TheRunsLast_AlwaysExchanged) {
  exchange_.on_contribute = [this](const BucketKey&) { exchange_.End(0); };
  SyncOptions options;
  options.delay = 2;
  options.total_steps = 5;
  Make("local-sgd:4", options);
  for (uint64_t step = 0; step < 5; ++step) ASSERT_TRUE(sync_->OnStepDone(Step(step)).ok());
  EXPECT_THAT(ExchangeSteps(), ElementsAre(0, 1));
}

// A checkpoint within a round would lack what its exchange or its ranks have.
TEST_F(LocalSyncTransfers, IsAtBorder_EachStep_OnlyWhereAnExchangeWasUsed) {
  exchange_.on_contribute = [this](const BucketKey&) { exchange_.End(0); };
  const std::vector<std::vector<bool>> expected = {{false, false, true, false, false, true, true},
                                                   {false, false, false, true, false, false, true}};
  for (const int64_t delay : {0, 1}) {
    SyncOptions options;
    options.delay = delay;
    options.total_steps = 7;
    Make("local-sgd:3", options);
    std::vector<bool> borders;
    for (uint64_t step = 0; step < 7; ++step) {
      ASSERT_TRUE(sync_->OnStepDone(Step(step)).ok());
      borders.push_back(sync_->IsAtBorder());
    }
    EXPECT_EQ(borders, expected[static_cast<size_t>(delay)]) << delay;
  }
}

// The steps of a layout count from the view's first.
TEST_F(LocalSyncTransfers, BeginAt_LaterStep_ItsExchangesCountFromThere) {
  exchange_.on_contribute = [this](const BucketKey&) { exchange_.End(0); };
  Make("local-sgd:2", {});
  sync_->BeginAt(Step(6));
  for (uint64_t step = 6; step < 10; ++step) ASSERT_TRUE(sync_->OnStepDone(Step(step)).ok());
  EXPECT_THAT(ExchangeSteps(), ElementsAre(6, 7));
}

TEST_F(LocalSyncTransfers, OnStepDone_Exchange_HasTheStepTimeout) {
  exchange_.on_contribute = [this](const BucketKey&) { exchange_.End(0); };
  SyncOptions options;
  options.step_timeout = absl::Hours(7);
  Make("local-sgd:1", options);
  const absl::Time begun = SteadyNow();
  ASSERT_TRUE(sync_->OnStepDone(Step(0)).ok());
  EXPECT_GE(exchange_.expected()[0].deadline, begun + options.step_timeout);
  EXPECT_LE(exchange_.expected()[0].deadline, SteadyNow() + options.step_timeout);
}

TEST_F(LocalSyncTransfers, Abandon_DelayedExchangeUnderWay_CancelsItWithTheReason) {
  SyncOptions options;
  options.delay = 1;
  Make("local-sgd:2", options);
  ASSERT_TRUE(sync_->OnStepDone(Step(0)).ok());
  ASSERT_TRUE(sync_->OnStepDone(Step(1)).ok());
  sync_->Abandon(absl::UnavailableError("rank 1 is away"));
  EXPECT_EQ(exchange_.under_way(), 0u);
  EXPECT_EQ(exchange_.cancelled(), absl::UnavailableError("rank 1 is away"));
}

TEST_F(LocalSyncTransfers, OnStepDone_TransferFails_ItsError) {
  exchange_.on_contribute = [this](const BucketKey&) {
    exchange_.End(0, absl::UnavailableError("rank 1 is away"));
  };
  Make("local-sgd:1", {});
  EXPECT_EQ(sync_->OnStepDone(Step(0)), absl::UnavailableError("rank 1 is away"));
}

// Their results would be written to memory of the evaluation alone.
TEST_F(LocalSyncTransfers, BeginEvaluation_OneBucketFails_ItsErrorAndTheOthersAreCancelled) {
  ReducerOptions own;
  own.updater = Updater::kRank;
  own.bucket_cap_bytes = 0;
  reducer_ =
      Reducer::Create({parameter_, torch::ones({2}, torch::requires_grad())}, {}, own).value();
  sync_ = MakeSynchronizer("local-sgd:3", reducer_.get()).value();
  sync_->Attach(&exchange_, LayoutId(0), {Rank(0)});
  const absl::Status gone = absl::UnavailableError("rank 1 is gone");
  exchange_.on_contribute = [&](const BucketKey& key) {
    if (key.bucket == Bucket(0)) exchange_.End(0, gone);
  };
  ASSERT_TRUE(sync_->OnStepDone(Step(0)).ok());
  EXPECT_EQ(sync_->BeginEvaluation(), gone);
  EXPECT_EQ(exchange_.under_way(), 0u);
  EXPECT_EQ(exchange_.cancelled(), gone);
}

TEST_F(LocalSyncTransfers, BeginEvaluation_DelayedExchangeHasFailed_ItsError) {
  SyncOptions options;
  options.delay = 1;
  options.step_timeout = absl::ZeroDuration();
  Make("local-sgd:2", options);
  ASSERT_TRUE(sync_->OnStepDone(Step(0)).ok());
  ASSERT_TRUE(sync_->OnStepDone(Step(1)).ok());
  const absl::Status gone = absl::UnavailableError("rank 1 is gone");
  exchange_.End(0, gone);
  EXPECT_EQ(sync_->BeginEvaluation(), gone);
  EXPECT_THAT(ExchangeSteps(), ElementsAre(0));
}

// The exchange of step 1 ends within the evaluation.
TEST_F(LocalSyncTransfers, BeginEvaluation_WaitsForADelayedExchange_TheWaitIsInNoStep) {
  exchange_.on_contribute = [this](const BucketKey& key) {
    if (key.step != Step(0)) exchange_.End(0);
  };
  SyncOptions options;
  options.delay = 1;
  Make("local-sgd:2", options);
  ASSERT_TRUE(sync_->OnStepDone(Step(0)).ok());
  ASSERT_TRUE(sync_->OnStepDone(Step(1)).ok());
  std::thread peer([this] {
    absl::SleepFor(absl::Milliseconds(50));
    exchange_.End(0);
  });
  const absl::Status begun = sync_->BeginEvaluation();
  peer.join();
  ASSERT_TRUE(begun.ok()) << begun;
  sync_->EndEvaluation();
  ASSERT_TRUE(sync_->OnStepDone(Step(2)).ok());
  EXPECT_EQ(sync_->TakeTimes()[Phase::kExposedCommunication], absl::ZeroDuration());
}

// The exchange of step 0 lasts a while, and later ones do not.
class LocalSyncTimes : public LocalSyncTransfers {
 protected:
  LocalSyncTimes() {
    exchange_.on_contribute = [this](const BucketKey& key) {
      if (key.step != Step(0)) return exchange_.End(0);
      peer_ = std::thread([this] {
        absl::SleepFor(absl::Milliseconds(50));
        exchange_.End(0);
      });
    };
    Make("local-sgd:1", {});
  }
  ~LocalSyncTimes() override {
    if (peer_.joinable()) peer_.join();
  }

  std::thread peer_;
};

TEST_F(LocalSyncTimes, TakeTimes_ExchangeIsAwaited_TheWaitIsNoPartOfTheOptimizer) {
  const absl::Time begun = SteadyNow();
  ASSERT_TRUE(sync_->OnStepDone(Step(0)).ok());
  const absl::Duration all = SteadyNow() - begun;
  const PhaseTimes times = sync_->TakeTimes();
  EXPECT_LE(times[Phase::kOptimizer] + times[Phase::kExposedCommunication], all);
}

TEST_F(LocalSyncTimes, TakeTimes_ShortExchangeBehindALongOne_IsItsOwn) {
  ASSERT_TRUE(sync_->OnStepDone(Step(0)).ok());
  sync_->TakeTimes();
  ASSERT_TRUE(sync_->OnStepDone(Step(1)).ok());
  const PhaseTimes times = sync_->TakeTimes();
  EXPECT_GE(times[Phase::kCommunication], absl::ZeroDuration());
  EXPECT_GE(times[Phase::kExposedCommunication], absl::ZeroDuration());
}

// As behind an evaluation, whose wait nobody has taken yet.
TEST_F(LocalSyncTimes, TakeTimes_WaitOfBeforeIsNotTakenYet_IsSubtractedOnce) {
  ASSERT_TRUE(sync_->OnStepDone(Step(0)).ok());
  ASSERT_TRUE(sync_->OnStepDone(Step(1)).ok());
  EXPECT_GE(sync_->TakeTimes()[Phase::kOptimizer], absl::ZeroDuration());
}

TEST_F(LocalSyncTransfers, Destruction_ExchangeUnderWay_CancelsIt) {
  SyncOptions options;
  options.delay = 1;
  Make("local-sgd:2", options);
  ASSERT_TRUE(sync_->OnStepDone(Step(0)).ok());
  ASSERT_TRUE(sync_->OnStepDone(Step(1)).ok());
  sync_.reset();
  EXPECT_EQ(exchange_.under_way(), 0u);
  EXPECT_EQ(exchange_.cancelled().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace gradwire::local_sync_test
