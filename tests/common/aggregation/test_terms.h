#ifndef GRADWIRE_TESTS_COMMON_AGGREGATION_TEST_TERMS_H_
#define GRADWIRE_TESTS_COMMON_AGGREGATION_TEST_TERMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/wire/chunk.h"
#include "common/wire/layout.h"
#include "common/wire/view.h"

namespace gradwire {

// What three ranks contribute to the buckets of a layout, and the chunks in which it comes.
struct TestTerms {
  TestTerms(std::vector<BucketSpec> buckets, uint64_t chunk_bytes);

  // What `rank` contributes to a bucket; another `salt` gives other bytes.
  std::string Of(int rank, int bucket, int salt = 0) const;
  // The chunk of layout 0 that begins at `offset`; at most chunk_bytes long.
  Chunk MakeChunk(uint64_t step, int rank, int bucket, uint64_t offset, int salt = 0) const;
  // All chunks of one step of the given ranks.
  std::vector<Chunk> StepOf(uint64_t step, const std::vector<int>& ranks) const;
  // What comes out of a bucket: the fold, or the root's bytes.
  std::string Result(int bucket) const;

  std::vector<BucketSpec> buckets;
  View view;
};

// The same chunk in another layout.
Chunk InLayout(int layout, Chunk chunk);

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_COMMON_AGGREGATION_TEST_TERMS_H_
