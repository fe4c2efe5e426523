#include "common/base/host.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>
#include <vector>

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

// What `ask` gives on a thread that is bound to the first core.
template <typename Result>
Result OnFirstCore(Result (*ask)()) {
  Result result;
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(FirstCore(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    result = ask();
  }).join();
  return result;
}

TEST(Host, UsableCores_BoundToOne_One) { EXPECT_EQ(OnFirstCore(UsableCores), 1); }

TEST(Host, PeakMemoryBytes_MemoryWasHeld_StaysAfterItIsGone) {
  constexpr size_t kBytes = 64 << 20;
  { const std::vector<char> held(kBytes, 1); }
  const uint64_t peak = PeakMemoryBytes();
  EXPECT_GT(peak, kBytes);
  EXPECT_GE(PeakMemoryBytes(), peak);
}

TEST(Host, CoresId_AskedTwice_TheSameAndNotEmpty) {
  EXPECT_FALSE(CoresId().empty());
  EXPECT_EQ(CoresId(), CoresId());
}

TEST(Host, CoresId_BoundToOtherCores_Differs) {
  cpu_set_t cores;
  sched_getaffinity(0, sizeof(cores), &cores);
  if (CPU_COUNT(&cores) == 1) GTEST_SKIP() << "this test may use one core only";
  EXPECT_NE(OnFirstCore(CoresId), CoresId());
}

}  // namespace
}  // namespace gradwire
