#include "worker/state/training_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/worker/run/training.h"
#include "worker/run/pending_step.h"
#include "worker/sync/pseudo_gradient.h"

namespace gradwire {
namespace {

using ::gradwire::testing::StagedModel;
using ::testing::HasSubstr;

struct StateSetup {
  std::string sync = "gather-scatter";
  std::string optimizer = "adam";
  double momentum = 0.9;
  bool broadcast = true;
  std::vector<Rank> ranks = {Rank(1), Rank(2)};
  double bucket_cap_bytes = 1 << 10;
  bool undoable = false;
  bool frozen = false;  // the buffers
};

// Its statistics stay, like those of a frozen extractor.
class FrozenStatistics : public StagedModel {
 public:
  std::vector<torch::Tensor> trained_buffers() const override { return {}; }
};

SyncOptions PeriodicOptions(const StateSetup& setup) {
  SyncOptions options;
  if (setup.sync.find(':') == std::string::npos) return options;
  options.interval = 2;
  return options;
}

// A trainer's parts with state, without a run: `seed` sets all values.
class Parts {
 public:
  Parts(const StateSetup& setup, uint64_t seed) : setup_(setup) {
    torch::manual_seed(seed);
    model_ = setup.frozen ? std::make_shared<FrozenStatistics>() : std::make_shared<StagedModel>();
    ReducerOptions options;
    options.bucket_cap_bytes = setup.bucket_cap_bytes;
    options.broadcast_buffers = setup.broadcast;
    options.undoable = setup.undoable;
    options.updater = is_periodic() ? Updater::kRank : Updater::kAll;
    reducer_ = *Reducer::Create(model_->parameters(), model_->trained_buffers(), options);
    SyncOptions of_sync = PeriodicOptions(setup);
    if (is_periodic() && setup.broadcast) {
      for (const torch::Tensor& buffer : model_->trained_buffers()) {
        if (buffer.scalar_type() == torch::kFloat) of_sync.averaged_buffers.push_back(buffer);
      }
    }
    sync_ = *MakeSynchronizer(setup.sync, reducer_.get(), of_sync);
    UpdateOptions update;
    update.optimizer.name = setup.optimizer;
    update.optimizer.momentum = setup.momentum;
    pending_ = *PendingStep::Create(model_.get(), reducer_.get(), update);
  }

  bool is_periodic() const { return setup_.sync.find(':') != std::string::npos; }
  TrainingParts parts() {
    TrainingParts parts;
    parts.model = model_.get();
    parts.reducer = reducer_.get();
    parts.sync = sync_.get();
    parts.optimizers = [this](size_t index) { return pending_->Optimizers(index); };
    parts.broadcast = setup_.broadcast;
    parts.undoable = setup_.undoable;
    return parts;
  }
  torch::Tensor mean() const { return model_->named_buffers()["norm.running_mean"]; }
  void Attach() { sync_->Attach(nullptr, LayoutId(0), setup_.ranks); }
  // A worker was lost in the first step.
  void Rewind() {
    reducer_->Rewind();
    Attach();
  }

  // Gives each rank other buffers, and a model of its own in a periodic sync; and updates.
  void Train() {
    const torch::NoGradGuard values_only;
    for (size_t i = 0; i < setup_.ranks.size(); ++i) {
      reducer_->BeginForward(setup_.ranks[i]);
      for (torch::Tensor& buffer : model_->trained_buffers()) buffer.add_(static_cast<int>(i) + 1);
      for (size_t bucket = 0; bucket < reducer_->gradient_buckets(); ++bucket) {
        if (i > 0 && !is_periodic()) break;
        int64_t elements = 0;
        for (const torch::Tensor& tensor : reducer_->ParametersOf(bucket)) {
          elements += tensor.numel();
        }
        pending_->Optimizers(i)[bucket].Step(torch::randn({elements}), 0.1);
      }
      reducer_->EndForward(setup_.ranks[i]);
    }
    if (sync_->outer() == nullptr) return;
    for (size_t bucket = 0; bucket < sync_->outer()->bucket_count(); ++bucket) {
      const absl::Span<uint8_t> mean = sync_->outer()->mean(bucket);
      auto* const values = reinterpret_cast<float*>(mean.data());
      for (size_t i = 0; i < mean.size() / sizeof(float); ++i) values[i] = 0.01F;
      sync_->outer()->Step(bucket);
    }
  }

