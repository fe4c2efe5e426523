#include "worker/options/worker_option_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/worker/options/parse.h"
#include "worker/options/choices.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::Parse;

TEST(ParseWorkerOptions, Nothing_KeepsTheStructsDefaults) {
  const auto parsed = Parse({});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const WorkerOptions defaults;
  EXPECT_EQ(parsed->options.coordinator, defaults.coordinator);
  EXPECT_TRUE(parsed->options.ranks.empty());
  EXPECT_EQ(parsed->options.batch_size, defaults.batch_size);
  EXPECT_EQ(parsed->options.metrics, "");
  EXPECT_EQ(parsed->options.backend, "auto");
  EXPECT_EQ(parsed->options.threads, 0);
}

TEST(ParseWorkerOptions, AllOptions_AreTaken) {
  const auto parsed = Parse({"--coordinator",
                             "10.0.0.1:1",
                             "--rank",
                             "1",
                             "--world-size",
                             "2",
                             "--sync",
                             "gather-scatter",
                             "--backend",
                             "ring",
                             "--bucket-cap-mb",
                             "0",
                             "--wire",
                             "bf16",
                             "--groups",
                             "3",
                             "--broadcast-buffers",
                             "false",
                             "--model",
                             "vgg11",
                             "--dataset",
                             "synthetic",
                             "--data-dir",
                             "/data",
                             "--batch-size",
                             "8",
                             "--image-size",
                             "64",
                             "--hidden",
                             "128",
                             "--freeze-features",
                             "true",
                             "--weights",
                             "w.pth",
                             "--save-weights",
                             "w.safetensors",
                             "--accumulate",
                             "5",
                             "--iterations",
                             "7",
                             "--lr",
                             "0.5",
                             "--momentum",
                             "0",
                             "--weight-decay",
                             "0",
                             "--loss",
                             "mse",
                             "--lr-schedule",
                             "step",
                             "--lr-step-epochs",
                             "4",
                             "--lr-gamma",
                             "0.2",
                             "--warmup-epochs",
                             "2",
                             "--scale-lr",
                             "true",
                             "--base-batch",
                             "128",
                             "--set-epoch",
                             "false",
                             "--loaders",
                             "6",
                             "--evaluate-every",
                             "9",
                             "--seed",
                             "1",
                             "--sampler-seed",
                             "2",
                             "--augment",
                             "false",
                             "--drop-last",
                             "--threads",
                             "3",
                             "--evaluate",
                             "--log-jsonl",
                             "l",
                             "--summary",
                             "s",
                             "--metrics",
                             "127.0.0.1:0",
                             "--listen",
                             "127.0.0.1:0",
                             "--advertise",
                             "me",
                             "--print-every",
                             "0",
                             "--connect-timeout-seconds",
                             "1.5",
                             "--step-timeout-seconds",
                             "2.5"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const WorkerOptions& options = parsed->options;
  EXPECT_EQ(options.coordinator, "10.0.0.1:1");
  EXPECT_THAT(options.ranks, ElementsAre(Rank(1)));
  EXPECT_EQ(options.world_size, 2);
  EXPECT_EQ(options.sync, "gather-scatter");
  EXPECT_EQ(options.backend, "ring");
  EXPECT_EQ(options.bucket_cap_mb, 0);
  EXPECT_EQ(options.wire, "bf16");
  EXPECT_EQ(options.groups, 3);
  EXPECT_FALSE(options.broadcast_buffers);
  EXPECT_EQ(options.dataset, "synthetic");
  EXPECT_EQ(options.data_dir, "/data");
  EXPECT_EQ(options.batch_size, 8);
  EXPECT_EQ(options.accumulate, 5);
  EXPECT_EQ(options.image_size, 64);
  EXPECT_EQ(options.hidden, 128);
  EXPECT_TRUE(options.freeze_features);
  EXPECT_EQ(options.weights, "w.pth");
  EXPECT_EQ(options.save_weights, "w.safetensors");
  EXPECT_EQ(options.iterations, 7);
  EXPECT_EQ(options.lr, 0.5);
  EXPECT_EQ(options.momentum, 0);
  EXPECT_EQ(options.weight_decay, 0);
  EXPECT_EQ(options.loss, "mse");
  EXPECT_EQ(options.lr_schedule, "step");
  EXPECT_EQ(options.lr_step_epochs, 4);
  EXPECT_EQ(options.lr_gamma, 0.2);
  EXPECT_EQ(options.warmup_epochs, 2);
  EXPECT_TRUE(options.scale_lr);
  EXPECT_EQ(options.base_batch, 128);
  EXPECT_FALSE(options.set_epoch);
  EXPECT_EQ(options.loaders, 6);
  EXPECT_EQ(options.evaluate_every, 9);
  EXPECT_EQ(options.seed, 1u);
  EXPECT_EQ(options.sampler_seed, 2u);
  EXPECT_FALSE(options.augment);
  EXPECT_TRUE(options.drop_last);
  EXPECT_EQ(options.threads, 3);
  EXPECT_TRUE(options.evaluate);
  EXPECT_EQ(options.log_jsonl, "l");
  EXPECT_EQ(options.summary, "s");
  EXPECT_EQ(options.metrics, "127.0.0.1:0");
  EXPECT_EQ(options.listen, "127.0.0.1:0");
  EXPECT_EQ(options.advertise, "me");
  EXPECT_EQ(options.print_every, 0);
  EXPECT_EQ(options.connect_timeout_seconds, 1.5);
  EXPECT_EQ(options.step_timeout_seconds, 2.5);
}

TEST(ParseWorkerOptions, EachOption_IsAlsoAVariable) {
  for (const std::string& name : WorkerOptionNames()) {
    EXPECT_THAT(UnknownVariables({{VariableOf(name), "1"}}), ::testing::IsEmpty()) << name;
  }
}

TEST(ParseWorkerOptions, CoursesCommandLine_IsTakenAsOurs) {
  const auto parsed = Parse({"--master-ip", "10.10.1.1", "--num-nodes", "4", "--rank", "3"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->options.coordinator, "10.10.1.1:29400");
  EXPECT_EQ(parsed->options.world_size, 4);
  EXPECT_THAT(parsed->options.ranks, ElementsAre(Rank(3)));
  EXPECT_EQ(parsed->sources.at("coordinator").name, "--master-ip");
  EXPECT_EQ(parsed->sources.at("world-size").name, "--num-nodes");
}

TEST(ParseWorkerOptions, MasterIpWithPort_KeepsThePort) {
  EXPECT_EQ(Parse({"--master-ip", "host:5"})->options.coordinator, "host:5");
}

TEST(ParseWorkerOptions, MasterIpOfIpv6_HasTheUsualPort) {
  EXPECT_EQ(Parse({"--master-ip", "fd00::7"})->options.coordinator, "[fd00::7]:29400");
}

TEST(ParseWorkerOptions, MasterIpOverSlurm_FlagWins) {
  const auto parsed =
      Parse({"--master-ip", "10.10.1.1"}, {{"SLURM_PROCID", "0"}, {"SLURM_NODELIST", "node[1-2]"}});
  EXPECT_EQ(parsed->options.coordinator, "10.10.1.1:29400");
}

TEST(ParseWorkerOptions, CoordinatorOverMasterIpInEnvironment_FlagWins) {
  EXPECT_EQ(Parse({"--coordinator", "a:1"}, {{"GRADWIRE_MASTER_IP", "b"}})->options.coordinator,
            "a:1");
}

TEST(ParseWorkerOptions, MasterIpAndCoordinator_AreRefused) {
  EXPECT_EQ(ErrorOf({"--master-ip", "a", "--coordinator", "a:1"}),
            "--master-ip and --coordinator exclude each other; give only one of them");
}

TEST(ParseWorkerOptions, NumNodesAndWorldSize_AreRefused) {
  EXPECT_EQ(ErrorOf({"--num-nodes", "2", "--world-size", "2"}),
            "--num-nodes and --world-size exclude each other; give only one of them");
}

TEST(ParseWorkerOptions, IterationsAndEpochs_AreRefused) {
  EXPECT_EQ(ErrorOf({"--iterations", "2", "--epochs", "2"}),
            "--iterations and --epochs exclude each other; give only one of them");
}

TEST(ParseWorkerOptions, EpochsOverIterationsInEnvironment_EpochsCount) {
  const auto parsed = Parse({"--epochs", "2"}, {{"GRADWIRE_ITERATIONS", "5"}});
  EXPECT_EQ(parsed->options.iterations, 0);
  EXPECT_EQ(parsed->options.epochs, 2);
}

TEST(ParseWorkerOptions, IterationsOverEpochsInEnvironment_IterationsCount) {
  const auto parsed = Parse({"--iterations", "5"}, {{"GRADWIRE_EPOCHS", "2"}});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->options.iterations, 5);
}

TEST(ParseWorkerOptions, NumNodesAndWorldSizeOfTwoLayers_HigherOneWins) {
  const auto flag = Parse({"--num-nodes", "4"}, {{"GRADWIRE_WORLD_SIZE", "2"}});
  ASSERT_TRUE(flag.ok()) << flag.status();
  EXPECT_EQ(flag->options.world_size, 4);
  EXPECT_EQ(flag->sources.at("world-size").name, "--num-nodes");
  const auto variable = Parse({"--world-size", "2"}, {{"GRADWIRE_NUM_NODES", "4"}});
  ASSERT_TRUE(variable.ok()) << variable.status();
  EXPECT_EQ(variable->options.world_size, 2);
  EXPECT_EQ(variable->sources.at("world-size").name, "--world-size");
}

TEST(ParseWorkerOptions, DevicesWithoutThreads_ShareTheCores) {
  const int alone = Parse({"--sync", "none"})->options.threads;
  const auto shared = Parse({"--sync", "data-parallel", "--devices", std::to_string(alone)});
  EXPECT_EQ(shared->options.threads, 1);
}

TEST(ParseWorkerOptions, AloneWithThreads_HasThese) {
  const int alone = Parse({"--sync", "none"})->options.threads;
  const std::string other = std::to_string(alone + 1);
  EXPECT_EQ(Parse({"--sync", "none", "--threads", other})->options.threads, alone + 1);
}

TEST(ParseWorkerOptions, Nothing_OverlapsInSmallBuckets) {
  const auto parsed = Parse({});
  EXPECT_EQ(parsed->options.sync, "ddp");
  EXPECT_EQ(parsed->options.bucket_cap_mb, 1);
  EXPECT_FALSE(parsed->options.barrier);
}

TEST(ParseWorkerOptions, SyncWithoutOverlap_HasPyTorchsBuckets) {
  EXPECT_EQ(Parse({"--sync", "all-reduce"})->options.bucket_cap_mb, 25);
}

TEST(ParseWorkerOptions, BucketCap_WinsOverTheSyncs) {
  EXPECT_EQ(Parse({"--bucket-cap-mb", "25"})->options.bucket_cap_mb, 25);
}

TEST(ParseWorkerOptions, Optimizer_BringsItsLearningRateAndDecay) {
  EXPECT_EQ(Parse({})->options.lr, 0.1);
  EXPECT_EQ(Parse({})->options.weight_decay, 1e-4);
  EXPECT_EQ(Parse({"--optimizer", "adam"})->options.lr, 1e-3);
  EXPECT_EQ(Parse({"--optimizer", "adam"})->options.weight_decay, 0);
  EXPECT_EQ(Parse({"--optimizer", "adamw"})->options.weight_decay, 1e-2);
  EXPECT_EQ(Parse({"--optimizer", "adamw", "--lr", "0.5"})->options.lr, 0.5);
}

TEST(ParseWorkerOptions, EvaluateEvery_Evaluates) {
  EXPECT_TRUE(Parse({"--evaluate-every", "2"})->options.evaluate);
  EXPECT_EQ(ErrorOf({"--evaluate-every", "2", "--evaluate", "false"}),
            "--evaluate: got false with --evaluate-every, expected true, or only one of them");
}

TEST(ParseWorkerOptions, ComputeSeconds_AreForwardAndBackward) {
  const auto parsed = Parse({"--compute-seconds", "0.3,1e-1"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_TRUE(parsed->options.compute_seconds.has_value());
  EXPECT_EQ(parsed->options.compute_seconds->forward, 0.3);
  EXPECT_EQ(parsed->options.compute_seconds->backward, 0.1);
  EXPECT_EQ(ToString(parsed->options.compute_seconds), "0.3,0.1");
  EXPECT_FALSE(Parse({})->options.compute_seconds.has_value());
  EXPECT_EQ(ErrorOf({"--compute-seconds", "3600,3600"}), "");
}

TEST(ParseWorkerOptions, ComputeSecondsThatAreNone_AreRefused) {
  for (const char* text : {",", "0.3", "1,2,3", "1,x", "-1,2", "1,nan", "inf,1", "3601,1", "1, "}) {
    EXPECT_EQ(ErrorOf({"--compute-seconds", text}),
              std::string("--compute-seconds: got '") + text +
                  "', expected seconds of forward and backward, each from 0 to 3600, such as "
                  "0.3,0.6");
  }
}

TEST(ParseWorkerOptions, OnNonfinite_NeedsACommonMean) {
  EXPECT_EQ(Parse({})->options.on_nonfinite, "ignore");
  EXPECT_EQ(Parse({"--on-nonfinite", "skip"})->options.on_nonfinite, "skip");
  EXPECT_EQ(ErrorOf({"--on-nonfinite", "stop", "--sync", "diloco:5"}),
            "--on-nonfinite: got stop with --sync diloco:5 (--sync), expected a sync whose workers "
            "apply the mean of gradients");
  EXPECT_EQ(ErrorOf({"--on-nonfinite", "skip", "--sync", "parameter-server"}),
            "--on-nonfinite: got skip with --sync parameter-server (--sync), expected a sync whose "
            "workers apply the mean of gradients");
  EXPECT_EQ(ErrorOf({"--on-nonfinite", "skip", "--compress", "int8"}),
            "--on-nonfinite: got skip with --compress int8 (--compress), expected none: the "
            "residual that a rank keeps would be infinite, too");
  EXPECT_TRUE(Parse({"--on-nonfinite", "stop", "--compress", "int8"}).ok());
}

TEST(ParseWorkerOptions, ClipNorm_IsAboveZeroAndNeedsOneGradient) {
  EXPECT_EQ(Parse({})->options.clip_norm, 0);
  EXPECT_EQ(Parse({"--clip-norm", "0.5"})->options.clip_norm, 0.5);
  EXPECT_EQ(Parse({"--clip-norm", "0.5", "--sync", "local-sgd:4"})->options.clip_norm, 0.5);
  EXPECT_EQ(ErrorOf({"--clip-norm", "0"}), "--clip-norm: got '0', expected a number above 0");
  EXPECT_EQ(ErrorOf({"--clip-norm", "1", "--sync", "parameter-server"}),
            "--clip-norm: got it with --sync parameter-server (--sync), expected no limit, because "
            "aggregators apply each rank's gradient separately");
}

TEST(ParseWorkerOptions, UnknownSync_ListsThoseThatExist) {
  EXPECT_EQ(
      ErrorOf({"--sync", "allreduce"}),
      "--sync: got 'allreduce', expected one of none, data-parallel, gather-scatter, all-reduce, "
      "per-layer, ddp, local-sgd, diloco, parameter-server; "
      "did you mean all-reduce?");
}

TEST(ParseWorkerOptions, UnknownDataset_ListsThoseThatExist) {
  EXPECT_THAT(ErrorOf({"--dataset", "cifar"}), HasSubstr("did you mean cifar10?"));
}

TEST(ParseWorkerOptions, OtherWire_IsRefused) {
  EXPECT_EQ(ErrorOf({"--wire", "int8"}), "--wire: got 'int8', expected one of fp32, bf16, fp16");
}

TEST(ParseWorkerOptions, NumbersOutOfBounds_AreRefused) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"--batch-size", "0"},
      {"--lr", "0"},
      {"--lr", "inf"},
      {"--momentum", "1"},
      {"--momentum", "-0.1"},
      {"--weight-decay", "-1"},
      {"--epochs", "0"},
      {"--iterations", "0"},
      {"--bucket-cap-mb", "-1"},
      {"--accumulate", "0"},
      {"--print-every", "-1"},
      {"--threads", "0"},
      {"--seed", "-1"},
      {"--world-size", "0"},
      {"--local-world-size", "0"},
      {"--sampler-seed", "x"},
      {"--connect-timeout-seconds", "0"},
      {"--step-timeout-seconds", "-3"}};
  for (const auto& [option, value] : wrong) {
    EXPECT_THAT(ErrorOf({option, value}), HasSubstr(option + ": got '" + value + "', expected"));
  }
}

TEST(ParseWorkerOptions, FurtherNumbersBelowTheLeast_AreRefused) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"--loaders", "0"},         {"--groups", "0"},           {"--connections", "0"},
      {"--devices", "0"},         {"--image-size", "0"},       {"--hidden", "0"},
      {"--check-replicas", "-1"}, {"--warmup-epochs", "-1"},   {"--evaluate-every", "0"},
      {"--delay", "-1"},          {"--compress-warmup", "-1"}, {"--late-seconds", "-1"},
      {"--lr-gamma", "0"},        {"--lr-step-epochs", "0"},   {"--base-batch", "0"},
      {"--num-nodes", "0"}};
  for (const auto& [option, value] : wrong) {
    EXPECT_THAT(ErrorOf({option, value}), HasSubstr(option + ": got '" + value + "', expected"));
  }
}

