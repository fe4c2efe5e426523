// Coded gradients: every back end that takes codecs gives the bits of the definition, which is
// computed here without any back end, whoever carries the ranks and however buckets are cut.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/compress/codec.h"
#include "common/fold/fold.h"
#include "tests/cluster/backend_cluster.h"
#include "tests/support/random_floats.h"
#include "worker/backends/compressors.h"
#include "worker/options/choices.h"
#include "worker/options/traits.h"

namespace gradwire::compress_test {
namespace {

constexpr int kSteps = 3;

using Floats = std::vector<float>;
using Data = std::vector<std::vector<std::string>>;  // by rank, by bucket

// Sizes that are no multiple of a unit or of a block.
const std::vector<BucketSpec>& Buckets() {
  static const auto* const buckets = new std::vector<BucketSpec>{{4 * 50001, v1::DTYPE_FLOAT32},
                                                                 {4 * 7, v1::DTYPE_FLOAT32},
                                                                 {333, v1::DTYPE_BYTES},
                                                                 {4 * 4097, v1::DTYPE_FLOAT32}};
  return *buckets;
}

Floats TermOf(int step, int rank, size_t bucket) {
  return testing::RandomFloats((Buckets()[bucket].bytes + 3) / sizeof(float),
                               static_cast<uint32_t>(10000 * step + 100 * rank + bucket));
}

std::string BytesOf(const Floats& values, size_t bucket) {
  return std::string(reinterpret_cast<const char*>(values.data()), Buckets()[bucket].bytes);
}

ByteSpans PiecesOf(const Floats& values) {
  return {{reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(float)}};
}

// What docs/algorithms.md says, on whole buckets.
class Definition {
 public:
  Definition(const Compression& compression, int world_size)
      : coding_(*CodingOf(compression.dtype)), blocks_(Buckets(), world_size) {
    for (const BucketSpec& bucket : Buckets()) {
      const uint64_t elements = bucket.bytes / sizeof(float);
      compressors_.emplace_back();
      for (int rank = 0; rank < world_size; ++rank) {
        compressors_.back().push_back(MakeCompressor(compression, elements));
      }
      residuals_.emplace_back(coding_.has_residual() ? elements : 0);
    }
  }

  std::string MeanOf(int step, size_t bucket) {
    if (IsBroadcast(Buckets()[bucket])) return BytesOf(TermOf(step, 0, bucket), bucket);
    std::vector<Floats> terms;
    for (size_t rank = 0; rank < compressors_[bucket].size(); ++rank) {
      const Floats term = TermOf(step, static_cast<int>(rank), bucket);
      terms.push_back(Decode(compressors_[bucket][rank]->Encode(Step(step), 0, term), term.size()));
    }
    Floats mean = FoldOf(terms, bucket);
    mean = Decode(coding_.EncodeMean(mean, absl::MakeSpan(residuals_[bucket])), mean.size());
    return BytesOf(mean, bucket);
  }

  // What an exchange must keep now.
  absl::Span<const float> Kept(const KeptValues& kept) {
    const auto bucket = static_cast<size_t>(kept.bucket.value());
    if (kept.kind == "mean") {
      return absl::MakeSpan(residuals_[bucket]).subspan(kept.first, kept.values.size());
    }
    Compressor& compressor = *compressors_[bucket][static_cast<size_t>(kept.rank->value())];
    return compressor.state()[kept.kind == "error" ? 0 : 1];
  }

 private:
  Floats Decode(const std::vector<uint8_t>& payload, size_t count) const {
    Floats values(count);
    coding_.Decode({payload}, absl::MakeSpan(values));
    return values;
  }

  Floats FoldOf(const std::vector<Floats>& terms, size_t bucket) const {
    std::vector<ByteSpans> pieces;
    for (const Floats& term : terms) pieces.push_back(PiecesOf(term));
    const uint64_t bytes = Buckets()[bucket].bytes;
    Floats mean(bytes / sizeof(float));
    Fold(pieces, v1::DTYPE_FLOAT32, blocks_.Cut(Bucket(static_cast<int>(bucket)), 0, bytes),
         {reinterpret_cast<uint8_t*>(mean.data()), bytes});
    return mean;
  }

