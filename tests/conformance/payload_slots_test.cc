// Payloads of hops in the memory of their sender.

#include "worker/backends/memory/payload_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gradwire {
namespace {

using ::testing::HasSubstr;

class PayloadSlotsTest : public ::testing::Test {
 protected:
  PayloadSlotsTest() {
    view_.generation = Generation(static_cast<uint64_t>(generation_++));
    view_.self = MakeIncarnation();
    view_.members = {{view_.self, "", {Rank(0)}, static_cast<uint32_t>(getpid())}};
    writer_ = SlotWriter::Make(view_, kLink).value();
  }

  absl::optional<uint32_t> Put(const std::string& payload) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(payload.data());
    const size_t half = payload.size() / 2;
    return writer_->Put({{bytes, half}, {bytes + half, payload.size() - half}}, kPatience);
  }
  absl::StatusOr<std::unique_ptr<SlotReader>> Open(uint32_t number) {
    return SlotReader::Open(view_, view_.members[0], number);
  }
  static std::string Read(const SlotReader& reader, uint32_t number, uint32_t bytes) {
    const auto read = reader.Get(number, bytes);
    EXPECT_TRUE(read.ok()) << read.status();
    return read.ok() ? std::string(read->begin(), read->end()) : "";
  }

  static constexpr absl::Duration kPatience = absl::Milliseconds(50);
  static constexpr uint32_t kLink = 2;
  static constexpr uint32_t kFirst = kLink * PayloadSlots::kCount + 1;
  static inline int generation_ = 1;
  View view_;
  std::unique_ptr<SlotWriter> writer_;
};

TEST_F(PayloadSlotsTest, Put_MoreThanThereAreSlots_EachIsReadAndUsedAgain) {
  auto reader = Open(kFirst);
  ASSERT_TRUE(reader.ok()) << reader.status();
  for (uint32_t i = 0; i < 3 * PayloadSlots::kCount; ++i) {
    const std::string payload = "payload " + std::to_string(i);
    const auto number = Put(payload);
    ASSERT_EQ(number, kFirst + i % PayloadSlots::kCount);
    EXPECT_EQ(Read(**reader, *number, static_cast<uint32_t>(payload.size())), payload);
    (*reader)->Empty(*number);
  }
}

TEST_F(PayloadSlotsTest, Put_Longest_IsReadWhole) {
  const std::string payload(PayloadSlots::kBytes, 'x');
  ASSERT_EQ(Put(payload), kFirst);
  ASSERT_EQ(Put("behind it"), kFirst + 1);
  EXPECT_TRUE(Read(**Open(kFirst), kFirst, PayloadSlots::kBytes) == payload);
}

TEST_F(PayloadSlotsTest, Put_LongerThanASlot_None) {
  EXPECT_EQ(Put(std::string(PayloadSlots::kBytes + 1, 'x')), absl::nullopt);
  EXPECT_EQ(Put("fits"), kFirst);
}

TEST_F(PayloadSlotsTest, Put_AllAreFull_NoneUntilTheNextIsEmpty) {
  for (uint32_t i = 0; i < PayloadSlots::kCount; ++i) ASSERT_TRUE(Put("full").has_value());
  EXPECT_EQ(Put("more"), absl::nullopt);
  auto reader = Open(kFirst);
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ(Read(**reader, kFirst, 4), "full");
  (*reader)->Empty(kFirst);
  EXPECT_EQ(Put("more"), kFirst);
  EXPECT_EQ(Read(**reader, kFirst, 4), "more");
}

TEST_F(PayloadSlotsTest, Empty_SenderWaits_ItGoesOn) {
  for (uint32_t i = 0; i < PayloadSlots::kCount; ++i) ASSERT_TRUE(Put("full").has_value());
  auto reader = Open(kFirst);
  ASSERT_TRUE(reader.ok());
  absl::optional<uint32_t> number;
  // Put gives up after a while, so this sender asks again.
  std::thread sender([&] {
    while (!number.has_value()) number = Put("more");
  });
  (*reader)->Empty(kFirst);
  sender.join();
  EXPECT_EQ(number, kFirst);
}

TEST_F(PayloadSlotsTest, Cancel_NothingIsPutAnyMore) {
  writer_->Cancel();
  EXPECT_EQ(Put("late"), absl::nullopt);
}

