// Memory that processes of one host share, and the bell in it.

#include "worker/backends/memory/shared_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "worker/backends/memory/bell.h"

namespace gradwire::shared_memory_test {
namespace {

using ::testing::HasSubstr;
using Writer = SharedMemory::Writer;

uint32_t Self() { return static_cast<uint32_t>(getpid()); }

// A name that no other test uses.
std::string NameOf(absl::string_view what) {
  return absl::StrCat("shared-memory-test-", Self(), "-", what);
}

TEST(SharedMemoryTest, Open_ByTheNameItWasMadeWith_TheSameBytes) {
  auto made = SharedMemory::Make(NameOf("same"), 4096, Writer::kMaker);
  ASSERT_TRUE(made.ok()) << made.status();
  auto opened = SharedMemory::Open(Self(), NameOf("same"), 4096, Writer::kMaker);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->data()[7], 0);
  made->data()[7] = 42;
  EXPECT_EQ(opened->data()[7], 42);
}

TEST(SharedMemoryTest, Open_OfAnotherProcess_TheSameBytes) {
  auto made = SharedMemory::Make(NameOf("process"), 64, Writer::kMaker);
  ASSERT_TRUE(made.ok());
  made->data()[0] = 3;
  const uint32_t parent = Self();
  const std::string name = NameOf("process");
  const pid_t child = fork();
  if (child == 0) {
    auto opened = SharedMemory::Open(parent, name, 64, Writer::kMaker);
    _exit(opened.ok() && opened->data()[0] == 3 ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// What a worker that was stopped and lost may still do.
TEST(SharedMemoryTest, Open_OfOneThatOnlyItsMakerWrites_CannotBeMadeWritable) {
  auto made = SharedMemory::Make(NameOf("sealed"), 4096, Writer::kMaker);
  ASSERT_TRUE(made.ok());
  auto opened = SharedMemory::Open(Self(), NameOf("sealed"), 4096, Writer::kMaker);
  ASSERT_TRUE(opened.ok());
  EXPECT_NE(mprotect(opened->data(), 4096, PROT_READ | PROT_WRITE), 0);
  EXPECT_FALSE(SharedMemory::Open(Self(), NameOf("sealed"), 4096, Writer::kAll).ok());
}

TEST(SharedMemoryTest, Open_OfOneThatAllWrite_CanBeWritten) {
  auto made = SharedMemory::Make(NameOf("all"), 64, Writer::kAll);
  ASSERT_TRUE(made.ok());
  auto opened = SharedMemory::Open(Self(), NameOf("all"), 64, Writer::kAll);
  ASSERT_TRUE(opened.ok()) << opened.status();
  opened->data()[0] = 1;
  EXPECT_EQ(made->data()[0], 1);
}

TEST(SharedMemoryTest, Open_BeforeItIsMadeAndAfterItIsGone_NotFound) {
  EXPECT_TRUE(
      absl::IsNotFound(SharedMemory::Open(Self(), NameOf("gone"), 64, Writer::kAll).status()));
  { auto made = SharedMemory::Make(NameOf("gone"), 64, Writer::kAll); }
  EXPECT_TRUE(
      absl::IsNotFound(SharedMemory::Open(Self(), NameOf("gone"), 64, Writer::kAll).status()));
}

// Its maker has not come to the end of Make.
TEST(SharedMemoryTest, Open_BeforeItIsSealed_NotFound) {
  const UniqueFd file(memfd_create(NameOf("unsealed").c_str(), MFD_ALLOW_SEALING));
  ASSERT_GE(file.get(), 0);
  EXPECT_TRUE(
      absl::IsNotFound(SharedMemory::Open(Self(), NameOf("unsealed"), 64, Writer::kAll).status()));
}

TEST(SharedMemoryTest, Open_AnotherSize_SaysBoth) {
  auto made = SharedMemory::Make(NameOf("size"), 64, Writer::kMaker);
  const absl::Status status =
      SharedMemory::Open(Self(), NameOf("size"), 128, Writer::kMaker).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("got 64 bytes, expected 128"));
}

TEST(SharedMemoryTest, Open_OfNoProcess_Unavailable) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  const absl::Status status =
      SharedMemory::Open(static_cast<uint32_t>(child), "any", 64, Writer::kAll).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

TEST(SharedMemoryTest, Make_MoreThanTheProcessMayHave_ResourceExhausted) {
  const absl::Status status =
      SharedMemory::Make(NameOf("large"), size_t{1} << 60, Writer::kMaker).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

// The kernel would end the process by SIGXFSZ.
TEST(SharedMemoryTest, Make_LargerThanAFileMayBe_NamesTheLimit) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit = {1 << 20, 1 << 20};
    setrlimit(RLIMIT_FSIZE, &limit);
    const absl::Status status =
        SharedMemory::Make(NameOf("file"), (1 << 20) + 1, Writer::kMaker).status();
    const bool named = absl::StrContains(status.message(), "ulimit -f allows 1048576");
    _exit(absl::IsResourceExhausted(status) && named &&
                  SharedMemory::Make(NameOf("fits"), 1 << 20, Writer::kMaker).ok()
              ? 0
              : 1);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(JoinedMemoryTest, Map_PagesOfTwo_OneArrayThatChangesWithThemAndOutlivesThem) {
  const size_t page = PageBytes();
  JoinedMemory joined;
  ASSERT_TRUE(joined.Reserve(3 * page).ok());
  {
    auto first = SharedMemory::Make(NameOf("first"), 2 * page, Writer::kMaker);
    auto made = SharedMemory::Make(NameOf("second"), 2 * page, Writer::kMaker);
    ASSERT_TRUE(first.ok() && made.ok());
    auto second = SharedMemory::Open(Self(), NameOf("second"), 2 * page, Writer::kMaker);
    ASSERT_TRUE(second.ok());
    ASSERT_TRUE(joined.Map(page, *first, page, page).ok());
    ASSERT_TRUE(joined.Map(2 * page, *second, 0, page).ok());
    first->data()[2 * page - 1] = 1;
    made->data()[0] = 2;
  }
  EXPECT_EQ(joined.data()[2 * page - 1], 1);
  EXPECT_EQ(joined.data()[2 * page], 2);
}

TEST(JoinedMemoryTest, Reserve_MoreThanThereIs_ResourceExhausted) {
  JoinedMemory joined;
  EXPECT_TRUE(absl::IsResourceExhausted(joined.Reserve(size_t{1} << 60)));
  EXPECT_EQ(joined.data(), nullptr);
}

class BellTest : public ::testing::Test {
 protected:
  BellTest() : memory_(*SharedMemory::Make(NameOf("bell"), sizeof(Bell), Writer::kAll)) {}
  Bell& bell() { return *reinterpret_cast<Bell*>(memory_.data()); }

  SharedMemory memory_;
};

TEST_F(BellTest, Sleep_RungSinceItWasSeen_ReturnsAtOnce) {
  const uint32_t seen = bell().rings();
  bell().Ring();
  const absl::Time begin = SteadyNow();
  bell().Sleep(seen, absl::Seconds(60));
  EXPECT_LT(SteadyNow() - begin, absl::Seconds(30));
}

TEST_F(BellTest, Sleep_NobodyRings_EndsByItsTimeout) {
  const absl::Time begin = SteadyNow();
  bell().Sleep(bell().rings(), absl::Milliseconds(20));
  EXPECT_GE(SteadyNow() - begin, absl::Milliseconds(15));
}

// Each of two threads waits for the other; a lost ring would cost 60 s.
TEST_F(BellTest, Ring_ManyTimes_NoneIsLost) {
  SharedMemory other_memory = *SharedMemory::Make(NameOf("other"), sizeof(Bell), Writer::kAll);
  Bell& other = *reinterpret_cast<Bell*>(other_memory.data());
  constexpr uint32_t kTurns = 20000;
  const auto wait_for = [](Bell* bell, uint32_t rings) {
    while (true) {
      const uint32_t seen = bell->rings();
      if (seen >= rings) return;
      bell->Sleep(seen, absl::Seconds(60));
    }
  };
  const absl::Time begin = SteadyNow();
  std::thread echo([&] {
    for (uint32_t turn = 1; turn <= kTurns; ++turn) {
      wait_for(&bell(), turn);
      other.Ring();
    }
  });
  for (uint32_t turn = 1; turn <= kTurns; ++turn) {
    bell().Ring();
    wait_for(&other, turn);
  }
  echo.join();
  EXPECT_LT(SteadyNow() - begin, absl::Seconds(55));
}

}  // namespace
}  // namespace gradwire::shared_memory_test
