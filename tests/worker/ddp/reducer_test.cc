#include "worker/ddp/reducer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "tests/worker/ddp/fake_exchange.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using testing::FakeExchange;
using Contribution = FakeExchange::Contribution;

// y = a x b, a bucket for each (b is 0, a is 1), and a buffer, bucket 2.
class ReducerTest : public ::testing::Test {
 protected:
  ReducerTest() { Make({}); }
  void Make(ReducerOptions options) {
    options.bucket_cap_bytes = 0;
    reducer_ = Reducer::Create({a_, b_}, {buffer_}, options).value();
    reducer_->Attach(&exchange_, LayoutId(0), {Rank(0), Rank(3)});
    reducer_->BeginStep(Step(0), absl::Hours(1));
  }
  void Pass(Rank rank, float input) {
    reducer_->BeginPass(rank, {});
    (input * a_ * b_).sum().backward();
    EXPECT_TRUE(reducer_->EndPass().ok());
  }

  torch::Tensor a_ = torch::full({2}, 2.0f, torch::requires_grad());
  torch::Tensor b_ = torch::full({2}, 3.0f, torch::requires_grad());
  torch::Tensor buffer_ = torch::ones({1});
  FakeExchange exchange_;
  std::unique_ptr<Reducer> reducer_;
};

TEST_F(ReducerTest, BucketSpecs_Buffers_LastAsBytes) {
  EXPECT_THAT(reducer_->BucketSpecs(),
              ElementsAre(BucketSpec{8, v1::DTYPE_FLOAT32}, BucketSpec{8, v1::DTYPE_FLOAT32},
                          BucketSpec{4, v1::DTYPE_BYTES}));
}

// An exchange that offers memory for terms and results.
class LendingExchange : public FakeExchange {
 public:
  Memory TermsMemory(LayoutId, Bucket bucket, Rank rank) override {
    return Lend(&terms[{rank.value(), bucket.value()}]);
  }
  Memory ResultMemory(LayoutId, Bucket bucket) override { return Lend(&results[bucket.value()]); }

  std::map<std::pair<int, int>, std::vector<float>> terms;  // by rank and bucket
  std::map<int, std::vector<float>> results;

 private:
  static Memory Lend(std::vector<float>* memory) {
    memory->resize(2);
    return {{reinterpret_cast<uint8_t*>(memory->data()), 2 * sizeof(float)}, nullptr};
  }
};

TEST_F(ReducerTest, Attach_ExchangeOffersMemory_TermsOfEachRankAreInIt) {
  LendingExchange lender;
  reducer_->Attach(&lender, LayoutId(0), {Rank(0), Rank(3)});
  reducer_->BeginStep(Step(0), absl::Hours(1));
  Pass(Rank(0), 1);
  Pass(Rank(3), 10);
  EXPECT_THAT((lender.terms[{0, 1}]), ElementsAre(3, 3));
  EXPECT_THAT((lender.terms[{3, 1}]), ElementsAre(30, 30));
  EXPECT_THAT((lender.terms[{3, 0}]), ElementsAre(20, 20));
  EXPECT_TRUE(lender.results.empty());  // this reducer's mean may be written
}

TEST_F(ReducerTest, Attach_MeanIsOnlyRead_LiesInTheExchangesMemory) {
  ReducerOptions options;
  options.only_reads_mean = true;
  Make(options);
  LendingExchange lender;
  reducer_->Attach(&lender, LayoutId(0), {Rank(0)});
  lender.results[1] = {5, 6};
  EXPECT_EQ(reducer_->mean(1).data_ptr<float>(), lender.results[1].data());
  EXPECT_EQ(reducer_->mean(1, 0)[1].item<float>(), 6);
}

