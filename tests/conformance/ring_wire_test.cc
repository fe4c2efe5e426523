// What the ring computes with bf16 and fp16 on the wire, hop by hop.

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "common/fold/blocks.h"
#include "common/fold/fold.h"
#include "tests/cluster/backend_cluster.h"
#include "tests/support/random_floats.h"

namespace gradwire {
namespace {

using Values = std::vector<float>;

float Rounded(float value, v1::DType wire) {
  uint8_t bytes[2];
  Narrow({&value, 1}, wire, bytes);
  Widen({{bytes, sizeof(bytes)}}, wire, {&value, 1});
  return value;
}

std::vector<Values> RandomTerms(int world_size, size_t count) {
  std::mt19937 random(5);
  std::vector<Values> terms(world_size);
  for (Values& rank : terms) rank = testing::RandomFloats(count, &random, 10);
  return terms;
}

// Each element goes round from the first rank of its block.
Values RingMean(const std::vector<Values>& terms, v1::DType wire) {
  const int world_size = static_cast<int>(terms.size());
  const BucketSpec bucket{2 * terms[0].size(), wire};
  const FoldBlocks blocks({bucket}, world_size);
  Values mean(terms[0].size());
  for (const FoldRange& range : blocks.Cut(Bucket(0), 0, bucket.bytes)) {
    const int first = range.first_rank;
    for (size_t i = range.offset / 2; i < (range.offset + range.bytes) / 2; ++i) {
      float sum = Rounded(terms[first][i], wire);
      for (int k = 1; k < world_size; ++k) {
        const float scale = k == world_size - 1 ? 1.0f / static_cast<float>(world_size) : 1.0f;
        sum = Rounded((sum + terms[(first + k) % world_size][i]) * scale, wire);
      }
      mean[i] = sum;
    }
  }
  return mean;
}

TEST(RingWireTest, AllReduce_Halves_AddedInFloat32AndRoundedOnceAHop) {
  for (const v1::DType wire : {v1::DTYPE_BFLOAT16, v1::DTYPE_FLOAT16}) {
    for (const int world_size : {1, 2, 4}) {
      const std::vector<Values> terms = RandomTerms(world_size, 10001);
      BackendCluster cluster("ring", world_size, {{4 * 10001, v1::DTYPE_FLOAT32}},
                             {1 << 20, 0, 1, wire});
      std::vector<std::vector<std::string>> data;
      for (const Values& rank : terms) {
        data.push_back({std::string(reinterpret_cast<const char*>(rank.data()), 4 * rank.size())});
      }
      for (const absl::Status& status : cluster.RunStep(0, &data)) ASSERT_TRUE(status.ok());
      Values mean(terms[0].size());
      std::memcpy(mean.data(), data[0][0].data(), data[0][0].size());
      EXPECT_EQ(mean, RingMean(terms, wire)) << "W " << world_size << ", wire " << wire;
    }
  }
}

}  // namespace
}  // namespace gradwire
