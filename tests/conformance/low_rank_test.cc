// Gradients as products: every back end gives the bits of the fold of their factors, whoever
// carries the ranks; those that are near the fold give near ones, the same on all ranks.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/fold/fold.h"
#include "tests/cluster/backend_cluster.h"
#include "tests/support/random_floats.h"
#include "worker/backends/low_rank_exchange.h"
#include "worker/options/choices.h"
#include "worker/options/traits.h"

namespace gradwire::low_rank_test {
namespace {

constexpr int kSteps = 4;
constexpr uint64_t kWholeSteps = 1;

using Floats = std::vector<float>;
using Data = std::vector<std::vector<Floats>>;  // by rank, by bucket

// A bucket of matrices and others, one of no matrix, one of a matrix alone; then bytes.
const std::vector<std::vector<std::vector<int64_t>>>& Shapes() {
  static const auto* const shapes = new std::vector<std::vector<std::vector<int64_t>>>{
      {{10}, {61, 7, 3, 3}, {2500, 60}}, {{13}}, {{128, 257}}};
  return *shapes;
}

LowRankPlan Plan() { return LowRankPlan(Shapes(), {{332, v1::DTYPE_BYTES}}, 2); }

std::vector<BucketSpec> WholeSpecs() {
  std::vector<BucketSpec> specs;
  const LowRankPlan plan = Plan();
  for (const LowRankLayout& bucket : plan.buckets()) {
    specs.push_back({bucket.size * sizeof(float), v1::DTYPE_FLOAT32});
  }
  specs.push_back({332, v1::DTYPE_BYTES});
  return specs;
}

Floats TermOf(uint64_t step, int rank, size_t bucket) {
  return testing::RandomFloats(WholeSpecs()[bucket].bytes / sizeof(float),
                               static_cast<uint32_t>(10000 * step + 100 * rank + bucket));
}

absl::Span<uint8_t> BytesOf(Floats* values) {
  return {reinterpret_cast<uint8_t*>(values->data()), values->size() * sizeof(float)};
}

// What docs/algorithms.md says, with all ranks in one place.
class Definition {
 public:
  explicit Definition(int world_size)
      : plan_(Plan()), blocks_(plan_.specs(), world_size), whole_(WholeSpecs(), world_size) {
    for (size_t b = 0; b < plan_.buckets().size(); ++b) {
      buckets_.emplace_back(&plan_.buckets()[b], Bucket(static_cast<int>(b)), world_size);
    }
  }

  Floats MeanOf(uint64_t step, size_t b, const std::vector<Floats>& terms) {
    if (b == buckets_.size()) return terms[0];
    Floats mean(terms[0].size());
    if (step < kWholeSteps) {
      FoldAll({terms.begin(), terms.end()}, whole_, Bucket(static_cast<int>(b)), BytesOf(&mean));
      return mean;
    }
    LowRankBucket& bucket = buckets_[b];
    for (size_t rank = 0; rank < terms.size(); ++rank) bucket.Project(rank, terms[rank]);
    Average(&LowRankBucket::left, terms.size(), plan_.place(b), bucket.left_mean(), bucket);
    bucket.ProjectBack();
    Bucket right = plan_.place(b);
    ++right;
    Average(&LowRankBucket::right, terms.size(), right, bucket.right_mean(), bucket);
    bucket.Reconstruct(absl::MakeSpan(mean));
    bucket.Renew(Step(step));
    return mean;
  }

 private:
  void Average(absl::Span<const float> (LowRankBucket::*of)(size_t) const, size_t ranks,
               Bucket place, absl::Span<float> mean, const LowRankBucket& bucket) {
    if (mean.empty()) return;
    std::vector<absl::Span<const float>> terms;
    for (size_t rank = 0; rank < ranks; ++rank) terms.push_back((bucket.*of)(rank));
    FoldAll(terms, blocks_, place,
            {reinterpret_cast<uint8_t*>(mean.data()), mean.size() * sizeof(float)});
  }

  static void FoldAll(const std::vector<absl::Span<const float>>& terms, const FoldBlocks& blocks,
                      Bucket bucket, absl::Span<uint8_t> mean) {
    std::vector<ByteSpans> pieces;
    for (const absl::Span<const float> term : terms) {
      pieces.push_back({{reinterpret_cast<const uint8_t*>(term.data()), mean.size()}});
    }
    Fold(pieces, v1::DTYPE_FLOAT32, blocks.Cut(bucket, 0, mean.size()), mean);
  }

  const LowRankPlan plan_;
  const FoldBlocks blocks_, whole_;
  std::vector<LowRankBucket> buckets_;
};

struct Case {
  std::string backend;
  Deal deal;

