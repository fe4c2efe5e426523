#include "coordinator/checkpoints/checkpoint_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/rpc/grpc_server.h"
#include "common/state/checkpoints.h"
#include "common/state_transfer/state_service.h"
#include "coordinator/checkpoints/run_folder.h"
#include "coordinator/checkpoints/state_donors.h"
#include "tests/support/recording_disk.h"
#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::gradwire::testing::RecordingDisk;
using ::gradwire::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kStep = 12;

// A worker that holds a model in common with the others, and buffers of its rank. Values are
// functions of key and place.
class Worker : public SharedState {
 public:
  explicit Worker(int rank, int64_t elements = 3 << 19, bool has_optimizer = false,
                  Step held = Step(kStep))
      : service_(
            [this, held](const RunId&, Step step,
                         Generation generation) -> absl::StatusOr<std::shared_ptr<SharedState>> {
              ++calls_;
              if (generation == Generation(0))
                return absl::InvalidArgumentError("got no generation");
              if (step != held) return absl::FailedPreconditionError("another step");
              return std::shared_ptr<SharedState>(this, [](SharedState*) {});
            }) {
    Add("model", "big", elements);
    Add("model", "small", 3);
    if (has_optimizer) Add("optimizer", "small/momentum_buffer", 3);
    Add("ranks", absl::StrCat(rank, "/buffers/mean"), 2);
    Add("codec", "basis/small", 2);
    Add("residuals", absl::StrCat(rank, "/error/small"), 3);
    Add("residuals", absl::StrCat("mean/small/", 2 * rank), 1);
    Add("program", absl::StrCat(rank, "/sampler"), 2);
    server_ = *StartGrpcServer("127.0.0.1:0", {&service_});
  }
  ~Worker() override { Die(); }

  void Die() { server_.Shutdown(); }
  int calls() const { return calls_; }
  StateDonor AsDonor() const {
    return {Incarnation(1),
            absl::StrCat("the worker at ", server_.address),
            server_.address,
            {catalog_.sections().begin(), catalog_.sections().end()}};
  }
  const v1::StateCatalog& catalog() const override { return catalog_; }
  absl::Status Read(const std::string&, const std::string& key, uint64_t begin,
                    absl::Span<uint8_t> out) override {
    for (size_t i = 0; i < out.size(); ++i) out[i] = ValueAt(key, begin + i);
    return absl::OkStatus();
  }
  // Floats from 0 to 1. No rank's tensors, and no parts of a checkpoint, are like others.
  static uint8_t ValueAt(const std::string& key, uint64_t place) {
    if (place % 4 == 3) return 0x3e;
    const uint64_t of_key = key.size() + 5 * static_cast<uint8_t>(key.front());
    return static_cast<uint8_t>(place / 4 + 7 * (place >> 20) + of_key);
  }

 private:
  void Add(const std::string& section, const std::string& key, int64_t elements) {
    const int last = catalog_.sections_size() - 1;
    v1::StateSection* out = last >= 0 && catalog_.sections(last).name() == section
                                ? catalog_.mutable_sections(last)
                                : catalog_.add_sections();
    out->set_name(section);
    v1::StateTensor& tensor = *out->add_tensors();
    tensor.set_key(key);
    tensor.set_dtype("F32");
    tensor.add_shape(elements);
  }

  v1::StateCatalog catalog_;
  std::atomic<int> calls_{0};
  StateService service_;
  GrpcServer server_;
};

class CheckpointKeeperTest : public ::testing::Test {
 protected:
  SaveState Order(const std::vector<const Worker*>& workers) const {
    SaveState save;
    save.step = Step(kStep);
    save.generation = Generation(2);
    save.settings = {{"optimizer", "adam"}, {"seed", "744"}};
    save.threads = 1;
    save.total_steps = 20;
    save.steps_per_epoch = 10;
    for (const Worker* worker : workers) save.donors.push_back(worker->AsDonor());
    return save;
  }

