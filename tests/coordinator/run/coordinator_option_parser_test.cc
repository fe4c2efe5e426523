#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/run/coordinator_options.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const std::vector<std::string>& args) {
  return std::string(ParseCoordinatorOptions(args, {}).status().message());
}

TEST(ParseCoordinatorOptions, Nothing_KeepsTheStructsDefaults) {
  const auto parsed = ParseCoordinatorOptions({}, {});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->options.listen, "0.0.0.0:29400");
  EXPECT_EQ(parsed->options.world_size, 1);
  EXPECT_EQ(parsed->options.metrics, "127.0.0.1:9400");
  EXPECT_EQ(parsed->options.lease_seconds, 10);
  EXPECT_EQ(parsed->options.min_lease_seconds, 1);
  EXPECT_EQ(parsed->options.rendezvous_timeout_seconds, 600);
  EXPECT_EQ(parsed->options.connect_timeout_seconds, 30);
  EXPECT_EQ(parsed->options.linger_seconds, 0);
  EXPECT_EQ(parsed->options.chunk_kib, 256u);
  EXPECT_EQ(parsed->options.checkpoint_every, 0u);
  EXPECT_EQ(parsed->options.keep_checkpoints, 3);
  EXPECT_EQ(parsed->options.resume, kResumeAuto);
  EXPECT_FALSE(parsed->options.http_token);
}

TEST(ParseCoordinatorOptions, AllOptions_AreTaken) {
  const auto parsed = ParseCoordinatorOptions({"--listen",
                                               "[::1]:0",
                                               "--world-size",
                                               "4",
                                               "--metrics",
                                               "off",
                                               "--port-file",
                                               "p",
                                               "--lease-seconds",
                                               "2.5",
                                               "--min-lease-seconds",
                                               "0.5",
                                               "--rendezvous-timeout-seconds",
                                               "3",
                                               "--chunk-kib",
                                               "512",
                                               "--linger-seconds",
                                               "15",
                                               "--workers",
                                               "3"},
                                              {});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->options.listen, "[::1]:0");
  EXPECT_EQ(parsed->options.world_size, 4);
  EXPECT_EQ(parsed->options.metrics, "off");
  EXPECT_EQ(parsed->options.port_file, "p");
  EXPECT_EQ(parsed->options.lease_seconds, 2.5);
  EXPECT_EQ(parsed->options.min_lease_seconds, 0.5);
  EXPECT_EQ(parsed->options.rendezvous_timeout_seconds, 3);
  EXPECT_EQ(parsed->options.chunk_kib, 512u);
  EXPECT_EQ(parsed->options.linger_seconds, 15);
  EXPECT_EQ(parsed->options.workers, 3);
}

TEST(ParseCoordinatorOptions, OptionsOfASeparateAggregatorAndOfCheckpoints_AreTaken) {
  const auto separate =
      ParseCoordinatorOptions({"--aggregate-only", "--coordinator", "10.10.1.1:7", "--advertise",
                               "10.10.1.2", "--connect-timeout-seconds", "4.5"},
                              {});
  ASSERT_TRUE(separate.ok()) << separate.status();
  EXPECT_TRUE(separate->options.aggregate_only);
  EXPECT_EQ(separate->options.coordinator, "10.10.1.1:7");
  EXPECT_EQ(separate->options.advertise, "10.10.1.2");
  EXPECT_EQ(separate->options.connect_timeout_seconds, 4.5);
  const auto keeps =
      ParseCoordinatorOptions({"--run-dir", "d", "--checkpoint-every", "50", "--keep-checkpoints",
                               "2", "--aggregators", "5", "--http-names", "a.example,b.example"},
                              {});
  ASSERT_TRUE(keeps.ok()) << keeps.status();
  EXPECT_EQ(keeps->options.run_dir, "d");
  EXPECT_EQ(keeps->options.checkpoint_every, 50u);
  EXPECT_EQ(keeps->options.keep_checkpoints, 2);
  EXPECT_EQ(keeps->options.aggregators, 5);
  EXPECT_EQ(keeps->options.http_names, "a.example,b.example");
}

TEST(ParseCoordinatorOptions, MoreWorkersThanRanks_IsRefused) {
  EXPECT_EQ(ErrorOf({"--world-size", "2", "--workers", "3"}),
            "--workers: got 3, expected at most --world-size, 2");
}

TEST(ParseCoordinatorOptions, TraceOfASeparateAggregator_IsRefused) {
  EXPECT_EQ(ErrorOf({"--aggregate-only", "--trace", "f"}),
            "--trace: cannot be used with --aggregate-only");
  EXPECT_EQ(ErrorOf({"--aggregate-only", "--aggregation-summary", "f"}),
            "--aggregation-summary: cannot be used with --aggregate-only");
}

TEST(ParseCoordinatorOptions, TorchrunsWorldSize_IsNotOurs) {
  const auto parsed = ParseCoordinatorOptions({}, {{"RANK", "0"}, {"WORLD_SIZE", "4"}});
  EXPECT_EQ(parsed->options.world_size, 1);
}

TEST(ParseCoordinatorOptions, EachOption_IsAlsoAVariable) {
  const auto parsed = ParseCoordinatorOptions({}, {});
  for (const auto& [name, source] : parsed->sources) {
    EXPECT_THAT(UnknownVariables({{VariableOf(name), "1"}}), ::testing::IsEmpty()) << name;
  }
}

