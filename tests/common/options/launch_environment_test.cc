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

TEST(DetectLaunchEnvironment, Torchrun_GivesAllFive) {
  const LaunchEnvironment found = DetectLaunchEnvironment({{"RANK", "3"},
                                                           {"WORLD_SIZE", "8"},
                                                           {"LOCAL_RANK", "1"},
                                                           {"LOCAL_WORLD_SIZE", "4"},
                                                           {"MASTER_ADDR", "10.10.1.1"},
                                                           {"MASTER_PORT", "29500"}});
  EXPECT_EQ(found.launcher, "torchrun");
  EXPECT_EQ(TextOf(found, "rank"), "3");
  EXPECT_EQ(TextOf(found, "world-size"), "8");
  EXPECT_EQ(TextOf(found, "local-rank"), "1");
  EXPECT_EQ(TextOf(found, "local-world-size"), "4");
  EXPECT_EQ(TextOf(found, "coordinator"), "10.10.1.1:29500");
  EXPECT_EQ(VariableFor(found, "coordinator"), "MASTER_ADDR and MASTER_PORT");
}

// An environment of torchrun's with a master.
Environment Torchrun(const std::string& host, const Environment& further) {
  Environment environment = {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", host}};
  environment.insert(further.begin(), further.end());
  return environment;
}

TEST(DetectLaunchEnvironment, AgentOwnsMasterPort_CoordinatorIsAtOurs) {
  const LaunchEnvironment found = DetectLaunchEnvironment(
      Torchrun("h", {{"MASTER_PORT", "29500"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}}));
  EXPECT_EQ(TextOf(found, "coordinator"), "h:29400");
  EXPECT_EQ(VariableFor(found, "coordinator"), "MASTER_ADDR");
}

TEST(DetectLaunchEnvironment, AgentDoesNotOwnMasterPort_ItIsUsed) {
  const LaunchEnvironment found = DetectLaunchEnvironment(
      Torchrun("h", {{"MASTER_PORT", "29500"}, {"TORCHELASTIC_USE_AGENT_STORE", "False"}}));
  EXPECT_EQ(TextOf(found, "coordinator"), "h:29500");
}

TEST(DetectLaunchEnvironment, NoMasterPort_CoordinatorIsAtOurs) {
  EXPECT_EQ(TextOf(DetectLaunchEnvironment(Torchrun("h", {})), "coordinator"), "h:29400");
}

TEST(DetectLaunchEnvironment, MasterOverIpv6_GetsBrackets) {
  const LaunchEnvironment found =
      DetectLaunchEnvironment(Torchrun("fd00::1", {{"MASTER_PORT", "29500"}}));
  EXPECT_EQ(TextOf(found, "coordinator"), "[fd00::1]:29500");
}

TEST(DetectLaunchEnvironment, MasterPortBroken_IsPassedOnForTheMessage) {
  const LaunchEnvironment found = DetectLaunchEnvironment(Torchrun("h", {{"MASTER_PORT", "port"}}));
  EXPECT_EQ(TextOf(found, "coordinator"), "h:port");
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
                                                           {"OMPI_COMM_WORLD_SIZE", "4"},
                                                           {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                                           {"SLURM_PROCID", "0"}});
  EXPECT_EQ(found.launcher, "OpenMPI");
  EXPECT_EQ(TextOf(found, "rank"), "1");
  EXPECT_EQ(TextOf(found, "world-size"), "4");
  EXPECT_EQ(TextOf(found, "local-rank"), "0");
  EXPECT_EQ(TextOf(found, "local-world-size"), "2");
}

