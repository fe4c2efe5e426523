#include "cli/terminal/scratch_dir.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

// A folder, and what /proc tells of a process that has just ended, can be opened only.
TEST(ReadFile, Unreadable_Empty) { EXPECT_EQ(ReadFile("/"), ""); }

}  // namespace
}  // namespace gradwire
