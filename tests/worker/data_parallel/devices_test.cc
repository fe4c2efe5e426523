#include <gtest/gtest.h>
#include <torch/torch.h>

#include <set>
#include <thread>

#include "worker/data_parallel/data_parallel.h"

namespace gradwire {
namespace {

// Threads on which devices of one Run were, by device.
std::vector<std::thread::id> ThreadsOf(Devices& devices, int used) {
  std::vector<std::thread::id> ids(static_cast<size_t>(used));
  devices.Run(used,
              [&](int device) { ids[static_cast<size_t>(device)] = std::this_thread::get_id(); });
  return ids;
}

std::string MessageOf(const std::function<void()>& function) {
  try {
    function();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

TEST(Devices, Run_SeveralDevices_EachOnItsOwnThreadAndDeviceZeroOnTheCallers) {
  for (const bool kept : {true, false}) {
    Devices devices(3, 1, kept);
    const std::vector<std::thread::id> ids = ThreadsOf(devices, 3);
    EXPECT_EQ(ids[0], std::this_thread::get_id());
    EXPECT_EQ(std::set<std::thread::id>(ids.begin(), ids.end()).size(), 3u);
  }
}

TEST(Devices, Run_Kept_SameThreadsAgain) {
  Devices devices(3, 1, /*kept=*/true);
  EXPECT_EQ(ThreadsOf(devices, 3), ThreadsOf(devices, 3));
}

TEST(Devices, Run_NotKept_ThreadEndsWithTheRun) {
  Devices devices(2, 1, /*kept=*/false);
  thread_local int runs = 0;
  int seen = 0;
  for (int run = 0; run < 2; ++run) {
    devices.Run(2, [&](int device) {
      if (device == 1) seen = ++runs;
    });
  }
  EXPECT_EQ(seen, 1);
}

TEST(Devices, Run_FewerThanThereAre_OnlyThose) {
  Devices devices(4, 1, /*kept=*/true);
  EXPECT_EQ(ThreadsOf(devices, 2).size(), 2u);
}

TEST(Devices, Run_SeveralDevices_ATimeForEachThatIsUsed) {
  Devices devices(3, 1, /*kept=*/true);
  EXPECT_EQ(devices.Run(2, [](int) {}).size(), 2u);
}

TEST(MeanWait, SeveralDevices_SlowestLessTheMean) {
  EXPECT_EQ(MeanWait({absl::Seconds(3), absl::Seconds(1), absl::Seconds(2)}), absl::Seconds(1));
  EXPECT_EQ(MeanWait({absl::Seconds(2), absl::Seconds(2)}), absl::ZeroDuration());
}

// Each waits for the other.
TEST(Devices, Run_SeveralDevices_AtTheSameTime) {
  Devices devices(2, 1, /*kept=*/true);
  std::promise<void> here[2];
  devices.Run(2, [&](int device) {
    here[device].set_value();
    here[1 - device].get_future().wait();
  });
}

TEST(Devices, Run_AnyDevice_ComputesWithItsThreads) {
  const int before = torch::get_num_threads();
  for (const bool kept : {true, false}) {
    Devices devices(2, 3, kept);
    int threads = 0;
    devices.Run(2, [&](int device) {
      if (device == 1) threads = torch::get_num_threads();
    });
    EXPECT_EQ(threads, 3);
  }
  torch::set_num_threads(before);
}

TEST(Devices, Run_SomeThrow_TheLowestIsNamedAfterAllHaveEnded) {
  for (const bool kept : {true, false}) {
    Devices devices(3, 1, kept);
    const std::string message = MessageOf(
        [&] { devices.Run(3, [](int device) { TORCH_CHECK(device == 0, "broken ", device); }); });
    EXPECT_EQ(message.substr(0, message.find('\n')), "device 1: broken 1");
  }
}

TEST(Devices, Run_AfterAThrow_RunsAgain) {
  Devices devices(2, 1, /*kept=*/true);
  MessageOf([&] { devices.Run(2, [](int) { TORCH_CHECK(false, "broken"); }); });
  EXPECT_EQ(ThreadsOf(devices, 2).size(), 2u);
}

}  // namespace
}  // namespace gradwire
