#include "cli/status/status_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/status/status_sample.h"
#include "tests/support/scripted_server.h"
#include "tests/support/sockets.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;
using testing::HttpAnswer;
using testing::RunningStatus;
using testing::ScriptedServer;
using ::testing::StartsWith;

struct Result {
  int exit_code = -1;
  std::string out;
  std::string err;
};

Result RunStatus(const std::vector<std::string>& args) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Result result;
  result.exit_code = StatusCommand(args, {});
  result.out = ::testing::internal::GetCapturedStdout();
  result.err = ::testing::internal::GetCapturedStderr();
  return result;
}

std::string Running(int step) {
  auto status = RunningStatus();
  status["step"] = step;
  return HttpAnswer(status.dump() + "\n");
}

std::string Ended(const char* state) {
  auto status = RunningStatus();
  status["state"] = state;
  return HttpAnswer(status.dump() + "\n");
}

std::string ErrorOf(const std::vector<std::string>& args) {
  return std::string(ParseStatusOptions(args, {}).status().message());
}

TEST(ParseStatusOptions, NoAddress_IsTheCoordinatorsDefault) {
  EXPECT_EQ(ParseStatusOptions({}, {})->options.coordinator, "127.0.0.1:9400");
}

TEST(ParseStatusOptions, AddressAroundSwitches_IsTaken) {
  for (const std::vector<std::string>& args : {std::vector<std::string>{"h:1", "--watch"},
                                               {"--watch", "h:1"},
                                               {"--watch", "true", "h:1"}}) {
    const auto parsed = ParseStatusOptions(args, {});
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->options.coordinator, "h:1");
    EXPECT_TRUE(parsed->options.watch);
  }
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
  EXPECT_FALSE(parsed->options.json);
}

TEST(ParseStatusOptions, Help_NamesExitCodes) {
  EXPECT_THAT(ParseStatusOptions({"--help"}, {})->print, HasSubstr("75 nobody answers"));
}

TEST(StatusCommand, RunningCoordinator_IsShown) {
  const ScriptedServer server({Running(17)});
  const Result result = RunStatus({server.address()});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("run 0123456789ab: running"));
  EXPECT_EQ(result.err, "");
}

TEST(StatusCommand, Json_IsWhatCame) {
  const ScriptedServer server({Running(17)});
  EXPECT_EQ(RunStatus({server.address(), "--json"}).out, RunningStatus().dump() + "\n");
}

TEST(StatusCommand, Watch_ShowsEachAnswerUntilTheEnd) {
  const ScriptedServer server({Running(17), Running(18), Ended("finished")});
  const Result result = RunStatus({server.address(), "--watch"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("step 17 of 20"));
  EXPECT_THAT(result.out, HasSubstr("step 18 of 20"));
  EXPECT_THAT(result.out, HasSubstr("\n\nrun 0123456789ab: finished"));
}

TEST(StatusCommand, WatchAndCoordinatorGone_SaysWhereItWas) {
  const ScriptedServer server({Running(17)});
  const Result result = RunStatus({server.address(), "--watch"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err,
            "gradwire status: " + server.address() +
                " answers no more: its run is over (last seen: step 17 of 20); how it ended is in "
                "the coordinator's log\n");
}

TEST(StatusCommand, WatchAndAnotherProgramComes_Fails) {
  const ScriptedServer server({Running(17), HttpAnswer("{}")});
  EXPECT_EQ(RunStatus({server.address(), "--watch"}).exit_code, 1);
}

TEST(StatusCommand, NobodyThere_IsTryAgain) {
  const std::string address = testing::UnusedAddress();
  const Result result = RunStatus({address});
  EXPECT_EQ(result.exit_code, 75);
  EXPECT_EQ(result.err, "gradwire status: cannot reach a coordinator's --metrics at " + address +
                            ": connection refused\n");
}

TEST(StatusCommand, OtherProgram_Fails) {
  const ScriptedServer server({HttpAnswer("hello")});
  const Result result = RunStatus({server.address()});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err, "gradwire status: " + server.address() +
                            " is no coordinator's --metrics address: its answer is no JSON\n");
}

TEST(StatusCommand, PageMissing_FailsWithItsCode) {
  const ScriptedServer server({HttpAnswer("", 404)});
  EXPECT_THAT(RunStatus({server.address()}).err,
              HasSubstr("got 404 for /status.json, expected 200"));
}

TEST(StatusCommand, WrongUsage_IsTwo) { EXPECT_EQ(RunStatus({"nowhere"}).exit_code, 2); }

}  // namespace
}  // namespace gradwire
