// Payloads of Gather and Scatter in the memory of their sender.

#include "worker/backends/fold/call_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "worker/backends/memory/payload_slots.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;

class CallSlotsTest : public ::testing::Test {
 protected:
  // Workers 0 and 1 are on one host, worker 2 is on another one.
  CallSlotsTest() {
    const std::string memory[] = {"here", "here", "there"};
    for (int rank = 0; rank < 3; ++rank) {
      Member member;
      member.incarnation = MakeIncarnation();
      member.address = "127.0.0.1:" + std::to_string(1 + rank);
      member.ranks = {Rank(rank)};
      member.pid = static_cast<uint32_t>(getpid());
      member.memory = memory[rank];
      view_.members.push_back(member);
    }
    view_.world_size = 3;
    view_.generation = Generation(1);
    BackendOptions options;
    options.slots = true;
    make_ = CallMemoryOf(options);
    sender_ = make_();
    receiver_ = make_();
  }

  View ViewOf(int worker) const {
    View view = view_;
    view.self = IdOf(worker);
    return view;
  }
  Incarnation IdOf(int worker) const { return view_.members[worker].incarnation; }

  // Worker 0 puts a payload for another worker.
  bool Put(const std::string& payload, int to = 1) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(payload.data());
    return sender_->Put(ViewOf(0), IdOf(to), {bytes, payload.size()}, &chunk_.header);
  }
  // Worker 1 gets the payload that worker 0 has put last.
  absl::StatusOr<Chunk> Find() {
    Chunk chunk = chunk_;
    const absl::Status found = receiver_->Find(ViewOf(1), &view_.members[0], &chunk);
    if (!found.ok()) return found;
    return chunk;
  }
  static std::string TextOf(const Chunk& chunk) {
    std::string text;
    for (const auto& piece : chunk.payload) text.append(piece.begin(), piece.end());
    return text;
  }

  View view_;
  MakeCallMemory make_;
  std::unique_ptr<CallMemory> sender_;
  std::unique_ptr<CallMemory> receiver_;
  Chunk chunk_;  // as it is sent: the slot, and no payload
};

TEST_F(CallSlotsTest, CallMemoryOf_NoSlotsWanted_Empty) {
  EXPECT_FALSE(static_cast<bool>(CallMemoryOf(BackendOptions())));
}

TEST_F(CallSlotsTest, Find_TermsThatAreHeld_KeepTheirSlotsUntilTheyAreReleased) {
  std::vector<Chunk> held;
  for (uint32_t i = 0; i < PayloadSlots::kCount; ++i) {
    ASSERT_TRUE(Put("term " + std::to_string(i)));
    const auto found = Find();
    ASSERT_TRUE(found.ok()) << found.status();
    held.push_back(*found);
  }
  EXPECT_FALSE(Put("one too many"));
  for (uint32_t i = 0; i < PayloadSlots::kCount; ++i) {
    EXPECT_EQ(TextOf(held[i]), "term " + std::to_string(i));
  }
  held.erase(held.begin() + 3);
  ASSERT_TRUE(Put("in its place"));
  EXPECT_EQ(TextOf(*Find()), "in its place");
  EXPECT_EQ(TextOf(held[3]), "term 4");
}

TEST_F(CallSlotsTest, Find_SenderEndsItsCall_PayloadStays) {
  ASSERT_TRUE(Put("term"));
  auto found = Find();
  ASSERT_TRUE(found.ok()) << found.status();
  sender_.reset();
  receiver_.reset();
  EXPECT_EQ(TextOf(*found), "term");
  found->owner.reset();
}

// The sender has left the view. This is no fault of the receiver, which waits for the next view.
TEST_F(CallSlotsTest, Find_SenderHasNoSlotsAnyMore_Aborted) {
  ASSERT_TRUE(Put("term"));
  sender_.reset();
  EXPECT_EQ(Find().status().code(), absl::StatusCode::kAborted);
}

TEST_F(CallSlotsTest, Find_ProcessOfTheSenderHasEnded_Unavailable) {
  ASSERT_TRUE(Put("term"));
  view_.members[0].pid = 1u << 30;  // of no process
  EXPECT_EQ(Find().status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(CallSlotsTest, Put_NoOtherWorkerOfThisHost_GoesThroughTheCall) {
  EXPECT_FALSE(Put("term", 2));
  EXPECT_EQ(chunk_.header.slot, 0u);
  sender_ = make_();
  EXPECT_FALSE(Put("term", 0));
}

TEST_F(CallSlotsTest, Put_EmptyOrTooLong_GoesThroughTheCall) {
  EXPECT_FALSE(Put(""));
  EXPECT_FALSE(Put(std::string(PayloadSlots::kBytes + 1, 'x')));
  EXPECT_TRUE(Put(std::string(PayloadSlots::kBytes, 'x')));
  EXPECT_EQ(chunk_.header.slot_bytes, PayloadSlots::kBytes);
}

TEST_F(CallSlotsTest, Find_SlotOfAWorkerElsewhereOrWithAPayload_InvalidArgument) {
  ASSERT_TRUE(Put("term"));
  const std::string extra = "extra";
  for (const Member* sender : {&view_.members[1], &view_.members[2]}) {
    Chunk chunk = chunk_;
    const absl::Status found = receiver_->Find(ViewOf(1), sender, &chunk);
    EXPECT_EQ(found.code(), absl::StatusCode::kInvalidArgument) << found;
  }
  Chunk chunk = chunk_;
  EXPECT_EQ(receiver_->Find(ViewOf(1), nullptr, &chunk).code(), absl::StatusCode::kInvalidArgument);
  chunk.payload = {{reinterpret_cast<const uint8_t*>(extra.data()), extra.size()}};
  const absl::Status both = receiver_->Find(ViewOf(1), &view_.members[0], &chunk);
  EXPECT_EQ(both.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(both.message()), HasSubstr("expected a payload, or a slot without one"));
}

}  // namespace
}  // namespace gradwire
