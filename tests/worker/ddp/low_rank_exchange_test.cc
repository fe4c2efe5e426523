#include "worker/backends/low_rank_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "tests/worker/ddp/fake_exchange.h"

namespace gradwire::testing {
namespace {

using ::testing::ElementsAre;

using Floats = std::vector<float>;

// Bucket 0 travels as a product, bucket 1 as it is, bucket 2 is of bytes.
LowRankPlan Plan() { return LowRankPlan({{{30, 40}}, {{7}}}, {{16, v1::DTYPE_BYTES}}, 1); }

constexpr LayoutId kFactors(0), kWhole(1);

absl::Span<uint8_t> BytesOf(Floats* values) {
  return {reinterpret_cast<uint8_t*>(values->data()), values->size() * sizeof(float)};
}

class LowRankExchangeTest : public ::testing::Test {
 protected:
  // One rank; its step is over when all its exchanges are, which the test ends.
  struct Handed {
    Floats terms, result;
    std::promise<absl::Status> done;
  };

  LowRankExchangeTest() { MakeExchange(0); }

  void MakeExchange(uint64_t whole_steps, Step first = Step(0)) {
    exchange_ = std::make_unique<LowRankExchange>(
        &below_, Plan(), LowRankLayouts{kFactors, kWhole, whole_steps, first},
        std::vector{Rank(0)});
  }

  std::unique_ptr<Handed> Contribute(uint64_t step, int bucket, Floats terms) {
    auto handed = std::make_unique<Handed>();
    handed->result.resize(terms.size());
    handed->terms = std::move(terms);
    const BucketKey key{LayoutId(5), Step(step), Bucket(bucket)};
    exchange_->Expect(
        key, BytesOf(&handed->result), SteadyNow() + absl::Seconds(60),
        [&done = handed->done](const absl::Status& status) { done.set_value(status); });
    exchange_->Contribute(key, Rank(0), BytesOf(&handed->terms));
    return handed;
  }

  // Every contribution ends its transfer.
  void EndAtOnce() {
    below_.on_contribute = [this](const BucketKey& key) { below_.End(key.bucket.value()); };
  }

