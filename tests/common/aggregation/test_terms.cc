#include "tests/common/aggregation/test_terms.h"

#include <memory>
#include <random>
#include <utility>

#include "common/fold/fold.h"
#include "tests/support/random_floats.h"

namespace gradwire {
namespace {

constexpr int kWorldSize = 3;

ByteSpans PiecesOf(const std::string& bytes) {
  return {{reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}};
}

}  // namespace

TestTerms::TestTerms(std::vector<BucketSpec> buckets, uint64_t chunk_bytes)
    : buckets(std::move(buckets)) {
  view.run_id = MakeRunId();
  view.epoch = CoordinatorEpoch(1);
  view.generation = Generation(1);
  view.world_size = kWorldSize;
  view.chunk_bytes = chunk_bytes;
}

std::string TestTerms::Of(int rank, int bucket, int salt) const {
  std::mt19937 random(100 * rank + 10 * bucket + salt);
  return testing::RandomFloatBytes(buckets[bucket].bytes, &random);
}

Chunk TestTerms::MakeChunk(uint64_t step, int rank, int bucket, uint64_t offset, int salt) const {
  auto bytes =
      std::make_shared<const std::string>(Of(rank, bucket, salt).substr(offset, view.chunk_bytes));
  const ByteSpans payload = PiecesOf(*bytes);
  return {
      {view.run_id, view.epoch, view.generation, LayoutId(0), Step(step), Rank(rank),
       Bucket(bucket), offset, buckets[bucket].bytes, buckets[bucket].dtype, Checksum(payload), 0},
      payload,
      bytes};
}

std::vector<Chunk> TestTerms::StepOf(uint64_t step, const std::vector<int>& ranks) const {
  std::vector<Chunk> chunks;
  for (const int rank : ranks) {
    for (size_t b = 0; b < buckets.size(); ++b) {
      if (IsBroadcast(buckets[b]) && buckets[b].root != Rank(rank)) continue;
      for (uint64_t offset = 0; offset < buckets[b].bytes; offset += view.chunk_bytes) {
        chunks.push_back(MakeChunk(step, rank, static_cast<int>(b), offset));
      }
    }
  }
  return chunks;
}

std::string TestTerms::Result(int bucket) const {
  const BucketSpec& spec = buckets[bucket];
  if (IsBroadcast(spec)) return Of(spec.root.value(), bucket);
  std::vector<std::string> memory;
  for (int rank = 0; rank < kWorldSize; ++rank) memory.push_back(Of(rank, bucket));
  std::vector<ByteSpans> terms;
  for (const std::string& bytes : memory) terms.push_back(PiecesOf(bytes));
  std::vector<float> mean(spec.bytes / sizeof(float));
  const FoldBlocks blocks(buckets, kWorldSize);
  Fold(terms, spec.dtype, blocks.Cut(Bucket(bucket), 0, spec.bytes),
       {reinterpret_cast<uint8_t*>(mean.data()), spec.bytes});
  return std::string(reinterpret_cast<const char*>(mean.data()), spec.bytes);
}

Chunk InLayout(int layout, Chunk chunk) {
  chunk.header.layout = LayoutId(layout);
  return chunk;
}

}  // namespace gradwire
