#include "cli/env/env_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "worker/options/worker_option_parser.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;

std::vector<EnvValue> Values(const std::vector<std::string>& args, const Environment& env = {}) {
  return EnvValues(*ParseWorkerOptions(args, env));
}

TEST(EnvValues, Slurm_NamesItsVariables) {
  const auto values =
      Values({}, {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_NODELIST", "127.0.0.1"}});
  ASSERT_EQ(values.size(), 4u);
  EXPECT_EQ(values[0].value, "1");
  EXPECT_EQ(values[0].source, "SLURM_PROCID");
  EXPECT_EQ(values[1].source, "SLURM_NTASKS");
  EXPECT_EQ(values[2].value, "127.0.0.1:29400");
  EXPECT_EQ(values[2].source, "SLURM_NODELIST");
  EXPECT_EQ(values[3].value, "127.0.0.1");
}

TEST(EnvValues, Nothing_SaysThatTheCoordinatorDecides) {
  const auto values = Values({});
  EXPECT_FALSE(values[0].known);
  EXPECT_EQ(values[0].value, "assigned by the coordinator");
  EXPECT_FALSE(values[1].known);
}

TEST(EnvValues, Advertise_IsTheLocalAddress) {
  const auto values = Values({"--advertise", "me"});
  EXPECT_EQ(values[3].value, "me");
  EXPECT_EQ(values[3].source, "--advertise");
}

TEST(EnvText, Values_HaveALineEach) {
  EXPECT_THAT(EnvText(Values({"--rank", "2"})), HasSubstr("rank           2    "));
  EXPECT_THAT(EnvText(Values({"--rank", "2"})), HasSubstr("(--rank)\n"));
}

TEST(EnvJson, Values_HaveTypeAndSource) {
  const auto json = nlohmann::json::parse(EnvJson(Values({"--rank", "2"})));
  EXPECT_EQ(json["rank"]["value"], 2);
  EXPECT_EQ(json["rank"]["source"], "--rank");
  EXPECT_TRUE(json["world-size"]["value"].is_null());
  EXPECT_EQ(json["coordinator"]["value"], "127.0.0.1:29400");
}

}  // namespace
}  // namespace gradwire