TEST_F(ReducerTest, ContributeRest_TwoRanks_BucketByBucketBuffersOfTheRoot) {
  Pass(Rank(0), 1);
  Pass(Rank(3), 10);
  reducer_->ContributeRest(reducer_->ranks());
  EXPECT_THAT(exchange_.buckets(), ElementsAre(0, 1, 2));
  EXPECT_THAT(exchange_.contributions(),
              ElementsAre(Contribution{0, 0}, Contribution{0, 3}, Contribution{1, 0},
                          Contribution{1, 3}, Contribution{2, 0}));
  reducer_->Abandon(absl::CancelledError("over"));
}

TEST_F(ReducerTest, ContributeRest_OneHandedIn_OnlyTheOthers) {
  Pass(Rank(0), 1);
  Pass(Rank(3), 10);
  reducer_->Contribute(1, Rank(3));
  reducer_->ContributeRest({Rank(3)});
  EXPECT_THAT(exchange_.contributions(), ElementsAre(Contribution{1, 3}, Contribution{0, 3}));
  reducer_->Abandon(absl::CancelledError("over"));
}

TEST_F(ReducerTest, Terms_TwoRanks_EachItsOwn) {
  Pass(Rank(0), 1);
  Pass(Rank(3), 10);
  EXPECT_EQ(reducer_->terms(0, Rank(0))[0].item<float>(), 2);
  EXPECT_EQ(reducer_->terms(0, Rank(3))[0].item<float>(), 20);
}

TEST_F(ReducerTest, NextBucket_Gradient_MeanOfTheExchange) {
  Pass(Rank(0), 1);
  Pass(Rank(3), 10);
  reducer_->ContributeRest(reducer_->ranks());
  exchange_.End(1);
  EXPECT_EQ(reducer_->NextBucket().value(), 1u);
  EXPECT_EQ(reducer_->mean(1)[0].item<float>(), 30);
  EXPECT_EQ(reducer_->mean(1, 0)[0].item<float>(), 30);
  reducer_->Abandon(absl::CancelledError("over"));
}

TEST_F(ReducerTest, NextBucket_Buffers_ModuleHasThoseOfTheRoot) {
  buffer_.fill_(5);
  reducer_->EndForward(Rank(0));
  buffer_.fill_(6);
  reducer_->EndForward(Rank(3));
  reducer_->Contribute(2, Rank(0));
  exchange_.End(2);
  EXPECT_EQ(reducer_->NextBucket().value(), 2u);
  EXPECT_EQ(buffer_.item<float>(), 5);
}

TEST_F(ReducerTest, ZeroTerms_AfterAPass_Zero) {
  Pass(Rank(3), 10);
  reducer_->ZeroTerms(Rank(3));
  EXPECT_EQ(reducer_->terms(0, Rank(3))[0].item<float>(), 0);
}

// What makes gradients averages when backward() returns.
TEST_F(ReducerTest, BeginPass_CallbackQueuedAtItsBegin_RunsWhenBackwardEnds) {
  std::vector<size_t> told;
  PassListener listener;
  listener.on_begin = [&] {
    torch::autograd::Engine::get_default_engine().queue_callback([&] { told.push_back(99); });
  };
  listener.on_bucket = [&](size_t bucket) { told.push_back(bucket); };
  reducer_->BeginPass(Rank(0), std::move(listener));
  (a_ * b_).sum().backward();
  EXPECT_THAT(told, ElementsAre(0, 1, 99));
}

TEST_F(ReducerTest, Create_ParameterOfAnotherType_InvalidArgumentNamesIt) {
  const auto status =
      Reducer::Create({a_, torch::ones({2}, torch::requires_grad().dtype(torch::kDouble))}, {}, {})
          .status();
  EXPECT_EQ(status, absl::InvalidArgumentError("parameter 1 is Double, expected a contiguous one "
                                               "of float32 on the CPU"));
}

TEST_F(ReducerTest, Create_BufferNotContiguous_InvalidArgumentNamesIt) {
  EXPECT_EQ(Reducer::Create({a_}, {torch::ones({2, 3}).t()}, {}).status(),
            absl::InvalidArgumentError(
                "buffer 0 is not contiguous, expected a contiguous one on the CPU"));
}

