// A run that ends while many buckets are under way, on every back end: each bucket is told of once,
// with its mean or with the reason.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "tests/cluster/backend_cluster.h"
#include "worker/options/traits.h"

namespace gradwire {
namespace {

constexpr int kRanks = 3;
constexpr int kBuckets = 24;
constexpr uint64_t kBytes = 4 * 20'000;
const absl::Status kLost = absl::AbortedError("rank 1 was lost in step 0");

class LossTest : public ::testing::TestWithParam<std::string> {
 protected:
  LossTest() : cluster_(GetParam(), kRanks, Specs()) {
    for (int rank = 0; rank < kRanks; ++rank) {
      terms_.emplace_back(kBytes / 4, static_cast<float>(rank));
      results_.emplace_back(kBuckets, std::vector<float>(kBytes / 4, -1));
      ends_.emplace_back(kBuckets);
    }
  }

  static std::vector<BucketSpec> Specs() {
    return std::vector<BucketSpec>(kBuckets, {kBytes, v1::DTYPE_FLOAT32});
  }
  static absl::Span<uint8_t> BytesOf(std::vector<float>& values) {
    return {reinterpret_cast<uint8_t*>(values.data()), kBytes};
  }

  // `rank` expects every bucket, and contributes those below `handed_in`.
  void Contribute(int rank, int handed_in, absl::Duration timeout = absl::Seconds(120)) {
    for (int bucket = 0; bucket < kBuckets; ++bucket) {
      const BucketKey key{LayoutId(0), step_, Bucket(bucket)};
      Exchange& exchange = cluster_.exchange(rank);
      exchange.Expect(
          key, BytesOf(results_[rank][bucket]), SteadyNow() + timeout,
          [this, rank, bucket](const absl::Status& status) { End(rank, bucket, status); });
      if (bucket < handed_in) exchange.Contribute(key, Rank(rank), BytesOf(terms_[rank]));
    }
  }
  void End(int rank, int bucket, const absl::Status& status) {
    MutexLock lock(&mutex_);
    ends_[rank][bucket].push_back(status);
    ++ended_;
    changed_.NotifyAll();
  }
  // False if not so many came within a minute.
  bool WaitForEnds(int count) {
    MutexLock lock(&mutex_);
    const absl::Time deadline = SteadyNow() + absl::Minutes(1);
    while (ended_ < count && !changed_.WaitWithDeadline(&mutex_, deadline)) {
    }
    return ended_ >= count;
  }
  // A whole step, so that all connections exist, on a busy machine too.
  void RunFirstStep() {
    for (int rank = 0; rank < kRanks; ++rank) Contribute(rank, kBuckets);
    ASSERT_TRUE(WaitForEnds(kRanks * kBuckets));
    step_ = Step(1);
    MutexLock lock(&mutex_);
    ended_ = 0;
  }
  void CancelAll() {
    for (int rank = 0; rank < kRanks; ++rank) cluster_.exchange(rank).Cancel(kLost);
  }
  // Each bucket ended once, well with its mean, or with the reason; of those from `first` on, none
  // ended well.
  void ExpectEnds(int first) {
    MutexLock lock(&mutex_);
    for (int rank = 0; rank < kRanks; ++rank) {
      for (int bucket = 0; bucket < kBuckets; ++bucket) {
        const std::vector<absl::Status>& ends = ends_[rank][bucket];
        ASSERT_EQ(ends.size(), 1u) << "rank " << rank << ", bucket " << bucket;
        if (!ends[0].ok()) {
          // The others may see first that rank 0's streams are gone.
          EXPECT_TRUE(rank != 0 || ends[0] == kLost) << ends[0];
          continue;
        }
        EXPECT_LT(bucket, first);
        EXPECT_EQ(results_[rank][bucket], std::vector<float>(kBytes / 4, 1)) << "bucket " << bucket;
      }
    }
  }

  // Longer than the cluster, which may write to them.
  std::vector<std::vector<float>> terms_;                 // by rank
  std::vector<std::vector<std::vector<float>>> results_;  // by rank and bucket
  Step step_ = Step(0);
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::vector<std::vector<absl::Status>>> ends_ ABSL_GUARDED_BY(mutex_);
  int ended_ ABSL_GUARDED_BY(mutex_) = 0;
  BackendCluster cluster_;
};

TEST_P(LossTest, Cancel_OneRankHandedInHalf_EachBucketEndsOnce) {
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([this, rank] { Contribute(rank, rank == 1 ? kBuckets / 2 : kBuckets); });
  }
  for (std::thread& rank : ranks) rank.join();
  ASSERT_TRUE(WaitForEnds(1)) << "not a bucket came through";
  CancelAll();
  ASSERT_TRUE(WaitForEnds(kRanks * kBuckets));
  ExpectEnds(kBuckets / 2);
}

TEST_P(LossTest, Cancel_WhileAllAreHandingIn_EachBucketEndsOnce) {
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([this, rank] { Contribute(rank, kBuckets); });
  }
  CancelAll();
  for (std::thread& rank : ranks) rank.join();
  ASSERT_TRUE(WaitForEnds(kRanks * kBuckets));
  ExpectEnds(kBuckets);
}