  const Coding& coding_;
  const FoldBlocks blocks_;
  std::vector<std::vector<std::unique_ptr<Compressor>>> compressors_;  // by bucket, by rank
  std::vector<Floats> residuals_;                                      // by bucket
};

struct Case {
  std::string backend;
  std::string codec;
  Deal deal;
  uint64_t chunk_bytes = 64 << 10;
  int connections = 1;
  int aggregators = 0;

  int world_size() const {
    size_t ranks = 0;
    for (const auto& worker : deal) ranks += worker.size();
    return static_cast<int>(ranks);
  }
};

// Returns the number of values, by their kind, that the workers keep; all have the bits of the
// definition.
std::map<std::string, size_t> CheckKept(BackendCluster* cluster, size_t workers,
                                        Definition* definition) {
  std::map<std::string, size_t> sizes;
  for (size_t worker = 0; worker < workers; ++worker) {
    for (const KeptValues& kept : cluster->exchange(static_cast<int>(worker)).Kept(LayoutId(0))) {
      const absl::Span<const float> expected = definition->Kept(kept);
      EXPECT_TRUE(expected.size() == kept.values.size() &&
                  std::memcmp(expected.data(), kept.values.data(), 4 * expected.size()) == 0)
          << kept.kind << " of bucket " << kept.bucket.value() << ", worker " << worker;
      sizes[kept.kind] += kept.values.size();
    }
  }
  return sizes;
}

std::string NameOf(const Case& value) {
  return absl::StrCat(value.backend, "_",
                      absl::StrReplaceAll(value.codec, {{"-", ""}, {":", "_"}, {".", "_"}}), "_W",
                      value.world_size(), "_on", value.deal.size(), "_chunks", value.chunk_bytes,
                      "_connections", value.connections, "_aggregators", value.aggregators);
}

class CompressTest : public ::testing::TestWithParam<Case> {};

TEST_P(CompressTest, RunStep_SeveralSteps_BitsOfTheDefinitionOnAllRanks) {
  const Case& c = GetParam();
  BackendCluster::Settings settings;
  settings.compression = *ParseCompression(c.codec);
  settings.compression.momentum = 0.9f;
  settings.compression.warmup_steps = 2;
  settings.wire = settings.compression.dtype;
  settings.chunk_bytes = c.chunk_bytes;
  settings.connections = c.connections;
  settings.aggregators = c.aggregators;
  BackendCluster cluster(c.backend, c.deal, Buckets(), settings);
  Definition definition(settings.compression, c.world_size());
  for (int step = 0; step < kSteps; ++step) {
    Data data(c.world_size());
    for (int rank = 0; rank < c.world_size(); ++rank) {
      for (size_t b = 0; b < Buckets().size(); ++b) {
        data[rank].push_back(BytesOf(TermOf(step, rank, b), b));
      }
    }
    for (const absl::Status& status : cluster.RunStep(step, &data)) {
      ASSERT_TRUE(status.ok()) << status;
    }
    for (size_t b = 0; b < Buckets().size(); ++b) {
      const std::string expected = definition.MeanOf(step, b);
      for (int rank = 0; rank < c.world_size(); ++rank) {
        ASSERT_TRUE(data[rank][b] == expected)
            << "step " << step << ", bucket " << b << ", rank " << rank;
      }
    }
  }
  const size_t elements = 50001 + 7 + 4097;
  std::map<std::string, size_t> kept = {{"error", elements * static_cast<size_t>(c.world_size())}};
  if (c.codec != "int8") kept["momentum"] = kept["error"];
  const bool folds = c.backend != "coordinator" && c.aggregators == 0;
  if (c.codec == "int8" && folds) kept["mean"] = elements;
  EXPECT_EQ(CheckKept(&cluster, c.deal.size(), &definition), kept);
  if (c.backend == "coordinator") {  // to which all terms go, and from which all means come
    uint64_t coded = 0;
    for (size_t worker = 0; worker < c.deal.size(); ++worker) {
      coded += cluster.exchange(worker).totals().compressed.whole_bytes;
    }
    EXPECT_EQ(coded, kSteps * 4 * elements * (c.deal.size() + static_cast<size_t>(c.world_size())));
  }
  for (const absl::Status& status : cluster.Finish()) EXPECT_TRUE(status.ok()) << status;
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const std::string& backend : NamesOf(BackendChoices())) {
    if (!TraitsOfBackend(backend).codecs) continue;
    for (const char* codec : {"int8", "top-k:0.05"}) {
      for (const Deal& deal : {OneEach(1), OneEach(2), OneEach(5), Deal{{0, 2}, {1}}}) {
        cases.push_back({backend, codec, deal});
      }
      cases.push_back({backend, codec, OneEach(3), 16 << 10});
      cases.push_back({backend, codec, OneEach(3), 64 << 10, /*connections=*/3});
    }
  }
  for (const char* codec : {"int8", "top-k:0.05"}) {
    cases.push_back({"sharded", codec, OneEach(2), 64 << 10, 1, /*aggregators=*/3});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Codecs, CompressTest, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return NameOf(info.param); });

// Two models of one worker, each with ranks 0 and 3 and the same buckets.
TEST(Compressors, Of_EachLayoutRankAndBucket_HasErrorsOfItsOwn) {
  Compressors compressors(ParseCompression("int8").value());
  std::set<Compressor*> made;
  for (const int layout : {0, 1}) {
    for (const int rank : {0, 3}) {
      for (const int bucket : {0, 2}) {
        const auto of = [&] {
          return compressors.Of(LayoutId(layout), Rank(rank), Bucket(bucket), 8);
        };
        made.insert(of());
        EXPECT_EQ(of(), of());
      }
    }
  }
  EXPECT_EQ(made.size(), 8u);
}

TEST(Compressors, AddKept_OfALayout_ThatOfItsCodedBucketsAndRanksAlone) {
  Compressors compressors(ParseCompression("int8").value());
  const std::vector<BucketSpec> buckets = {
      {4 * 5, v1::DTYPE_FLOAT32}, {9, v1::DTYPE_BYTES}, {4 * 7, v1::DTYPE_FLOAT32}};
  const std::vector<Rank> ranks = {Rank(0), Rank(3)};
  compressors.Of(LayoutId(0), Rank(3), Bucket(2), 7)->state()[0][6] = 1.5f;
  for (const int layout : {0, 1}) {
    std::vector<KeptValues> kept;
    compressors.AddKept(LayoutId(layout), buckets, ranks, &kept);
    ASSERT_EQ(kept.size(), 4u);
    for (size_t i = 0; i < kept.size(); ++i) {
      EXPECT_EQ(kept[i].kind, "error");
      EXPECT_EQ(kept[i].rank, ranks[i % 2]);
      EXPECT_EQ(kept[i].bucket, Bucket(i < 2 ? 0 : 2));
      ASSERT_EQ(kept[i].values.size(), i < 2 ? 5u : 7u);
      EXPECT_EQ(kept[i].values.back(), layout == 0 && i == 3 ? 1.5f : 0.0f) << i;
    }
  }
}

// The second part's error is much larger, so each must count its own.
TEST(EncodeTerm, TwoPartsOfABucket_TotalsAreTogetherThoseOfAll) {
  constexpr uint64_t kPart = 2048;
  Floats values(2 * kPart);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<float>(i)) * (i < kPart ? 1 : 1000);
  }
  const std::unique_ptr<Compressor> compressor =
      MakeCompressor(ParseCompression("int8").value(), values.size());
  CompressionTotals sum;
  uint64_t coded_bytes = 0;
  for (const uint64_t first : {uint64_t{0}, kPart}) {
    CompressionTotals totals;
    coded_bytes += EncodeTerm(compressor.get(), Step(0), first,
                              absl::MakeConstSpan(values).subspan(first, kPart), &totals)
                       .size();
    sum += totals;
  }
  EXPECT_EQ(sum.whole_bytes, values.size() * sizeof(float));
  EXPECT_EQ(sum.coded_bytes, coded_bytes);
  EXPECT_NEAR(sum.gradient_square / SquareOf(values), 1, 1e-3);
  const double residual_square = SquareOf(compressor->state().front());
  ASSERT_GT(residual_square, 0);
  EXPECT_NEAR(sum.residual_square / residual_square, 1, 1e-3);
}

}  // namespace
}  // namespace gradwire::compress_test