  FakeExchange below_;
  std::unique_ptr<LowRankExchange> exchange_;
};

TEST_F(LowRankExchangeTest, Totals_TellWhatTravelsAndWhatIsLeftOut) {
  EndAtOnce();
  Floats gradient(30 * 40);
  for (size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = static_cast<float>(i % 7) + static_cast<float>(i / 40 % 5);
  }
  EXPECT_TRUE(Contribute(0, 0, gradient)->done.get_future().get().ok());
  const CompressionTotals first = exchange_->totals().compressed;
  EXPECT_EQ(first.whole_bytes, 4 * 30u * 40u);
  EXPECT_EQ(first.coded_bytes, 4 * (30u + 40u));
  EXPECT_EQ(first.gradient_square, SquareOf(gradient));
  EXPECT_GT(first.residual_square, 0);
  EXPECT_LT(first.residual_square, first.gradient_square);
  EXPECT_TRUE(Contribute(1, 0, gradient)->done.get_future().get().ok());
  const CompressionTotals second = exchange_->totals().compressed;
  EXPECT_EQ(second.coded_bytes, 2 * first.coded_bytes);
  EXPECT_EQ(second.residual_square, first.residual_square);  // it was not measured
}

TEST_F(LowRankExchangeTest, Totals_WholeSteps_AreNoShorter) {
  MakeExchange(1);
  EndAtOnce();
  EXPECT_TRUE(Contribute(0, 0, Floats(30 * 40))->done.get_future().get().ok());
  const CompressionTotals totals = exchange_->totals().compressed;
  EXPECT_EQ(totals.whole_bytes, totals.coded_bytes);
  EXPECT_GT(totals.coded_bytes, 0u);
}

// Neither in a step of whole gradients nor in one of products.
TEST_F(LowRankExchangeTest, Totals_BytesThatAreNoGradients_AreLeftOut) {
  MakeExchange(1);
  EndAtOnce();
  for (const uint64_t step : {0, 1}) {
    EXPECT_TRUE(Contribute(step, 2, Floats(4, 1.0f))->done.get_future().get().ok());
  }
  const CompressionTotals totals = exchange_->totals().compressed;
  EXPECT_EQ(totals.whole_bytes, 0u);
  EXPECT_EQ(totals.coded_bytes, 0u);
}

// Both ranks of the worker count.
TEST_F(LowRankExchangeTest, Totals_TwoRanks_WhatIsLeftOutOfBoth) {
  exchange_ = std::make_unique<LowRankExchange>(
      &below_, Plan(), LowRankLayouts{kFactors, kWhole, 0, Step(0)}, std::vector{Rank(0), Rank(1)});
  std::map<int, int> contributions;  // by bucket
  below_.on_contribute = [&](const BucketKey& key) {
    if (++contributions[key.bucket.value()] == 2) below_.End(key.bucket.value());
  };
  Floats first(30 * 40), second, result(30 * 40);
  for (size_t i = 0; i < first.size(); ++i) {
    first[i] = static_cast<float>(i % 7) + static_cast<float>(i / 40 % 5);
    second.push_back(3 * first[i] + static_cast<float>(i % 11));
  }
  std::promise<absl::Status> done;
  const BucketKey key{LayoutId(5), Step(0), Bucket(0)};
  exchange_->Expect(key, BytesOf(&result), SteadyNow() + absl::Seconds(60),
                    [&done](const absl::Status& status) { done.set_value(status); });
  exchange_->Contribute(key, Rank(1), BytesOf(&second));
  exchange_->Contribute(key, Rank(0), BytesOf(&first));
  ASSERT_TRUE(done.get_future().get().ok());
  const std::vector<KeptValues> kept = exchange_->Kept(LayoutId(5));
  ASSERT_EQ(kept.size(), 3u);
  const double of_first = SquareOf(kept[1].values), of_second = SquareOf(kept[2].values);
  EXPECT_GT(of_first, 0);
  EXPECT_GT(of_second, of_first);
  const CompressionTotals totals = exchange_->totals().compressed;
  EXPECT_EQ(totals.residual_square, of_first + of_second);
  EXPECT_EQ(totals.gradient_square, SquareOf(first) + SquareOf(second));
}

// A bucket of two matrices with another tensor between them.
TEST_F(LowRankExchangeTest, Kept_TwoMatricesAndRanks_EachHasMemoryOfItsOwn) {
  exchange_ = std::make_unique<LowRankExchange>(
      &below_, LowRankPlan({{{30, 40}, {7}, {20, 50}}}, {}, 1),
      LowRankLayouts{kFactors, kWhole, 0, Step(0)}, std::vector{Rank(2), Rank(5)});
  std::vector<std::string> kept;
  std::set<const float*> memory;
  for (const KeptValues& values : exchange_->Kept(LayoutId(0))) {
    const int rank = values.rank.value_or(Rank(-1)).value();
    kept.push_back(absl::StrCat(values.kind, " of ", rank, " from ", values.first, ", ",
                                values.values.size()));
    memory.insert(values.values.data());
  }
  EXPECT_THAT(kept, ElementsAre("basis of -1 from 0, 40", "error of 2 from 0, 1200",
                                "error of 5 from 0, 1200", "basis of -1 from 1207, 50",
                                "error of 2 from 1207, 1000", "error of 5 from 1207, 1000"));
  EXPECT_EQ(memory.size(), kept.size());
}

TEST_F(LowRankExchangeTest, Product_ArrivesOverTwoExchanges) {
  EndAtOnce();
  Floats gradient;
  for (int row = 0; row < 30; ++row) {
    for (int column = 0; column < 40; ++column) {
      gradient.push_back(static_cast<float>((row - 7) * (column + 3)));
    }
  }
  const auto handed = Contribute(0, 0, gradient);
  EXPECT_TRUE(handed->done.get_future().get().ok());
  for (size_t i = 0; i < gradient.size(); ++i) {
    ASSERT_NEAR(handed->result[i], gradient[i], 1e-2) << i;
  }
  EXPECT_THAT(below_.buckets(), ElementsAre(0, 1));
}

TEST_F(LowRankExchangeTest, Others_TravelAsTheyAre) {
  EndAtOnce();
  const auto plain = Contribute(0, 1, Floats(7, 0.5f));
  EXPECT_TRUE(plain->done.get_future().get().ok());
  EXPECT_EQ(plain->result, Floats(7, 0.5f));
  const auto bytes = Contribute(0, 2, Floats(4, 0.25f));
  EXPECT_TRUE(bytes->done.get_future().get().ok());
  EXPECT_EQ(bytes->result, Floats(4, 0.25f));
  EXPECT_THAT(below_.buckets(), ElementsAre(2, 3));
}

TEST_F(LowRankExchangeTest, Kept_SetInAnotherExchange_GivesTheSameResult) {
  EndAtOnce();
  const auto gradient_of = [](int step) {
    Floats gradient(30 * 40);
    for (size_t i = 0; i < gradient.size(); ++i) {
      gradient[i] = static_cast<float>((i * i + static_cast<size_t>(step) * i) % 13);
    }
    return gradient;
  };
  EXPECT_TRUE(Contribute(0, 0, gradient_of(0))->done.get_future().get().ok());
  std::vector<std::pair<std::string, Floats>> copies;
  for (const KeptValues& kept : exchange_->Kept(LayoutId(0))) {
    copies.emplace_back(kept.kind, Floats(kept.values.begin(), kept.values.end()));
  }
  const auto on = Contribute(1, 0, gradient_of(1));
  EXPECT_TRUE(on->done.get_future().get().ok());

  MakeExchange(0);
  const std::vector<KeptValues> kept = exchange_->Kept(LayoutId(0));
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0].kind, "basis");
  EXPECT_THAT(kept[0].shape, ElementsAre(1, 40));
  EXPECT_EQ(kept[1].kind, "error");
  EXPECT_EQ(kept[1].rank, Rank(0));
  for (size_t i = 0; i < kept.size(); ++i) {
    std::copy(copies[i].second.begin(), copies[i].second.end(), kept[i].values.begin());
  }
  const auto again = Contribute(1, 0, gradient_of(1));
  EXPECT_TRUE(again->done.get_future().get().ok());
  EXPECT_EQ(again->result, on->result);
}