TEST(ParseWorkerOptions, GreatestNumbers_AreTakenAndNoneBeyond) {
  const std::vector<std::tuple<std::string, std::string, std::string>> bounds = {
      {"--loaders", "256", "257"},
      {"--groups", "16", "17"},
      {"--connections", "64", "65"},
      {"--image-size", "4096", "4097"},
      {"--hidden", "1048576", "1048577"},
      {"--threads", "4096", "4097"},
      {"--world-size", "65535", "65536"},
      {"--num-nodes", "65535", "65536"},
      {"--local-world-size", "65535", "65536"},
      {"--warmup-epochs", "1048576", "1048577"}};
  for (const auto& [option, most, beyond] : bounds) {
    EXPECT_EQ(ErrorOf({option, most}), "");
    EXPECT_THAT(ErrorOf({option, beyond}), HasSubstr(option + ": got '" + beyond + "', expected"));
  }
  EXPECT_EQ(ErrorOf({"--sync", "data-parallel", "--devices", "1024"}), "");
  EXPECT_THAT(ErrorOf({"--sync", "data-parallel", "--devices", "1025"}), HasSubstr("got '1025'"));
}

TEST(ParseWorkerOptions, OptionsOfFewRuns_AreTaken) {
  const auto parsed = Parse({"--sync",
                             "diloco:8",
                             "--delay",
                             "2",
                             "--outer-lr",
                             "0.5",
                             "--outer-momentum",
                             "0.25",
                             "--shared-memory",
                             "off",
                             "--optimizer",
                             "adamw",
                             "--compute-seconds",
                             "1,2",
                             "--late-seconds",
                             "0.25",
                             "--trace",
                             "t",
                             "--check-replicas",
                             "7",
                             "--local-world-size",
                             "3",
                             "--connections",
                             "2",
                             "--instructions",
                             "baseline",
                             "--token-file",
                             "k",
                             "--insecure"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const WorkerOptions& options = parsed->options;
  EXPECT_EQ(options.delay, 2);
  EXPECT_EQ(options.outer.lr, 0.5);
  EXPECT_EQ(options.outer.momentum, 0.25);
  EXPECT_EQ(options.shared_memory, "off");
  EXPECT_EQ(options.optimizer, "adamw");
  EXPECT_EQ(options.late_seconds, 0.25);
  EXPECT_EQ(options.trace, "t");
  EXPECT_EQ(options.summary, "");
  EXPECT_EQ(options.check_replicas, 7);
  EXPECT_EQ(options.local_world_size, 3);
  EXPECT_EQ(options.connections, 2);
  EXPECT_EQ(options.instructions, "baseline");
  EXPECT_EQ(options.security.token_file, "k");
  EXPECT_TRUE(options.security.insecure);
}

TEST(ParseWorkerOptions, OptionsOfDevicesAndCodecs_AreTaken) {
  const auto devices =
      Parse({"--sync", "data-parallel", "--devices", "2", "--replication", "vanilla"});
  ASSERT_TRUE(devices.ok()) << devices.status();
  EXPECT_EQ(devices->options.devices, 2);
  EXPECT_EQ(devices->options.replication, "vanilla");
  EXPECT_EQ(devices->options.inference, "");
  const auto inference = Parse({"--sync", "data-parallel", "--inference", "vanilla"});
  ASSERT_TRUE(inference.ok()) << inference.status();
  EXPECT_EQ(inference->options.inference, "vanilla");
  EXPECT_EQ(inference->options.replication, "native");
  const auto codec = Parse({"--compress", "powersgd:2", "--compress-warmup", "3"});
  ASSERT_TRUE(codec.ok()) << codec.status();
  EXPECT_EQ(codec->options.compress, "powersgd:2");
  EXPECT_EQ(codec->options.compress_warmup, 3);
}

TEST(ParseWorkerOptions, MetricsOff_AreNotServed) {
  EXPECT_EQ(Parse({"--metrics", "off"}, {{"GRADWIRE_METRICS", "127.0.0.1:1"}})->options.metrics,
            "");
}

TEST(ParseWorkerOptions, AloneWithoutThreads_SharesCoresAmongLocalWorkers) {
  const int alone = Parse({"--sync", "none"})->options.threads;
  EXPECT_GE(alone, 1);
  const auto shared = Parse({"--sync", "none", "--local-world-size", std::to_string(2 * alone)});
  EXPECT_EQ(shared->options.threads, 1);
}

TEST(ParseWorkerOptions, SeveralRanks_AreTakenAscending) {
  EXPECT_THAT(Parse({"--rank", "5,0-2"})->options.ranks,
              ElementsAre(Rank(0), Rank(1), Rank(2), Rank(5)));
}

TEST(ParseWorkerOptions, RankListsThatAreNone_AreRefused) {
  for (const char* text : {"x", "-1", "1-", "2-1", "0,", "0-70000", "99999999999"}) {
    EXPECT_THAT(ErrorOf({"--rank", text}),
                HasSubstr(std::string("got '") + text + "', expected ranks from 0 to 65534"));
  }
}

TEST(ParseWorkerOptions, RankTwice_IsRefused) {
  EXPECT_EQ(ErrorOf({"--rank", "0-2,1"}), "--rank: got '0-2,1', expected each rank only once");
}

TEST(ParseWorkerOptions, TorchrunsEnvironment_IsUsed) {
  const auto parsed =
      Parse({}, {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "1"}});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(parsed->options.ranks, ElementsAre(Rank(1)));
  EXPECT_EQ(parsed->options.world_size, 2);
  EXPECT_EQ(parsed->options.coordinator, "h:1");
  EXPECT_EQ(parsed->sources.at("rank").name, "RANK");
}

TEST(ParseWorkerOptions, BrokenLauncherVariable_IsNamed) {
  EXPECT_EQ(ErrorOf({}, {{"RANK", "first"}, {"WORLD_SIZE", "2"}}),
            "RANK: got 'first', expected ranks from 0 to 65534, such as 2, 0,1 or 0-2");
}

TEST(ParseWorkerOptions, UnknownVariable_IsOnlyWarnedOf) {
  const auto parsed = Parse({}, {{"GRADWIRE_BATCHSIZE", "1"}});
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->warnings.size(), 1u);
}

