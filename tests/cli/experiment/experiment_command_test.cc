#include "cli/experiment/experiment_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/memory_limits.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;

using Json = nlohmann::ordered_json;

Json Request(const std::vector<std::string>& args, const Environment& environment = {}) {
  const auto parsed = ParseExperimentOptions(args, environment);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? parsed->options.data : Json();
}

std::string ErrorOf(const std::vector<std::string>& args) {
  return std::string(ParseExperimentOptions(args, {}).status().message());
}

TEST(ParseExperimentOptions, NameAlone_IsQuickOnThisMachine) {
  const Json request = Request({"course"});
  EXPECT_EQ(request["words"], Json({"course"}));
  EXPECT_EQ(request["scale"], "quick");
  EXPECT_EQ(request["again"], false);
  EXPECT_EQ(request["threads"], 0);
  for (const char* name : {"data_dir", "out", "hosts", "hostfile"}) {
    EXPECT_EQ(request[name], "") << name;
  }
}

TEST(ParseExperimentOptions, Options_ReachTheScript) {
  const Json request =
      Request({"lab", "--scale", "full", "--data-dir", "d", "--out", "o", "--again", "--threads",
               "2", "--hostfile", "f", "--link-gbit", "1", "--peers"});
  EXPECT_EQ(request["command"],
            "gradwire experiment lab --scale full --data-dir d --out o --again --threads 2 "
            "--hostfile f --link-gbit 1 --peers");
  EXPECT_EQ(request["scale"], "full");
  EXPECT_EQ(request["data_dir"], "d");
  EXPECT_EQ(request["out"], "o");
  EXPECT_EQ(request["again"], true);
  EXPECT_EQ(request["threads"], 2);
  EXPECT_EQ(request["hostfile"], "f");
  EXPECT_EQ(request["link_gbit"], 1);
  EXPECT_EQ(request["peers"], true);
}

TEST(ParseExperimentOptions, MemoryThatAContainerLeaves_ReachesTheScript) {
  const Json request = Request({"course"});
  ASSERT_TRUE(request.contains("memory_left"));
  const uint64_t left = OwnMemoryLimits().group;
  EXPECT_EQ(request["memory_left"].is_null(), left == MemoryLimits::kNoLimit);
  EXPECT_EQ(request["memory_left"].is_number_unsigned(), left != MemoryLimits::kNoLimit);
}

TEST(ParseExperimentOptions, FolderWithASpace_IsQuotedInTheCommand) {
  const Json request = Request({"lab", "--out", "my folder"});
  EXPECT_EQ(request["command"], "gradwire experiment lab --out 'my folder'");
  EXPECT_EQ(request["out"], "my folder");
}

TEST(ParseExperimentOptions, Tables_ReachTheScript) {
  const Json tables = Request({"course"})["tables"];
  EXPECT_EQ(tables["models"][0], "vgg11");
  EXPECT_EQ(tables["compressions"], Json({"none", "int8", "top-k", "powersgd"}));
  EXPECT_THAT(tables["syncs"], ::testing::Contains("all-reduce"));
  EXPECT_THAT(tables["datasets"], ::testing::Contains("cifar10"));
  EXPECT_EQ(tables["wires"], Json({"fp32", "bf16", "fp16"}));
  EXPECT_THAT(tables["operations"], ::testing::Contains("all-gather"));
  EXPECT_EQ(tables["backends"]["ring"], Json({{"loads_workers_alike", true}, {"exact", true}}));
  EXPECT_EQ(tables["backends"]["tree"], Json({{"loads_workers_alike", false}, {"exact", false}}));
}

TEST(ParseExperimentOptions, TraitsOfBackends_AreTheirOwn) {
  const Json backends = Request({"course"})["tables"]["backends"];
  EXPECT_EQ(backends["coordinator"], Json({{"loads_workers_alike", false}, {"exact", true}}));
  EXPECT_EQ(backends["sharded"], Json({{"loads_workers_alike", true}, {"exact", true}}));
}

TEST(ParseExperimentOptions, Script_IsNamed) {
  EXPECT_EQ(ParseExperimentOptions({"course"}, {})->options.name, "cli/experiment/experiment.py");
}

TEST(ParseExperimentOptions, Environment_SaysWhatFlagsDoNot) {
  const Environment environment = {{"GRADWIRE_SCALE", "full"}, {"GRADWIRE_OUT", "there"}};
  const Json request = Request({"course", "--out", "here"}, environment);
  EXPECT_EQ(request["scale"], "full");
  EXPECT_EQ(request["out"], "here");
}

TEST(ParseExperimentOptions, TimeLimitOfARun_IsADay) {
  EXPECT_EQ(Request({"course"})["timeout_seconds"], 24 * 3600);
}

TEST(ParseExperimentOptions, UnknownOption_NamesTheNearest) {
  EXPECT_EQ(ErrorOf({"course", "--host-file", "f"}),
            "unknown option --host-file; did you mean --hostfile?");
}

TEST(ParseExperimentOptions, WrongValue_NamesTheOption) {
  EXPECT_THAT(ErrorOf({"course", "--threads", "0"}), HasSubstr("--threads: got '0'"));
}

TEST(ParseExperimentOptions, HostsInTwoWays_AreRefused) {
  EXPECT_THAT(ErrorOf({"course", "--hosts", "p", "--hostfile", "f"}),
              HasSubstr("exclude each other"));
}

TEST(ParseExperimentOptions, RateOfAHostfile_IsRefused) {
  EXPECT_THAT(ErrorOf({"course", "--hostfile", "f", "--rate", "1gbit"}),
              HasSubstr("only the links of --hosts can have a rate"));
}