  KeeperOptions OptionsWith(int keep) {
    KeeperOptions options;
    options.run_dir = folder_.path();
    options.keep = keep;
    options.run_id = run_id_;
    options.epoch = CoordinatorEpoch(4);
    options.disk = &disk_;
    options.world_size = 2;
    return options;
  }
  static KeptCheckpoint KeepWith(const KeeperOptions& options, SaveState save) {
    std::promise<KeptCheckpoint> kept;
    CheckpointKeeper keeper(options, [&kept](const KeptCheckpoint& one) { kept.set_value(one); });
    keeper.Order(std::move(save));
    return kept.get_future().get();
  }
  KeptCheckpoint Keep(SaveState save, int keep = 3) {
    return KeepWith(OptionsWith(keep), std::move(save));
  }
  // Changes a value of the checkpoint.
  void Damage() const {
    std::fstream file(absl::StrCat(folder_.path(), "/", CheckpointName(kStep),
                                   "/model-00001-of-00001.safetensors"),
                      std::ios::in | std::ios::out | std::ios::binary);
    ASSERT_TRUE(file.is_open());
    file.seekp(-3, std::ios::end);
    file.put('\xff');
  }

  std::vector<int64_t> Steps() const {
    std::vector<int64_t> steps;
    const auto folders = ListCheckpoints(folder_.path());
    for (const CheckpointFolder& folder : *folders) {
      steps.push_back(folder.step);
    }
    return steps;
  }

  TempDir folder_;
  std::vector<std::string> skipped_;
  RecordingDisk disk_;
  const RunId run_id_ = MakeRunId();
  Worker first_{0};
  Worker second_{1};
};

TEST_F(CheckpointKeeperTest, Order_OldOneCannotBeDeleted_IsPublishedAllTheSame) {
  ASSERT_TRUE(Keep(Order({&first_}), 1).status.ok());
  const size_t operations = disk_.operations().size();  // of a checkpoint without deletions
  std::filesystem::rename(absl::StrCat(folder_.path(), "/", CheckpointName(kStep)),
                          absl::StrCat(folder_.path(), "/", CheckpointName(5)));
  disk_.FailAt(2 * operations, absl::InternalError("cannot write x"));
  const KeptCheckpoint kept = Keep(Order({&first_}), 1);
  EXPECT_EQ(kept.status, absl::OkStatus());
  EXPECT_EQ(kept.deleted, absl::InternalError("cannot write x"));
  EXPECT_THAT(Steps(), ElementsAre(kStep, 5));
}

TEST_F(CheckpointKeeperTest, Order_TwoMoreWhileOneIsWritten_TheOlderOfThemIsGivenUp) {
  std::promise<void> begun, goes_on;
  std::vector<KeptCheckpoint> given_up;
  CheckpointKeeper keeper(OptionsWith(3), [&](const KeptCheckpoint& one) {
    if (one.step != Step(kStep)) return given_up.push_back(one);
    begun.set_value();
    goes_on.get_future().wait();
  });
  keeper.Order(Order({&first_}));
  begun.get_future().wait();
  for (const uint64_t step : {20, 30}) {
    SaveState save = Order({&first_});
    save.step = Step(step);
    save.generation = Generation(step);
    keeper.Order(std::move(save));
  }
  ASSERT_EQ(given_up.size(), 1u);
  EXPECT_EQ(given_up[0].step, Step(20));
  EXPECT_EQ(given_up[0].generation, Generation(20));
  EXPECT_TRUE(absl::IsCancelled(given_up[0].status)) << given_up[0].status;
  EXPECT_TRUE(given_up[0].replaced);
  goes_on.set_value();
}

// After the last step, a worker gives up a copy that is not saved yet.
TEST_F(CheckpointKeeperTest, Order_WorkersHoldALaterStepNow_ItsPlaceIsTaken) {
  std::promise<KeptCheckpoint> earlier, later;
  CheckpointKeeper keeper(OptionsWith(3), [&](const KeptCheckpoint& one) {
    (one.step == Step(kStep) ? later : earlier).set_value(one);
  });
  SaveState save = Order({&first_});
  save.step = Step(8);
  keeper.Order(std::move(save));
  while (first_.calls() == 0) std::this_thread::yield();  // it is refused
  keeper.Order(Order({&first_}));
  const KeptCheckpoint given_up = earlier.get_future().get();
  EXPECT_TRUE(absl::IsFailedPrecondition(given_up.status)) << given_up.status;
  EXPECT_TRUE(given_up.replaced);
  EXPECT_EQ(later.get_future().get().status, absl::OkStatus());
}

TEST_F(CheckpointKeeperTest, Order_WorkersGaveItUpAndNoLaterOneComes_IsNotReplaced) {
  SaveState save = Order({&first_});
  save.step = Step(8);
  const KeptCheckpoint kept = Keep(std::move(save));
  EXPECT_TRUE(absl::IsFailedPrecondition(kept.status)) << kept.status;
  EXPECT_FALSE(kept.replaced);
}

