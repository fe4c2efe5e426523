// Options that do not fit together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/worker/options/parse.h"
#include "worker/options/choices.h"
#include "worker/options/worker_option_parser.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::Parse;

TEST(CheckWorkerOptions, GroupsAndConnections_AreNotForOneRun) {
  EXPECT_EQ(ErrorOf({"--groups", "3", "--connections", "2"}),
            "--groups: got 3 groups with 2 connections (--connections), expected one of the two "
            "to be 1: a group has a connection of its own");
}

TEST(CheckWorkerOptions, RankBeyondWorldSize_NamesBothAndTheirSources) {
  EXPECT_EQ(ErrorOf({"--rank", "4"}, {{"GRADWIRE_WORLD_SIZE", "4"}}),
            "--rank: got '4', expected a rank from 0 to 3, because the world size is 4 "
            "(GRADWIRE_WORLD_SIZE)");
}

TEST(CheckWorkerOptions, SyncNoneWithOthers_IsRefused) {
  EXPECT_EQ(ErrorOf({"--sync", "none", "--world-size", "2"}),
            "--sync none is for one process alone; got world size 2 (--world-size)");
  EXPECT_EQ(ErrorOf({"--sync", "none", "--rank", "1"}),
            "--sync none is for one process alone; got rank 1 (--rank)");
}

TEST(CheckWorkerOptions, SyncNoneWithBackend_IsRefused) {
  EXPECT_EQ(ErrorOf({"--sync", "none", "--backend", "ring"}),
            "--sync none averages nothing, so it takes no back end; got 'ring' (--backend)");
}

TEST(CheckWorkerOptions, AloneWithAWireType_IsRefused) {
  EXPECT_EQ(ErrorOf({"--sync", "none", "--wire", "fp16"}),
            "--sync none sends nothing, so it takes no type on the wire; got 'fp16' (--wire)");
}

TEST(CheckWorkerOptions, HalfTypeWithABackEndOfFloat32_IsRefused) {
  EXPECT_EQ(ErrorOf({"--wire", "bf16", "--backend", "gloo"}),
            "--wire: got 'bf16' with back end gloo, expected fp32: it carries float32 only");
  EXPECT_TRUE(Parse({"--wire", "fp32", "--backend", "gloo"}).ok());
  EXPECT_TRUE(Parse({"--wire", "bf16"}).ok());  // auto
}

TEST(CheckWorkerOptions, CertificateWithABackEndOfPlainConnections_IsRefused) {
  const std::vector<std::string> tls = {"--tls-cert", "c", "--tls-key", "y",
                                        "--tls-ca",   "a", "--backend"};
  const auto error_with = [&tls](const std::string& backend) {
    std::vector<std::string> args = tls;
    args.push_back(backend);
    return ErrorOf(args);
  };
  EXPECT_EQ(error_with("ring"), "");
  for (const char* backend : {"gloo", "mpi"}) {
    EXPECT_THAT(error_with(backend), HasSubstr(std::string("got back end ") + backend +
                                               ", whose connections cannot be encrypted"));
  }
}

TEST(CheckWorkerOptions, AddressThatAnyHostReaches_IsRefusedWithoutTls) {
  for (const std::string option : {"--listen", "--metrics"}) {
    EXPECT_THAT(ErrorOf({option, "8.8.8.8:9400"}),
                HasSubstr(option + ": got 8.8.8.8:9400: any host could reach"));
    EXPECT_EQ(ErrorOf({option, "8.8.8.8:9400", "--insecure"}), "");
  }
}

// The back ends with which these options are taken, in the order of --help.
std::vector<std::string> BackendsWith(const std::vector<std::string>& options) {
  std::vector<std::string> names;
  for (const std::string& name : NamesOf(BackendChoicesWithAuto())) {
    std::vector<std::string> args = options;
    args.insert(args.end(), {"--backend", name});
    if (ErrorOf(args).empty()) names.push_back(name);
  }
  return names;
}

