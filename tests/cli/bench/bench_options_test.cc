#include "cli/bench/bench_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_join.h"
#include "cli/plan/plan_command.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Args = std::vector<std::string>;

CollectivesOptions Collectives(const Args& args) {
  return ParseCollectivesOptions(args, {})->options;
}

std::string CollectivesError(const Args& args) {
  return std::string(ParseCollectivesOptions(args, {}).status().message());
}

std::string TrainingError(const Args& args) {
  return std::string(ParseTrainingOptions(args, {}).status().message());
}

TEST(Sizes, Default_GoUpByFourWithVgg11) {
  const std::vector<uint64_t> sizes = Collectives({}).Sizes();
  EXPECT_EQ(sizes.size(), 15u);
  EXPECT_EQ(sizes.front(), 4u);
  EXPECT_EQ(sizes.back(), 256u << 20);
  EXPECT_THAT(sizes, ::testing::Contains(36924456u));
}

TEST(Sizes, Range_IsKept) {
  EXPECT_THAT(Collectives({"--min-bytes", "1K", "--max-bytes", "5000", "--factor", "2"}).Sizes(),
              ElementsAre(1024, 2048, 4096));
}

TEST(Sizes, Vgg11_IsThereIfTheRangeHasIt) {
  EXPECT_THAT(Collectives({"--max-bytes", "36924456"}).Sizes(), ::testing::Contains(36924456u));
  EXPECT_THAT(Collectives({"--min-bytes", "64M", "--max-bytes", "128M"}).Sizes(),
              ElementsAre(64 << 20));
}

TEST(Sizes, List_IsTakenAsItIs) {
  EXPECT_THAT(Collectives({"--sizes", "1M,4,36924456"}).Sizes(), ElementsAre(4, 1 << 20, 36924456));
}

TEST(ParseSize, NoMultipleOfFour_IsRefused) {
  for (const char* text : {"6", "0", "x", "4T", "-4", ""}) {
    EXPECT_THAT(std::string(ParseSize(text).status().message()), HasSubstr("multiple of 4"))
        << text;
  }
}

TEST(ParseSize, Units_ArePowersOf1024UpToATebibyte) {
  EXPECT_EQ(*ParseSize("3K"), 3u << 10);
  EXPECT_EQ(*ParseSize("1024G"), uint64_t{1} << 40);
  for (const char* text : {"1025G", "1099511627780", "17179869184G", "18446744073709551612"}) {
    EXPECT_FALSE(ParseSize(text).ok()) << text;
  }
}

TEST(GbitOfRate, Rates_AreInGbit) {
  EXPECT_EQ(**GbitOfRate("1gbit"), 1);
  EXPECT_EQ(**GbitOfRate("500mbit"), 0.5);
  EXPECT_DOUBLE_EQ(**GbitOfRate("250kbit"), 250e-6);
  EXPECT_DOUBLE_EQ(**GbitOfRate("8bit"), 8e-9);
  for (const char* rate : {"0gbit", "-1gbit", "gbit", "1"}) {
    EXPECT_FALSE(GbitOfRate(rate).ok()) << rate;
  }
  EXPECT_FALSE(GbitOfRate("none")->has_value());
  EXPECT_THAT(std::string(GbitOfRate("fast").status().message()),
              HasSubstr("got 'fast', expected a rate such as 1gbit"));
}

TEST(LinkGbit, RateOrOption_OptionWins) {
  EXPECT_EQ(Collectives({"--hosts", "h", "--rate", "1gbit"}).bench.LinkGbit(), 1);
  EXPECT_EQ(Collectives({"--link-gbit", "10"}).bench.LinkGbit(), 10);
  EXPECT_FALSE(Collectives({}).bench.LinkGbit().has_value());
}

