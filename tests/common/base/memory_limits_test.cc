#include "common/base/memory_limits.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

class GroupMemoryTest : public ::testing::Test {
 protected:
  void WriteGroup(const std::string& path, const std::string& text) {
    const std::filesystem::path file = dir_.path() + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  uint64_t LeftTo(const std::string& groups) const { return GroupMemoryLeft(groups, dir_.path()); }

  testing::TempDir dir_;
};

TEST_F(GroupMemoryTest, GroupMemoryLeft_NothingMountedOrNoLimit_NoLimit) {
  EXPECT_EQ(LeftTo("0::/job\n"), MemoryLimits::kNoLimit);
  WriteGroup("job/memory.max", "max");
  WriteGroup("job/memory.current", "100");
  EXPECT_EQ(LeftTo("0::/job\n"), MemoryLimits::kNoLimit);
}

TEST_F(GroupMemoryTest, GroupMemoryLeft_Version2_IsWithoutFilesThatCanBeDropped) {
  WriteGroup("job/memory.max", "1000");
  WriteGroup("job/memory.current", "700");
  WriteGroup("job/memory.stat", "anon 500\ninactive_file 150\nactive_file 50");
  EXPECT_EQ(LeftTo("0::/job\n"), 450u);
}

TEST_F(GroupMemoryTest, GroupMemoryLeft_MoreHeldThanAllowed_Nothing) {
  WriteGroup("job/memory.max", "1000");
  WriteGroup("job/memory.current", "1200");
  EXPECT_EQ(LeftTo("0::/job\n"), 0u);
}

TEST_F(GroupMemoryTest, GroupMemoryLeft_GroupAroundHasLess_ItCounts) {
  WriteGroup("pod/memory.max", "500");
  WriteGroup("pod/memory.current", "100");
  WriteGroup("pod/container/memory.max", "1000");
  WriteGroup("pod/container/memory.current", "100");
  EXPECT_EQ(LeftTo("0::/pod/container\n"), 400u);
}

TEST_F(GroupMemoryTest, GroupMemoryLeft_Version1_OfTheMemoryHierarchy) {
  WriteGroup("memory/job/memory.limit_in_bytes", "1000");
  WriteGroup("memory/job/memory.usage_in_bytes", "700");
  WriteGroup("memory/job/memory.stat", "total_inactive_file 100");
  EXPECT_EQ(LeftTo("5:memory:/job\n4:cpu:/other\n"), 400u);
}

TEST_F(GroupMemoryTest, GroupMemoryLeft_Version1WithoutLimit_NoLimit) {
  WriteGroup("memory/job/memory.limit_in_bytes", "9223372036854771712");
  WriteGroup("memory/job/memory.usage_in_bytes", "700");
  EXPECT_EQ(LeftTo("5:memory:/job\n"), MemoryLimits::kNoLimit);
}

// Returns the limits of a process with this limit of a resource.
MemoryLimits LimitsWith(int resource, uint64_t bytes) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit = {bytes, bytes};
    setrlimit(resource, &limit);
    const MemoryLimits limits = OwnMemoryLimits();
    _exit(write(ends[1], &limits, sizeof(limits)) == sizeof(limits) ? 0 : 1);
  }
  MemoryLimits limits;
  EXPECT_EQ(read(ends[0], &limits, sizeof(limits)), static_cast<ssize_t>(sizeof(limits)));
  close(ends[0]);
  close(ends[1]);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  return limits;
}

TEST(MemoryLimitsTest, OwnMemoryLimits_LimitOfFiles_IsThatOfAFile) {
  EXPECT_EQ(LimitsWith(RLIMIT_FSIZE, 12345678).file, 12345678u);
}

TEST(MemoryLimitsTest, OwnMemoryLimits_LimitOfAddresses_IsWhatIsLeft) {
  constexpr uint64_t kMost = uint64_t{1} << 42;  // more than any sanitizer maps
  const uint64_t left = LimitsWith(RLIMIT_AS, kMost).address;
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;  // the child is a copy of this process
  const double mapped = static_cast<double>(pages * static_cast<uint64_t>(getpagesize()));
  EXPECT_GT(mapped, 1e6);
  EXPECT_NEAR(static_cast<double>(kMost - left), mapped, mapped / 2);
}

TEST(MemoryLimitsTest, OwnMemoryLimits_Host_IsWhatIsAvailableInBytes) {
  double kibibytes = 0;
  std::string word;
  std::ifstream file("/proc/meminfo");
  while (file >> word && word != "MemAvailable:") {
  }
  file >> kibibytes;
  const double available = 1024 * kibibytes;
  EXPECT_NEAR(static_cast<double>(OwnMemoryLimits().host), available, available / 2);
}

TEST(MemoryLimitsTest, MemoryText_OfBytesAndOfNone) {
  EXPECT_EQ(MemoryText(12345678), "12.3 MB");
  EXPECT_EQ(MemoryText(MemoryLimits::kNoLimit), "no limit");
}

}  // namespace
}  // namespace gradwire