TEST(CheckWorkerOptions, EachBackEnd_TakesWhatItCanDo) {
  EXPECT_THAT(BackendsWith({"--compress", "int8"}),
              ElementsAre("coordinator", "sharded", "memory", "auto"));
  EXPECT_THAT(BackendsWith({"--wire", "fp16"}),
              ElementsAre("coordinator", "sharded", "ring", "tree", "memory", "auto"));
  EXPECT_THAT(BackendsWith({"--rank", "0,1"}),
              ElementsAre("coordinator", "sharded", "ring", "tree", "memory", "auto"));
  EXPECT_THAT(BackendsWith({"--sync", "parameter-server"}), ElementsAre("coordinator", "sharded"));
  EXPECT_THAT(BackendsWith({"--connections", "2"}), ElementsAre("coordinator", "sharded", "auto"));
}

TEST(CheckWorkerOptions, UnknownCompression_IsRefused) {
  EXPECT_EQ(
      ErrorOf({"--compress", "zip"}),
      "--compress: got 'zip', expected none, int8, top-k:D with 0 < D <= 1, powersgd:R with R "
      "from 1 to 1024");
}

TEST(CheckWorkerOptions, CompressionWithWhatItCannot_IsRefused) {
  EXPECT_EQ(ErrorOf({"--compress", "int8", "--backend", "ring"}),
            "--compress: got 'int8' with back end ring (--backend), expected auto, coordinator, "
            "sharded or memory, which decode");
  EXPECT_EQ(ErrorOf({"--compress", "int8", "--wire", "bf16"}),
            "--compress: got 'int8' with wire bf16 (--wire), expected one of them");
  EXPECT_EQ(ErrorOf({"--compress", "int8", "--wire", "fp32"}),
            "--compress: got 'int8' with wire fp32 (--wire), expected one of them");
  EXPECT_EQ(ErrorOf({"--compress", "top-k:0.1", "--nesterov"}),
            "--compress: got 'top-k:0.1' with nesterov (--nesterov), expected plain momentum, "
            "which the ranks apply");
  EXPECT_EQ(ErrorOf({"--sync", "none", "--compress", "int8"}),
            "--sync none sends nothing, so it compresses nothing; got 'int8' (--compress)");
}

TEST(CheckWorkerOptions, WarmUpOfACodecWithout_IsRefused) {
  EXPECT_EQ(ErrorOf({"--compress", "int8", "--compress-warmup", "5"}),
            "--compress-warmup: got it without --compress top-k or powersgd, expected both or "
            "neither");
  EXPECT_EQ(ErrorOf({"--compress", "powersgd:2", "--compress-warmup", "5"}), "");
}

TEST(CheckWorkerOptions, PowerSgd_TakesAnyBackEndAndNesterov) {
  EXPECT_EQ(Parse({"--compress", "powersgd:2"})->options.backend, "auto");
  for (const std::string& backend : NamesOf(BackendChoices())) {
    EXPECT_EQ(ErrorOf({"--compress", "powersgd:2", "--backend", backend, "--nesterov"}), "")
        << backend;
  }
}

TEST(CheckWorkerOptions, PowerSgdWithWhatItCannot_IsRefused) {
  EXPECT_EQ(ErrorOf({"--compress", "powersgd:2", "--wire", "bf16"}),
            "--compress: got 'powersgd:2' with wire bf16 (--wire), expected one of them");
  EXPECT_EQ(ErrorOf({"--compress", "powersgd:2", "--sync", "local-sgd:4"}),
            "--compress: got powersgd:2 with --sync local-sgd:4 (--sync), which exchanges models, "
            "expected a sync that exchanges gradients, or --wire bf16");
}

TEST(CheckWorkerOptions, AutoWithCompression_IsLeftToTheView) {
  EXPECT_EQ(Parse({"--compress", "int8"})->options.backend, "auto");
  EXPECT_EQ(Parse({"--compress", "int8", "--connections", "2"})->options.backend, "sharded");
}

TEST(CheckWorkerOptions, DevicesWithAnotherSync_AreRefused) {
  EXPECT_EQ(ErrorOf({"--devices", "2"}),
            "--devices: got sync ddp (default), expected --sync data-parallel");
  EXPECT_EQ(ErrorOf({"--sync", "none", "--inference", "vanilla"}),
            "--inference: got sync none (--sync), expected --sync data-parallel");
  EXPECT_EQ(ErrorOf({"--replication", "vanilla"}),
            "--replication: got sync ddp (default), expected --sync data-parallel");
}

