#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/base/host.h"
#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

class CpuQuotaTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = mounted() + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  std::string mounted() const { return dir_.path(); }

  testing::TempDir dir_;
};

TEST_F(CpuQuotaTest, FindCpuQuota_NothingMounted_None) {
  EXPECT_FALSE(FindCpuQuota("0::/job\n", mounted()));
}

TEST_F(CpuQuotaTest, FindCpuQuota_Version2_GivesCores) {
  Write("job/cpu.max", "250000 100000");
  const auto quota = FindCpuQuota("0::/job\n", mounted());
  ASSERT_TRUE(quota);
  EXPECT_EQ(quota->cores, 2.5);
  EXPECT_EQ(quota->group, "/job");
}

TEST_F(CpuQuotaTest, FindCpuQuota_Version2WithoutLimit_None) {
  Write("job/cpu.max", "max 100000");
  EXPECT_FALSE(FindCpuQuota("0::/job\n", mounted()));
}

TEST_F(CpuQuotaTest, FindCpuQuota_GroupAroundIsTighter_ItCounts) {
  Write("pod/cpu.max", "100000 100000");
  Write("pod/container/cpu.max", "400000 100000");
  const auto quota = FindCpuQuota("0::/pod/container\n", mounted());
  ASSERT_TRUE(quota);
  EXPECT_EQ(quota->cores, 1);
  EXPECT_EQ(quota->group, "/pod");
}

TEST_F(CpuQuotaTest, FindCpuQuota_GroupAroundIsLooser_OwnCounts) {
  Write("pod/cpu.max", "400000 100000");
  Write("pod/container/cpu.max", "150000 100000");
  const auto quota = FindCpuQuota("0::/pod/container\n", mounted());
  ASSERT_TRUE(quota);
  EXPECT_EQ(quota->cores, 1.5);
  EXPECT_EQ(quota->group, "/pod/container");
}

// Version 2 beside version 1, as systemd mounts both.
TEST_F(CpuQuotaTest, FindCpuQuota_Version2BesideVersion1_GivesCores) {
  Write("unified/job/cpu.max", "250000 100000");
  EXPECT_EQ(FindCpuQuota("0::/job\n", mounted())->cores, 2.5);
}

TEST_F(CpuQuotaTest, FindCpuQuota_Version1MountedByTheNameOfTheController_GivesCores) {
  Write("cpu/job/cpu.cfs_quota_us", "150000");
  Write("cpu/job/cpu.cfs_period_us", "100000");
  EXPECT_EQ(FindCpuQuota("4:cpu,cpuacct:/job\n", mounted())->cores, 1.5);
}

// As of some container engines.
TEST_F(CpuQuotaTest, FindCpuQuota_NameOfTheGroupHasColons_IsWhole) {
  Write("slice:engine:1/cpu.max", "250000 100000");
  EXPECT_EQ(FindCpuQuota("0::/slice:engine:1\n", mounted())->group, "/slice:engine:1");
}

TEST_F(CpuQuotaTest, FindCpuQuota_ContainerSeesItsGroupAsRoot_ItCounts) {
  Write("cpu.max", "300000 100000");
  EXPECT_EQ(FindCpuQuota("0::/not/there\n", mounted())->cores, 3);
}

TEST_F(CpuQuotaTest, FindCpuQuota_Version1_GivesCores) {
  Write("cpu,cpuacct/job/cpu.cfs_quota_us", "150000");
  Write("cpu,cpuacct/job/cpu.cfs_period_us", "100000");
  EXPECT_EQ(FindCpuQuota("5:memory:/other\n4:cpu,cpuacct:/job\n", mounted())->cores, 1.5);
}

TEST_F(CpuQuotaTest, FindCpuQuota_OtherPeriods_CoresAreOfThese) {
  Write("job/cpu.max", "30000 20000");
  EXPECT_EQ(FindCpuQuota("0::/job\n", mounted())->cores, 1.5);
  Write("cpu/old/cpu.cfs_quota_us", "125000");
  Write("cpu/old/cpu.cfs_period_us", "50000");
  EXPECT_EQ(FindCpuQuota("4:cpu:/old\n", mounted())->cores, 2.5);
}

TEST_F(CpuQuotaTest, FindCpuQuota_Version1WithoutLimit_None) {
  Write("cpu/job/cpu.cfs_quota_us", "-1");
  Write("cpu/job/cpu.cfs_period_us", "100000");
  EXPECT_FALSE(FindCpuQuota("4:cpu:/job\n", mounted()));
}

TEST_F(CpuQuotaTest, FindCpuQuota_OtherLines_None) {
  Write("cpu.max", "max 100000");
  EXPECT_FALSE(FindCpuQuota("\nabc\n1:name=systemd:/job\n", mounted()));
}

}  // namespace
}  // namespace gradwire