// Both layouts of a view begin with its first step.
TEST_F(LowRankExchangeTest, ViewThatBeginsLater_ProductsCountFromItsFirstStep) {
  MakeExchange(2, Step(1));
  EndAtOnce();
  EXPECT_TRUE(Contribute(1, 0, Floats(1200, 0.1f))->done.get_future().get().ok());
  EXPECT_TRUE(Contribute(2, 0, Floats(1200, 0.1f))->done.get_future().get().ok());
  EXPECT_EQ(below_.expected().front().key, (BucketKey{kWhole, Step(1), Bucket(0)}));
  EXPECT_EQ(below_.expected().back().key, (BucketKey{kFactors, Step(1), Bucket(1)}));
  MakeExchange(2, Step(7));
  EXPECT_TRUE(Contribute(7, 0, Floats(1200, 0.1f))->done.get_future().get().ok());
  EXPECT_EQ(below_.expected().back().key, (BucketKey{kFactors, Step(7), Bucket(1)}));
}

TEST_F(LowRankExchangeTest, WholeSteps_GoToTheirLayoutAndProductsCountFromZero) {
  MakeExchange(2);
  EndAtOnce();
  const auto whole = Contribute(1, 0, Floats(1200, 0.1f));
  EXPECT_TRUE(whole->done.get_future().get().ok());
  EXPECT_EQ(whole->result, Floats(1200, 0.1f));
  const auto product = Contribute(2, 0, Floats(1200, 0.1f));
  EXPECT_TRUE(product->done.get_future().get().ok());
  std::vector<BucketKey> keys;
  for (const FakeExchange::Expected& expected : below_.expected()) keys.push_back(expected.key);
  EXPECT_THAT(keys, ElementsAre(BucketKey{kWhole, Step(1), Bucket(0)},
                                BucketKey{kFactors, Step(0), Bucket(0)},
                                BucketKey{kFactors, Step(0), Bucket(1)}));
}

// Also the error of an exchange that has not begun: nothing stays under way.
TEST_F(LowRankExchangeTest, Cancelled_EndsAllWithTheReason) {
  std::promise<void> contributed;
  below_.on_contribute = [&](const BucketKey&) { contributed.set_value(); };
  const auto handed = Contribute(0, 0, Floats(1200, 1.0f));
  contributed.get_future().get();
  exchange_->Cancel(absl::AbortedError("over"));
  EXPECT_EQ(handed->done.get_future().get(), absl::AbortedError("over"));
  EXPECT_EQ(below_.under_way(), 0);
}

TEST_F(LowRankExchangeTest, FirstExchangeFails_SecondGetsNothing) {
  std::promise<void> contributed;
  below_.on_contribute = [&](const BucketKey&) { contributed.set_value(); };
  const auto handed = Contribute(0, 0, Floats(1200, 1.0f));
  contributed.get_future().get();
  below_.End(0, absl::UnavailableError("gone"));
  below_.End(1, absl::CancelledError("later"));
  EXPECT_EQ(handed->done.get_future().get(), absl::UnavailableError("gone"));
  EXPECT_EQ(below_.contributions().size(), 1);
}

}  // namespace
}  // namespace gradwire::testing