// What is for one sync may be said of another where it says nothing.
TEST(CheckWorkerOptions, DefaultsWithAnotherSync_AreTaken) {
  EXPECT_EQ(Parse({"--sync", "none", "--devices", "1"})->options.devices, 1);
  EXPECT_FALSE(Parse({"--sync", "all-reduce", "--barrier", "false"})->options.barrier);
}

TEST(CheckWorkerOptions, DataParallelWithOthers_IsRefused) {
  EXPECT_EQ(ErrorOf({"--sync", "data-parallel", "--world-size", "2"}),
            "--sync data-parallel is for one process alone; got world size 2 (--world-size)");
}

TEST(CheckWorkerOptions, EmulationWithWhatNeedsComputation_IsRefused) {
  EXPECT_EQ(ErrorOf({"--compute-seconds", "1,2", "--save-weights", "a.pt"}),
            "--compute-seconds: sleeps instead of computing, so it takes no --save-weights; got it "
            "in --save-weights");
  EXPECT_EQ(
      ErrorOf({"--compute-seconds", "1,2", "--sync", "data-parallel", "--inference", "native"}),
      "--compute-seconds: sleeps instead of computing, so it takes no --inference; got it in "
      "--inference");
  EXPECT_EQ(ErrorOf({"--compute-seconds", "1,2", "--sync", "data-parallel", "--devices", "2"}),
            "--compute-seconds: sleeps instead of computing, so it takes no --devices; got it in "
            "--devices");
}

TEST(CheckWorkerOptions, LateSecondsWithoutEmulation_AreRefused) {
  EXPECT_EQ(ErrorOf({"--late-seconds", "0.5"}),
            "--late-seconds: got 0.5, which only --compute-seconds can sleep; expected both or "
            "neither");
  EXPECT_EQ(ErrorOf({"--late-seconds", "0.5", "--compute-seconds", "1,2"}), "");
}

TEST(CheckWorkerOptions, InferenceWithWhatNeedsTraining_IsRefused) {
  const std::vector<std::string> inference = {"--sync", "data-parallel", "--inference", "native"};
  for (const std::vector<std::string>& more : {std::vector<std::string>{"--evaluate"},
                                               {"--save-weights", "a.pt"},
                                               {"--replication", "vanilla"}}) {
    std::vector<std::string> args = inference;
    args.insert(args.end(), more.begin(), more.end());
    EXPECT_EQ(ErrorOf(args),
              "--inference trains nothing, so it takes no " + more[0] + "; got it in " + more[0]);
  }
}

// It is --evaluate-every that asks for an evaluation.
TEST(CheckWorkerOptions, InferenceWithEvaluateEvery_NamesIt) {
  EXPECT_EQ(ErrorOf({"--sync", "data-parallel", "--inference", "native"},
                    {{"GRADWIRE_EVALUATE_EVERY", "2"}}),
            "--inference trains nothing, so it takes no --evaluate-every; got it in "
            "GRADWIRE_EVALUATE_EVERY");
}

