#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "cli/terminal/commands.h"
#include "tests/support/sockets.h"

namespace gradwire {
namespace {

using ::testing::ExitedWithCode;
using ::testing::HasSubstr;

std::string ErrorOf(const std::vector<std::string>& args) {
  return std::string(ParseStatusOptions(args, {}).status().message());
}

TEST(ParseStatusOptions, NoAddress_IsTheCoordinatorsDefault) {
  EXPECT_EQ(ParseStatusOptions({}, {})->options.data["coordinator"], "127.0.0.1:9400");
}

TEST(ParseStatusOptions, AddressAroundSwitches_IsTaken) {
  for (const std::vector<std::string>& args : {std::vector<std::string>{"h:1", "--watch"},
                                               {"--watch", "h:1"},
                                               {"--watch", "true", "h:1"}}) {
    const auto parsed = ParseStatusOptions(args, {});
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->options.data["coordinator"], "h:1");
    EXPECT_EQ(parsed->options.data["watch"], true);
    EXPECT_EQ(parsed->options.data["json"], false);
  }
}

TEST(ParseStatusOptions, PlainHttp_NeedsNoCertificates) {
  EXPECT_EQ(ParseStatusOptions({}, {})->options.data["tls"], nullptr);
  EXPECT_THAT(ErrorOf({"--tls-cert", "/no/such"}), HasSubstr("--tls-cert: cannot read '/no/such'"));
  EXPECT_EQ(ErrorOf({"--tls-cert", "/no/such", "--plain-http"}), "");
}

TEST(ParseStatusOptions, TokenFileAndJson_ReachTheScript) {
  const auto parsed = ParseStatusOptions({"--token-file", "t", "--json"}, {});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->options.data["token_file"], "t");
  EXPECT_EQ(parsed->options.data["json"], true);
}

TEST(ParseStatusOptions, AddressWithoutPort_IsRefused) {
  EXPECT_THAT(ErrorOf({"localhost"}), HasSubstr("got 'localhost', expected"));
}

TEST(ParseStatusOptions, TwoAddresses_AreRefused) {
  EXPECT_EQ(ErrorOf({"a:1", "b:2"}), "got 2 addresses, expected one HOST:PORT");
}

TEST(ParseStatusOptions, UnknownOption_IsNamed) {
  EXPECT_EQ(ErrorOf({"--wach"}), "unknown option --wach; did you mean --watch?");
}

TEST(ParseStatusOptions, JsonOfAnotherProgram_IsNotRead) {
  const auto parsed = ParseStatusOptions({}, {{"GRADWIRE_JSON", "bench.json"}});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->options.data["json"], false);
}

TEST(ParseStatusOptions, Help_NamesExitCodes) {
  EXPECT_THAT(ParseStatusOptions({"--help"}, {})->print, HasSubstr("75 no answer"));
}

TEST(StatusCommand, WrongUsage_IsTwo) {
  EXPECT_EXIT(std::exit(StatusCommand({"nowhere"}, {})), ExitedWithCode(2),
              "Try 'gradwire status --help'");
}

TEST(StatusCommand, NobodyThere_IsTryAgain) {
  EXPECT_EXIT(std::exit(StatusCommand({testing::UnusedAddress()}, {})), ExitedWithCode(75),
              "^gradwire status: cannot reach a coordinator's --metrics at 127.0.0.1:[0-9]+: "
              "connection refused\n$");
}

}  // namespace
}  // namespace gradwire
