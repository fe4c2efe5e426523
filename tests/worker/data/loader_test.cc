#include "worker/data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <new>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "worker/data/batches.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;

constexpr ImageShape kShape = {3, 32, 32};

// `count` random images of 1x28x28; the label of image i is i mod 10.
std::shared_ptr<const Dataset> MakeDataset(int64_t count) {
  Dataset dataset;
  dataset.name = "made";
  dataset.channels = 1;
  dataset.height = 28;
  dataset.width = 28;
  dataset.classes = 10;
  dataset.mean = {0.5f};
  dataset.std_dev = {0.25f};
  for (int64_t i = 0; i < count; ++i) dataset.labels.push_back(i % 10);
  for (int64_t i = 0; i < count * 28 * 28; ++i) {
    dataset.pixels.push_back(static_cast<uint8_t>(SplitMix64(i)));
  }
  return std::make_shared<const Dataset>(std::move(dataset));
}

std::unique_ptr<const TrainingBatches> MakeTraining(int64_t count,
                                                    const TrainingBatchOptions& options) {
  return TrainingBatches::Create(MakeDataset(count), kShape, options).value();
}

TrainingBatchOptions Options(int world_size, int64_t batch_size, bool augment = true) {
  TrainingBatchOptions options;
  options.sampler.world_size = world_size;
  options.batch_size = batch_size;
  options.augment = augment;
  return options;
}

TEST(TrainingBatches, Make_LastOfTheEpoch_HoldsWhatIsLeft) {
  const auto batches = MakeTraining(11, Options(2, 4));  // 6 each
  EXPECT_EQ(batches->steps_per_epoch(), 2);
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(batches->Make(Step(0), Rank(r)).value().size(), 4);
    EXPECT_EQ(batches->Make(Step(1), Rank(r)).value().size(), 2);
  }
}

TEST(TrainingBatches, Make_FirstStepOfNextEpoch_CountsOn) {
  const Batch batch = MakeTraining(11, Options(2, 4))->Make(Step(2), Rank(0)).value();
  EXPECT_EQ(batch.epoch, 1);
  EXPECT_EQ(batch.step, Step(2));
  EXPECT_EQ(batch.size(), 4);
}

TEST(TrainingBatches, Make_BatchesDivideTheEpoch_NoEmptyOneAtItsEnd) {
  const auto batches = MakeTraining(12, Options(2, 3));  // 6 each
  EXPECT_EQ(batches->steps_per_epoch(), 2);
  const Batch last = batches->Make(Step(1), Rank(1)).value();
  EXPECT_EQ(last.epoch, 0);
  EXPECT_EQ(last.size(), 3);
  EXPECT_EQ(batches->Make(Step(2), Rank(1)).value().epoch, 1);
}

TEST(TrainingBatches, Make_RepeatedSample_Counted) {
  const auto batches = MakeTraining(11, Options(2, 4));  // rank 1's last is the one repeat
  EXPECT_EQ(batches->Make(Step(1), Rank(0)).value().padded, 0);
  EXPECT_EQ(batches->Make(Step(0), Rank(1)).value().padded, 0);
  EXPECT_EQ(batches->Make(Step(1), Rank(1)).value().padded, 1);
}

TEST(TrainingBatches, Make_Labels_OfTheSamplersIndices) {
  const auto batches = MakeTraining(50, Options(3, 5));
  const auto indices = batches->sampler().Indices(2, Rank(1)).value();
  const uint64_t first_step = 2 * batches->steps_per_epoch();
  for (int64_t i = 0; i < 17; ++i) {
    const Batch batch = batches->Make(Step(first_step + i / 5), Rank(1)).value();
    EXPECT_EQ(batch.labels[i % 5].item<int64_t>(), indices[i] % 10) << i;
  }
}

TEST(TrainingBatches, Make_ByAnotherProcess_SameBits) {
  // Another object that has made other batches stands for another process.
  const auto one = MakeTraining(50, Options(3, 5));
  const auto other = MakeTraining(50, Options(3, 5));
  ASSERT_TRUE(other->Make(Step(9), Rank(0)).ok());
  for (int r = 0; r < 3; ++r) {
    const Batch a = one->Make(Step(6), Rank(r)).value();
    const Batch b = other->Make(Step(6), Rank(r)).value();
    EXPECT_TRUE(torch::equal(a.images, b.images));
    EXPECT_TRUE(torch::equal(a.labels, b.labels));
  }
}

