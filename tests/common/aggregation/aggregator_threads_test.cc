// An aggregator as its callers use it: ranks that add, workers that read, and an abort, all at the
// same time, each on a thread of its own.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/aggregation/aggregator.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "tests/common/aggregation/test_terms.h"

namespace gradwire::aggregator_threads_test {
namespace {

constexpr uint64_t kChunkBytes = 256;
constexpr int kRanks = 3;
constexpr uint64_t kSteps = 100;
const absl::Status kLost = absl::AbortedError("rank 1 was lost in step 7");

// How far the readers are, which the ranks wait for as workers do: one sends terms only of steps
// that it has all results of.
class Turnstile {
 public:
  void Pass(uint64_t step) {
    MutexLock lock(&mutex_);
    while (through_ < step && !open_) changed_.Wait(&mutex_);
  }
  void Arrive() {
    MutexLock lock(&mutex_);
    if (++arrived_ % kRanks == 0) ++through_;
    changed_.NotifyAll();
  }
  void Open() {
    MutexLock lock(&mutex_);
    open_ = true;
    changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  uint64_t arrived_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t through_ ABSL_GUARDED_BY(mutex_) = 0;  // steps that all readers have
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
};

class AggregatorThreadsTest : public ::testing::Test {
 protected:
  AggregatorThreadsTest()
      : terms_({{4 * 150, v1::DTYPE_FLOAT32}, {33, v1::DTYPE_BYTES}}, kChunkBytes),
        aggregator_(terms_.view, Shard(),
                    {[this](LayoutId, Step, const Waits&) { ++steps_over_; }, nullptr}) {
    aggregator_.AddLayout(LayoutId(0), terms_.buckets);
  }
  ~AggregatorThreadsTest() override { Join(); }

  // All terms of a rank, step by step; ends with the first error.
  void AddSteps(int rank, uint64_t steps) {
    for (uint64_t step = 0; step < steps; ++step) {
      readers_.Pass(step);
      for (Chunk& chunk : terms_.StepOf(step, {rank})) {
        const absl::StatusOr<Verdict> verdict = aggregator_.Add(std::move(chunk));
        if (!verdict.ok()) return Note(verdict.status());
        EXPECT_EQ(*verdict, Verdict::kAccept);
      }
    }
  }
  // All results of `steps`; ends with the first error.
  void ReadSteps(uint64_t steps) {
    MeanCursor cursor;
    for (uint64_t step = 0; step < steps; ++step) {
      std::map<int, std::string> results = {{0, std::string(4 * 150, '\0')},
                                            {1, std::string(33, '\0')}};
      for (size_t bytes = 0; bytes < 4 * 150 + 33;) {
        const absl::StatusOr<Mean> mean =
            aggregator_.Next(&cursor, SteadyNow() + absl::Seconds(60));
        if (!mean.ok()) return Note(mean.status());
        EXPECT_EQ(mean->header.step, Step(step));
        std::copy_n(mean->chunk->data.get(), mean->chunk->bytes,
                    results[mean->header.bucket.value()].begin() + mean->header.offset);
        bytes += mean->chunk->bytes;
      }
      for (const auto& [bucket, bytes] : results)
        EXPECT_TRUE(bytes == terms_.Result(bucket)) << step;
      readers_.Arrive();
    }
  }
  void Start(uint64_t steps) {
    for (int rank = 0; rank < kRanks; ++rank) {
      threads_.emplace_back([this, rank, steps] { AddSteps(rank, steps); });
      threads_.emplace_back([this, steps] { ReadSteps(steps); });
    }
  }
  void Join() {
    for (std::thread& thread : std::exchange(threads_, {})) thread.join();
  }
  void Note(const absl::Status& status) {
    {
      MutexLock lock(&mutex_);
      errors_.push_back(status);
    }
    readers_.Open();
  }
  std::vector<absl::Status> errors() {
    MutexLock lock(&mutex_);
    return errors_;
  }

  const TestTerms terms_;
  std::atomic<uint64_t> steps_over_{0};
  Aggregator aggregator_;
  Turnstile readers_;
  Mutex mutex_;
  std::vector<absl::Status> errors_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

TEST_F(AggregatorThreadsTest, AddAndNext_AllAtOnce_EveryReaderHasEveryStepsFold) {
  Start(kSteps);
  Join();
  EXPECT_TRUE(errors().empty()) << errors().front();
  EXPECT_EQ(steps_over_, kSteps);
  EXPECT_LE(aggregator_.held_bytes(), 4u * 150 + 33) << "of one step's results";
}

TEST_F(AggregatorThreadsTest, Abort_WhileAllAddAndRead_EveryThreadEndsWithTheReason) {
  Start(1'000'000'000);  // without the abort they would go on for hours
  while (steps_over_ < 7) std::this_thread::yield();
  aggregator_.Abort(kLost);
  readers_.Open();
  Join();
  EXPECT_EQ(errors(), std::vector<absl::Status>(2 * kRanks, kLost));
}

TEST_F(AggregatorThreadsTest, Abort_FromSeveralThreads_OneReasonForAll) {
  Start(1'000'000'000);
  while (steps_over_ < 3) std::this_thread::yield();
  std::vector<std::thread> aborting;
  for (int i = 0; i < 3; ++i) {
    aborting.emplace_back([this, i] { aggregator_.Abort(absl::AbortedError(std::to_string(i))); });
  }
  for (std::thread& thread : aborting) thread.join();
  readers_.Open();
  Join();
  const std::vector<absl::Status> ends = errors();
  EXPECT_EQ(ends, std::vector<absl::Status>(2 * kRanks, ends.at(0)));
}

TEST_F(AggregatorThreadsTest, AddLayout_WhileItsChunksWait_AllAreTaken) {
  std::atomic<int> accepted{0};
  for (int rank = 0; rank < kRanks; ++rank) {
    threads_.emplace_back([this, rank, &accepted] {
      const auto verdict = aggregator_.Add(InLayout(1, terms_.MakeChunk(0, rank, 0, 0)));
      if (verdict.ok() && *verdict == Verdict::kAccept) ++accepted;
    });
  }
  aggregator_.AddLayout(LayoutId(1), terms_.buckets);
  Join();
  EXPECT_EQ(accepted, kRanks);
  MeanCursor cursor;
  EXPECT_EQ(aggregator_.Next(&cursor, SteadyNow() + absl::Seconds(10))->header.layout, LayoutId(1));
}

}  // namespace
}  // namespace gradwire::aggregator_threads_test
