// A worker of two ranks undoes a step that is not sealed, and trains on in another view.
#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "tests/worker/run/recorded_exchange.h"
#include "tests/worker/run/training.h"
#include "worker/ddp/model_layout.h"

namespace gradwire::rewind_test {
namespace {

using testing::Batches;
using testing::FoldingExchange;
using testing::RandomModel;
using testing::Recording;
using testing::RunTrainer;

constexpr int64_t kSteps = 5;

struct Case {
  const char* name;
  const char* sync;
  bool broadcast_buffers;

  friend std::ostream& operator<<(std::ostream& out, const Case& one) { return out << one.name; }
};

class RewindTest : public ::testing::TestWithParam<Case> {
 protected:
  // Of parameters, and of the buffers of each rank.
  using Hashes = std::vector<std::string>;

  void Make() {
    TrainerOptions options;
    options.reducer.bucket_cap_bytes = 500;
    options.reducer.broadcast_buffers = GetParam().broadcast_buffers;
    options.updates_late = std::string(GetParam().sync) == "ddp";
    options.seal.ready = [](Step, absl::Span<const TensorDigest>) {};
    options.seal.await = [this](Step step) {
      return step == lost_ ? absl::AbortedError("a worker was lost") : absl::OkStatus();
    };
    model_ = std::make_shared<RandomModel>(0.5);
    trainer_ = Trainer::Create(model_, options).value();
    sync_ = MakeSynchronizer(GetParam().sync, &trainer_->reducer()).value();
  }

  void Attach() {
    exchange_ = std::make_unique<FoldingExchange>(kRanks.size(), &recording_);
    exchange_->AddLayout(LayoutId(0), sync_->BucketSpecs());
    sync_->Attach(exchange_.get(), LayoutId(0), kRanks);
  }

  // In a view of its own.
  absl::Status TrainFrom(uint64_t first) {
    Attach();
    Batches batches(kSteps, static_cast<int>(kRanks.size()), kRanks);
    for (uint64_t i = 0; i < first * kRanks.size(); ++i) batches.Next().value();
    return RunTrainer(*trainer_, std::move(batches), sync_.get());
  }

  Hashes HashesOfAll() const {
    Hashes hashes = {Sha256(model_->parameters())};
    for (const Rank rank : kRanks) {
      trainer_->reducer().BeginForward(rank);
      hashes.push_back(Sha256(model_->buffers()));
    }
    return hashes;
  }

  // The last step that the worker waits for is `lost`, and it goes on from `first`.
  Hashes Recovered(uint64_t lost, uint64_t first) {
    Make();
    lost_ = Step(lost);
    EXPECT_TRUE(absl::IsAborted(TrainFrom(0)));
    lost_ = Step(1000);
    trainer_->Rewind(Step(first));
    EXPECT_TRUE(TrainFrom(first).ok());
    return HashesOfAll();
  }

  const std::vector<Rank> kRanks = {Rank(0), Rank(1)};
  Step lost_{1000};  // will never be sealed
  Recording recording_;
  std::shared_ptr<RandomModel> model_;
  std::unique_ptr<FoldingExchange> exchange_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<Synchronizer> sync_;
};

TEST_P(RewindTest, Rewind_AnyStep_EachRankEndsAsInTheUndisturbedRun) {
  Make();
  ASSERT_TRUE(TrainFrom(0).ok());
  const Hashes undisturbed = HashesOfAll();
  EXPECT_EQ(undisturbed[1] == undisturbed[2], GetParam().broadcast_buffers);
  for (uint64_t lost = 0; lost < kSteps; ++lost) {
    EXPECT_EQ(Recovered(lost, lost), undisturbed) << "step " << lost << " is undone";
    EXPECT_EQ(Recovered(lost, lost + 1), undisturbed) << "step " << lost << " was sealed";
  }
}

// Another worker is lost before a step is sealed in the new view; or before one is computed there.
TEST_P(RewindTest, Rewind_TwiceToTheSameStep_EachRankEndsAsInTheUndisturbedRun) {
  Make();
  ASSERT_TRUE(TrainFrom(0).ok());
  const Hashes undisturbed = HashesOfAll();
  for (const uint64_t lost : {uint64_t{0}, uint64_t{2}}) {
    for (const bool computes : {true, false}) {
      Make();
      lost_ = Step(lost);
      EXPECT_TRUE(absl::IsAborted(TrainFrom(0)));
      trainer_->Rewind(Step(lost));
      if (computes) {
        EXPECT_TRUE(absl::IsAborted(TrainFrom(lost)));
      } else {
        Attach();
      }
      lost_ = Step(1000);
      trainer_->Rewind(Step(lost));
      EXPECT_TRUE(TrainFrom(lost).ok());
      EXPECT_EQ(HashesOfAll(), undisturbed) << "step " << lost << ", computes: " << computes;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Buffers, RewindTest,
                         ::testing::Values(Case{"Broadcast", "all-reduce", true},
                                           Case{"Own", "all-reduce", false},
                                           Case{"BroadcastLate", "ddp", true},
                                           Case{"OwnLate", "ddp", false}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace gradwire::rewind_test