TEST(LinkGbit, HostsThatAreMade_HaveOneGbitUnlessARateIsGiven) {
  for (const char* name : {"auto", "podman"}) {
    EXPECT_EQ(Collectives({"--hosts", name}).bench.rate, "1gbit");
    EXPECT_EQ(Collectives({"--hosts", name, "--rate", "10gbit"}).bench.LinkGbit(), 10);
    EXPECT_EQ(Collectives({"--hosts", name, "--rate", "none"}).bench.rate, "none");
  }
  EXPECT_EQ(Collectives({"--hosts", "h"}).bench.rate, "none");
}

TEST(ParseCollectivesOptions, TlsOnHosts_IsRefused) {
  EXPECT_TRUE(Collectives({"--tls"}).tls);
  EXPECT_THAT(CollectivesError({"--tls", "--hosts", "h"}), HasSubstr("expected this machine only"));
  EXPECT_THAT(CollectivesError({"--tls", "--hostfile", "h"}), HasSubstr("this machine only"));
}

TEST(ParseCollectivesOptions, UnknownOption_NamesTheNearest) {
  EXPECT_EQ(CollectivesError({"--backend", "ring"}),
            "unknown option --backend; did you mean --backends?");
}

TEST(ParseCollectivesOptions, UnknownBackend_NamesTheNearest) {
  EXPECT_THAT(CollectivesError({"--backends", "ring,sharted"}),
              HasSubstr("got 'sharted', expected some of"));
  EXPECT_THAT(CollectivesError({"--backends", "sharted"}), HasSubstr("did you mean sharded?"));
}

TEST(ParseCollectivesOptions, OpThatABackEndLacks_NamesBoth) {
  EXPECT_EQ(CollectivesError({"--ops", "all-reduce,gather", "--backends", "ring,sharded"}),
            "--ops: got 'gather', but back end sharded (--backends) does not have it");
}

TEST(ParseCollectivesOptions, NoBackends_AreThoseWithTheOps) {
  EXPECT_THAT(Collectives({"--ops", "scatter"}).backends, ElementsAre("ring", "tree", "memory"));
  EXPECT_THAT(Collectives({}).backends, ::testing::SizeIs(7));
}

TEST(ParseCollectivesOptions, NameTwice_CountsOnce) {
  EXPECT_THAT(Collectives({"--backends", "tree,ring,tree"}).backends, ElementsAre("tree", "ring"));
}

TEST(ParseBenchOptions, NumbersOutOfBounds_AreRefused) {
  for (const Args& args : {Args{"--factor", "1"}, Args{"--warmup", "0"}, Args{"--iterations", "0"},
                           Args{"--seconds-per-size", "-1"}, Args{"--timeout-seconds", "0"},
                           Args{"--link-gbit", "0"}, Args{"--workers", "0"}}) {
    EXPECT_THAT(CollectivesError(args), HasSubstr(args[0] + ": got '" + args[1] + "'"));
  }
  for (const Args& args :
       {Args{"--rounds", "0"}, Args{"--iterations", "1"}, Args{"--batch-size", "0"}}) {
    EXPECT_THAT(TrainingError(args), HasSubstr(args[0] + ": got '" + args[1] + "'"));
  }
  EXPECT_EQ(CollectivesError({"--seconds-per-size", "0"}), "");
  EXPECT_EQ(TrainingError({"--iterations", "2"}), "");
}

TEST(ParseCollectivesOptions, UnknownOp_NamesTheNearest) {
  EXPECT_THAT(CollectivesError({"--ops", "all-redcue"}), HasSubstr("did you mean all-reduce?"));
}

TEST(ParseCollectivesOptions, UnknownWire_NamesTheNearest) {
  EXPECT_THAT(CollectivesError({"--wire", "fp61"}), HasSubstr("did you mean fp16?"));
}

TEST(ParseCollectivesOptions, RateWithoutHosts_IsRefused) {
  EXPECT_EQ(CollectivesError({"--rate", "1gbit"}),
            "--rate: only the links of --hosts can have a rate");
}

TEST(ParseCollectivesOptions, HostsTwice_AreRefused) {
  EXPECT_EQ(CollectivesError({"--hosts", "p", "--hostfile", "f"}),
            "--hostfile and --hosts exclude each other; give only one of them");
}

