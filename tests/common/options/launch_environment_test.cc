#include "common/options/launch_environment.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

std::string TextOf(const LaunchEnvironment& found, const std::string& option) {
  const auto value = found.values.find(option);
  return value == found.values.end() ? "" : value->second.text;
}

std::string VariableFor(const LaunchEnvironment& found, const std::string& option) {
  const auto value = found.values.find(option);
  return value == found.values.end() ? "" : value->second.variable;
}

TEST(DetectLaunchEnvironment, Nothing_FindsNothing) {
  const LaunchEnvironment found = DetectLaunchEnvironment({{"HOME", "/root"}});
  EXPECT_EQ(found.launcher, "");
  EXPECT_TRUE(found.values.empty());
}

TEST(DetectLaunchEnvironment, Torchrun_GivesAllFour) {
  const LaunchEnvironment found = DetectLaunchEnvironment({{"RANK", "3"},
                                                           {"WORLD_SIZE", "8"},
                                                           {"LOCAL_WORLD_SIZE", "4"},
                                                           {"MASTER_ADDR", "10.10.1.1"},
                                                           {"MASTER_PORT", "29500"}});
  EXPECT_EQ(found.launcher, "torchrun");
  EXPECT_EQ(TextOf(found, "rank"), "3");
  EXPECT_EQ(TextOf(found, "world-size"), "8");
  EXPECT_EQ(TextOf(found, "local-world-size"), "4");
  EXPECT_EQ(TextOf(found, "coordinator"), "10.10.1.1:29400");
  EXPECT_EQ(VariableFor(found, "coordinator"), "MASTER_ADDR");
}

TEST(DetectLaunchEnvironment, RankWithoutWorldSize_IsNotTorchrun) {
  EXPECT_EQ(DetectLaunchEnvironment({{"RANK", "3"}}).launcher, "");
}

TEST(DetectLaunchEnvironment, EmptyVariable_CountsAsAbsent) {
  EXPECT_EQ(DetectLaunchEnvironment({{"RANK", ""}, {"WORLD_SIZE", "2"}}).launcher, "");
}

TEST(DetectLaunchEnvironment, MasterAddrAlone_IsLeftAlone) {
  EXPECT_TRUE(DetectLaunchEnvironment({{"MASTER_ADDR", "10.10.1.1"}}).values.empty());
}

TEST(DetectLaunchEnvironment, OpenMpiInsideSlurm_OpenMpiWins) {
  const LaunchEnvironment found = DetectLaunchEnvironment({{"OMPI_COMM_WORLD_RANK", "1"},
                                                           {"OMPI_COMM_WORLD_SIZE", "2"},
                                                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                                           {"SLURM_PROCID", "0"}});
  EXPECT_EQ(found.launcher, "OpenMPI");
  EXPECT_EQ(TextOf(found, "rank"), "1");
  EXPECT_EQ(TextOf(found, "world-size"), "2");
  EXPECT_EQ(TextOf(found, "local-world-size"), "2");
}

TEST(DetectLaunchEnvironment, Slurm_CoordinatorIsFirstHost) {
  const LaunchEnvironment found = DetectLaunchEnvironment({{"SLURM_PROCID", "2"},
                                                           {"SLURM_NTASKS", "4"},
                                                           {"SLURM_NTASKS_PER_NODE", "1"},
                                                           {"SLURM_NODELIST", "node[07-10]"}});
  EXPECT_EQ(found.launcher, "Slurm");
  EXPECT_EQ(TextOf(found, "rank"), "2");
  EXPECT_EQ(TextOf(found, "world-size"), "4");
  EXPECT_EQ(TextOf(found, "local-world-size"), "1");
  EXPECT_EQ(TextOf(found, "coordinator"), "node07:29400");
  EXPECT_EQ(VariableFor(found, "coordinator"), "SLURM_NODELIST");
}

TEST(DetectLaunchEnvironment, SlurmWithMasterAddr_MasterAddrWins) {
  const LaunchEnvironment found = DetectLaunchEnvironment(
      {{"SLURM_PROCID", "0"}, {"MASTER_ADDR", "head"}, {"SLURM_JOB_NODELIST", "a,b"}});
  EXPECT_EQ(TextOf(found, "coordinator"), "head:29400");
}

TEST(DetectLaunchEnvironment, SlurmListBroken_IsPassedOnForTheMessage) {
  const LaunchEnvironment found =
      DetectLaunchEnvironment({{"SLURM_PROCID", "0"}, {"SLURM_NODELIST", "node[1-2"}});
  EXPECT_EQ(TextOf(found, "coordinator"), "node[1-2");
}

TEST(DetectLaunchEnvironment, KubernetesIndexedJob_GivesTheRank) {
  const LaunchEnvironment found = DetectLaunchEnvironment({{"JOB_COMPLETION_INDEX", "5"}});
  EXPECT_EQ(found.launcher, "Kubernetes");
  EXPECT_EQ(TextOf(found, "rank"), "5");
  EXPECT_EQ(TextOf(found, "world-size"), "");
}

TEST(FirstSlurmHost, PlainList_GivesTheFirst) { EXPECT_EQ(*FirstSlurmHost("a1,b2"), "a1"); }

TEST(FirstSlurmHost, OneHost_GivesIt) { EXPECT_EQ(*FirstSlurmHost("login1"), "login1"); }

TEST(FirstSlurmHost, Range_KeepsLeadingZeros) {
  EXPECT_EQ(*FirstSlurmHost("node[007-019,22],x"), "node007");
}

TEST(FirstSlurmHost, ListInBrackets_GivesTheFirst) {
  EXPECT_EQ(*FirstSlurmHost("node[3,5-9]"), "node3");
}

TEST(FirstSlurmHost, TwoBracketsAndSuffix_AreJoined) {
  EXPECT_EQ(*FirstSlurmHost("rack[1-2]n[04-05].lan,z"), "rack1n04.lan");
}

TEST(FirstSlurmHost, OpenBracket_IsRefused) {
  EXPECT_EQ(FirstSlurmHost("node[1-2").status().message(), "no closing bracket in 'node[1-2'");
}

TEST(FirstSlurmHost, Empty_IsRefused) {
  EXPECT_EQ(FirstSlurmHost("").status().message(), "the node list is empty");
}

}  // namespace
}  // namespace gradwire
