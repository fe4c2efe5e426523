#include "worker/options/worker_option_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"
#include "worker/options/choices.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<Parsed<WorkerOptions>> Parse(const std::vector<std::string>& args,
                                            const Environment& environment = {}) {
  return ParseWorkerOptions(args, environment);
}

std::string ErrorOf(const std::vector<std::string>& args, const Environment& environment = {}) {
  return std::string(Parse(args, environment).status().message());
}

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

TEST(ParseWorkerOptions, GroupsAndConnections_AreNotForOneRun) {
  EXPECT_EQ(ErrorOf({"--groups", "3", "--connections", "2"}),
            "--groups: got 3 groups with 2 connections (--connections), expected one of the two "
            "to be 1: a group has a connection of its own");
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

TEST(ParseWorkerOptions, RankBeyondWorldSize_NamesBothAndTheirSources) {
  EXPECT_EQ(ErrorOf({"--rank", "4"}, {{"GRADWIRE_WORLD_SIZE", "4"}}),
            "--rank: got '4', expected a rank from 0 to 3, for the world size is 4 "
            "(GRADWIRE_WORLD_SIZE)");
}

TEST(ParseWorkerOptions, SyncNoneWithOthers_IsRefused) {
  EXPECT_EQ(ErrorOf({"--sync", "none", "--world-size", "2"}),
            "--sync none is for one process alone; got world size 2 (--world-size)");
  EXPECT_EQ(ErrorOf({"--sync", "none", "--rank", "1"}),
            "--sync none is for one process alone; got rank 1 (--rank)");
}

TEST(ParseWorkerOptions, SyncNoneWithBackend_IsRefused) {
  EXPECT_EQ(ErrorOf({"--sync", "none", "--backend", "ring"}),
            "--sync none averages nothing, so it takes no back end; got 'ring' (--backend)");
}

TEST(ParseWorkerOptions, AloneWithAWireType_IsRefused) {
  EXPECT_EQ(ErrorOf({"--sync", "none", "--wire", "fp16"}),
            "--sync none sends nothing, so it takes no type on the wire; got 'fp16' (--wire)");
}

TEST(ParseWorkerOptions, DevicesWithAnotherSync_AreRefused) {
  EXPECT_EQ(ErrorOf({"--devices", "2"}),
            "--devices: got sync ddp (default), expected --sync data-parallel");
  EXPECT_EQ(ErrorOf({"--sync", "none", "--inference", "vanilla"}),
            "--inference: got sync none (--sync), expected --sync data-parallel");
}

TEST(ParseWorkerOptions, DataParallelWithOthers_IsRefused) {
  EXPECT_EQ(ErrorOf({"--sync", "data-parallel", "--world-size", "2"}),
            "--sync data-parallel is for one process alone; got world size 2 (--world-size)");
}

TEST(ParseWorkerOptions, DevicesWithoutThreads_ShareTheCores) {
  const int alone = Parse({"--sync", "none"})->options.threads;
  const auto shared = Parse({"--sync", "data-parallel", "--devices", std::to_string(alone)});
  EXPECT_EQ(shared->options.threads, 1);
}

TEST(ParseWorkerOptions, InferenceWithWhatNeedsTraining_IsRefused) {
  const std::vector<std::string> inference = {"--sync", "data-parallel", "--inference", "native"};
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--evaluate"}, {"--save-weights", "a.pt"}}) {
    std::vector<std::string> args = inference;
    args.insert(args.end(), more.begin(), more.end());
    EXPECT_EQ(ErrorOf(args),
              "--inference trains nothing, so it takes no " + more[0] + "; got it in " + more[0]);
  }
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

TEST(ParseWorkerOptions, HostCoordinatorWithItsPlace_IsTaken) {
  const auto parsed = Parse(
      {"--host-coordinator", "--rank", "0", "--world-size", "2", "--coordinator-metrics", "off"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(parsed->options.host_coordinator);
  EXPECT_EQ(parsed->options.coordinator_metrics, "off");
}

TEST(ParseWorkerOptions, HostCoordinatorWithoutItsPlace_IsRefused) {
  EXPECT_THAT(ErrorOf({"--host-coordinator", "--world-size", "2"}), HasSubstr("got no rank"));
  EXPECT_THAT(ErrorOf({"--host-coordinator", "--rank", "0"}), HasSubstr("got no world size"));
}

TEST(ParseWorkerOptions, BarrierWithDdp_IsTaken) {
  EXPECT_TRUE(Parse({"--sync", "ddp", "--barrier"})->options.barrier);
}

TEST(ParseWorkerOptions, BarrierWithOtherSync_IsRefused) {
  EXPECT_EQ(ErrorOf({"--sync", "all-reduce", "--barrier"}),
            "--barrier is for a sync that updates late; got sync all-reduce (--sync), which "
            "always waits for all");
}

TEST(ParseWorkerOptions, SavedWeightsOfNoFormat_AreRefused) {
  EXPECT_EQ(ErrorOf({"--save-weights", "weights.bin"}),
            "--save-weights: got 'weights.bin', expected a name that ends in .safetensors, .pt or "
            ".pth");
}

TEST(ParseWorkerOptions, AccumulateTimesBatchSizeOverflows_IsRefused) {
  EXPECT_EQ(ErrorOf({"--accumulate", "4611686018427387904", "--batch-size", "2"}),
            "--accumulate: got '4611686018427387904' times a batch size of 2, which is too many "
            "samples");
}

TEST(ParseWorkerOptions, Optimizer_BringsItsLearningRateAndDecay) {
  EXPECT_EQ(Parse({})->options.lr, 0.1);
  EXPECT_EQ(Parse({})->options.weight_decay, 1e-4);
  EXPECT_EQ(Parse({"--optimizer", "adam"})->options.lr, 1e-3);
  EXPECT_EQ(Parse({"--optimizer", "adam"})->options.weight_decay, 0);
  EXPECT_EQ(Parse({"--optimizer", "adamw"})->options.weight_decay, 1e-2);
  EXPECT_EQ(Parse({"--optimizer", "adamw", "--lr", "0.5"})->options.lr, 0.5);
}

TEST(ParseWorkerOptions, NesterovWithMomentum_IsTaken) {
  EXPECT_TRUE(Parse({"--nesterov", "true"})->options.nesterov);
}

TEST(ParseWorkerOptions, NesterovWithoutMomentum_IsRefused) {
  EXPECT_EQ(ErrorOf({"--nesterov", "true", "--momentum", "0"}),
            "--nesterov: got momentum 0 (--momentum), expected one above 0");
}

TEST(ParseWorkerOptions, MomentumWithAdam_IsRefused) {
  EXPECT_EQ(ErrorOf({"--momentum", "0.9", "--optimizer", "adam"}),
            "--momentum: got it with optimizer adam (--optimizer), which has none, expected sgd");
  EXPECT_EQ(ErrorOf({"--nesterov", "true", "--optimizer", "adamw"}),
            "--nesterov: got it with optimizer adamw (--optimizer), which has none, expected sgd");
}

TEST(ParseWorkerOptions, OptionsOfASchedule_AreRefusedWithoutIt) {
  EXPECT_EQ(ErrorOf({"--lr-step-epochs", "3"}),
            "--lr-step-epochs: got it without --lr-schedule step, expected both or neither");
  EXPECT_EQ(ErrorOf({"--lr-schedule", "cosine"}, {{"GRADWIRE_LR_GAMMA", "0.5"}}),
            "GRADWIRE_LR_GAMMA: got it without --lr-schedule step, expected both or neither");
  EXPECT_EQ(ErrorOf({"--base-batch", "128"}),
            "--base-batch: got it without --scale-lr, expected both or neither");
}

TEST(ParseWorkerOptions, EvaluateEvery_Evaluates) {
  EXPECT_TRUE(Parse({"--evaluate-every", "2"})->options.evaluate);
  EXPECT_EQ(ErrorOf({"--evaluate-every", "2", "--evaluate", "false"}),
            "--evaluate: got false with --evaluate-every, expected true, or only one of them");
}

TEST(ParseWorkerOptions, UnknownSync_ListsThoseThatExist) {
  EXPECT_EQ(
      ErrorOf({"--sync", "allreduce"}),
      "--sync: got 'allreduce', expected one of none, data-parallel, gather-scatter, all-reduce, "
      "per-layer, ddp; "
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

TEST(ParseWorkerOptions, SeveralRanksBeyondWorldSize_NamesTheLast) {
  EXPECT_EQ(ErrorOf({"--rank", "2-4", "--world-size", "4"}),
            "--rank: got '4', expected a rank from 0 to 3, for the world size is 4 "
            "(--world-size)");
}

TEST(ParseWorkerOptions, SeveralRanksWithABackendOfOne_AreRefused) {
  EXPECT_EQ(ErrorOf({"--rank", "0,1", "--backend", "gloo"}),
            "--rank: got 2 ranks, expected one, for back end gloo carries one for each worker");
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
  EXPECT_EQ(Parse({"--sync", "gather-scatter"})->options.backend, "coordinator");
  EXPECT_EQ(Parse({"--sync", "all-reduce"})->options.backend, "ring");
  EXPECT_EQ(Parse({"--sync", "none"})->options.backend, "none");
}

}  // namespace
}  // namespace gradwire
