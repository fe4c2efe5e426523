#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/terminal/commands.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const std::vector<std::string>& args) {
  return std::string(ParseDoctorOptions(args, {}).status().message());
}

TEST(ParseDoctorOptions, Nothing_IsThisMachine) {
  const auto parsed = ParseDoctorOptions({}, {});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->options.data["hostfile"], "");
  EXPECT_EQ(parsed->options.data["port"], 29400);
  EXPECT_THAT(parsed->options.data["program"], HasSubstr("/gradwire"));
}

TEST(ParseDoctorOptions, Hosts_AreTaken) {
  const auto parsed = ParseDoctorOptions(
      {"--hostfile", "h", "--per-host", "2", "--network", "10.10.1.0/24", "--memory-gib", "4"}, {});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->options.data["hostfile"], "h");
  EXPECT_EQ(parsed->options.data["per_host"], 2);
  EXPECT_EQ(parsed->options.data["network"], "10.10.1.0/24");
  EXPECT_EQ(parsed->options.data["memory_gib"], 4);
}

TEST(ParseDoctorOptions, DataAndPort_AreTaken) {
  const auto parsed = ParseDoctorOptions({"--hostfile", "h", "--data-dir", "d", "--port", "5"}, {});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->options.data["data_dir"], "d");
  EXPECT_EQ(parsed->options.data["port"], 5);
  EXPECT_EQ(parsed->options.data["memory_gib"], 1);
}

TEST(ParseDoctorOptions, NoMemory_IsRefused) {
  EXPECT_THAT(ErrorOf({"--memory-gib", "0"}), HasSubstr("--memory-gib: got '0'"));
}

TEST(ParseDoctorOptions, PlacesWithoutHosts_AreRefused) {
  EXPECT_EQ(ErrorOf({"--network", "10.10.1.0/24"}), "--network needs a --hostfile");
  EXPECT_EQ(ErrorOf({"--per-host", "2"}), "--per-host needs a --hostfile");
  EXPECT_EQ(ErrorOf({"--port", "29401"}), "--port needs a --hostfile");
  EXPECT_EQ(ErrorOf({"--port", "29401", "--hostfile", "h"}), "");
}

TEST(ParseDoctorOptions, Operand_IsRefused) { EXPECT_NE(ErrorOf({"hosts"}), ""); }

}  // namespace
}  // namespace gradwire