  std::shared_ptr<StateCopy> Copy() {
    return std::make_shared<StateCopy>(TrainingState(parts()).Copy());
  }

  absl::Status Restore(const std::shared_ptr<StateCopy>& state) {
    const StateReader reader(
        state->catalog(),
        [&state](const std::string& section, const std::string& key, const torch::Tensor& tensor) {
          return state->Read(section, key, 0,
                             {static_cast<uint8_t*>(tensor.data_ptr()), tensor.nbytes()});
        });
    TrainingState own(parts());
    absl::Status restored = own.RestoreCommon(reader);
    Attach();
    return restored.ok() ? own.RestoreOwn(reader) : restored;
  }

 private:
  const StateSetup setup_;
  std::shared_ptr<StagedModel> model_;
  std::unique_ptr<Reducer> reducer_;
  std::unique_ptr<Synchronizer> sync_;
  std::unique_ptr<PendingStep> pending_;
};

// All values, by section and key.
std::map<std::string, std::string> ValuesOf(StateCopy& copy) {
  std::map<std::string, std::string> values;
  for (const v1::StateSection& section : copy.catalog().sections()) {
    for (const v1::StateTensor& tensor : section.tensors()) {
      int64_t bytes = tensor.dtype() == "I64" ? 8 : 4;
      for (const int64_t size : tensor.shape()) bytes *= size;
      std::string& value = values[section.name() + ": " + tensor.key()];
      value.resize(static_cast<size_t>(bytes));
      EXPECT_TRUE(copy.Read(section.name(), tensor.key(), 0,
                            {reinterpret_cast<uint8_t*>(&value[0]), value.size()})
                      .ok());
    }
  }
  return values;
}

class TrainingStateTest : public ::testing::TestWithParam<StateSetup> {};

// Buckets need not be the same.
TEST_P(TrainingStateTest, CopyOfOneTrainer_RestoredInAnother_IsTheSame) {
  Parts trained(GetParam(), 744);
  trained.Attach();
  trained.Train();
  const std::shared_ptr<StateCopy> copy = trained.Copy();
  StateSetup other = GetParam();
  other.bucket_cap_bytes = 1 << 20;
  Parts restored(other, 745);
  EXPECT_NE(ValuesOf(*restored.Copy()), ValuesOf(*copy));
  const absl::Status status = restored.Restore(copy);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(ValuesOf(*restored.Copy()), ValuesOf(*copy));
}

// A copy is written while training goes on.
TEST_P(TrainingStateTest, Copy_TrainingGoesOn_StaysAsItWas) {
  Parts trained(GetParam(), 744);
  trained.Attach();
  trained.Train();
  const std::shared_ptr<StateCopy> copy = trained.Copy();
  const auto before = ValuesOf(*copy);
  trained.Train();
  EXPECT_EQ(ValuesOf(*copy), before);
  EXPECT_NE(ValuesOf(*trained.Copy()), before);
}

StateSetup Make(const std::string& sync, const std::string& optimizer, bool broadcast,
                double momentum = 0.9) {
  StateSetup setup;
  setup.sync = sync;
  setup.optimizer = optimizer;
  setup.broadcast = broadcast;
  setup.momentum = momentum;
  return setup;
}

INSTANTIATE_TEST_SUITE_P(All, TrainingStateTest,
                         ::testing::Values(Make("gather-scatter", "adam", true),
                                           Make("ddp", "sgd", true), Make("ddp", "sgd", false),
                                           Make("ddp", "sgd", true, 0),
                                           Make("local-sgd:2", "sgd", true),
                                           Make("diloco:2", "adamw", true),
                                           Make("diloco:2", "sgd", false)));

TEST(CopyStateTest, Digests_AreOfWhatAllWorkersHaveInCommon) {
  const StateSetup setup = Make("ddp", "sgd", false);
  Parts one(setup, 744), other(setup, 744);
  for (Parts* parts : {&one, &other}) {
    parts->Attach();
    torch::manual_seed(1);
    parts->Train();
  }
  EXPECT_EQ(one.Copy()->Digests(), other.Copy()->Digests());
  other.parts().optimizers(0)[0].Save();
  std::vector<torch::Tensor> state = other.parts().optimizers(0)[0].State();
  state[0][0] += 1;
  ASSERT_TRUE(other.parts().optimizers(0)[0].SetState(state).ok());
  EXPECT_FALSE(one.Copy()->Digests() == other.Copy()->Digests());
}

// They are compared by number. What a rank has for itself stands before the outer step.
TEST(CopyStateTest, Digests_WorkersOfOneAndOfTwoRanks_AreTheSame) {
  StateSetup setup = Make("diloco:2", "sgd", true);
  std::vector<std::vector<TensorDigest>> digests;
  for (const int ranks : {1, 2}) {
    setup.ranks.resize(static_cast<size_t>(ranks), Rank(2));
    Parts parts(setup, 744);
    parts.Attach();
    parts.Train();
    digests.push_back(parts.Copy()->Digests());
  }
  EXPECT_FALSE(digests[0].empty());
  EXPECT_EQ(digests[0], digests[1]);
}

TEST(CopyStateTest, Keys_AreThoseOfTorch) {
  Parts parts(Make("ddp", "adam", true), 744);
  parts.Attach();
  parts.Train();
  const auto values = ValuesOf(*parts.Copy());
  for (const char* key : {"model: conv.weight", "optimizer: conv.weight/step",
                          "optimizer: conv.weight/exp_avg", "ranks: 0/buffers/norm.running_mean"}) {
    EXPECT_EQ(values.count(key), 1) << key;
  }
  EXPECT_EQ(values.count("ranks: 1/buffers/norm.running_mean"), 0);
}

class FrozenBuffersTest : public ::testing::TestWithParam<StateSetup> {
 protected:
  static StateSetup FrozenSetup() {
    StateSetup setup = GetParam();
    setup.frozen = true;
    return setup;
  }
  // As a checkpoint has them, with a mean of 3.
  static std::vector<StateTensorRef> TensorsOf(Parts* trained) {
    trained->mean().fill_(3);
    trained->Attach();
    trained->Train();
    return TrainingState(trained->parts()).Copy();
  }
};

// Else an export would be no whole state dict.
TEST_P(FrozenBuffersTest, Copy_FrozenBuffers_AreInItOnceAndRestored) {
  Parts trained(FrozenSetup(), 744);
  const auto copy = std::make_shared<StateCopy>(TensorsOf(&trained));
  const auto values = ValuesOf(*copy);
  for (const char* name : {"running_mean", "running_var", "num_batches_tracked"}) {
    EXPECT_EQ(values.count(std::string("ranks: 0/buffers/norm.") + name), 1) << name;
    EXPECT_EQ(values.count(std::string("ranks: 1/buffers/norm.") + name), 0) << name;
  }
  Parts restored(FrozenSetup(), 745);
  ASSERT_TRUE(restored.Restore(copy).ok());
  EXPECT_EQ(ValuesOf(*restored.Copy()), values);
}

TEST_P(FrozenBuffersTest, Digests_OtherFrozenBuffers_Differ) {
  Parts one(FrozenSetup(), 744), other(FrozenSetup(), 744);
  for (Parts* parts : {&one, &other}) parts->Attach();
  EXPECT_EQ(one.Copy()->Digests(), other.Copy()->Digests());
  other.mean().fill_(3);
  EXPECT_FALSE(one.Copy()->Digests() == other.Copy()->Digests());
}

TEST_P(FrozenBuffersTest, Restore_CheckpointWithoutFrozenBuffers_Succeeds) {
  Parts trained(FrozenSetup(), 744);
  std::vector<StateTensorRef> tensors = TensorsOf(&trained);
  const auto is_buffer = [](const StateTensorRef& ref) {
    return ref.key.find("/buffers/") != std::string::npos;
  };
  tensors.erase(std::remove_if(tensors.begin(), tensors.end(), is_buffer), tensors.end());
  Parts restored(FrozenSetup(), 745);
  const absl::Status status = restored.Restore(std::make_shared<StateCopy>(std::move(tensors)));
  EXPECT_TRUE(status.ok()) << status;
}

INSTANTIATE_TEST_SUITE_P(All, FrozenBuffersTest,
                         ::testing::Values(Make("ddp", "sgd", true), Make("ddp", "sgd", false),
                                           Make("diloco:2", "sgd", true)));

// A worker is lost in the first step after the resume, which is computed again.
TEST(StateRestorerTest, Rewind_FirstStepAfterIt_RanksHaveTheirRestoredBuffers) {
  StateSetup setup = Make("ddp", "sgd", /*broadcast=*/false);
  setup.undoable = true;
  Parts trained(setup, 744);
  trained.Attach();
  trained.Train();
  const std::shared_ptr<StateCopy> copy = trained.Copy();
  Parts restored(setup, 745);
  ASSERT_TRUE(restored.Restore(copy).ok());
  restored.Rewind();
  EXPECT_EQ(ValuesOf(*restored.Copy()), ValuesOf(*copy));
}

TEST(StateRestorerTest, StateOfAnotherModel_NamesTheTensor) {
  Parts trained(Make("ddp", "sgd", true), 744);
  trained.Attach();
  trained.Train();
  Parts adam(Make("ddp", "adam", true), 744);
  std::vector<StateTensorRef> tensors = TrainingState(trained.parts()).Copy();
  tensors[0].tensor = torch::zeros({2});
  const absl::Status status = adam.Restore(std::make_shared<StateCopy>(tensors));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(tensors[0].key));
  EXPECT_THAT(std::string(status.message()), HasSubstr("F32 [2]"));
}

// By another name, readers would take the bytes for other numbers.
TEST(StateTypeOf, EachType_IsThatOfSafetensors) {
  const std::vector<std::pair<torch::ScalarType, std::string>> names = {
      {torch::kDouble, "F64"},    {torch::kFloat, "F32"}, {torch::kHalf, "F16"},
      {torch::kBFloat16, "BF16"}, {torch::kLong, "I64"},  {torch::kInt, "I32"},
      {torch::kShort, "I16"},     {torch::kChar, "I8"},   {torch::kByte, "U8"},
      {torch::kBool, "BOOL"},     {at::kComplexFloat, ""}};
  for (const auto& [type, name] : names) {
    EXPECT_EQ(StateTypeOf(torch::zeros({1}, type)), name) << c10::toString(type);
  }
}

TEST(StateCopyTest, Read_PartOfATensor_ItsBytes) {
  StateCopy copy({{"model", "weight", torch::tensor({1.0F, 2.0F}), true}});
  float value = 0;
  EXPECT_TRUE(
      copy.Read("model", "weight", 4, {reinterpret_cast<uint8_t*>(&value), sizeof(value)}).ok());
  EXPECT_EQ(value, 2);
}

TEST(StateCopyTest, Read_WhatIsNotHeld_IsRefused) {
  StateCopy copy({{"model", "weight", torch::tensor({1.0F, 2.0F}), true}});
  std::vector<uint8_t> out(4);
  for (const uint64_t begin : {uint64_t{5}, uint64_t{8}, uint64_t{9}, UINT64_MAX}) {
    const absl::Status status = copy.Read("model", "weight", begin, absl::MakeSpan(out));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << begin;
    EXPECT_THAT(std::string(status.message()), HasSubstr("expected at most 8"));
  }
  EXPECT_THAT(std::string(copy.Read("model", "bias", 0, absl::MakeSpan(out)).message()),
              HasSubstr("'bias' of section model, which is not held here"));
  EXPECT_FALSE(copy.Read("optimizer", "weight", 0, absl::MakeSpan(out)).ok());
}

TEST(StateReaderTest, Get_OtherTypeShapeOrNoTensor_IsRefusedBeforeItIsFetched) {
  const torch::Tensor longs = torch::zeros({2}, torch::kLong);
  const StateCopy copy({{"model", "count", longs, true}});
  int fetched = 0;
  const StateReader reader(
      copy.catalog(), [&fetched](const std::string&, const std::string&, const torch::Tensor&) {
        ++fetched;
        return absl::OkStatus();
      });
  EXPECT_EQ(reader.Get("model", "count", torch::zeros({2})),
            absl::InvalidArgumentError(
                "checkpoint: tensor 'count' of section model: got I64 [2], expected F32 [2]"));
  EXPECT_EQ(reader.Get("model", "count", torch::zeros({3}, torch::kLong)),
            absl::InvalidArgumentError(
                "checkpoint: tensor 'count' of section model: got I64 [2], expected I64 [3]"));
  EXPECT_THAT(std::string(reader.Get("model", "weight", longs).message()),
              HasSubstr("tensor 'weight' of section model: got none"));
  EXPECT_FALSE(reader.Get("ranks", "count", longs).ok());
  EXPECT_EQ(fetched, 0);
  EXPECT_EQ(reader.Get("model", "count", longs), absl::OkStatus());
  EXPECT_EQ(fetched, 1);
}

}  // namespace
}  // namespace gradwire