  int world_size() const {
    size_t ranks = 0;
    for (const auto& worker : deal) ranks += worker.size();
    return static_cast<int>(ranks);
  }
};

// One step of a worker; what came is in `results`, by bucket.
absl::Status RunStep(Exchange& exchange, const std::vector<int>& ranks, uint64_t step, Data& data,
                     std::vector<Floats>* results) {
  BlockingCounter countdown(results->size());
  for (const int rank : ranks) {
    for (size_t b = 0; b < results->size(); ++b) {
      const BucketKey key{LayoutId(0), Step(step), Bucket(static_cast<int>(b))};
      if (rank == ranks[0]) {
        exchange.Expect(key, BytesOf(&(*results)[b]), SteadyNow() + absl::Seconds(60),
                        [&](const absl::Status& status) { countdown.Done(status); });
      }
      const bool is_bytes = b == results->size() - 1;
      if (!is_bytes || rank == 0) exchange.Contribute(key, Rank(rank), BytesOf(&data[rank][b]));
    }
  }
  return countdown.Wait();
}

class LowRankTest : public ::testing::TestWithParam<Case> {
 protected:
  LowRankTest()
      : cluster_(GetParam().backend, GetParam().deal, Plan().specs(), {}),
        definition_(GetParam().world_size()) {
    cluster_.AddLayout(LayoutId(1), WholeSpecs());
    for (size_t worker = 0; worker < GetParam().deal.size(); ++worker) {
      const std::vector<int>& ranks = GetParam().deal[worker];
      exchanges_.push_back(
          std::make_unique<LowRankExchange>(&cluster_.exchange(static_cast<int>(worker)), Plan(),
                                            LowRankLayouts{LayoutId(0), LayoutId(1), kWholeSteps},
                                            std::vector<Rank>(ranks.begin(), ranks.end())));
    }
  }

  // What each worker got.
  std::vector<std::vector<Floats>> RunStepOnAll(uint64_t step, Data* data) {
    std::vector<Floats> zeros;
    for (const Floats& values : (*data)[0]) zeros.emplace_back(values.size());
    std::vector<std::vector<Floats>> results(exchanges_.size(), zeros);
    std::vector<std::thread> threads;
    for (size_t worker = 0; worker < exchanges_.size(); ++worker) {
      threads.emplace_back([&, worker] {
        const absl::Status status =
            RunStep(*exchanges_[worker], GetParam().deal[worker], step, *data, &results[worker]);
        EXPECT_TRUE(status.ok()) << status;
      });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }

  void ExpectMeans(uint64_t step, size_t bucket, const Data& data, const Floats& got) {
    std::vector<Floats> terms;
    for (const std::vector<Floats>& of_rank : data) terms.push_back(of_rank[bucket]);
    const Floats expected = definition_.MeanOf(step, bucket, terms);
    if (TraitsOfBackend(GetParam().backend).exact != Exact::kNever) {
      EXPECT_TRUE(got == expected) << "step " << step << ", bucket " << bucket;
      return;
    }
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_TRUE(bucket == Shapes().size() || std::abs(got[i] - expected[i]) < 1e-3)
          << "step " << step << ", bucket " << bucket << ", element " << i;
    }
  }

  BackendCluster cluster_;
  Definition definition_;
  std::vector<std::unique_ptr<LowRankExchange>> exchanges_;
};

TEST_P(LowRankTest, SeveralSteps_TheDefinitionOnAllWorkers) {
  for (uint64_t step = 0; step < kSteps; ++step) {
    Data data(GetParam().world_size());
    for (int rank = 0; rank < GetParam().world_size(); ++rank) {
      for (size_t b = 0; b <= Shapes().size(); ++b) data[rank].push_back(TermOf(step, rank, b));
    }
    const auto results = RunStepOnAll(step, &data);
    for (const std::vector<Floats>& of_worker : results) {
      for (size_t b = 0; b < of_worker.size(); ++b) {
        EXPECT_TRUE(of_worker[b] == results[0][b]) << "step " << step << ", bucket " << b;
      }
    }
    for (size_t b = 0; b < results[0].size(); ++b) ExpectMeans(step, b, data, results[0][b]);
  }
  for (const absl::Status& status : cluster_.Finish()) EXPECT_TRUE(status.ok()) << status;
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const std::string& backend : BackendsOfOneProcess()) {
    for (const int world_size : {1, 2, 5}) cases.push_back({backend, OneEach(world_size)});
    if (TraitsOfBackend(backend).several_ranks)
      cases.push_back({backend, Deal{{0, 2}, {1}, {3, 4}}});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Backends, LowRankTest, ::testing::ValuesIn(Cases()), [](const auto& info) {
  return absl::StrCat(info.param.backend, "_W", info.param.world_size(), "_on",
                      info.param.deal.size());
});

}  // namespace
}  // namespace gradwire::low_rank_test
