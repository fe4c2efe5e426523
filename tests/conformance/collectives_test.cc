// All collectives of the back ends that have them, and in which order the tree adds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/cluster/backend_cluster.h"
#include "worker/options/traits.h"

namespace gradwire::collectives_test {
namespace {

constexpr size_t kElements = 1003;

using Values = std::vector<float>;

struct Case {
  std::string backend;
  int world_size = 0;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
#define GRADWIRE_BACKEND(name, ...)                                      \
  if (TraitsOfBackend(name).collectives == Collectives::kAll) {          \
    for (const int ranks : {1, 2, 3, 5}) cases.push_back({name, ranks}); \
  }
#include "worker/options/backends.inc"
#undef GRADWIRE_BACKEND
  return cases;
}

// Small whole numbers, whose sums are exact in every order.
Values TermsOf(int rank) {
  Values terms(kElements);
  for (size_t i = 0; i < kElements; ++i) terms[i] = static_cast<float>((i * 7 + rank * 31) % 100);
  return terms;
}

// The means of `world_size` ranks' terms.
Values MeanOf(int world_size) {
  Values mean(kElements);
  for (size_t i = 0; i < kElements; ++i) {
    float sum = 0;
    for (int rank = 0; rank < world_size; ++rank) sum += TermsOf(rank)[i];
    mean[i] = sum * (1.0f / static_cast<float>(world_size));
  }
  return mean;
}

class CollectivesTest : public ::testing::TestWithParam<Case> {
 protected:
  int ranks() const { return GetParam().world_size; }
  Rank root() const { return Rank(ranks() - 1); }

  // What each rank ends with.
  std::vector<Values> Run(v1::Collective collective, v1::DType dtype) {
    const std::vector<BucketSpec> buckets = {{4 * kElements, dtype, root(), collective}};
    BackendCluster cluster(GetParam().backend, ranks(), buckets);
    std::vector<std::vector<std::string>> data(ranks());
    for (int rank = 0; rank < ranks(); ++rank) {
      const Values terms = TermsOf(rank);
      data[rank] = {std::string(reinterpret_cast<const char*>(terms.data()), 4 * kElements)};
    }
    for (const absl::Status& status : cluster.RunStep(0, &data)) EXPECT_TRUE(status.ok()) << status;
    for (const absl::Status& status : cluster.Finish()) EXPECT_TRUE(status.ok()) << status;
    std::vector<Values> results(ranks(), Values(kElements));
    for (int rank = 0; rank < ranks(); ++rank) {
      std::memcpy(results[rank].data(), data[rank][0].data(), 4 * kElements);
    }
    return results;
  }

