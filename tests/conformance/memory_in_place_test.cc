// Back end memory with terms and means that lie in its own memory, so that nothing is copied.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <vector>

#include "common/base/clock.h"
#include "common/base/host.h"
#include "worker/backends/memory/memory_exchange.h"

namespace gradwire {
namespace {

constexpr size_t kElements = 100003;  // each worker folds a part of it
constexpr int kWorkers = 3;

absl::Span<float> FloatsOf(absl::Span<uint8_t> bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

// Workers with a rank each, in one process. Bucket 0 is small, and bucket 1 has many pages.
class MemoryInPlaceTest : public ::testing::Test {
 protected:
  MemoryInPlaceTest() {
    view_.run_id = MakeRunId();
    view_.generation = Generation(1);
    view_.world_size = kWorkers;
    for (int rank = 0; rank < kWorkers; ++rank) {
      view_.members.push_back({MakeIncarnation(),
                               "127.0.0.1:1",
                               {Rank(rank)},
                               static_cast<uint32_t>(getpid()),
                               MemoryId()});
    }
  }
  void Start(const MemoryWire& wire = {}) {
    for (int rank = 0; rank < kWorkers; ++rank) {
      View view = view_;
      view.self = view.members[rank].incarnation;
      exchanges_.push_back(std::make_unique<MemoryExchange>(view, wire, nullptr, nullptr));
      ASSERT_TRUE(exchanges_.back()->Start().ok());
      exchanges_.back()->AddLayout(LayoutId(0), Buckets());
    }
  }
  static std::vector<BucketSpec> Buckets() {
    return {{12, v1::DTYPE_FLOAT32}, {kElements * sizeof(float), v1::DTYPE_FLOAT32}};
  }
  Exchange::Memory Terms(int rank, int bucket) {
    return exchanges_[rank]->TermsMemory(LayoutId(0), Bucket(bucket), Rank(rank));
  }
  Exchange::Memory Result(int rank, int bucket) {
    return exchanges_[rank]->ResultMemory(LayoutId(0), Bucket(bucket));
  }
  // Expects and contributes a bucket at one worker.
  std::future<absl::Status> Begin(int rank, int step, int bucket, absl::Span<uint8_t> terms,
                                  absl::Span<uint8_t> result) {
    auto ended = std::make_shared<std::promise<absl::Status>>();
    const BucketKey key{LayoutId(0), Step(step), Bucket(bucket)};
    exchanges_[rank]->Expect(key, result, SteadyNow() + absl::Minutes(1),
                             [ended](const absl::Status& status) { ended->set_value(status); });
    exchanges_[rank]->Contribute(key, Rank(rank), terms);
    return ended->get_future();
  }
  // A step of both buckets at all workers, with tensors in shared memory where `in_place`.
  void RunStep(int step, const std::vector<bool>& in_place) {
    std::vector<std::future<absl::Status>> ended;
    for (int bucket : {0, 1}) {
      for (int rank = 0; rank < kWorkers; ++rank) {
        absl::Span<uint8_t> terms = Terms(rank, bucket).bytes, result = Result(rank, bucket).bytes;
        auto& own = own_[rank][bucket];
        own.resize(2 * terms.size());
        if (!in_place[rank]) terms = absl::MakeSpan(own).first(terms.size());
        if (!in_place[rank]) result = absl::MakeSpan(own).last(result.size());
        results_[rank][bucket] = FloatsOf(result);
        float value = static_cast<float>(rank * 3 + step);
        for (float& term : FloatsOf(terms)) term = value += 0.25f;
        ended.push_back(Begin(rank, step, bucket, terms, result));
      }
    }
    for (auto& end : ended) EXPECT_EQ(end.get(), absl::OkStatus());
  }
  // The last value of bucket 1 in step 0.
  static float LastMean() { return 3 + 0.25f * kElements; }
  void CheckResults(int step) {
    for (int bucket : {0, 1}) {
      for (int rank = 0; rank < kWorkers; ++rank) {
        float value = static_cast<float>(3 + step);  // of the rank in the middle
        size_t wrong = 0;
        for (const float mean : results_[rank][bucket]) wrong += mean == (value += 0.25f) ? 0 : 1;
        EXPECT_EQ(wrong, 0u) << "rank " << rank << ", bucket " << bucket << ", step " << step;
      }
    }
  }

  View view_;
  std::vector<std::unique_ptr<MemoryExchange>> exchanges_;
  std::vector<uint8_t> own_[kWorkers][2];
  absl::Span<float> results_[kWorkers][2];
};

TEST_F(MemoryInPlaceTest, Average_AllInPlace_TheMeansWhereTheyWereFolded) {
  Start();
  for (int step = 0; step < 4; ++step) {
    RunStep(step, {true, true, true});
    CheckResults(step);
  }
}

// Each worker decides for itself, and a worker that copies has memory of its own in between.
TEST_F(MemoryInPlaceTest, Average_SomeInPlace_TheSameMeansForAll) {
  Start();
  RunStep(0, {true, false, true});
  CheckResults(0);
  RunStep(1, {false, true, false});
  CheckResults(1);
}

// The others' memory was mapped before the means were asked for in one piece.
TEST_F(MemoryInPlaceTest, ResultMemory_AskedForLate_HasTheMeansOfTheNextStep) {
  Start();
  for (int bucket : {0, 1}) {
    std::vector<std::future<absl::Status>> ended;
    std::vector<std::vector<uint8_t>> data(kWorkers, std::vector<uint8_t>(Buckets()[bucket].bytes));
    std::vector<std::vector<uint8_t>> results = data;
    for (int rank = 0; rank < kWorkers; ++rank) {
      ended.push_back(
          Begin(rank, 0, bucket, absl::MakeSpan(data[rank]), absl::MakeSpan(results[rank])));
    }
    for (auto& end : ended) EXPECT_EQ(end.get(), absl::OkStatus());
  }
  RunStep(1, {true, true, true});
  CheckResults(1);
}

// So that a caller's mistake ends the caller, in place of changing the means of one rank.
TEST_F(MemoryInPlaceTest, ResultMemory_OfOthers_CannotBeMadeWritable) {
  Start();
  RunStep(0, {true, true, true});
  // Worker 2 folds the end of the bucket.
  const uint8_t* const end = Result(0, 1).bytes.end();
  const auto page = reinterpret_cast<uintptr_t>(end) / PageBytes() * PageBytes();
  EXPECT_NE(mprotect(reinterpret_cast<void*>(page), PageBytes(), PROT_READ | PROT_WRITE), 0);
}

TEST_F(MemoryInPlaceTest, Memory_KeptLongerThanTheExchange_KeepsItsValues) {
  Start();
  RunStep(0, {true, true, true});
  const Exchange::Memory terms = Terms(1, 1);
  std::vector<Exchange::Memory> means;
  for (int rank = 0; rank < kWorkers; ++rank) means.push_back(Result(rank, 1));
  exchanges_.clear();
  EXPECT_EQ(FloatsOf(terms.bytes)[0], 3.25f);
  for (const Exchange::Memory& mean : means)
    EXPECT_EQ(FloatsOf(mean.bytes)[kElements - 1], LastMean());
}

// A worker that was stopped and lost writes to the memory of its view; the next has other memory.
TEST_F(MemoryInPlaceTest, Memory_OfTheNextView_IsAnother) {
  Start();
  RunStep(0, {true, true, true});
  const Exchange::Memory old_terms = Terms(0, 1), old_mean = Result(1, 1);
  exchanges_.clear();
  view_.generation = Generation(2);
  Start();
  RunStep(0, {true, true, true});
  for (float& term : FloatsOf(old_terms.bytes)) term = 1e9f;
  RunStep(1, {true, true, true});
  CheckResults(1);
  EXPECT_EQ(FloatsOf(old_mean.bytes)[0], 3.25f);
}

TEST_F(MemoryInPlaceTest, Memory_OfRoundedValues_IsOfferedOnlyForWhatIsNotRounded) {
  Start({v1::DTYPE_BFLOAT16, /*by_hops=*/true});
  EXPECT_FALSE(Terms(0, 1).bytes.empty());
  EXPECT_TRUE(Result(0, 1).bytes.empty());
  exchanges_.clear();
  view_.generation = Generation(2);
  Start({v1::DTYPE_BFLOAT16, /*by_hops=*/false});
  EXPECT_TRUE(Terms(0, 1).bytes.empty());
  EXPECT_TRUE(Result(0, 1).bytes.empty());
}

TEST_F(MemoryInPlaceTest, Memory_OfALayoutBeyondALimit_IsNotOffered) {
  view_.members[1].limits.file = 100;
  Start();
  EXPECT_TRUE(Terms(0, 1).bytes.empty());
  EXPECT_TRUE(Result(0, 1).bytes.empty());
}

}  // namespace
}  // namespace gradwire