TEST(TrainingBatches, Make_Augmented_ImagesOfDrawAugmentation) {
  const auto dataset = MakeDataset(50);
  const TrainingBatchOptions options = Options(3, 5);
  const auto batches = TrainingBatches::Create(dataset, kShape, options).value();
  const auto formatter = ImageFormatter::Create(dataset, kShape).value();
  const auto indices = batches->sampler().Indices(1, Rank(2)).value();
  const Batch batch = batches->Make(Step(5), Rank(2)).value();  // the second of epoch 1
  ASSERT_EQ(batch.epoch, 1);
  torch::Tensor expected = torch::empty({3, 32, 32});
  for (int64_t i = 0; i < 5; ++i) {
    formatter->Write(indices[5 + i], DrawAugmentation({options.seed, 1, Step(5), Rank(2), i}),
                     expected.data_ptr<float>());
    EXPECT_TRUE(torch::equal(batch.images[i], expected)) << i;
  }
}

// For the ledger.
TEST(TrainingBatches, Make_Digest_OfTheSamplesThatWereRead) {
  const auto batches = MakeTraining(50, Options(3, 5));
  const auto indices = batches->sampler().Indices(1, Rank(2)).value();
  const uint64_t second = batches->steps_per_epoch() + 1;
  const Batch batch = batches->Make(Step(second), Rank(2)).value();
  EXPECT_EQ(batch.digest, DigestOfIndices(absl::MakeConstSpan(indices).subspan(5, 5)));
  EXPECT_NE(batches->Make(Step(second), Rank(1)).value().digest, batch.digest);
}

TEST(TrainingBatches, Make_NotAugmented_ImagesAsPublished) {
  const auto dataset = MakeDataset(10);
  TrainingBatchOptions options = Options(1, 10, false);
  options.sampler.shuffle = false;
  const auto training = TrainingBatches::Create(dataset, kShape, options).value();
  const auto evaluation = EvaluationBatches::Create(dataset, kShape, 10).value();
  EXPECT_TRUE(
      torch::equal(training->Make(Step(0), Rank(0)).value().images, evaluation->Make(0).images));
}

TEST(TrainingBatches, Make_NoSuchRank_InvalidArgument) {
  const absl::Status status = MakeTraining(50, Options(3, 5))->Make(Step(0), Rank(3)).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(), "rank 3, expected 0 to 2");
}

TEST(TrainingBatches, Create_BatchSizeZero_InvalidArgument) {
  const auto status = TrainingBatches::Create(MakeDataset(5), kShape, Options(1, 0)).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(), "batch size 0, expected 1 or more");
}

TEST(TrainingBatches, Create_WorldSizeZero_SamplersError) {
  const auto status = TrainingBatches::Create(MakeDataset(5), kShape, Options(0, 4)).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("world size 0"));
}

TEST(TrainingBatches, Create_ImagesTooLarge_FormattersError) {
  const auto status = TrainingBatches::Create(MakeDataset(5), {3, 8, 8}, Options(1, 4)).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("the model takes 3x8x8"));
}

TEST(EvaluationBatches, Make_AllBatches_EachImageOnceInOrder) {
  const auto batches = EvaluationBatches::Create(MakeDataset(23), kShape, 10).value();
  ASSERT_EQ(batches->count(), 3);
  EXPECT_EQ(batches->samples(), 23);
  int64_t seen = 0;
  for (int64_t i = 0; i < batches->count(); ++i) {
    const Batch batch = batches->Make(i);
    EXPECT_EQ(batch.images.size(0), batch.size());
    for (int64_t j = 0; j < batch.size(); ++j, ++seen) {
      EXPECT_EQ(batch.labels[j].item<int64_t>(), seen % 10);
    }
  }
  EXPECT_EQ(seen, 23);
}