TEST(CheckWorkerOptions, HostCoordinatorWithItsPlace_IsTaken) {
  const auto parsed = Parse(
      {"--host-coordinator", "--rank", "0", "--world-size", "2", "--coordinator-metrics", "off"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(parsed->options.host_coordinator);
  EXPECT_EQ(parsed->options.coordinator_metrics, "off");
}

TEST(CheckWorkerOptions, HostCoordinatorWithoutItsPlace_IsRefused) {
  EXPECT_THAT(ErrorOf({"--host-coordinator", "--world-size", "2"}), HasSubstr("got no rank"));
  EXPECT_THAT(ErrorOf({"--host-coordinator", "--rank", "0"}), HasSubstr("got no world size"));
}

TEST(CheckWorkerOptions, BarrierWithDdp_IsTaken) {
  EXPECT_TRUE(Parse({"--sync", "ddp", "--barrier"})->options.barrier);
}

TEST(CheckWorkerOptions, BarrierWithOtherSync_IsRefused) {
  EXPECT_EQ(
      ErrorOf({"--sync", "all-reduce", "--barrier"}),
      "--barrier: got sync all-reduce (--sync), expected a sync that updates late, such as ddp");
}

TEST(CheckWorkerOptions, SavedWeightsOfNoFormat_AreRefused) {
  EXPECT_EQ(ErrorOf({"--save-weights", "weights.bin"}),
            "--save-weights: got 'weights.bin', expected a name that ends in .safetensors, .pt or "
            ".pth");
}

TEST(CheckWorkerOptions, SavedWeightsOfEachFormat_AreTaken) {
  for (const char* path : {"a.safetensors", "a.pt", "a.pth"}) {
    EXPECT_EQ(ErrorOf({"--save-weights", path}), "") << path;
  }
}

TEST(CheckWorkerOptions, AccumulateTimesBatchSizeOverflows_IsRefused) {
  EXPECT_EQ(ErrorOf({"--accumulate", "4611686018427387904", "--batch-size", "2"}),
            "--accumulate: got '4611686018427387904' times a batch size of 2, which is too many "
            "samples");
}

TEST(CheckWorkerOptions, NesterovWithMomentum_IsTaken) {
  EXPECT_TRUE(Parse({"--nesterov", "true"})->options.nesterov);
}

TEST(CheckWorkerOptions, NesterovWithoutMomentum_IsRefused) {
  EXPECT_EQ(ErrorOf({"--nesterov", "true", "--momentum", "0"}),
            "--nesterov: got momentum 0 (--momentum), expected a momentum above 0");
}

TEST(CheckWorkerOptions, MomentumWithAdam_IsRefused) {
  EXPECT_EQ(
      ErrorOf({"--momentum", "0.9", "--optimizer", "adam"}),
      "--momentum: got it with optimizer adam (--optimizer), which has no momentum, expected sgd");
  EXPECT_EQ(
      ErrorOf({"--nesterov", "true", "--optimizer", "adamw"}),
      "--nesterov: got it with optimizer adamw (--optimizer), which has no momentum, expected sgd");
}

TEST(CheckWorkerOptions, OptionsOfASchedule_AreRefusedWithoutIt) {
  EXPECT_EQ(ErrorOf({"--lr-step-epochs", "3"}),
            "--lr-step-epochs: got it without --lr-schedule step, expected both or neither");
  EXPECT_EQ(ErrorOf({"--lr-schedule", "cosine"}, {{"GRADWIRE_LR_GAMMA", "0.5"}}),
            "GRADWIRE_LR_GAMMA: got it without --lr-schedule step, expected both or neither");
  EXPECT_EQ(ErrorOf({"--base-batch", "128"}),
            "--base-batch: got it without --scale-lr, expected both or neither");
}

TEST(CheckWorkerOptions, SeveralRanksBeyondWorldSize_NamesTheLast) {
  EXPECT_EQ(ErrorOf({"--rank", "2-4", "--world-size", "4"}),
            "--rank: got '4', expected a rank from 0 to 3, because the world size is 4 "
            "(--world-size)");
}

TEST(CheckWorkerOptions, SeveralRanksWithABackendOfOne_AreRefused) {
  EXPECT_EQ(ErrorOf({"--rank", "0,1", "--backend", "gloo"}),
            "--rank: got 2 ranks, expected one, because back end gloo carries one rank per worker");
}

TEST(CheckWorkerOptions, ConnectionsWithAuto_AreShardeds) {
  const auto parsed = Parse({"--connections", "2"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->options.backend, "sharded");
}

TEST(CheckWorkerOptions, ConnectionsOfASyncThatGathers_AreTheCoordinators) {
  const auto parsed = Parse({"--sync", "gather-scatter", "--connections", "2"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->options.backend, kAutoOfGathering);
}

TEST(CheckWorkerOptions, ConnectionsWithABackendOfOne_AreRefused) {
  EXPECT_EQ(ErrorOf({"--backend", "ring", "--connections", "2"}),
            "--connections: got 2 with back end ring, expected 1: this back end has one connection "
            "to each peer");
}

}  // namespace
}  // namespace gradwire