TEST(ParseCollectivesOptions, HostsOfTheEnvironment_GiveWayToTheFlag) {
  const auto parsed =
      ParseCollectivesOptions({"--hostfile", "f"}, {{"GRADWIRE_HOSTS", "p"}})->options.bench;
  EXPECT_EQ(parsed.hostfile, "f");
  EXPECT_EQ(parsed.hosts, "");
}

TEST(ParseCollectivesOptions, EmptyRange_IsRefused) {
  EXPECT_EQ(CollectivesError({"--min-bytes", "8", "--max-bytes", "4"}),
            "--min-bytes: got '8', expected at most --max-bytes, 4");
}

TEST(ParseTrainingOptions, UnknownSetup_NamesTheNearest) {
  EXPECT_THAT(TrainingError({"--setups", "all-reduec"}), HasSubstr("did you mean all-reduce?"));
}

TEST(ParseTrainingOptions, LastPort_IsRefusedBecausePyTorchNeedsTheNextOne) {
  EXPECT_THAT(TrainingError({"--port", "65535"}), HasSubstr("--port"));
  EXPECT_EQ(TrainingError({"--port", "65534"}), "");
}

TEST(ParseTrainingOptions, PeerWithoutPeers_IsRefused) {
  EXPECT_THAT(TrainingError({"--setups", "gloo-ddp"}), HasSubstr("needs --peers"));
}

TEST(ParseTrainingOptions, PeersWithAnotherModel_AreRefused) {
  for (const std::vector<std::string>& model :
       {Args{"--model", "lenet"}, Args{"--hidden", "8"}, Args{"--freeze-features"}}) {
    Args args = {"--peers", "--setups", "ddp,gloo-ddp"};
    args.insert(args.end(), model.begin(), model.end());
    EXPECT_THAT(TrainingError(args),
                HasSubstr("--peers supports only vgg11, mlp, and resnet18 with --image-size 32; "
                          "got --model"));
    args[2] = "ddp";
    EXPECT_EQ(TrainingError(args), "");
  }
}

TEST(ParseTrainingOptions, PeersWithAModelOfTheirs_AreTaken) {
  for (const std::vector<std::string>& model :
       {Args{}, Args{"--model", "mlp"}, Args{"--model", "resnet18", "--image-size", "32"}}) {
    Args args = {"--peers", "--setups", "ddp,gloo-ddp"};
    args.insert(args.end(), model.begin(), model.end());
    EXPECT_EQ(TrainingError(args), "");
  }
}

TEST(ParseTrainingOptions, Help_ListsTheSetups) {
  EXPECT_THAT(ParseTrainingOptions({"--help"}, {})->print, HasSubstr("gloo-ddp-tuned"));
}

TEST(ParsePlanOptions, UnknownOption_NamesTheNearest) {
  EXPECT_EQ(ParsePlanOptions({"--link-gbits", "1"}, {}).status().message(),
            "unknown option --link-gbits; did you mean --link-gbit?");
}

TEST(ParsePlanOptions, UnknownCodec_IsRefused) {
  EXPECT_EQ(
      ParsePlanOptions({"--compress", "zip"}, {}).status().message(),
      "--compress: got 'zip', expected none, int8, top-k:D with 0 < D <= 1, powersgd:R with R "
      "from 1 to 1024");
}

TEST(ParsePlanOptions, CodecWithATypeOnTheWire_IsRefused) {
  EXPECT_EQ(ParsePlanOptions({"--wire", "bf16", "--compress", "int8"}, {}).status().message(),
            "--compress: got 'int8' with wire bf16 (--wire), expected one of them");
  EXPECT_TRUE(ParsePlanOptions({"--wire", "bf16", "--compress", "none"}, {}).ok());
}

