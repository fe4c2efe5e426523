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
using ::testing::IsEmpty;
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

TEST(RendezvousStoreTest, Delete_GivesBackTheRoomOfKeyAndValue) {
  RendezvousStore store;
  const std::string key(RendezvousStore::kMaxKeyBytes, 'k');
  for (size_t i = 0; i <= RendezvousStore::kMaxBytes / RendezvousStore::kMaxKeyBytes; ++i) {
    ASSERT_TRUE(store.Set(key, "").ok()) << "round " << i;
    ASSERT_TRUE(*store.Delete(key));
  }
}

TEST(RendezvousStoreTest, Set_KeyIsThere_ReplacesTheValue) {
  RendezvousStore store;
  ASSERT_TRUE(store.Set("a", "1").ok());
  ASSERT_TRUE(store.Set("a", "2").ok());
  EXPECT_THAT(*store.Get({"a"}), ElementsAre(Pair("a", "2")));
  EXPECT_EQ(*store.Count(), 1);
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

TEST(RendezvousStoreTest, Add_NewKey_CountsFromZero) {
  RendezvousStore store;
  EXPECT_EQ(*store.Add("n", 5), 5);
  EXPECT_EQ(*store.Add("n", -7), -2);
  EXPECT_THAT(*store.Get({"n"}), ElementsAre(Pair("n", "-2")));
}

TEST(RendezvousStoreTest, Add_ValueIsNoNumber_InvalidArgument) {
  RendezvousStore store;
  ASSERT_TRUE(store.Set("n", "many").ok());
  EXPECT_EQ(store.Add("n", 1).status(), absl::InvalidArgumentError("value of 'n' is not a number"));
}

TEST(RendezvousStoreTest, Add_SumTooLarge_InvalidArgument) {
  RendezvousStore store;
  ASSERT_TRUE(store.Set("n", absl::StrCat(std::numeric_limits<int64_t>::max())).ok());
  EXPECT_EQ(store.Add("n", 1).status(),
            absl::InvalidArgumentError("value of 'n' does not fit in 64 bits after adding 1"));
}

TEST(RendezvousStoreTest, Delete_SaysWhetherTheKeyWasThere) {
  RendezvousStore store;
  ASSERT_TRUE(store.Set("a", "1").ok());
  EXPECT_TRUE(*store.Delete("a"));
  EXPECT_FALSE(*store.Delete("a"));
  EXPECT_THAT(*store.Get({"a"}), IsEmpty());
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

TEST_F(FullRendezvousStoreTest, Set_AfterDelete_HasRoomAgain) {
  ASSERT_TRUE(*store_.Delete("10"));
  EXPECT_TRUE(store_.Set("k", "").ok());
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
  EXPECT_EQ(store.Add("a", 1).status(), kOver);
  EXPECT_EQ(store.Delete("a").status(), kOver);
  EXPECT_EQ(store.Count().status(), kOver);
}

}  // namespace
}  // namespace gradwire
