#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/base/address.h"

namespace gradwire {
namespace {

int Open() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }
bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

TEST(UniqueFd, Destructor_ClosesWhatItHas) {
  const int fd = Open();
  {
    const UniqueFd owner(fd);
    EXPECT_EQ(owner.get(), fd);
  }
  EXPECT_FALSE(IsOpen(fd));
}

TEST(UniqueFd, Default_HasNoneAndClosesNone) {
  UniqueFd none;
  EXPECT_EQ(none.get(), -1);
  none.Reset();
  EXPECT_EQ(none.Release(), -1);
}

TEST(UniqueFd, Release_LeavesItOpen) {
  const int fd = Open();
  {
    UniqueFd owner(fd);
    EXPECT_EQ(owner.Release(), fd);
    EXPECT_EQ(owner.get(), -1);
  }
  EXPECT_TRUE(IsOpen(fd));
  close(fd);
}

TEST(UniqueFd, Reset_ToAnother_ClosesTheFirst) {
  const int first = Open();
  UniqueFd owner(first);
  owner.Reset(Open());
  EXPECT_FALSE(IsOpen(first) && owner.get() != first);
  EXPECT_TRUE(IsOpen(owner.get()));
}

TEST(UniqueFd, Move_HandsItOnAndClosesWhatWasThere) {
  const int first = Open();
  const int second = Open();
  UniqueFd from(first);
  UniqueFd to(second);
  to = std::move(from);
  EXPECT_EQ(to.get(), first);
  EXPECT_EQ(from.get(), -1);  // NOLINT(bugprone-use-after-move): what is left is told
  EXPECT_FALSE(IsOpen(second));
  const UniqueFd last(std::move(to));
  EXPECT_EQ(last.get(), first);
  EXPECT_TRUE(IsOpen(first));
}

TEST(DescriptorLimit, Raised_IsWhatIsAllowedAndNoMoreThanEnough) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(DescriptorLimit(), 64);
  RaiseDescriptorLimit();
  EXPECT_EQ(DescriptorLimit(), std::min<rlim_t>(before.rlim_max, 65536));
  setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace gradwire