TEST(EvaluationBatches, Make_LaterBatch_HasTheImagesOfItsLabels) {
  const auto dataset = MakeDataset(23);
  const auto batches = EvaluationBatches::Create(dataset, kShape, 10).value();
  const auto formatter = ImageFormatter::Create(dataset, kShape).value();
  const Batch batch = batches->Make(2);
  ASSERT_EQ(batch.size(), 3);
  torch::Tensor expected = torch::empty({3, 32, 32});
  for (int64_t i = 0; i < 3; ++i) {
    formatter->Write(20 + i, {}, expected.data_ptr<float>());
    EXPECT_TRUE(torch::equal(batch.images[i], expected)) << i;
  }
}

TEST(EvaluationBatches, Count_BatchesDivideTheSamples_NoEmptyOneAtTheEnd) {
  EXPECT_EQ(EvaluationBatches::Create(MakeDataset(20), kShape, 10).value()->count(), 2);
  EXPECT_EQ(EvaluationBatches::Create(MakeDataset(1), kShape, 10).value()->count(), 1);
}

TEST(EvaluationBatches, Create_BatchSizeZero_InvalidArgument) {
  const auto status = EvaluationBatches::Create(MakeDataset(5), kShape, 0).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(), "batch size 0, expected 1 or more");
}

TEST(EvaluationBatches, Create_ImagesTooLarge_FormattersError) {
  const auto status = EvaluationBatches::Create(MakeDataset(5), {3, 8, 8}, 4).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("the model takes 3x8x8"));
}

absl::StatusOr<Batch> OneLabel(Step step, Rank) {
  Batch batch;
  batch.step = step;
  batch.labels = torch::zeros({1}, torch::kInt64);
  return batch;
}

std::unique_ptr<Loader> MakeLoader(Loader::MakeBatch make, const LoaderOptions& options) {
  return Loader::Create(std::move(make), options).value();
}

