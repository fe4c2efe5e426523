#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "common/base/host.h"
#include "common/wire/xxh3.h"
#include "tests/worker/run/training.h"
#include "worker/models/prepare.h"
#include "worker/options/sync_choice.h"
#include "worker/run/from_options.h"

namespace gradwire {
namespace {

using ::testing::ContainerEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Settings = std::map<std::string, std::string>;

Settings SettingsOf(const WorkerOptions& options) {
  const v1::Hello hello = MakeHello(options, 100);
  return {hello.settings().begin(), hello.settings().end()};
}

// Workers of other versions compare them by name and value.
TEST(MakeHello, Defaults_AreTheseSettings) {
  EXPECT_THAT(SettingsOf(WorkerOptions()), ContainerEq(Settings{{"accumulate", "1"},
                                                                {"augment", "true"},
                                                                {"backend", ""},
                                                                {"batch-size", "64"},
                                                                {"broadcast-buffers", "true"},
                                                                {"bucket-cap-mb", "-1"},
                                                                {"dataset", "fashion-mnist"},
                                                                {"drop-last", "false"},
                                                                {"epochs", "1"},
                                                                {"iterations", "0"},
                                                                {"lr", "0"},
                                                                {"model", "vgg11"},
                                                                {"momentum", "0.9"},
                                                                {"sampler-seed", "0"},
                                                                {"seed", "744"},
                                                                {"sync", "ddp"},
                                                                {"training samples", "100"},
                                                                {"weight-decay", "-1"},
                                                                {"wire", "fp32"}}));
}

// All that WorkerOptions has, each other than by default.
WorkerOptions AllChanged() {
  WorkerOptions options;
  options.coordinator = "h:1";
  options.ranks = {Rank(1)};
  options.world_size = 3;
  options.host_coordinator = true;
  options.coordinator_metrics = "off";
  options.sync = "diloco:8";
  options.delay = 2;
  options.outer.lr = 0.5;
  options.outer.momentum = 0.25;
  options.staleness = kNoBound;
  options.backend = "sharded";
  options.bucket_cap_mb = 2.5;
  options.barrier = true;
  options.wire = "bf16";
  options.compress = "int8";
  options.compress_warmup = 3;
  options.connections = 2;
  options.groups = 4;
  options.broadcast_buffers = false;
  options.weights = "w.pt";
  options.save_weights = "s.pt";
  options.model = "lenet";
  options.image_size = 32;
  options.hidden = 16;
  options.freeze_features = true;
  options.dataset = "mnist";
  options.data_dir = "d";
  options.batch_size = 5;
  options.accumulate = 6;
  options.devices = 2;
  options.compute_seconds = ComputeSeconds{0.25, 0.5};
  options.inference = "native";
  options.iterations = 7;
  options.epochs = 8;
  options.loss = "mse";
  options.optimizer = "adam";
  options.lr = 0.0625;
  options.momentum = 0.5;
  options.nesterov = true;
  options.weight_decay = 0.125;
  options.lr_schedule = "step";
  options.lr_step_epochs = 9;
  options.lr_gamma = 0.75;
  options.warmup_epochs = 10;
  options.scale_lr = true;
  options.base_batch = 11;
  options.seed = 12;
  options.sampler_seed = 13;
  options.augment = false;
  options.drop_last = true;
  options.set_epoch = false;
  options.loaders = 2;
  options.threads = 3;
  options.instructions = "avx2";
  options.local_world_size = 2;
  options.evaluate = true;
  options.evaluate_every = 14;
  options.log_jsonl = options.trace = options.summary = "f";
  options.metrics = options.listen = "h:2";
  options.advertise = "h";
  options.print_every = 15;
  options.connect_timeout_seconds = 16;
  options.step_timeout_seconds = 17;
  options.on_nonfinite = "skip";
  options.check_replicas = 18;
  return options;
}

TEST(MakeHello, EverythingChanged_AreTheseSettings) {
  EXPECT_THAT(SettingsOf(AllChanged()), ContainerEq(Settings{{"accumulate", "6"},
                                                             {"augment", "false"},
                                                             {"backend", "sharded"},
                                                             {"base-batch", "11"},
                                                             {"batch-size", "5"},
                                                             {"broadcast-buffers", "false"},
                                                             {"bucket-cap-mb", "2.5"},
                                                             {"check-replicas", "18"},
                                                             {"compress", "int8"},
                                                             {"compress-warmup", "3"},
                                                             {"compute-seconds", "0.25,0.5"},
                                                             {"dataset", "mnist"},
                                                             {"delay", "2"},
                                                             {"drop-last", "true"},
                                                             {"epochs", "8"},
                                                             {"evaluate", "true"},
                                                             {"evaluate-every", "14"},
                                                             {"freeze-features", "true"},
                                                             {"groups", "4"},
                                                             {"hidden", "16"},
                                                             {"image-size", "32"},
                                                             {"iterations", "7"},
                                                             {"loss", "mse"},
                                                             {"lr", "0.0625"},
                                                             {"lr-gamma", "0.75"},
                                                             {"lr-schedule", "step"},
                                                             {"lr-step-epochs", "9"},
                                                             {"model", "lenet"},
                                                             {"momentum", "0.5"},
                                                             {"nesterov", "true"},
                                                             {"on-nonfinite", "skip"},
                                                             {"optimizer", "adam"},
                                                             {"outer-lr", "0.5"},
                                                             {"outer-momentum", "0.25"},
                                                             {"sampler-seed", "13"},
                                                             {"scale-lr", "true"},
                                                             {"seed", "12"},
                                                             {"set-epoch", "false"},
                                                             {"staleness", "inf"},
                                                             {"sync", "diloco:8"},
                                                             {"training samples", "100"},
                                                             {"warmup-epochs", "10"},
                                                             {"weight-decay", "0.125"},
                                                             {"wire", "bf16"}}));
}

TEST(MakeHello, SeveralRanks_AllAreWanted) {
  WorkerOptions options;
  options.ranks = {Rank(0), Rank(2)};
  options.world_size = 3;
  const v1::Hello hello = MakeHello(options, 100);
  EXPECT_THAT(hello.ranks(), ElementsAre(0, 2));
  EXPECT_EQ(hello.world_size(), 3u);
}

// How many threads there are is found by the coordinator, and so is no setting.
TEST(MakeHello, Threads_AreNoSetting) {
  WorkerOptions options;
  options.threads = 3;
  const v1::Hello hello = MakeHello(options, 100);
  EXPECT_EQ(hello.threads(), 3u);
  EXPECT_EQ(hello.settings().count("threads"), 0u);
  EXPECT_EQ(hello.settings().at("training samples"), "100");
}

// The coordinator warns if workers differ in these, because their bits may differ, too.
TEST(MakeHello, Environment_TorchAndItsInstructionsAndBlas) {
  const auto environment = [] {
    const v1::Hello hello = MakeHello(WorkerOptions(), 100);
    return Settings(hello.environment().begin(), hello.environment().end());
  };
  const char* const set = std::getenv("ATEN_CPU_CAPABILITY");
  const std::string before = set == nullptr ? "" : set;
  unsetenv("ATEN_CPU_CAPABILITY");
  Settings expected = {{"torch", TORCH_VERSION}, {"instructions", Xxh3Kernels().front()->name}};
  if (const auto blas = FindBlas(); blas.ok()) expected["blas"] = blas->name;
  EXPECT_THAT(environment(), ContainerEq(expected));
  setenv("ATEN_CPU_CAPABILITY", "default", /*overwrite=*/1);
  expected["instructions"] = "default";
  EXPECT_THAT(environment(), ContainerEq(expected));
  unsetenv("ATEN_CPU_CAPABILITY");
  if (set != nullptr) setenv("ATEN_CPU_CAPABILITY", before.c_str(), /*overwrite=*/1);
}

// Settings that are as usual are left out, so that a log is not full of them.
TEST(MakeHello, UnusualSettings_AreNamed) {
  WorkerOptions options;
  EXPECT_EQ(MakeHello(options, 100).settings().count("lr-schedule"), 0u);
  options.lr_schedule = "cosine";
  options.evaluate_every = 2;
  const v1::Hello hello = MakeHello(options, 100);
  EXPECT_EQ(hello.settings().at("lr-schedule"), "cosine");
  EXPECT_EQ(hello.settings().at("evaluate-every"), "2");
}

struct Unable {
  const char* sync;
  const char* backend;
  const char* compress;
  const char* inference;
  const char* recover;     // why it cannot go on without a lost worker; empty: it can
  const char* checkpoint;  // why it has no checkpoints; empty: it has
};

// The coordinator says these reasons to users.
TEST(MakeHello, RunsThatCannotGoOnOrHaveCheckpoints_SayWhy) {
  constexpr char kResidualsAreLost[] = "the residuals of a rank are lost with it (--compress int8)";
  for (const Unable& row : {
           Unable{"ddp", "ring", "none", "", "", ""},
           Unable{"gather-scatter", "auto", "none", "", "", ""},
           Unable{"diloco:8", "ring", "none", "", "with sync diloco:8 each rank has its own model",
                  ""},
           Unable{"parameter-server", "coordinator", "none", "",
                  "with sync parameter-server pushed gradients cannot be taken back",
                  "with --sync parameter-server the aggregators keep the model"},
           Unable{"ddp", "sharded", "int8", "", kResidualsAreLost, ""},
           Unable{"ddp", "coordinator", "int8", "", kResidualsAreLost,
                  "with this compression and back end coordinator the coordinator keeps residuals; "
                  "back end sharded has them at workers"},
           Unable{"ddp", "coordinator", "top-k:0.1", "",
                  "the residuals of a rank are lost with it (--compress top-k:0.1)", ""},
           Unable{"all-reduce", "gloo", "none", "", "with back end gloo a worker carries one rank",
                  "with --backend gloo a run cannot resume"},
           Unable{"data-parallel", "", "none", "native",
                  "with --inference no worker takes over another's part",
                  "--inference trains nothing"},
       }) {
    WorkerOptions options;
    options.sync = row.sync;
    options.backend = row.backend;
    options.compress = row.compress;
    options.inference = row.inference;
    const v1::Hello hello = MakeHello(options, 100);
    EXPECT_EQ(hello.cannot_recover(), row.recover) << row.sync << ' ' << row.backend;
    EXPECT_EQ(hello.cannot_checkpoint(), row.checkpoint) << row.sync << ' ' << row.backend;
  }
}

TEST(TrainerOptionsOf, EverySync_UpdatesWhereItDoes) {
  WorkerOptions options;
  for (const auto& [sync, updater] : {std::pair<const char*, Updater>{"ddp", Updater::kAll},
                                      {"gather-scatter", Updater::kAll},
                                      {"local-sgd:4", Updater::kRank},
                                      {"diloco:4", Updater::kRank},
                                      {"parameter-server", Updater::kServer}}) {
    options.sync = sync;
    EXPECT_TRUE(TrainerOptionsOf(options, {2, 10, 10}, nullptr)->reducer.updater == updater)
        << sync;
  }
}

TEST(TrainerOptionsOf, EverythingChanged_IsPassedOn) {
  WorkerOptions options = AllChanged();
  options.sync = "ddp";
  options.clip_norm = 0.75;
  const TrainerOptions trainer = TrainerOptionsOf(options, {3, 10, 80}, nullptr).value();
  EXPECT_TRUE(trainer.loss == &MeanSquaredError);
  EXPECT_EQ(trainer.update.optimizer.name, "adam");
  EXPECT_EQ(trainer.update.optimizer.momentum, 0.5);
  EXPECT_EQ(trainer.update.optimizer.weight_decay, 0.125);
  EXPECT_TRUE(trainer.update.optimizer.nesterov);
  EXPECT_EQ(trainer.update.on_nonfinite, Nonfinite::kSkip);
  EXPECT_EQ(trainer.update.clip_norm, 0.75);
  EXPECT_EQ(trainer.update.compare_every, 18);
  EXPECT_EQ(trainer.learning_rate(Step(0)), 0.0625);
  EXPECT_EQ(trainer.reducer.bucket_cap_bytes, 2.5 * (1 << 20));
  EXPECT_FALSE(trainer.reducer.broadcast_buffers);
  EXPECT_EQ(trainer.step_timeout, absl::Seconds(17));
  EXPECT_EQ(trainer.micro_batch, 5);
  EXPECT_EQ(trainer.seed, 12u);
}

TEST(TrainerOptionsOf, OnNonfinite_IsWhatItsNameSays) {
  WorkerOptions options;
  for (const auto& [name, expected] :
       {std::pair<const char*, Nonfinite>{"ignore", Nonfinite::kIgnore},
        {"stop", Nonfinite::kStop},
        {"skip", Nonfinite::kSkip}}) {
    options.on_nonfinite = name;
    EXPECT_EQ(TrainerOptionsOf(options, {2, 10, 10}, nullptr)->update.on_nonfinite, expected)
        << name;
  }
}

TEST(TrainerOptionsOf, BarrierOrSkippedUpdates_NoUpdateIsLate) {
  WorkerOptions options;
  const auto is_late = [&options] {
    return TrainerOptionsOf(options, {2, 10, 10}, nullptr)->updates_late;
  };
  EXPECT_TRUE(is_late());
  options.barrier = true;
  EXPECT_FALSE(is_late());
  options.barrier = false;
  options.on_nonfinite = "skip";
  EXPECT_FALSE(is_late());
  options.on_nonfinite = "stop";
  EXPECT_TRUE(is_late());
}

// Otherwise it would be applied twice.
TEST(TrainerOptionsOf, CodecThatKeepsTheMomentum_OptimizerHasNone) {
  WorkerOptions options;
  options.compress = "top-k:0.1";
  EXPECT_EQ(TrainerOptionsOf(options, {2, 10, 10}, nullptr)->update.optimizer.momentum, 0);
  options.compress = "int8";
  EXPECT_EQ(TrainerOptionsOf(options, {2, 10, 10}, nullptr)->update.optimizer.momentum, 0.9);
}

TEST(MemberOptionsOf, EverythingChanged_IsPassedOn) {
  WorkerOptions options = AllChanged();
  options.shared_memory = "off";
  const MemberOptions member = MemberOptionsOf(options, nullptr).value();
  EXPECT_EQ(member.endpoint.coordinator, "h:1");
  EXPECT_EQ(member.endpoint.listen, "h:2");
  EXPECT_EQ(member.endpoint.advertise, "h");
  EXPECT_EQ(member.endpoint.connect_timeout, absl::Seconds(16));
  EXPECT_FALSE(member.endpoint.shares_memory);
  EXPECT_EQ(member.backend, "sharded");
  EXPECT_EQ(member.transport.wire, v1::DTYPE_INT8);
  EXPECT_TRUE(member.transport.compression.is_coded());
  EXPECT_EQ(member.transport.connections, 2);
  EXPECT_EQ(member.transport.groups, 4);
  EXPECT_FALSE(member.transport.gathers);
  EXPECT_EQ(member.step_timeout, absl::Seconds(17));
  options.sync = "gather-scatter";
  EXPECT_TRUE(MemberOptionsOf(options, nullptr)->transport.gathers);
}

TEST(ModelOptionsOf, EverythingChanged_IsPassedOn) {
  const ModelOptions model = ModelOptionsOf(AllChanged(), 10);
  EXPECT_EQ(model.name, "lenet");
  EXPECT_EQ(model.classes, 10);
  EXPECT_EQ(model.image_size, 32);
  EXPECT_EQ(model.hidden, 16);
  EXPECT_TRUE(model.freeze_features);
  EXPECT_EQ(model.weights, "w.pt");
}

TEST(SyncOptionsOf, EverythingChanged_IsPassedOn) {
  WorkerOptions options = AllChanged();
  const testing::StagedModel model;
  const SyncOptions sync = SyncOptionsOf(options, {3, 10, 80}, model).value();
  EXPECT_EQ(sync.delay, 2);
  EXPECT_EQ(sync.outer.lr, 0.5);
  EXPECT_EQ(sync.outer.momentum, 0.25);
  EXPECT_EQ(sync.total_steps, 80);
  EXPECT_EQ(sync.step_timeout, absl::Seconds(17));
  EXPECT_EQ(sync.learning_rate(Step(0)), 0.0625);
  EXPECT_TRUE(sync.averaged_buffers.empty());
}

// Mean and variance, but not the number of batches.
TEST(SyncOptionsOf, BuffersThatAreBroadcast_FloatsAreAveraged) {
  const testing::StagedModel model;
  const SyncOptions sync = SyncOptionsOf(WorkerOptions(), {3, 10, 80}, model).value();
  ASSERT_EQ(sync.averaged_buffers.size(), 2u);
  for (const torch::Tensor& buffer : sync.averaged_buffers) {
    EXPECT_EQ(buffer.scalar_type(), torch::kFloat);
  }
}

TEST(BatchOptionsOf, EverythingChanged_IsPassedOn) {
  const TrainingBatchOptions batches = BatchOptionsOf(AllChanged(), 3);
  EXPECT_EQ(batches.sampler.world_size, 3);
  EXPECT_TRUE(batches.sampler.shuffle);
  EXPECT_EQ(batches.sampler.seed, 13u);
  EXPECT_TRUE(batches.sampler.drop_last);
  EXPECT_FALSE(batches.sampler.set_epoch);
  EXPECT_EQ(batches.batch_size, 5 * 6);
  EXPECT_FALSE(batches.augment);
  EXPECT_EQ(batches.seed, 12u);
}

TEST(ServingOf, ParameterServer_AggregatorsGetWhatTheyNeed) {
  WorkerOptions options = AllChanged();
  EXPECT_EQ(ServingOf(options, {3, 10, 80}).optimizer(), "");
  options.sync = "parameter-server";
  const v1::Serving unbounded = ServingOf(options, {3, 10, 80});
  EXPECT_EQ(unbounded.optimizer(), "adam");
  EXPECT_EQ(unbounded.momentum(), 0.5);
  EXPECT_EQ(unbounded.weight_decay(), 0.125);
  EXPECT_TRUE(unbounded.nesterov());
  EXPECT_FALSE(unbounded.has_staleness());
  EXPECT_EQ(unbounded.steps(), 80u);
  EXPECT_EQ(unbounded.meet_every(), 14u * 10);
  options.staleness = 0;
  EXPECT_TRUE(ServingOf(options, {3, 10, 80}).has_staleness());
}

TEST(SleepsOf, LateRank_SleepsLongerInForward) {
  WorkerOptions options = AllChanged();
  options.late_seconds = 0.125;
  EXPECT_EQ(SleepsOf(options).forward, 0.375);
  EXPECT_EQ(SleepsOf(options).backward, 0.5);
}

// Of a forward pass on the devices.
uint64_t BytesMoved(const WorkerOptions& options) {
  const std::shared_ptr<Model> model = PrepareModel(ModelOptionsOf(options, 10)).value();
  const std::shared_ptr<DataParallel> devices = OnDevices(options, 10, model).value();
  const ImageShape shape = model->image_shape();
  devices->forward(torch::zeros({2, shape.channels, shape.height, shape.width}));
  return devices->bytes_moved();
}

// Vanilla replication copies the parameters.
TEST(OnDevices, TrainingOrInference_ReplicatesAsItsOptionSays) {
  WorkerOptions options;
  options.model = "lenet";
  options.threads = 1;
  options.devices = 1;
  EXPECT_EQ(OnDevices(options, 10, nullptr).value(), nullptr);
  options.devices = 2;
  options.replication = "native";
  const uint64_t native = BytesMoved(options);
  options.replication = "vanilla";
  const uint64_t vanilla = BytesMoved(options);
  EXPECT_GT(vanilla, native);
  options.inference = "native";
  EXPECT_EQ(BytesMoved(options), native);
  options.replication = "native";
  options.inference = "vanilla";
  EXPECT_EQ(BytesMoved(options), vanilla);
}

TEST(CheckKept, MeansWhoseResidualsNoWorkerHas_AreRefusedInACheckpoint) {
  const auto check = [](const char* compress, const char* backend, const View& view) {
    return CheckKept(ParseCompression(compress).value(), backend, view);
  };
  View view;
  view.keeps_state = true;
  EXPECT_EQ(check("int8", "sharded", view), absl::OkStatus());
  EXPECT_THAT(std::string(check("int8", "coordinator", view).message()),
              HasSubstr("got means that the coordinator"));
  view.aggregators = {"10.10.1.9:29401"};
  EXPECT_THAT(std::string(check("int8", "sharded", view).message()),
              HasSubstr("got means that aggregators"));
  for (const char* compress : {"none", "top-k:0.1", "powersgd:2"}) {
    EXPECT_EQ(check(compress, "sharded", view), absl::OkStatus()) << compress;
  }
  view.keeps_state = false;
  EXPECT_EQ(check("int8", "sharded", view), absl::OkStatus());
}

}  // namespace
}  // namespace gradwire
