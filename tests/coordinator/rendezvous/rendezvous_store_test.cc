#include "coordinator/rendezvous/rendezvous_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr auto kInstant = std::chrono::milliseconds(50);

const absl::Status kOver = absl::AbortedError("rank 1 was lost in step 7");

// A Wait on a thread of its own.
std::future<absl::StatusOr<RendezvousStore::Entries>> WaitAside(RendezvousStore* store,
                                                                RendezvousStore::Keys keys) {
  return std::async(std::launch::async,
                    [store, keys] { return store->Wait(keys, SteadyNow() + absl::Seconds(20)); });
}

TEST(RendezvousStoreTest, Get_KeysSet_GivesThoseThatAreThereInOrder) {
  RendezvousStore store;
  ASSERT_TRUE(store.Set("a", "1").ok());
  ASSERT_TRUE(store.Set("b", std::string("\0\xff", 2)).ok());
  EXPECT_THAT(*store.Get({"b", "none", "a"}),
              ElementsAre(Pair("b", std::string("\0\xff", 2)), Pair("a", "1")));
}

TEST(RendezvousStoreTest, Set_KeyIsThere_ReplacesTheValue) {
  RendezvousStore store;
  ASSERT_TRUE(store.Set("a", "1").ok());
  ASSERT_TRUE(store.Set("a", "2").ok());
  EXPECT_THAT(*store.Get({"a"}), ElementsAre(Pair("a", "2")));
}

TEST(RendezvousStoreTest, Wait_AllKeysAreThere_ReturnsAtOnce) {
  RendezvousStore store;
  ASSERT_TRUE(store.Set("a", "1").ok());
  EXPECT_THAT(*store.Wait({"a"}, absl::InfinitePast()), ElementsAre(Pair("a", "1")));
}

TEST(RendezvousStoreTest, Wait_LastKeyComesLater_ReturnsAllInOrder) {
  RendezvousStore store;
  ASSERT_TRUE(store.Set("b", "2").ok());
  auto waiting = WaitAside(&store, {"a", "b"});
  EXPECT_EQ(waiting.wait_for(kInstant), std::future_status::timeout);
  ASSERT_TRUE(store.Set("a", "1").ok());
  EXPECT_THAT(*waiting.get(), ElementsAre(Pair("a", "1"), Pair("b", "2")));
}

TEST(RendezvousStoreTest, Wait_DeadlinePassed_NamesTheMissingKeys) {
  RendezvousStore store;
  ASSERT_TRUE(store.Set("b", "2").ok());
  EXPECT_EQ(store.Wait({"a", "b", "c"}, SteadyNow()).status(),
            absl::DeadlineExceededError("missing keys: a, c"));
}

TEST(RendezvousStoreTest, Set_EmptyOrLongKey_InvalidArgument) {
  RendezvousStore store;
  EXPECT_EQ(store.Set("", "1"), absl::InvalidArgumentError("key: got 0 bytes, expected 1 to 256"));
  EXPECT_EQ(store.Set(std::string(257, 'k'), "1"),
            absl::InvalidArgumentError("key: got 257 bytes, expected 1 to 256"));
}

TEST(RendezvousStoreTest, Get_TooManyKeys_InvalidArgument) {
  RendezvousStore store;
  EXPECT_EQ(store.Get(RendezvousStore::Keys(1025, "a")).status(),
            absl::InvalidArgumentError("got 1025 keys, expected at most 1024"));
}

TEST(RendezvousStoreTest, LongestValueAndMostKeys_AreTaken) {
  RendezvousStore store;
  EXPECT_EQ(store.Set("a", std::string(1 << 20, 'v')), absl::OkStatus());
  EXPECT_EQ(store.Get(RendezvousStore::Keys(1024, "none")).status(), absl::OkStatus());
}

TEST(RendezvousStoreTest, Set_LongValue_ResourceExhausted) {
  RendezvousStore store;
  EXPECT_EQ(
      store.Set("a", std::string((1 << 20) + 1, 'v')),
      absl::ResourceExhaustedError("value of 'a': got 1048577 bytes, expected at most 1048576"));
}

class FullRendezvousStoreTest : public ::testing::Test {
 protected:
  FullRendezvousStoreTest() {
    const std::string value((1 << 20) - 2, 'v');  // 1 MiB with its key
    for (int i = 0; i < 64; ++i) EXPECT_TRUE(store_.Set(absl::StrCat(i + 10), value).ok());
  }
  RendezvousStore store_;
};

TEST_F(FullRendezvousStoreTest, Set_OneByteMore_ResourceExhausted) {
  EXPECT_EQ(store_.Set("k", ""),
            absl::ResourceExhaustedError(
                "key 'k': all values would need 67108865 bytes, more than 67108864"));
}

TEST_F(FullRendezvousStoreTest, Set_SameKeyAgain_CountsItOnce) {
  EXPECT_TRUE(store_.Set("10", std::string((1 << 20) - 2, 'w')).ok());
}

TEST(RendezvousStoreTest, Abort_WhileWaiting_EndsWithReason) {
  RendezvousStore store;
  auto waiting = WaitAside(&store, {"a"});
  EXPECT_EQ(waiting.wait_for(kInstant), std::future_status::timeout);
  store.Abort(kOver);
  EXPECT_EQ(waiting.get().status(), kOver);
}

TEST(RendezvousStoreTest, Abort_Twice_FirstReasonCountsForEveryCall) {
  RendezvousStore store;
  store.Abort(kOver);
  store.Abort(absl::AbortedError("something else"));
  EXPECT_EQ(store.Set("a", "1"), kOver);
  EXPECT_EQ(store.Get({"a"}).status(), kOver);
  EXPECT_EQ(store.Wait({"a"}, absl::InfinitePast()).status(), kOver);
}

}  // namespace
}  // namespace gradwire