TEST(DetectLaunchEnvironment, OpenMpiOnSeveralHosts_CoordinatorIsNotKnown) {
  const LaunchEnvironment found = DetectLaunchEnvironment({{"OMPI_COMM_WORLD_RANK", "1"},
                                                           {"OMPI_COMM_WORLD_SIZE", "4"},
                                                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  EXPECT_EQ(TextOf(found, "coordinator"), "");
}

TEST(DetectLaunchEnvironment, OpenMpiOnOneHost_CoordinatorIsOnIt) {
  const LaunchEnvironment found = DetectLaunchEnvironment({{"OMPI_COMM_WORLD_RANK", "1"},
                                                           {"OMPI_COMM_WORLD_SIZE", "2"},
                                                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  EXPECT_EQ(TextOf(found, "coordinator"), "127.0.0.1:29400");
  EXPECT_EQ(VariableFor(found, "coordinator"), "OMPI_COMM_WORLD_LOCAL_SIZE");
}

TEST(DetectLaunchEnvironment, OpenMpiWithMasterAddr_MasterAddrWins) {
  const LaunchEnvironment found = DetectLaunchEnvironment({{"OMPI_COMM_WORLD_RANK", "1"},
                                                           {"OMPI_COMM_WORLD_SIZE", "2"},
                                                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                                           {"MASTER_ADDR", "head"}});
  EXPECT_EQ(TextOf(found, "coordinator"), "head:29400");
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

TEST(DetectLaunchEnvironment, SlurmStep_CountsMoreThanTheJob) {
  const LaunchEnvironment found = DetectLaunchEnvironment({{"SLURM_PROCID", "2"},
                                                           {"SLURM_NTASKS", "16"},
                                                           {"SLURM_STEP_NUM_TASKS", "7"},
                                                           {"SLURM_LOCALID", "0"},
                                                           {"SLURM_NTASKS_PER_NODE", "4"},
                                                           {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
                                                           {"SLURM_NODEID", "3"},
                                                           {"SLURM_JOB_NODELIST", "node[1-8]"},
                                                           {"SLURM_STEP_NODELIST", "node[3-6]"},
                                                           {"MASTER_PORT", "29500"}});
  EXPECT_EQ(TextOf(found, "world-size"), "7");
  EXPECT_EQ(TextOf(found, "local-rank"), "0");
  EXPECT_EQ(TextOf(found, "local-world-size"), "1");
  EXPECT_EQ(VariableFor(found, "local-world-size"), "SLURM_STEP_TASKS_PER_NODE");
  EXPECT_EQ(TextOf(found, "coordinator"), "node3:29500");
  EXPECT_EQ(VariableFor(found, "coordinator"), "SLURM_STEP_NODELIST and MASTER_PORT");
}

TEST(DetectLaunchEnvironment, SlurmWithoutAStep_NodesOfTheJobCount) {
  const LaunchEnvironment found = DetectLaunchEnvironment(
      {{"SLURM_PROCID", "2"}, {"SLURM_JOB_NODELIST", "a,b"}, {"SLURM_NODELIST", "c,d"}});
  EXPECT_EQ(TextOf(found, "coordinator"), "a:29400");
  EXPECT_EQ(VariableFor(found, "coordinator"), "SLURM_JOB_NODELIST");
}

TEST(DetectLaunchEnvironment, SlurmNodeIsNotKnown_TasksPerNodeOfTheJobCount) {
  const LaunchEnvironment found = DetectLaunchEnvironment({{"SLURM_PROCID", "2"},
                                                           {"SLURM_STEP_TASKS_PER_NODE", "3,1"},
                                                           {"SLURM_NTASKS_PER_NODE", "2"}});
  EXPECT_EQ(TextOf(found, "local-world-size"), "2");
  EXPECT_EQ(VariableFor(found, "local-world-size"), "SLURM_NTASKS_PER_NODE");
}

TEST(DetectLaunchEnvironment, MasterAddressAndThatOfKubeflow_TheFirstWins) {
  EXPECT_EQ(
      TextOf(DetectLaunchEnvironment(Torchrun("h", {{"PET_MASTER_ADDR", "other"}})), "coordinator"),
      "h:29400");
}

TEST(DetectLaunchEnvironment, SlurmTasksBroken_ArePassedOnForTheMessage) {
  const LaunchEnvironment found = DetectLaunchEnvironment(
      {{"SLURM_PROCID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "2(x"}, {"SLURM_NODEID", "0"}});
  EXPECT_EQ(TextOf(found, "local-world-size"), "2(x");
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

TEST(DetectLaunchEnvironment, PmixAlone_GivesTheRanks) {
  const LaunchEnvironment found =
      DetectLaunchEnvironment({{"PMIX_RANK", "3"}, {"PMIX_LOCAL_RANK", "1"}});
  EXPECT_EQ(found.launcher, "PMIx");
  EXPECT_EQ(TextOf(found, "rank"), "3");
  EXPECT_EQ(TextOf(found, "local-rank"), "1");
}

TEST(DetectLaunchEnvironment, KubeflowWithoutTorchrun_ItsOptionsCount) {
  const LaunchEnvironment found = DetectLaunchEnvironment({{"PET_NODE_RANK", "2"},
                                                           {"PET_NNODES", "4"},
                                                           {"PET_MASTER_ADDR", "node-0"},
                                                           {"PET_MASTER_PORT", "29500"},
                                                           {"JOB_COMPLETION_INDEX", "2"}});
  EXPECT_EQ(found.launcher, "Kubeflow");
  EXPECT_EQ(TextOf(found, "rank"), "2");
  EXPECT_EQ(TextOf(found, "world-size"), "4");
  EXPECT_EQ(TextOf(found, "coordinator"), "node-0:29500");
  EXPECT_EQ(VariableFor(found, "coordinator"), "PET_MASTER_ADDR and PET_MASTER_PORT");
}

TEST(DetectLaunchEnvironment, KubernetesWithWorldSize_ItIsUsed) {
  const LaunchEnvironment found =
      DetectLaunchEnvironment({{"JOB_COMPLETION_INDEX", "5"}, {"WORLD_SIZE", "8"}});
  EXPECT_EQ(found.launcher, "Kubernetes");
  EXPECT_EQ(TextOf(found, "world-size"), "8");
}

TEST(DetectLaunchEnvironment, KubernetesIndexedJob_GivesTheRank) {
  const LaunchEnvironment found = DetectLaunchEnvironment({{"JOB_COMPLETION_INDEX", "5"}});
  EXPECT_EQ(found.launcher, "Kubernetes");
  EXPECT_EQ(TextOf(found, "rank"), "5");
  EXPECT_EQ(TextOf(found, "world-size"), "");
}

TEST(DetectLaunchEnvironment, TorchrunInsideOthers_TorchrunWins) {
  const LaunchEnvironment found =
      DetectLaunchEnvironment(Torchrun("h", {{"OMPI_COMM_WORLD_RANK", "3"},
                                             {"SLURM_PROCID", "4"},
                                             {"SLURM_NTASKS", "5"},
                                             {"JOB_COMPLETION_INDEX", "6"}}));
  EXPECT_EQ(found.launcher, "torchrun");
  EXPECT_EQ(TextOf(found, "rank"), "0");
  EXPECT_EQ(TextOf(found, "world-size"), "2");
}

// As with srun --mpi=pmix, which alone says how many there are.
TEST(DetectLaunchEnvironment, SlurmWithPmix_SlurmWins) {
  const LaunchEnvironment found =
      DetectLaunchEnvironment({{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "4"}, {"PMIX_RANK", "1"}});
  EXPECT_EQ(found.launcher, "Slurm");
  EXPECT_EQ(TextOf(found, "world-size"), "4");
}

}  // namespace
}  // namespace gradwire