TEST_F(CheckpointKeeperTest, Order_WithAnOptimizer_ManifestHasItsOptions) {
  const Worker worker(0, 8, true);
  SaveState save = Order({&worker});
  save.optimizer.set_name("sgd");
  (*save.optimizer.add_groups()->mutable_options())["lr"] = 0.05;
  (*save.optimizer.add_groups()->mutable_options())["momentum"] = 0.8;
  save.optimizer.mutable_groups(1)->add_parameters(3);
  ASSERT_TRUE(Keep(std::move(save)).status.ok());
  const auto opened = RunFolder::Open(folder_.path(), "auto", 2, "");
  ASSERT_TRUE(opened.ok()) << opened.status();
  const ManifestOptimizer& optimizer = (*opened)->resumed()->manifest().optimizer;
  EXPECT_EQ(optimizer.name, "sgd");
  using Options = std::map<std::string, double>;
  ASSERT_EQ(optimizer.groups.size(), 2u);
  EXPECT_EQ(optimizer.groups[0].options, (Options{{"lr", 0.05}}));
  EXPECT_TRUE(optimizer.groups[0].parameters.empty());
  EXPECT_EQ(optimizer.groups[1].options, (Options{{"momentum", 0.8}}));
  EXPECT_EQ(optimizer.groups[1].parameters, std::vector<int64_t>{3});
}

// As of SGD without momentum.
TEST_F(CheckpointKeeperTest, Order_OptimizerWithoutState_ManifestHasItAllTheSame) {
  SaveState save = Order({&first_, &second_});
  save.optimizer.set_name("sgd");
  ASSERT_TRUE(Keep(std::move(save)).status.ok());
  const auto opened = RunFolder::Open(folder_.path(), "auto", 2, "");
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*opened)->resumed()->manifest().optimizer.name, "sgd");
}

TEST_F(CheckpointKeeperTest, Order_AllDonors_WritesWhatTheyHoldTogether) {
  const absl::Time begun = absl::Now() - absl::Seconds(1);  // manifests may round
  const KeptCheckpoint kept = Keep(Order({&first_, &second_}));
  ASSERT_TRUE(kept.status.ok()) << kept.status;
  EXPECT_EQ(kept.bytes, (3 << 21) + 12 + 16 + 56);  // 56: of codecs and programs
  EXPECT_GT(kept.took, absl::ZeroDuration());
  EXPECT_GT(first_.calls(), 0);
  EXPECT_GT(second_.calls(), 0);
  const auto opened = RunFolder::Open(folder_.path(), "auto", 2, "");
  ASSERT_TRUE(opened.ok()) << opened.status();
  StoredState& state = *(*opened)->resumed();
  EXPECT_EQ(state.manifest().epoch, 4);
  EXPECT_EQ(state.manifest().version, GRADWIRE_VERSION);
  EXPECT_GE(state.manifest().time, begun);
  EXPECT_LE(state.manifest().time, absl::Now());
  EXPECT_FALSE(state.manifest().finished);
  EXPECT_EQ(state.manifest().optimizer.name, "");
  EXPECT_EQ((*opened)->resumed_run().settings.at("seed"), "744");
  for (const auto& [section, key] :
       std::vector<std::pair<std::string, std::string>>{{"model", "big"},
                                                        {"model", "small"},
                                                        {"ranks", "0/buffers/mean"},
                                                        {"ranks", "1/buffers/mean"},
                                                        {"residuals", "1/error/small"}}) {
    std::vector<uint8_t> bytes(key == "big" ? (3 << 21) - 5 : 7);
    ASSERT_TRUE(state.Read(section, key, 1, absl::MakeSpan(bytes)).ok()) << key;
    for (size_t i = 0; i < bytes.size(); ++i) {
      ASSERT_EQ(bytes[i], Worker::ValueAt(key, i + 1)) << key << " " << i;
    }
  }
  std::vector<uint8_t> beyond(9);
  EXPECT_EQ(state.Read("ranks", "0/buffers/mean", 0, absl::MakeSpan(beyond)).code(),
            absl::StatusCode::kInvalidArgument);
}

// "big" has two parts.
TEST_F(CheckpointKeeperTest, Order_DonorsWithTheSameTensors_SendPartsInTurn) {
  const Worker twin(0);
  ASSERT_TRUE(Keep(Order({&first_, &twin})).status.ok());
  EXPECT_GT(first_.calls(), 0);
  EXPECT_GT(twin.calls(), 0);
}