TEST(AdoptRun, OtherCodecThanTheRuns_IsRefused) {
  auto parsed = *ParsePlanOptions({"--compress", "int8"}, {});
  EXPECT_EQ(
      AdoptRun({4, "ddp", "sharded", "fp32", "none", "vgg11", 64, 1, 0, 0, 1}, &parsed).message(),
      "--compress: got 'int8', but the run of --summary had 'none'");
}

TEST(AdoptRun, NotGiven_TakesTheRuns) {
  auto parsed = *ParsePlanOptions({}, {});
  ASSERT_TRUE(
      AdoptRun({2, "all-reduce", "ring", "bf16", "none", "vgg11", 8, 1, 0.5, 0.25, 1}, &parsed)
          .ok());
  EXPECT_EQ(parsed.options.workers, 2);
  EXPECT_EQ(parsed.options.wire, "bf16");
  EXPECT_EQ(parsed.options.batch_size, 8);
  EXPECT_EQ(parsed.options.compute_seconds, 0.25);
}

TEST(AdoptRun, SyncAndModelOfTheRun_AreTakenAndComputationThatIsGivenWins) {
  auto parsed = *ParsePlanOptions({"--compute-seconds", "0.7"}, {});
  ASSERT_TRUE(
      AdoptRun({2, "gather-scatter", "ring", "fp32", "int8", "lenet", 8, 1, 0.5, 0.25, 1}, &parsed)
          .ok());
  EXPECT_EQ(parsed.options.sync, "gather-scatter");
  EXPECT_EQ(parsed.options.model, "lenet");
  EXPECT_EQ(parsed.options.compress, "int8");
  EXPECT_EQ(parsed.options.compute_seconds, 0.7);
}

TEST(AdoptRun, OtherThanTheRun_IsRefused) {
  auto parsed = *ParsePlanOptions({"--workers", "3"}, {});
  EXPECT_EQ(AdoptRun({2, "all-reduce", "ring", "fp32", "none", "vgg11", 64, 1, 0, 0, 1}, &parsed)
                .message(),
            "--workers: got '3', but the run of --summary had '2'");
}

TEST(AdoptRun, OneWorker_IsRefused) {
  auto parsed = *ParsePlanOptions({}, {});
  EXPECT_EQ(
      AdoptRun({1, "none", "none", "fp32", "none", "vgg11", 64, 1, 0, 0, 1}, &parsed).message(),
      "--summary: that run had one worker, and exchanged nothing");
}

TEST(LayoutArguments, Model_IsPassedOnWithAllThatChangesIt) {
  const auto parsed = *ParsePlanOptions(
      {"--model", "resnet18", "--image-size", "64", "--hidden", "8", "--freeze-features"}, {});
  EXPECT_THAT(LayoutArguments(parsed.options),
              ::testing::IsSupersetOf(
                  {"resnet18", "--image-size", "64", "--hidden", "8", "--freeze-features"}));
}

TEST(LayoutArguments, SamplesGiven_NeedNoDataset) {
  PlanOptions options;
  options.dataset = "cifar10";
  EXPECT_THAT(LayoutArguments(options), ::testing::Contains("--dataset"));
  options.samples = 100;
  EXPECT_THAT(LayoutArguments(options), ::testing::Not(::testing::Contains("--dataset")));
}

TEST(LayoutArguments, WhatChangesTheBuckets_IsPassedOn) {
  const auto arguments = [](const Args& args) {
    return absl::StrJoin(LayoutArguments(ParsePlanOptions(args, {})->options), " ");
  };
  EXPECT_THAT(arguments({"--sync", "gather-scatter", "--broadcast-buffers", "false"}),
              HasSubstr("--sync gather-scatter --broadcast-buffers false"));
  EXPECT_THAT(arguments({"--bucket-cap-mb", "0"}), HasSubstr("--bucket-cap-mb 0"));
  EXPECT_THAT(arguments({"--dataset", "cifar10", "--data-dir", "d"}),
              HasSubstr("--dataset cifar10 --data-dir d"));
  EXPECT_THAT(arguments({}), ::testing::Not(HasSubstr("--bucket-cap-mb")));
}

}  // namespace
}  // namespace gradwire