// Counts calls, and lets a test wait for them.
class Calls {
 public:
  void Add() {
    MutexLock lock(&mutex_);
    ++count_;
    changed_.NotifyAll();
  }
  void WaitFor(int count) {
    MutexLock lock(&mutex_);
    while (count_ < count) changed_.Wait(&mutex_);
  }
  // Whether there are as many within `patience`.
  bool Reaches(int count, absl::Duration patience) {
    const absl::Time deadline = SteadyNow() + patience;
    MutexLock lock(&mutex_);
    while (count_ < count) {
      if (changed_.WaitWithDeadline(&mutex_, deadline)) break;
    }
    return count_ >= count;
  }
  int count() {
    MutexLock lock(&mutex_);
    return count_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST(Loader, Next_AllSteps_InOrderThenOutOfRange) {
  const auto loader = MakeLoader(OneLabel, {Step(5), 6, 2});
  for (uint64_t step = 5; step < 11; ++step) EXPECT_EQ(loader->Next().value().step, Step(step));
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = loader->Next().status();
    EXPECT_TRUE(absl::IsOutOfRange(status));
    EXPECT_EQ(status.message(), "all batches of 6 steps are taken");
  }
}

TEST(Loader, Next_NoSteps_OutOfRange) {
  EXPECT_TRUE(absl::IsOutOfRange(MakeLoader(OneLabel, {Step(0), 0, 1})->Next().status()));
}

TEST(Loader, Next_TrainingBatches_SameAsMadeDirectly) {
  const auto batches = MakeTraining(50, Options(3, 5));
  const auto loader = MakeLoader([&](Step step, Rank rank) { return batches->Make(step, rank); },
                                 {Step(2), 6, 4, {Rank(1)}});
  for (uint64_t step = 2; step < 8; ++step) {
    const Batch expected = batches->Make(Step(step), Rank(1)).value();
    EXPECT_TRUE(torch::equal(loader->Next().value().images, expected.images)) << step;
  }
}

TEST(Loader, Create_NothingTaken_RunsAheadToItsBound) {
  Calls calls;
  const auto make = [&calls](Step step, Rank rank) {
    calls.Add();
    return OneLabel(step, rank);
  };
  const auto loader = MakeLoader(make, {Step(0), 100, 3});
  calls.WaitFor(3);
  ASSERT_TRUE(loader->Next().ok());
  calls.WaitFor(4);  // the place that became free is filled again
  loader->Stop();
  EXPECT_EQ(calls.count(), 4);
}

TEST(Loader, Next_MakeFails_BatchesBeforeThenTheErrorForGood) {
  const auto make = [](Step step, Rank rank) -> absl::StatusOr<Batch> {
    if (step == Step(2)) return absl::DataLossError("a hole");
    return OneLabel(step, rank);
  };
  const auto loader = MakeLoader(make, {Step(0), 9, 4});
  EXPECT_TRUE(loader->Next().ok());
  EXPECT_TRUE(loader->Next().ok());
  EXPECT_EQ(loader->Next().status(), absl::DataLossError("a hole"));
  EXPECT_EQ(loader->Next().status(), absl::DataLossError("a hole"));
}

TEST(Loader, Next_MakeFails_IsNotCalledAgain) {
  Calls calls;
  const auto make = [&calls](Step step, Rank rank) -> absl::StatusOr<Batch> {
    calls.Add();
    if (step == Step(1)) return absl::DataLossError("a hole");
    return OneLabel(step, rank);
  };
  const auto loader = MakeLoader(make, {Step(0), 100, 4});
  EXPECT_TRUE(loader->Next().ok());
  EXPECT_FALSE(loader->Next().ok());
  EXPECT_FALSE(calls.Reaches(3, absl::Milliseconds(100)));
}

TEST(Loader, Next_MakeThrows_Internal) {
  const auto make = [](Step, Rank) -> absl::StatusOr<Batch> { throw std::bad_alloc(); };
  const absl::Status status = MakeLoader(make, {Step(7), 9, 4})->Next().status();
  EXPECT_TRUE(absl::IsInternal(status));
  EXPECT_EQ(status.message(), "making the batch of step 7, rank 0: std::bad_alloc");
}

TEST(Loader, Next_MakeThrowsForALaterRank_StepAndRankAreNamed) {
  const auto make = [](Step step, Rank rank) -> absl::StatusOr<Batch> {
    if (step == Step(8) && rank == Rank(5)) throw std::bad_alloc();
    return OneLabel(step, rank);
  };
  const auto loader = MakeLoader(make, {Step(7), 9, 4, {Rank(2), Rank(5)}});
  for (const uint64_t step : {7, 7, 8}) EXPECT_EQ(loader->Next().value().step, Step(step));
  EXPECT_EQ(loader->Next().status().message(),
            "making the batch of step 8, rank 5: std::bad_alloc");
}

// As with the most epochs that there may be.
TEST(Loader, Next_MoreStepsThanCanBeCounted_BatchesAllTheSame) {
  const auto loader = MakeLoader(OneLabel, {Step(0), INT64_MAX, 2, {Rank(0), Rank(1)}});
  for (const uint64_t step : {0, 0, 1}) {
    const absl::StatusOr<Batch> batch = loader->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_EQ(batch->step, Step(step));
  }
}

TEST(Loader, Stop_BatchesWaiting_NextGivesCancelled) {
  const auto loader = MakeLoader(OneLabel, {Step(0), 100, 3});
  loader->Stop();
  const absl::Status status = loader->Next().status();
  EXPECT_TRUE(absl::IsCancelled(status));
  EXPECT_EQ(status.message(), "the loader was stopped");
}

TEST(Loader, Stop_WhileMaking_WakesNextAtOnce) {
  Calls entered;
  Calls released;
  const auto make = [&](Step step, Rank rank) {
    entered.Add();
    released.WaitFor(1);
    return OneLabel(step, rank);
  };
  const auto loader = MakeLoader(make, {Step(0), 100, 3});
  entered.WaitFor(1);
  std::thread stopper([&] { loader->Stop(); });
  // The batch is still being made: only Stop() can have woken Next().
  EXPECT_TRUE(absl::IsCancelled(loader->Next().status()));
  released.Add();
  stopper.join();
  EXPECT_EQ(entered.count(), 1);
}

TEST(Loader, Stop_Twice_Harmless) {
  const auto loader = MakeLoader(OneLabel, {Step(0), 1, 1});
  loader->Stop();
  loader->Stop();
}

TEST(Loader, Destructor_QueueFull_Returns) {
  Calls calls;
  const auto make = [&calls](Step step, Rank rank) {
    calls.Add();
    return OneLabel(step, rank);
  };
  {
    const auto loader = MakeLoader(make, {Step(0), 100, 2});
    calls.WaitFor(2);
  }
  EXPECT_EQ(calls.count(), 2);
}

TEST(Loader, Next_SeveralRanks_EachRanksBatchOfAStepInOrder) {
  const auto batches = MakeTraining(50, Options(3, 5));
  const auto loader = MakeLoader([&](Step step, Rank rank) { return batches->Make(step, rank); },
                                 {Step(0), 2, 4, {Rank(0), Rank(2)}});
  for (const auto& [step, rank] : {std::pair(0, 0), {0, 2}, {1, 0}, {1, 2}}) {
    const Batch expected = batches->Make(Step(step), Rank(rank)).value();
    EXPECT_TRUE(torch::equal(loader->Next().value().images, expected.images)) << step << rank;
  }
  EXPECT_TRUE(absl::IsOutOfRange(loader->Next().status()));
}

// The second batch is begun before the first one ends.
TEST(Loader, Next_SeveralThreads_InOrderThoughMadeInAnother) {
  Calls second;
  const auto make = [&](Step step, Rank rank) {
    if (step == Step(1)) second.Add();
    if (step == Step(0)) second.WaitFor(1);
    return OneLabel(step, rank);
  };
  const auto loader = MakeLoader(make, {Step(0), 20, 4, {Rank(0)}, 3});
  for (uint64_t step = 0; step < 20; ++step) EXPECT_EQ(loader->Next().value().step, Step(step));
  EXPECT_TRUE(absl::IsOutOfRange(loader->Next().status()));
}

TEST(Loader, Next_TrainingBatchesOnSeveralThreads_SameBits) {
  const auto batches = MakeTraining(50, Options(2, 5));
  const auto loader = MakeLoader([&](Step step, Rank rank) { return batches->Make(step, rank); },
                                 {Step(0), 12, 8, {Rank(0), Rank(1)}, 4});
  const auto expected = MakeTraining(50, Options(2, 5));
  for (int i = 0; i < 24; ++i) {
    const Batch batch = expected->Make(Step(static_cast<uint64_t>(i / 2)), Rank(i % 2)).value();
    EXPECT_TRUE(torch::equal(loader->Next().value().images, batch.images)) << i;
  }
}

// The error of a later batch comes first.
TEST(Loader, Next_MakeFailsOnAnotherThread_BatchesBeforeItComeFirst) {
  Calls failed;
  const auto make = [&](Step step, Rank rank) -> absl::StatusOr<Batch> {
    if (step == Step(1)) {
      failed.Add();
      return absl::DataLossError("a hole");
    }
    failed.WaitFor(1);
    return OneLabel(step, rank);
  };
  const auto loader = MakeLoader(make, {Step(0), 9, 2, {Rank(0)}, 2});
  EXPECT_TRUE(loader->Next().ok());
  EXPECT_EQ(loader->Next().status(), absl::DataLossError("a hole"));
}

TEST(Loader, Create_BadOptions_InvalidArgument) {
  const LoaderOptions no_ranks = {Step(0), 5, 4, {}};
  const LoaderOptions no_threads = {Step(0), 5, 4, {Rank(0)}, 0};
  for (const LoaderOptions& options :
       {LoaderOptions{Step(0), -1, 4}, LoaderOptions{Step(0), 5, 0}, no_ranks, no_threads}) {
    const absl::Status status = Loader::Create(OneLabel, options).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_EQ(status.message(),
              absl::StrCat("loader of ", options.steps, " steps of ", options.ranks.size(),
                           " ranks running ", options.run_ahead, " ahead on ", options.threads,
                           " threads, expected 0 or more, 1 or more, 1 or more, and 1 or more"));
  }
}

}  // namespace
}  // namespace gradwire
