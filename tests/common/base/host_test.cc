#include "common/base/host.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace gradwire {
namespace {

// The first core that this process may use.
int FirstCore() {
  cpu_set_t cores;
  sched_getaffinity(0, sizeof(cores), &cores);
  int core = 0;
  while (!CPU_ISSET(core, &cores)) ++core;
  return core;
}

TEST(Host, UsableCores_BoundToOne_One) {
  int usable = 0;
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(FirstCore(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    usable = UsableCores();
  }).join();
  EXPECT_EQ(usable, 1);
}

TEST(Host, HostId_AskedTwice_TheSameAndNotEmpty) {
  EXPECT_FALSE(HostId().empty());
  EXPECT_EQ(HostId(), HostId());
}

}  // namespace
}  // namespace gradwire