TEST_F(ReducerTest, Abandon_TransferUnderWay_ExchangeCancelled) {
  Pass(Rank(0), 1);
  reducer_->Contribute(0, Rank(0));
  reducer_->Abandon(absl::CancelledError("stopped"));
  EXPECT_EQ(exchange_.cancelled(), absl::CancelledError("stopped"));
}

// As an embedding's positions: it is no gradient that travels.
TEST_F(ReducerTest, Create_FrozenParameterOfAnotherType_IsInNoBucket) {
  const auto reducer = Reducer::Create({torch::ones({2}, torch::kLong), a_}, {}, {});
  ASSERT_TRUE(reducer.ok()) << reducer.status();
  EXPECT_EQ((*reducer)->gradient_buckets(), 1u);
  EXPECT_THAT((*reducer)->IndicesOf(0), ElementsAre(1u));
}

TEST_F(ReducerTest, Create_FrozenParameterNotContiguous_InvalidArgumentNamesIt) {
  EXPECT_EQ(Reducer::Create({a_, torch::ones({2, 3}).t()}, {}, {}).status(),
            absl::InvalidArgumentError("parameter 1 is not contiguous, expected a contiguous one "
                                       "of float32 on the CPU"));
}

TEST_F(ReducerTest, StartServed_OneBucketFails_ItsErrorAndTheOthersAreCancelled) {
  ReducerOptions options;
  options.updater = Updater::kServer;
  Make(options);
  const absl::Status gone = absl::UnavailableError("aggregator 0 is gone");
  exchange_.on_contribute = [&](const BucketKey& key) {
    if (key.bucket == Bucket(1)) exchange_.End(1, gone);
  };
  EXPECT_EQ(reducer_->StartServed(absl::Hours(1)), gone);
  EXPECT_EQ(exchange_.under_way(), 0u);
  EXPECT_EQ(exchange_.cancelled(), gone);
}

// Each rank gets the model that the root has begun with.
TEST_F(ReducerTest, StartServed_OfTheRoot_ContributesItsParametersAndTakesWhatComes) {
  ReducerOptions options;
  options.updater = Updater::kServer;
  Make(options);
  exchange_.on_contribute = [&](const BucketKey& key) { exchange_.End(key.bucket.value()); };
  ASSERT_EQ(reducer_->StartServed(absl::Hours(1)), absl::OkStatus());
  EXPECT_THAT(exchange_.contributions(),
              ElementsAre(Contribution{0, 0}, Contribution{1, 0}, Contribution{2, 0}));
  EXPECT_EQ(reducer_->mean(0)[0].item<float>(), 3);  // b
  EXPECT_EQ(reducer_->mean(1)[0].item<float>(), 2);  // a
  EXPECT_EQ(a_[0].item<float>(), 2);
}

// Gives every bucket at once: as many sevens as it holds.
class GivingExchange : public FakeExchange {
 public:
  void Expect(const BucketKey&, absl::Span<uint8_t> result, absl::Time, Done done) override {
    auto* const values = reinterpret_cast<float*>(result.data());
    std::fill(values, values + result.size() / sizeof(float), 7.0f);
    done(absl::OkStatus());
  }
};

// Only the root's model counts.
TEST_F(ReducerTest, StartServed_NotOfTheRoot_ContributesNothingAndHasTheRootsModel) {
  ReducerOptions options;
  options.updater = Updater::kServer;
  Make(options);
  GivingExchange giving;
  reducer_->Attach(&giving, LayoutId(0), {Rank(3), Rank(5)});
  ASSERT_EQ(reducer_->StartServed(absl::Hours(1)), absl::OkStatus());
  EXPECT_THAT(giving.contributions(), ElementsAre());
  EXPECT_EQ(a_[1].item<float>(), 7);
  EXPECT_EQ(b_[1].item<float>(), 7);
  EXPECT_EQ(buffer_.item<float>(), 7);
}

}  // namespace
}  // namespace gradwire