TEST(ParseExperimentOptions, Links_AreRatesWithTheirSpeeds) {
  EXPECT_EQ(Request({"course"})["link"], Json::array());
  const Json links = Request({"course", "--link", "1gbit,100mbit,1gbit,none"})["link"];
  EXPECT_EQ(links, Json::array({{{"rate", "1gbit"}, {"gbit", 1.0}},
                                {{"rate", "100mbit"}, {"gbit", 0.1}},
                                {{"rate", "none"}, {"gbit", nullptr}}}));
}

TEST(ParseExperimentOptions, LinkThatIsNoRate_IsRefused) {
  EXPECT_THAT(ErrorOf({"course", "--link", "1gbit,fast"}), HasSubstr("--link: got 'fast'"));
}

TEST(ParseExperimentOptions, LinkAndRate_AreRefused) {
  EXPECT_EQ(ErrorOf({"course", "--hosts", "p", "--rate", "1gbit", "--link", "10gbit"}),
            "--link and --rate exclude each other");
}

TEST(ParseExperimentOptions, LinkOnHostsThatAreMade_TakesThePlaceOfTheirRate) {
  EXPECT_EQ(Request({"course", "--hosts", "auto", "--link", "10gbit"})["link"].size(), 1u);
  EXPECT_EQ(ErrorOf({"course", "--hosts", "auto", "--rate", "1gbit", "--link", "10gbit"}),
            "--link and --rate exclude each other");
}

TEST(ParseExperimentOptions, LinkBesideARateWithoutALimit_IsTaken) {
  const Json request = Request({"course", "--hosts", "p", "--rate", "none", "--link", "10gbit"});
  EXPECT_EQ(request["link"].size(), 1u);
}

TEST(ParseExperimentOptions, LinkAndRateOfTheEnvironment_AreRefused) {
  const Environment environment = {{"GRADWIRE_RATE", "1gbit"}};
  const auto parsed =
      ParseExperimentOptions({"course", "--hosts", "p", "--link", "10gbit"}, environment);
  EXPECT_EQ(parsed.status().message(), "--link and --rate exclude each other");
}

TEST(ParseExperimentOptions, Target_IsAShare) {
  EXPECT_EQ(Request({"course"})["target"], 0);
  EXPECT_EQ(Request({"course", "--target", "0.85"})["target"], 0.85);
  for (const char* target : {"0", "1"}) {
    EXPECT_EQ(ErrorOf({"course", "--target", target}),
              "--target: got '" + std::string(target) + "', expected a number above 0 and below 1");
  }
  EXPECT_THAT(ErrorOf({"course", "--target", "85"}), HasSubstr("--target: got '85'"));
}

TEST(ParseExperimentOptions, OptionsOfTraining_ReachTheScriptIfGiven) {
  EXPECT_EQ(Request({"lab"})["chosen"], Json::object());
  const Json chosen = Request({"lab", "--model", "lenet", "--dataset", "mnist", "--batch-size", "4",
                               "--lr", "0.02", "--momentum", "0", "--weight-decay", "0"})["chosen"];
  EXPECT_EQ(chosen, Json({{"model", "lenet"},
                          {"dataset", "mnist"},
                          {"batch-size", "4"},
                          {"lr", "0.02"},
                          {"momentum", "0"},
                          {"weight-decay", "0"}}));
}

TEST(ParseExperimentOptions, WrongOptionsOfTraining_AreRefused) {
  EXPECT_THAT(ErrorOf({"lab", "--model", "lenett"}), HasSubstr("did you mean lenet?"));
  EXPECT_THAT(ErrorOf({"lab", "--dataset", "x"}), HasSubstr("--dataset: got 'x'"));
  EXPECT_THAT(ErrorOf({"lab", "--batch-size", "0"}), HasSubstr("--batch-size: got '0'"));
  EXPECT_THAT(ErrorOf({"lab", "--lr", "0"}), HasSubstr("--lr: got '0'"));
  EXPECT_THAT(ErrorOf({"lab", "--momentum", "1"}), HasSubstr("--momentum: got '1'"));
  EXPECT_THAT(ErrorOf({"lab", "--weight-decay", "-1"}), HasSubstr("--weight-decay: got '-1'"));
}

TEST(ParseExperimentOptions, Weights_AreAFolderOrTrainedFirst) {
  EXPECT_EQ(Request({"data-parallel"})["weights"], "");
  EXPECT_EQ(Request({"data-parallel"})["pretrain"], 0);
  EXPECT_EQ(Request({"data-parallel", "--weights", "d"})["weights"], "d");
  EXPECT_EQ(Request({"data-parallel", "--pretrain", "7"})["pretrain"], 7);
  EXPECT_THAT(ErrorOf({"data-parallel", "--pretrain", "0"}), HasSubstr("--pretrain: got '0'"));
  EXPECT_EQ(ErrorOf({"data-parallel", "--weights", "d", "--pretrain", "7"}),
            "--weights and --pretrain exclude each other");
}

TEST(ParseExperimentOptions, Claims_ReachTheScript) {
  const Json request = Request({"claims", "course", "--json"});
  EXPECT_EQ(request["words"], Json({"claims", "course"}));
  EXPECT_EQ(request["json"], true);
  EXPECT_EQ(Request({"claims"})["json"], false);
}

TEST(ParseExperimentOptions, Help_SaysHowToListThem) {
  const std::string help = ParseExperimentOptions({"--help"}, {})->print;
  EXPECT_THAT(help, HasSubstr("'gradwire experiment list' lists the experiments"));
  EXPECT_THAT(help, HasSubstr("'gradwire experiment claims [NAME]'"));
}

}  // namespace
}  // namespace gradwire