TEST_P(LossTest, Finish_AfterCancel_IsTheReasonAtOnce) {
  Contribute(0, kBuckets);
  cluster_.exchange(0).Cancel(kLost);
  ASSERT_TRUE(WaitForEnds(kBuckets));
  EXPECT_EQ(cluster_.exchange(0).Finish(SteadyNow() + absl::Minutes(1)), kLost);
}

// The rank that contributes nothing is a neighbour of rank 1 in every topology.
TEST_P(LossTest, Deadline_OneRankHandsInNothing_ItsWorkerIsTheSuspect) {
  RunFirstStep();
  Contribute(2, kBuckets);
  Contribute(1, kBuckets, absl::Seconds(1));  // in which what rank 2 sends arrives
  ASSERT_TRUE(WaitForEnds(kBuckets));
  const absl::optional<Suspect> suspect = cluster_.exchange(1).suspect();
  CancelAll();
  ASSERT_TRUE(WaitForEnds(2 * kBuckets));
  ASSERT_TRUE(suspect.has_value());
  EXPECT_EQ(suspect->worker, cluster_.ViewOf(1).Carrier(Rank(0)).incarnation);
  EXPECT_TRUE(absl::IsDeadlineExceeded(suspect->failure)) << suspect->failure;
  EXPECT_EQ(suspect->others, std::vector<Incarnation>());
}

TEST_P(LossTest, Deadline_ItHandsInNothingItself_ItIsNoSuspect) {
  RunFirstStep();
  Contribute(0, kBuckets);
  Contribute(2, kBuckets);
  Contribute(1, 0, absl::Seconds(1));
  ASSERT_TRUE(WaitForEnds(kBuckets));
  const absl::optional<Suspect> suspect = cluster_.exchange(1).suspect();
  if (suspect.has_value()) {
    const Incarnation self = cluster_.ViewOf(1).self;
    EXPECT_NE(suspect->worker, self);
    EXPECT_THAT(suspect->others, ::testing::Not(::testing::Contains(self)));
  }
  CancelAll();
  ASSERT_TRUE(WaitForEnds(kRanks * kBuckets));
}

// Whether a back end waits for the others there is its own matter.
TEST_P(LossTest, Cancel_WhileFinishMayWaitForTheOthers_EndsIt) {
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([this, rank] { Contribute(rank, kBuckets); });
  }
  for (std::thread& rank : ranks) rank.join();
  ASSERT_TRUE(WaitForEnds(kRanks * kBuckets));
  auto finished = std::async(std::launch::async, [this] {
    return cluster_.exchange(0).Finish(SteadyNow() + absl::Minutes(5));
  });
  (void)finished.wait_for(std::chrono::milliseconds(50));
  cluster_.exchange(0).Cancel(kLost);
  ASSERT_EQ(finished.wait_for(std::chrono::minutes(1)), std::future_status::ready);
  const absl::Status status = finished.get();
  EXPECT_TRUE(status.ok() || status == kLost) << status;
}

TEST(FinishTest, Finish_OthersDoNotFinish_DeadlineEndsItAndSaysWhatIsOpen) {
  const std::pair<const char*, const char*> backends[] = {
      {"ring", "the streams did not close: neighbors are still busy"},
      {"tree", "the streams did not close: neighbors are still busy"},
      {"sharded", "other workers are still busy with the last step"}};
  for (const auto& [backend, open] : backends) {
    BackendCluster cluster(backend, 2, {{kBytes, v1::DTYPE_FLOAT32}});
    std::vector<std::vector<std::string>> data(2, {std::string(kBytes, '\0')});
    for (const absl::Status& status : cluster.RunStep(0, &data)) EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(cluster.exchange(0).Finish(SteadyNow() + absl::Milliseconds(50)),
              absl::DeadlineExceededError(open))
        << backend;
  }
}

// A worker with ranks 0 and 1, beside one with rank 2.
using CarriersLossTest = ::testing::TestWithParam<const char*>;