TEST_F(PayloadSlotsTest, Get_NotWhatTheSlotHolds_InvalidArgument) {
  ASSERT_EQ(Put("twelve bytes"), kFirst);
  auto reader = Open(kFirst);
  ASSERT_TRUE(reader.ok());
  const auto other = (*reader)->Get(kFirst, 11);
  EXPECT_EQ(other.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(other.status().message()),
              HasSubstr("got 11 bytes in slot 17, expected 12"));
  const auto empty = (*reader)->Get(kFirst + 1, 12);
  EXPECT_EQ(empty.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(empty.status().message()), HasSubstr("expected 0"));
}

TEST_F(PayloadSlotsTest, Get_SlotOfAnotherLink_InvalidArgument) {
  auto reader = Open(kFirst);
  ASSERT_TRUE(reader.ok());
  for (const uint32_t number : {kFirst - 1, kFirst + PayloadSlots::kCount, 0u}) {
    const auto got = (*reader)->Get(number, 1);
    EXPECT_EQ(got.status().code(), absl::StatusCode::kInvalidArgument) << number;
    EXPECT_THAT(std::string(got.status().message()), HasSubstr("expected one from 17 to 24"));
  }
}

TEST_F(PayloadSlotsTest, Open_NoSuchMemory_AbortedAndNamesIt) {
  const auto opened = Open(1);
  EXPECT_EQ(opened.status().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(opened.status().message()), HasSubstr("-slots-0-data"));
}

// Of a later view: a worker that was stopped and lost marks no slot of it.
TEST_F(PayloadSlotsTest, Open_SameLinkOfAnotherView_OtherSlots) {
  ASSERT_EQ(Put("of the first view"), kFirst);
  ++view_.generation;
  EXPECT_EQ(Open(kFirst).status().code(), absl::StatusCode::kAborted);
  const auto later = SlotWriter::Make(view_, kLink);
  ASSERT_TRUE(later.ok());
  auto reader = Open(kFirst);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_FALSE((*reader)->Get(kFirst, 17).ok());
}

// Ranks 0 to 2 are on one host; rank 0 makes slots for a link to another one.
class MakeSlotWriterTest : public ::testing::Test {
 protected:
  MakeSlotWriterTest() {
    view_.generation = Generation(1);
    view_.world_size = 4;
    for (const int rank : {0, 1, 2, 3}) {
      view_.members.push_back({MakeIncarnation(),
                               "",
                               {Rank(rank)},
                               static_cast<uint32_t>(getpid()),
                               rank < 3 ? "this host" : "another host"});
    }
    view_.self = view_.members[0].incarnation;
  }
  // Whether it has slots for rank `to`, of `links` on this host.
  bool HasSlots(int to, uint64_t links) {
    return MakeSlotWriter(view_, view_.members[to], link_++, links) != nullptr;
  }

  View view_;
  uint32_t link_ = 0;
};

TEST_F(MakeSlotWriterTest, NoLimits_SlotsForThoseOfThisHostAlone) {
  EXPECT_TRUE(HasSlots(1, 1));
  EXPECT_TRUE(HasSlots(2, 1));
  EXPECT_FALSE(HasSlots(3, 1));
}

TEST_F(MakeSlotWriterTest, LimitOfOneWorker_CountsAtBothEndsOfTheLinkAlone) {
  for (const int limited : {0, 1, 2}) {
    view_.members[limited].limits.file = PayloadSlots::kMemoryBytes - 1;
    EXPECT_EQ(HasSlots(1, 1), limited == 2) << "limit of rank " << limited;
    view_.members[limited].limits = {};
  }
}

// A file is one link's; the host has those of all, and gives half of what is available.
TEST_F(MakeSlotWriterTest, LimitOfTheHost_HasRoomForAllLinks) {
  view_.members[1].limits.file = PayloadSlots::kMemoryBytes;
  view_.members[1].limits.host = 2 * 3 * PayloadSlots::kMemoryBytes;
  EXPECT_TRUE(HasSlots(1, 3));
  EXPECT_FALSE(HasSlots(1, 4));
}

}  // namespace
}  // namespace gradwire
