#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/fold/kernels.h"
#include "common/options/security_options.h"
#include "common/wire/xxh3.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;

TEST(UseInstructions, EachSetOfThisProcessor_IsUsed) {
  const KernelSet& before = KernelsInUse();
  for (const KernelSet& set : SupportedKernels()) {
    ASSERT_TRUE(UseInstructions(set.name).ok());
    EXPECT_STREQ(KernelsInUse().name, set.name);
    EXPECT_STREQ(Xxh3InUse().name, set.name);
  }
  ASSERT_TRUE(UseInstructions("").ok());
  EXPECT_STREQ(KernelsInUse().name, "baseline") << "no name changes nothing";
  EXPECT_TRUE(UseInstructions(before.name).ok());
}

TEST(UseInstructions, NotThere_SaysWhatIs) {
  const KernelSet& before = KernelsInUse();
  const absl::Status status = UseInstructions("sve2");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("baseline"));
  EXPECT_EQ(&KernelsInUse(), &before);
}

}  // namespace
}  // namespace gradwire