TEST_P(CarriersLossTest, Deadline_OneOfItsRanksHandsInNothing_ItIsNoSuspect) {
  const std::vector<uint8_t> terms(kBytes);
  std::vector<std::vector<uint8_t>> results(2, std::vector<uint8_t>(kBytes));
  std::vector<std::promise<absl::Status>> ends(2);
  BackendCluster cluster(GetParam(), Deal{{0, 1}, {2}}, {{kBytes, v1::DTYPE_FLOAT32}}, {});
  const BucketKey key{LayoutId(0), Step(0), Bucket(0)};
  for (const int worker : {0, 1}) {
    const absl::Duration timeout = worker == 0 ? absl::Seconds(1) : absl::Minutes(1);
    cluster.exchange(worker).Expect(
        key, absl::MakeSpan(results[worker]), SteadyNow() + timeout,
        [&end = ends[worker]](const absl::Status& status) { end.set_value(status); });
    cluster.exchange(worker).Contribute(key, Rank(worker + 1), terms);
  }
  const absl::Status late = ends[0].get_future().get();
  const absl::optional<Suspect> suspect = cluster.exchange(0).suspect();
  for (const int worker : {0, 1}) cluster.exchange(worker).Cancel(kLost);
  EXPECT_FALSE(ends[1].get_future().get().ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  EXPECT_THAT(std::string(late.message()), ::testing::Not(::testing::HasSubstr("neighbor rank 0")));
  if (!suspect.has_value()) return;
  const Incarnation self = cluster.ViewOf(0).self;
  EXPECT_NE(suspect->worker, self);
  EXPECT_THAT(suspect->others, ::testing::Not(::testing::Contains(self)));
}

// Where it is known whose terms are missing, not only from which neighbor nothing comes.
using AbsentRanksTest = ::testing::TestWithParam<const char*>;

TEST_P(AbsentRanksTest, Deadline_TwoRanksHandInNothing_BothWorkersAreSuspects) {
  const std::vector<uint8_t> terms(kBytes);
  std::vector<uint8_t> result(kBytes);
  std::promise<absl::Status> end;
  BackendCluster cluster(GetParam(), kRanks, {{kBytes, v1::DTYPE_FLOAT32}});
  const BucketKey key{LayoutId(0), Step(0), Bucket(0)};
  cluster.exchange(1).Expect(key, absl::MakeSpan(result), SteadyNow() + absl::Milliseconds(100),
                             [&end](const absl::Status& status) { end.set_value(status); });
  cluster.exchange(1).Contribute(key, Rank(1), terms);
  const absl::Status late = end.get_future().get();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  const absl::optional<Suspect> suspect = cluster.exchange(1).suspect();
  ASSERT_TRUE(suspect.has_value());
  std::vector<Incarnation> suspects = suspect->others;
  suspects.push_back(suspect->worker);
  const View view = cluster.ViewOf(1);
  EXPECT_THAT(suspects, ::testing::UnorderedElementsAre(view.Carrier(Rank(0)).incarnation,
                                                        view.Carrier(Rank(2)).incarnation));
}

INSTANTIATE_TEST_SUITE_P(Backends, AbsentRanksTest,
                         ::testing::Values("coordinator", "sharded", "memory"),
                         [](const auto& info) { return std::string(info.param); });

// Ranks 1 and 2 send their terms to rank 0.
TEST(TreeLossTest, Deadline_TwoNeighboursHandInNothing_BothAreNamedAndSuspects) {
  const std::vector<uint8_t> terms(kBytes);
  std::vector<uint8_t> result(kBytes);
  std::promise<absl::Status> end;
  BackendCluster cluster("tree", kRanks, {{kBytes, v1::DTYPE_FLOAT32}});
  const BucketKey key{LayoutId(0), Step(0), Bucket(0)};
  cluster.exchange(0).Expect(key, absl::MakeSpan(result), SteadyNow() + absl::Milliseconds(100),
                             [&end](const absl::Status& status) { end.set_value(status); });
  cluster.exchange(0).Contribute(key, Rank(0), terms);
  const absl::Status late = end.get_future().get();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  for (const char* named : {"80000 bytes of neighbor rank 1", "80000 bytes of neighbor rank 2"}) {
    EXPECT_THAT(std::string(late.message()), ::testing::HasSubstr(named));
  }
  const absl::optional<Suspect> suspect = cluster.exchange(0).suspect();
  ASSERT_TRUE(suspect.has_value());
  std::vector<Incarnation> suspects = suspect->others;
  suspects.push_back(suspect->worker);
  const View view = cluster.ViewOf(0);
  EXPECT_THAT(suspects, ::testing::UnorderedElementsAre(view.Carrier(Rank(1)).incarnation,
                                                        view.Carrier(Rank(2)).incarnation));
}

std::vector<const char*> BackendsOfSeveralRanks() {
  std::vector<const char*> backends;
#define GRADWIRE_BACKEND(name, ...) \
  if (TraitsOfBackend(name).several_ranks) backends.push_back(name);
#include "worker/options/backends.inc"
#undef GRADWIRE_BACKEND
  return backends;
}

INSTANTIATE_TEST_SUITE_P(Backends, CarriersLossTest, ::testing::ValuesIn(BackendsOfSeveralRanks()),
                         [](const auto& info) { return std::string(info.param); });

INSTANTIATE_TEST_SUITE_P(Backends, LossTest, ::testing::ValuesIn(BackendsOfOneProcess()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace gradwire
