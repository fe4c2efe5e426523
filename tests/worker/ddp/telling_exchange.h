#ifndef GRADWIRE_TESTS_WORKER_DDP_TELLING_EXCHANGE_H_
#define GRADWIRE_TESTS_WORKER_DDP_TELLING_EXCHANGE_H_

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/worker/ddp/fake_exchange.h"

namespace gradwire::testing {

// Answers everything that it is asked, and notes what it is told.
class TellingExchange : public FakeExchange {
 public:
  void AddLayout(LayoutId layout, std::vector<BucketSpec> buckets) override {
    added = layout;
    specs = std::move(buckets);
  }
  Memory TermsMemory(LayoutId, Bucket, Rank) override { return {absl::MakeSpan(terms), nullptr}; }
  Memory ResultMemory(LayoutId, Bucket) override { return {absl::MakeSpan(result), nullptr}; }
  void SetRate(double value) override { rate = value; }
  std::vector<KeptValues> Kept(LayoutId layout) override {
    return {{"error", Rank(layout.value()), Bucket(2), 5, {}, {}}};
  }
  absl::Status Finish(absl::Time) override { return absl::AbortedError("rank 1 is busy"); }
  TransferTotals totals() const override {
    TransferTotals totals;
    totals.bytes_sent = 7;
    totals.overflow_steps = 9;
    return totals;
  }
  absl::optional<Suspect> suspect() const override {
    return Suspect{Incarnation(4), absl::UnavailableError("no answer"), absl::UnixEpoch()};
  }

  LayoutId added;
  std::vector<BucketSpec> specs;
  double rate = 0;
  std::vector<uint8_t> terms = std::vector<uint8_t>(8);
  std::vector<uint8_t> result = std::vector<uint8_t>(8);
};

// Expects that `outer` says what `inner` says, and tells it all that it is told.
inline void ExpectPassesOn(::gradwire::Exchange& outer, TellingExchange& inner) {
  const BucketSpec spec{8, v1::DTYPE_FLOAT32};
  outer.AddLayout(LayoutId(3), {spec});
  EXPECT_EQ(inner.added, LayoutId(3));
  EXPECT_EQ(inner.specs, std::vector<BucketSpec>{spec});
  EXPECT_TRUE(outer.TermsMemory(LayoutId(3), Bucket(0), Rank(1)).bytes.data() ==
              inner.terms.data());
  EXPECT_TRUE(outer.ResultMemory(LayoutId(3), Bucket(0)).bytes.data() == inner.result.data());
  outer.SetRate(0.25);
  EXPECT_EQ(inner.rate, 0.25);
  const std::vector<KeptValues> kept = outer.Kept(LayoutId(3));
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].kind, "error");
  EXPECT_EQ(kept[0].rank, Rank(3));
  EXPECT_EQ(outer.totals().bytes_sent, 7u);
  EXPECT_EQ(outer.totals().overflow_steps, 9u);
  ASSERT_TRUE(outer.suspect().has_value());
  EXPECT_EQ(outer.suspect()->worker, Incarnation(4));
  EXPECT_EQ(outer.Finish(absl::InfiniteFuture()), absl::AbortedError("rank 1 is busy"));
  outer.Cancel(absl::CancelledError("over"));
  EXPECT_EQ(inner.cancelled(), absl::CancelledError("over"));
}

}  // namespace gradwire::testing

#endif  // GRADWIRE_TESTS_WORKER_DDP_TELLING_EXCHANGE_H_
