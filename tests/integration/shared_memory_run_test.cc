// Runs of the real programs whose workers share the memory of this host, or may not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cctype>
#include <string>

#include "tests/support/launch.h"

namespace gradwire::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Options kSmall = {"--model", "lenet"};

// Sets a soft limit for programs that this one starts.
class LimitOfFiles {
 public:
  explicit LimitOfFiles(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~LimitOfFiles() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_ = {};
};

class SharedMemoryBits : public ::testing::TestWithParam<Options> {};

TEST_P(SharedMemoryBits, Run_OnAndOff_OneHash) {
  const Options run = TinyRun(3) + kSmall + GetParam();
  const LaunchResult shared = RunLaunch(3, run);
  ASSERT_EQ(shared.exit_code, 0) << shared.err;
  EXPECT_THAT(shared.Distinct("backend"), ElementsAre("\"memory\""));
  EXPECT_THAT(shared.Distinct("bytes_sent"), ElementsAre("0"));
  const std::string off = HashOf(3, run + Options{"--shared-memory", "off"});
  EXPECT_THAT(shared.Distinct("parameters_sha256"), ElementsAre(off));
}

std::string OptionsName(const ::testing::TestParamInfo<Options>& info) {
  std::string name;
  for (const char letter : info.param[1] + info.param.back()) {
    if (std::isalnum(static_cast<unsigned char>(letter)) != 0) name += letter;
  }
  return name;
}
INSTANTIATE_TEST_SUITE_P(Options, SharedMemoryBits,
                         ::testing::Values(Options{"--sync", "ddp"},
                                           Options{"--sync", "gather-scatter", "--wire", "bf16"},
                                           Options{"--sync", "ddp", "--compress", "int8"}),
                         OptionsName);
INSTANTIATE_TEST_SUITE_P(Long, SharedMemoryBits,
                         ::testing::Values(Options{"--sync", "gather-scatter"},
                                           Options{"--sync", "ddp", "--wire", "bf16"},
                                           Options{"--sync", "ddp", "--wire", "fp16"},
                                           Options{"--sync", "ddp", "--compress", "top-k:0.1"},
                                           Options{"--sync", "gather-scatter", "--compress",
                                                   "int8"}),
                         OptionsName);

TEST(SharedMemoryLimits, Ddp_MemoryIsBeyondALimit_GoesOverTheNetworkAndSaysWhy) {
  const Options run = TinyRun(3) + kSmall + Options{"--sync", "ddp"};
  const std::string expected = HashOf(2, run);
  const LimitOfFiles limit(200000);  // LeNet has 248,024 bytes of gradients
  const LaunchResult limited = RunLaunch(2, run);
  ASSERT_EQ(limited.exit_code, 0) << limited.err;
  EXPECT_THAT(limited.err, HasSubstr("a file by ulimit -f"));
  EXPECT_THAT(limited.Distinct("backend"), ElementsAre("\"ring\""));
  EXPECT_GT(limited.ranks[0]["bytes_sent"].get<int64_t>(), 0);
  EXPECT_THAT(limited.Distinct("parameters_sha256"), ElementsAre(expected));
}

TEST(SharedMemoryLimits, BackEndMemory_BeyondALimit_FailsAndNamesIt) {
  const LimitOfFiles limit(200000);
  const LaunchResult limited =
      RunLaunch(2, TinyRun(3) + kSmall + Options{"--sync", "ddp", "--backend", "memory"});
  EXPECT_EQ(limited.exit_code, 1);
  EXPECT_THAT(limited.err, HasSubstr("a file by ulimit -f"));
}

}  // namespace
}  // namespace gradwire::testing
