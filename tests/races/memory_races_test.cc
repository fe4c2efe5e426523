// The real code by which workers share memory, under ThreadSanitizer: rings, folds, terms and means
// of several groups at once. It has SharedMemory of its own (one_process_memory.cc) and no gRPC.
#include <gtest/gtest.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "worker/backends/memory/memory_exchange.h"

namespace gradwire {
namespace {

constexpr int kThreads = 8;
constexpr int kGroups = 16;
constexpr int kWorkers = 4;  // of a group
constexpr int kSteps = 12;
// One worker folds all of the first bucket; each folds a part of the second.
const std::vector<BucketSpec>& Buckets() {
  static const auto* const buckets = new std::vector<BucketSpec>{
      {1000 * sizeof(float), v1::DTYPE_FLOAT32}, {20000 * sizeof(float), v1::DTYPE_FLOAT32}};
  return *buckets;
}

absl::Span<float> FloatsOf(absl::Span<uint8_t> bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

View ViewOf(int group) {
  View view;
  view.run_id = MakeRunId();
  view.generation = Generation(1);
  view.world_size = kWorkers;
  for (int rank = 0; rank < kWorkers; ++rank) {
    view.members.push_back(
        {Incarnation(1 + group * kWorkers + rank), "127.0.0.1:1", {Rank(rank)}, 1, "here"});
  }
  return view;
}

// A rank of a group. One thread calls it.
class Worker {
 public:
  // `joins`: reads means where they are folded, if they are in one piece there.
  Worker(View view, int rank, bool joins) : rank_(rank), joins_(joins) {
    view.self = view.members[rank].incarnation;
    exchange_ = std::make_unique<MemoryExchange>(view, MemoryWire(), nullptr, nullptr);
    EXPECT_TRUE(exchange_->Start().ok());
    for (int layout = 0; layout < 2; ++layout) {
      exchange_->AddLayout(LayoutId(layout), {Buckets()[layout]});
      own_[layout].resize(Buckets()[layout].bytes);
    }
  }

  // Begins a step with terms in shared memory.
  void Begin(int step) {
    for (int layout = 0; layout < 2; ++layout) {
      const auto terms = exchange_->TermsMemory(LayoutId(layout), Bucket(0), Rank(rank_)).bytes;
      for (float& term : FloatsOf(terms)) term = static_cast<float>(step * 8 + rank_);
      result_[layout] = absl::MakeSpan(own_[layout]);
      // The others' memory is mapped after the first step.
      if (layout == 0 && joins_ && step > 0) {
        result_[layout] = exchange_->ResultMemory(LayoutId(layout), Bucket(0)).bytes;
      }
      const BucketKey key{LayoutId(layout), Step(step), Bucket(0)};
      auto ended = std::make_shared<std::promise<absl::Status>>();
      ended_[layout] = ended->get_future();
      exchange_->Expect(key, result_[layout], SteadyNow() + absl::Minutes(5),
                        [ended](const absl::Status& status) { ended->set_value(status); });
      exchange_->Contribute(key, Rank(rank_), terms);
    }
  }
  // Waits for it, and reads the means.
  void End(int step) {
    for (int layout = 0; layout < 2; ++layout) {
      ASSERT_EQ(ended_[layout].get(), absl::OkStatus());
      size_t wrong = 0;
      for (const float mean : FloatsOf(result_[layout])) wrong += mean == step * 8 + 1.5f ? 0 : 1;
      EXPECT_EQ(wrong, 0u) << "layout " << layout << ", step " << step;
    }
  }

 private:
  const int rank_;
  const bool joins_;
  std::vector<uint8_t> own_[2];
  absl::Span<uint8_t> result_[2];
  std::future<absl::Status> ended_[2];
  std::unique_ptr<MemoryExchange> exchange_;  // ends first, because its threads use the rest
};

// Thread t is a rank of half of the groups, as in a program with many process groups.
TEST(MemoryRaces, SixteenGroupsOnEightThreads_AllMeansRight) {
  std::vector<View> views;
  for (int group = 0; group < kGroups; ++group) views.push_back(ViewOf(group));
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&views, thread] {
      std::vector<std::unique_ptr<Worker>> workers;
      for (int group = 0; group < kGroups; ++group) {
        if (group % 2 != thread % 2) continue;
        workers.push_back(std::make_unique<Worker>(views[group], thread / 2, group % 4 < 2));
      }
      for (int step = 0; step < kSteps; ++step) {
        for (const auto& worker : workers) worker->Begin(step);
        for (const auto& worker : workers) worker->End(step);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace gradwire