TEST_F(CheckpointKeeperTest, Fetch_FirstDonorGaveItUpAndTheNextIsLost_IsGivenUp) {
  SaveState save = Order({&first_, &first_});
  save.step = Step(kStep - 4);  // it has no copy of that any more
  save.donors[1].address = "127.0.0.1:1";
  const auto plan = PlanOf(save);
  ASSERT_TRUE(plan.ok()) << plan.status();
  StateDonors donors(save, run_id_, Security());
  std::vector<uint8_t> bytes(static_cast<size_t>(plan->parts()[0].bytes));
  const absl::Status fetched = donors.Fetch(*plan, 0, absl::MakeSpan(bytes));
  EXPECT_TRUE(absl::IsFailedPrecondition(fetched)) << fetched;
}

TEST_F(CheckpointKeeperTest, Order_DonorLost_OthersSendItsParts) {
  Worker third(1);
  const SaveState save = Order({&first_, &second_, &third});
  second_.Die();
  const KeptCheckpoint kept = Keep(save);
  EXPECT_TRUE(kept.status.ok()) << kept.status;
  EXPECT_THAT(Steps(), ElementsAre(kStep));
  const auto opened = RunFolder::Open(folder_.path(), "auto", 2, "");
  ASSERT_TRUE(opened.ok()) << opened.status();
  for (const std::string key : {"big", "small"}) {
    std::vector<uint8_t> bytes(key == "big" ? 3 << 21 : 12);
    ASSERT_TRUE((*opened)->resumed()->Read("model", key, 0, absl::MakeSpan(bytes)).ok()) << key;
    for (size_t i = 0; i < bytes.size(); ++i) {
      ASSERT_EQ(bytes[i], Worker::ValueAt(key, i)) << key << " " << i;
    }
  }
}

TEST_F(CheckpointKeeperTest, Order_OnlyHolderOfATensorLost_LeavesNothing) {
  const SaveState save = Order({&first_, &second_});
  second_.Die();
  const KeptCheckpoint kept = Keep(save);
  EXPECT_EQ(kept.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(kept.status.message()), HasSubstr("'1/buffers/mean' of section ranks"));
  EXPECT_THAT(Steps(), IsEmpty());
}

TEST_F(CheckpointKeeperTest, Order_StepIsPublishedAndSound_IsKept) {
  ASSERT_TRUE(Keep(Order({&first_, &second_})).status.ok());
  const int calls = first_.calls();
  EXPECT_TRUE(Keep(Order({&first_, &second_})).status.ok());
  EXPECT_EQ(first_.calls(), calls);
  EXPECT_THAT(Steps(), ElementsAre(kStep));
}

// Its training was given up with --resume STEP, and a setting that only the program knows changed.
TEST_F(CheckpointKeeperTest, Order_StepIsPublishedByAnEarlierStart_IsWrittenAnew) {
  const Worker given_up(0, 8);
  KeeperOptions earlier = OptionsWith(3);
  earlier.epoch = CoordinatorEpoch(3);
  ASSERT_TRUE(KeepWith(earlier, Order({&given_up})).status.ok());
  const KeptCheckpoint kept = Keep(Order({&first_, &second_}));
  ASSERT_TRUE(kept.status.ok()) << kept.status;
  const auto opened = OpenCheckpoint(folder_.path(), kStep, &skipped_);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*opened)->manifest().epoch, 4u);
  EXPECT_EQ((*opened)->plan().bytes(), kept.bytes);
  EXPECT_THAT(Steps(), ElementsAre(kStep));
}

// By the run that continues an older one, because the newest was damaged.
TEST_F(CheckpointKeeperTest, Order_ValuesOfThePublishedStepAreDamaged_IsWrittenAnew) {
  ASSERT_TRUE(Keep(Order({&first_, &second_})).status.ok());
  ASSERT_NO_FATAL_FAILURE(Damage());
  ASSERT_FALSE(OpenCheckpoint(folder_.path(), kStep, &skipped_).ok());
  EXPECT_TRUE(Keep(Order({&first_, &second_})).status.ok());
  const auto opened = OpenCheckpoint(folder_.path(), kStep, &skipped_);
  EXPECT_TRUE(opened.ok()) << opened.status();
}

