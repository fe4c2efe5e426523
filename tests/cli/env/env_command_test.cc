#include "cli/env/env_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "worker/options/worker_option_parser.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;

const Blas kOpenBlas{"OpenBLAS 1.2.3 (openmp, Zen)", "/lib/libblas.so.3", ""};

std::vector<EnvValue> Values(const std::vector<std::string>& args, const Environment& env = {}) {
  MemoryLimits memory;
  memory.address = 2500000;
  return EnvValues(*ParseWorkerOptions(args, env), DetectLaunchEnvironment(env), memory,
                   "host a user 0", kOpenBlas);
}

TEST(EnvValues, Slurm_NamesItsVariables) {
  const auto values = Values({}, {{"SLURM_PROCID", "1"},
                                  {"SLURM_NTASKS", "2"},
                                  {"SLURM_LOCALID", "0"},
                                  {"SLURM_NODEID", "1"},
                                  {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                                  {"SLURM_NODELIST", "127.0.0.1"}});
  const std::vector<EnvValue> expected = {
      {"rank", "1", true, "SLURM_PROCID"},
      {"world-size", "2", true, "SLURM_NTASKS"},
      {"local-rank", "0", true, "SLURM_LOCALID"},
      {"local-world-size", "1", true, "SLURM_STEP_TASKS_PER_NODE"},
      {"coordinator", "127.0.0.1:29400", true, "SLURM_NODELIST"},
      {"local-address", "127.0.0.1", true, "connection to the coordinator"},
      {"shared-memory", "file no limit, addresses 2.5 MB, group no limit, host no limit", true,
       "what this process may still get"},
      {"memory-id", "host a user 0", true, "processes that print the same share memory"},
      {"blas", kOpenBlas.name, true, kOpenBlas.path}};
  EXPECT_EQ(EnvText(values), EnvText(expected));
}

TEST(EnvValues, Nothing_SaysThatTheCoordinatorDecides) {
  const auto values = Values({});
  EXPECT_FALSE(values[0].known);
  EXPECT_EQ(values[0].value, "assigned by the coordinator");
  EXPECT_FALSE(values[1].known);
}

TEST(EnvValues, AloneOnTheHost_LocalRankIsZero) {
  const auto values = Values({"--local-world-size", "1"});
  EXPECT_EQ(values[2].value, "0");
  EXPECT_EQ(values[2].source, "--local-world-size");
}

TEST(EnvValues, SeveralOnTheHostAndNoLauncher_LocalRankIsNotKnown) {
  const auto values = Values({"--local-world-size", "2"});
  EXPECT_EQ(values[2].value, "not known");
  EXPECT_FALSE(values[2].known);
}

TEST(EnvValues, Advertise_IsTheLocalAddress) {
  const auto values = Values({"--advertise", "me"});
  EXPECT_EQ(values[5].value, "me");
  EXPECT_EQ(values[5].source, "--advertise");
}

TEST(EnvValues, SharedMemoryThatIsOffOrCannotBeShared_SaysSo) {
  const auto off = Values({"--shared-memory", "off"});
  EXPECT_EQ(off[6].value, "off");
  EXPECT_EQ(off[6].source, "--shared-memory");
  EXPECT_EQ(off[7].value, "none");
  const absl::Status why = absl::FailedPreconditionError("memfd_create: not permitted");
  const auto none = EnvValues(*ParseWorkerOptions({}, {}), {}, why, "", kOpenBlas);
  EXPECT_EQ(none[6].value, "off: memfd_create: not permitted");
  EXPECT_EQ(none[7].value, "none");
}

TEST(EnvValues, EachLimitOfMemory_IsItsOwn) {
  MemoryLimits memory;
  memory.file = 1000000;
  memory.address = 2000000;
  memory.group = 3000000;
  memory.host = 4000000;
  const auto values = EnvValues(*ParseWorkerOptions({}, {}), {}, memory, "id", kOpenBlas);
  EXPECT_EQ(values[6].value, "file 1.0 MB, addresses 2.0 MB, group 3.0 MB, host 4.0 MB");
}

TEST(EnvValues, NoBlas_SaysWhy) {
  const EnvValue blas = EnvValues(*ParseWorkerOptions({}, {}), {}, MemoryLimits(), "",
                                  absl::NotFoundError("no such file"))
                            .back();
  EXPECT_FALSE(blas.known);
  EXPECT_EQ(blas.value, "no such file");
}

TEST(EnvText, Values_HaveALineEach) {
  EXPECT_THAT(EnvText(Values({"--rank", "2"})), HasSubstr("rank             2    "));
  EXPECT_THAT(EnvText(Values({"--rank", "2"})), HasSubstr("(--rank)\n"));
}

TEST(EnvJson, Values_HaveTypeAndSource) {
  const auto json = nlohmann::json::parse(EnvJson(Values({"--rank", "2"})));
  EXPECT_EQ(json["rank"]["value"], 2);
  EXPECT_EQ(json["rank"]["source"], "--rank");
  EXPECT_TRUE(json["world-size"]["value"].is_null());
  EXPECT_EQ(json["coordinator"]["value"], "127.0.0.1:29400");
}

TEST(EnvJson, UnknownValues_HaveANoteThatSaysWhy) {
  const auto json = nlohmann::json::parse(EnvJson(Values({"--rank", "2"})));
  EXPECT_EQ(json["world-size"]["note"], "the coordinator's");
  EXPECT_FALSE(json["rank"].contains("note"));
}

TEST(EnvJson, SeveralRanks_AreAText) {
  const auto json = nlohmann::json::parse(EnvJson(Values({"--rank", "0,2"})));
  EXPECT_EQ(json["rank"]["value"], "0,2");
}

}  // namespace
}  // namespace gradwire