TEST(ParseWorkerOptions, Help_SeveralConnections_NamesTheBackEndsThatAutoBecomes) {
  ASSERT_EQ(BackendFor("auto", 2, /*gathers=*/false), "sharded");
  ASSERT_EQ(BackendFor("auto", 2, /*gathers=*/true), "coordinator");
  EXPECT_THAT(Parse({"--help"})->print,
              HasSubstr("(above 1, auto is sharded, or coordinator with gather-scatter)"));
}

TEST(ParseWorkerOptions, Help_ListsChoicesOfTheTables) {
  const auto parsed = Parse({"--help"});
  ASSERT_TRUE(parsed.ok());
  for (const auto& choices : {ModelChoices(), DatasetChoices(), SyncChoices(), BackendChoices(),
                              OptimizerChoices(), ScheduleChoices(), LossChoices()}) {
    for (const NamedChoice& choice : choices) {
      EXPECT_THAT(parsed->print, HasSubstr(choice.name + ": " + choice.help));
    }
  }
}

TEST(ParseWorkerOptions, MinWorkers_IsNotThere) {
  EXPECT_THAT(ErrorOf({"--min-workers", "1"}), HasSubstr("unknown option --min-workers"));
}

TEST(ParseWorkerOptions, NoBackend_IsTheSyncs) {
  EXPECT_EQ(Parse({"--sync", "gather-scatter"})->options.backend, "auto");
  EXPECT_EQ(Parse({"--sync", "all-reduce"})->options.backend, "ring");
  EXPECT_EQ(Parse({"--sync", "none"})->options.backend, "none");
}

}  // namespace
}  // namespace gradwire