TEST(ParseCoordinatorOptions, NumbersOutOfBounds_AreRefused) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"--world-size", "0"},        {"--lease-seconds", "0"},
      {"--min-lease-seconds", "0"}, {"--rendezvous-timeout-seconds", "-1"},
      {"--keep-checkpoints", "0"},  {"--connect-timeout-seconds", "0"},
      {"--chunk-kib", "0"},         {"--chunk-kib", "65537"},
      {"--listen", "host"},         {"--metrics", "9400"},
      {"--linger-seconds", "-1"},   {"--workers", "0"}};
  for (const auto& [option, value] : wrong) {
    EXPECT_THAT(ErrorOf({option, value}), HasSubstr(option + ": got '" + value + "', expected"));
  }
}

TEST(ParseCoordinatorOptions, NumbersAtTheirBounds_AreTaken) {
  const std::vector<std::pair<std::string, std::string>> right = {
      {"--chunk-kib", "4096"},    {"--linger-seconds", "0"}, {"--pause-timeout", "0"},
      {"--min-workers", "65535"}, {"--aggregators", "0"},    {"--aggregators", "65535"},
      {"--world-size", "65535"}};
  for (const auto& [option, value] : right) EXPECT_EQ(ErrorOf({option, value}), "") << option;
  EXPECT_EQ(ErrorOf({"--run-dir", "d", "--checkpoint-every", "0"}), "");
  EXPECT_EQ(ErrorOf({"--run-dir", "d", "--keep-checkpoints", "1"}), "");
}

TEST(ParseCoordinatorOptions, PagesThatAnyHostCouldReach_AreRefused) {
  EXPECT_THAT(ErrorOf({"--metrics", "8.8.8.8:9400"}),
              HasSubstr("--metrics: got 8.8.8.8:9400: any host could reach that address"));
  EXPECT_EQ(ErrorOf({"--metrics", "8.8.8.8:9400", "--insecure"}), "");
}

TEST(ParseCoordinatorOptions, Loss_RecoversWithOneWorkerUnlessToldOtherwise) {
  const auto usual = ParseCoordinatorOptions({}, {});
  EXPECT_EQ(usual->options.on_loss, kRecover);
  EXPECT_EQ(usual->options.min_workers, 1);
  EXPECT_EQ(usual->options.pause_timeout_seconds, 0);
  const auto told = ParseCoordinatorOptions(
      {"--on-loss", "stop", "--min-workers", "3", "--pause-timeout", "2.5"}, {});
  EXPECT_EQ(told->options.on_loss, kStop);
  EXPECT_EQ(told->options.min_workers, 3);
  EXPECT_EQ(told->options.pause_timeout_seconds, 2.5);
  EXPECT_THAT(ErrorOf({"--on-loss", "retry"}), HasSubstr("recover"));
  EXPECT_THAT(ErrorOf({"--min-workers", "0"}), HasSubstr("--min-workers"));
  EXPECT_THAT(ErrorOf({"--pause-timeout", "-1"}), HasSubstr("--pause-timeout"));
}

TEST(ParseCoordinatorOptions, StateDirectory_IsNotThereYet) {
  EXPECT_THAT(ErrorOf({"--state-dir", "d"}), HasSubstr("unknown option --state-dir"));
}

TEST(ParseCoordinatorOptions, Help_NamesTheProgram) {
  EXPECT_THAT(ParseCoordinatorOptions({"--help"}, {})->print,
              HasSubstr("Usage: gradwire-coordinator"));
}

TEST(ParseCoordinatorOptions, CheckpointsWithoutAFolder_AreRefused) {
  for (const auto& [option, value] : std::vector<std::pair<std::string, std::string>>{
           {"--checkpoint-every", "5"}, {"--keep-checkpoints", "2"}, {"--resume", "never"}}) {
    EXPECT_EQ(ErrorOf({option, value}),
              option + ": got no folder for checkpoints, expected --run-dir DIR with it");
    EXPECT_EQ(ErrorOf({option, value, "--run-dir", "d"}), "");
  }
  EXPECT_EQ(ErrorOf({"--aggregate-only", "--run-dir", "d"}),
            "--run-dir: cannot be used with --aggregate-only");
}

TEST(ParseCoordinatorOptions, Resume_TakesAutoNeverOrAStep) {
  for (const char* value : {"auto", "never", "1200"}) {
    const auto parsed = ParseCoordinatorOptions({"--run-dir", "d", "--resume", value}, {});
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->options.resume, value);
  }
  for (const std::string value : {"0", "-1", "last"}) {
    EXPECT_EQ(ErrorOf({"--run-dir", "d", "--resume", value}),
              "--resume: got '" + value + "', expected auto, never or the step of a checkpoint");
  }
}

TEST(ParseCoordinatorOptions, PagesWithATokenThatIsNotThere_AreRefused) {
  EXPECT_EQ(ErrorOf({"--http-token"}), "--http-token: got no token, expected --token-file with it");
  EXPECT_EQ(ErrorOf({"--http-token", "--token-file", "t"}), "");
}

}  // namespace
}  // namespace gradwire