TEST_F(CheckpointKeeperTest, PlanOf_RanksAreInOrder) {
  const auto plan = PlanOf(Order({&second_, &first_}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const StateSection& ranks = plan->sections()[static_cast<size_t>(plan->FindSection("ranks"))];
  ASSERT_EQ(ranks.tensors.size(), 2);
  EXPECT_EQ(ranks.tensors[0].key, "0/buffers/mean");
}

TEST_F(CheckpointKeeperTest, PlanOf_RankTen_IsBehindRankNine) {
  SaveState save;
  for (const int rank : {10, 9, 2}) {
    StateDonor& donor = save.donors.emplace_back();
    for (const char* name : {"ranks", "residuals", "program"}) {
      v1::StateSection& section = donor.sections.emplace_back();
      section.set_name(name);
      v1::StateTensor& tensor = *section.add_tensors();
      tensor.set_key(absl::StrCat(rank, "/values"));
      tensor.set_dtype("F32");
      tensor.add_shape(1);
    }
  }
  const auto plan = PlanOf(save);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->sections().size(), 3u);
  for (const StateSection& section : plan->sections()) {
    std::vector<std::string> keys;
    for (const auto& tensor : section.tensors) keys.push_back(tensor.key);
    EXPECT_THAT(keys, ElementsAre("2/values", "9/values", "10/values")) << section.name;
  }
}

TEST_F(CheckpointKeeperTest, PlanOf_HasWhatCodecsAndProgramsKeep) {
  const auto plan = PlanOf(Order({&second_, &first_}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto keys_of = [&plan](const char* section) {
    std::vector<std::string> keys;
    for (const auto& tensor :
         plan->sections()[static_cast<size_t>(plan->FindSection(section))].tensors) {
      keys.push_back(tensor.key);
    }
    return keys;
  };
  EXPECT_THAT(keys_of("codec"), ElementsAre("basis/small"));
  EXPECT_THAT(keys_of("residuals"),
              ElementsAre("mean/small/2", "0/error/small", "mean/small/0", "1/error/small"));
  EXPECT_THAT(keys_of("program"), ElementsAre("0/sampler", "1/sampler"));
}

TEST_F(CheckpointKeeperTest, PlanOf_UnknownType_NamesTheTensor) {
  SaveState save = Order({&first_});
  save.donors[0].sections[0].mutable_tensors(1)->set_dtype("F31");
  EXPECT_THAT(std::string(PlanOf(save).status().message()), HasSubstr("'small': got F31"));
  EXPECT_EQ(Keep(save).status.code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CheckpointKeeperTest, RunFolder_Refusals) {
  EXPECT_EQ((*RunFolder::Open(folder_.path(), "auto", 2, ""))->resumed(), nullptr);
  EXPECT_EQ((*RunFolder::Open(folder_.path(), "never", 2, ""))->resumed(), nullptr);
  EXPECT_EQ(RunFolder::Open(folder_.path(), "12", 2, "").status().code(),
            absl::StatusCode::kNotFound);
  ASSERT_TRUE(Keep(Order({&first_, &second_})).status.ok());
  EXPECT_THAT(std::string(RunFolder::Open(folder_.path(), "never", 2, "").status().message()),
              HasSubstr("expected a folder without checkpoints"));
  EXPECT_THAT(std::string(RunFolder::Open(folder_.path(), "auto", 3, "").status().message()),
              HasSubstr("world size: got 3, expected 2, as in the checkpoint before step 12"));
  const auto held = RunFolder::Open(folder_.path(), "auto", 2, "");
  ASSERT_TRUE(held.ok());
  EXPECT_EQ(RunFolder::Open(folder_.path(), "auto", 2, "").status().code(),
            absl::StatusCode::kUnavailable);
}

// Else a run that goes on from a checkpoint might find its ledger without it.
TEST_F(CheckpointKeeperTest, Order_LedgerCannotRecordIt_OlderOnesStayUntilItCan) {
  ASSERT_TRUE(Keep(Order({&first_})).status.ok());
  std::filesystem::rename(absl::StrCat(folder_.path(), "/", CheckpointName(kStep)),
                          absl::StrCat(folder_.path(), "/", CheckpointName(5)));
  KeeperOptions options = OptionsWith(1);
  absl::Status recorded = absl::InternalError("input/output error");
  std::vector<uint64_t> published;
  options.on_published = [&](Step step) {
    published.push_back(step.value());
    return recorded;
  };
  EXPECT_EQ(KeepWith(options, Order({&first_})).status, absl::OkStatus());
  EXPECT_THAT(published, ElementsAre(kStep));
  EXPECT_THAT(Steps(), ElementsAre(kStep, 5));
  recorded = absl::OkStatus();
  EXPECT_EQ(KeepWith(options, Order({&first_})).status, absl::OkStatus());
  EXPECT_THAT(Steps(), ElementsAre(kStep));
}

TEST_F(CheckpointKeeperTest, Order_NotWritten_LedgerDoesNotHearOfIt) {
  KeeperOptions options = OptionsWith(1);
  int published = 0;
  options.on_published = [&published](Step) {
    ++published;
    return absl::OkStatus();
  };
  SaveState save = Order({&first_, &second_});
  save.donors[1].address = "127.0.0.1:1";  // another test may get a port that was free again
  EXPECT_FALSE(KeepWith(options, std::move(save)).status.ok());
  EXPECT_EQ(published, 0);
}

TEST_F(CheckpointKeeperTest, Order_AfterTheLastStep_ManifestSaysSoAndHowFarTheLedgerIs) {
  SaveState save = Order({&first_, &second_});
  save.total_steps = kStep;
  KeeperOptions options = OptionsWith(3);
  options.ledger_position = [] { return Manifest::Ledger{17, 4711}; };
  ASSERT_TRUE(KeepWith(options, std::move(save)).status.ok());
  const auto opened = RunFolder::Open(folder_.path(), "auto", 2, "");
  ASSERT_TRUE(opened.ok()) << opened.status();
  const Manifest& manifest = (*opened)->resumed()->manifest();
  EXPECT_TRUE(manifest.finished);
  ASSERT_TRUE(manifest.ledger.has_value());
  EXPECT_EQ(manifest.ledger->number, 17u);
  EXPECT_EQ(manifest.ledger->chain, 4711u);
}

TEST_F(CheckpointKeeperTest, RunFolder_ResumedRun_HasAllThatTheWorkersSaid) {
  SaveState save = Order({&first_, &second_});
  save.threads = 3;
  save.environment = {{"blas", "OpenBLAS"}};
  ASSERT_TRUE(Keep(save).status.ok());
  const auto opened = RunFolder::Open(folder_.path(), "auto", 2, "");
  ASSERT_TRUE(opened.ok()) << opened.status();
  const ResumedRun run = (*opened)->resumed_run();
  EXPECT_EQ(run.step, Step(kStep));
  EXPECT_EQ(run.settings, save.settings);
  EXPECT_EQ(run.threads, 3);
  EXPECT_EQ(run.environment, save.environment);
  EXPECT_EQ(run.total_steps, 20u);
  EXPECT_EQ(run.steps_per_epoch, 10u);
}

// Else, without a ledger, a run that resumes before the last checkpoint would take the later one of
// an earlier start for its own.
TEST_F(CheckpointKeeperTest, RunFolder_LastEpoch_IsThatOfAllCheckpoints) {
  EXPECT_EQ((*RunFolder::Open(folder_.path(), "auto", 2, ""))->LastEpoch(), 0u);
  ASSERT_TRUE(Keep(Order({&first_})).status.ok());
  const Worker before(0, 8, false, Step(kStep - 4));
  SaveState save = Order({&before});
  save.step = Step(kStep - 4);
  KeeperOptions earlier = OptionsWith(3);
  earlier.epoch = CoordinatorEpoch(3);
  ASSERT_TRUE(KeepWith(earlier, std::move(save)).status.ok());
  const auto opened = RunFolder::Open(folder_.path(), absl::StrCat(kStep - 4), 2, "");
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*opened)->resumed()->manifest().epoch, 3u);
  EXPECT_EQ((*opened)->LastEpoch(), 4u);
}

TEST_F(CheckpointKeeperTest, StoredState_FileIsDamagedAfterItWasOpened_DataLoss) {
  ASSERT_TRUE(Keep(Order({&first_, &second_})).status.ok());
  const auto opened = RunFolder::Open(folder_.path(), "auto", 2, "");
  ASSERT_TRUE(opened.ok()) << opened.status();
  ASSERT_NO_FATAL_FAILURE(Damage());
  std::vector<uint8_t> bytes(12);
  const absl::Status read = (*opened)->resumed()->Read("model", "small", 0, absl::MakeSpan(bytes));
  EXPECT_TRUE(absl::IsDataLoss(read)) << read;
}

// A run that began anew would in time delete what could still be repaired.
TEST_F(CheckpointKeeperTest, RunFolder_OnlyCheckpointIsDamaged_BeginsNoNewRun) {
  ASSERT_TRUE(Keep(Order({&first_, &second_})).status.ok());
  ASSERT_NO_FATAL_FAILURE(Damage());
  const absl::Status refused = RunFolder::Open(folder_.path(), "auto", 2, "").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("got no sound checkpoint"));
}

}  // namespace
}  // namespace gradwire
