#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "worker/options/sync_choice.h"
#include "worker/run/from_options.h"

namespace gradwire {
namespace {

using ::testing::ContainerEq;
using ::testing::ElementsAre;

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
  const v1::Hello hello = MakeHello(options, 100);
  EXPECT_THAT(hello.ranks(), ElementsAre(0, 2));
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

}  // namespace
}  // namespace gradwire