  // Part `part` of W of `values`, the first of which are one element longer if W does not divide
  // their number. Bytes are cut as bytes: the whole floats among them.
  Values PartOf(const Values& values, size_t part, v1::DType dtype) const {
    const size_t bytes = dtype == v1::DTYPE_BYTES ? 1 : 4, elements = 4 * kElements / bytes;
    const size_t count = ranks(), rest = elements % count;
    const size_t first = bytes * (elements / count * part + std::min(part, rest));
    const size_t end = first + bytes * (elements / count + (part < rest ? 1 : 0));
    return {values.begin() + (first + 3) / 4, values.begin() + end / 4};
  }
};

TEST_P(CollectivesTest, Reduce_TheRootHasTheMean) {
  EXPECT_EQ(Run(v1::COLLECTIVE_REDUCE, v1::DTYPE_FLOAT32)[root().value()], MeanOf(ranks()));
}

TEST_P(CollectivesTest, ReduceScatter_RankRHasPartROfTheMean) {
  const auto results = Run(v1::COLLECTIVE_REDUCE_SCATTER, v1::DTYPE_FLOAT32);
  const Values mean = MeanOf(ranks());
  for (int rank = 0; rank < ranks(); ++rank) {
    EXPECT_EQ(PartOf(results[rank], rank, v1::DTYPE_FLOAT32),
              PartOf(mean, rank, v1::DTYPE_FLOAT32));
  }
}

TEST_P(CollectivesTest, GatherAndAllGather_PartRIsRankRs) {
  const auto gathered = Run(v1::COLLECTIVE_GATHER, v1::DTYPE_BYTES);
  const auto at_all = Run(v1::COLLECTIVE_ALL_GATHER, v1::DTYPE_BYTES);
  for (int part = 0; part < ranks(); ++part) {
    const Values expected = PartOf(TermsOf(part), part, v1::DTYPE_BYTES);
    EXPECT_EQ(PartOf(gathered[root().value()], part, v1::DTYPE_BYTES), expected);
    for (const Values& rank : at_all) EXPECT_EQ(PartOf(rank, part, v1::DTYPE_BYTES), expected);
  }
}

TEST_P(CollectivesTest, Scatter_RankRHasTheRootsPartR) {
  const auto results = Run(v1::COLLECTIVE_SCATTER, v1::DTYPE_BYTES);
  const Values of_root = TermsOf(root().value());
  for (int rank = 0; rank < ranks(); ++rank) {
    EXPECT_EQ(PartOf(results[rank], rank, v1::DTYPE_BYTES), PartOf(of_root, rank, v1::DTYPE_BYTES));
  }
}

TEST_P(CollectivesTest, SendRecv_TheRankBeforeTheRootHasTheRoots) {
  const auto results = Run(v1::COLLECTIVE_SEND_RECV, v1::DTYPE_BYTES);
  const int receiver = (root().value() + ranks() - 1) % ranks();
  EXPECT_EQ(results[receiver], TermsOf(root().value()));
}

INSTANTIATE_TEST_SUITE_P(Backends, CollectivesTest, ::testing::ValuesIn(Cases()),
                         [](const auto& info) {
                           return absl::StrCat(info.param.backend, "_W", info.param.world_size);
                         });

// ((t0 + t1) + (t2 + t3)) + …, of ranks [first, first + count).
float PairwiseSum(const std::vector<Values>& terms, size_t i, size_t first, size_t count) {
  if (count == 1) return terms[first][i];
  size_t half = 1;
  while (2 * half < count) half *= 2;
  return PairwiseSum(terms, i, first, half) + PairwiseSum(terms, i, first + half, count - half);
}

TEST(TreeTest, AllReduce_AnyNumberOfRanks_SumsInPairs) {
  for (const size_t ranks : {2, 3, 5, 8}) {
    std::vector<Values> terms(ranks, Values(kElements));
    std::vector<std::vector<std::string>> data;
    for (size_t rank = 0; rank < ranks; ++rank) {
      for (size_t i = 0; i < kElements; ++i) {
        terms[rank][i] = std::sin(static_cast<float>(i * ranks + rank));
      }
      data.push_back(
          {std::string(reinterpret_cast<const char*>(terms[rank].data()), 4 * kElements)});
    }
    BackendCluster cluster("tree", static_cast<int>(ranks), {{4 * kElements, v1::DTYPE_FLOAT32}});
    for (const absl::Status& status : cluster.RunStep(0, &data)) ASSERT_TRUE(status.ok()) << status;
    Values mean(kElements);
    std::memcpy(mean.data(), data[0][0].data(), 4 * kElements);
    const float share = 1.0f / static_cast<float>(ranks);
    for (size_t i = 0; i < kElements; ++i) {
      ASSERT_EQ(mean[i], PairwiseSum(terms, i, 0, ranks) * share) << ranks << " ranks, " << i;
    }
  }
}

// Terms and sums are whole numbers that both half types have exactly.
TEST(TreeTest, AllReduce_HalfTypesAndAnyNumberOfRanks_SumsOfAll) {
  for (const v1::DType wire : {v1::DTYPE_BFLOAT16, v1::DTYPE_FLOAT16}) {
    for (const size_t ranks : {2, 3, 5, 8}) {
      Values sum(kElements);
      std::vector<std::vector<std::string>> data;
      for (size_t rank = 0; rank < ranks; ++rank) {
        Values terms(kElements);
        for (size_t i = 0; i < kElements; ++i) {
          terms[i] = static_cast<float>(ranks * ((i + rank) % 4));
          sum[i] += terms[i];
        }
        data.push_back({std::string(reinterpret_cast<const char*>(terms.data()), 4 * kElements)});
      }
      BackendCluster::Settings settings;
      settings.wire = wire;
      BackendCluster cluster("tree", static_cast<int>(ranks), {{4 * kElements, v1::DTYPE_FLOAT32}},
                             settings);
      for (const absl::Status& status : cluster.RunStep(0, &data)) {
        ASSERT_TRUE(status.ok()) << status;
      }
      Values mean(kElements);
      std::memcpy(mean.data(), data[0][0].data(), 4 * kElements);
      for (size_t i = 0; i < kElements; ++i) {
        ASSERT_EQ(mean[i], sum[i] / static_cast<float>(ranks)) << ranks << " ranks, " << i;
      }
    }
  }
}

}  // namespace
}  // namespace gradwire::collectives_test
