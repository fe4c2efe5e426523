#include "coordinator/ledger/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gradwire {
namespace {

using ::testing::HasSubstr;

// Frames of different lengths, with paddings of 0 to 7 bytes, each written alone.
std::vector<std::string> Frames(size_t count) {
  std::vector<std::string> frames;
  LedgerPosition position;
  for (size_t i = 0; i < count; ++i) {
    const auto type = static_cast<uint32_t>(i + 1) | kBeginsGroup;
    frames.push_back(EncodeFrame(type, std::string(i, 'a'), &position));
  }
  return frames;
}

std::string Join(const std::vector<std::string>& frames) {
  std::string bytes;
  for (const std::string& frame : frames) bytes += frame;
  return bytes;
}

TEST(Frame, Encode_IsLittleEndianAndPadded) {
  LedgerPosition position{258, 7};
  const std::string bytes = EncodeFrame(3, "abc", &position);
  ASSERT_EQ(bytes.size(), 32);
  EXPECT_EQ(bytes.substr(0, 16), std::string("\3\0\0\0\3\0\0\0\2\1\0\0\0\0\0\0", 16));
  EXPECT_EQ(bytes.substr(24), std::string("abc\0\0\0\0\0", 8));
  EXPECT_EQ(position.number, 259);
}

TEST(Frame, Parse_WhatWasEncoded_IsTheSame) {
  const std::vector<std::string> frames = Frames(12);
  const std::string bytes = Join(frames);
  LedgerPosition position;
  size_t at = 0;
  for (size_t i = 0; i < frames.size(); ++i) {
    const auto frame = ParseFrame(absl::string_view(bytes).substr(at), position);
    ASSERT_TRUE(frame.ok()) << frame.status();
    EXPECT_EQ(frame->type, i + 1);
    EXPECT_EQ(frame->payload, std::string(i, 'a'));
    at += frame->bytes;
    position = frame->Next();
  }
  EXPECT_EQ(at, bytes.size());
}

TEST(Frame, Parse_AnyBitFlipped_IsRefused) {
  LedgerPosition start{5, 99};
  LedgerPosition next = start;
  const std::string bytes = EncodeFrame(2, "some payload", &next);
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(ParseFrame(flipped, start).ok()) << "bit " << bit;
  }
}

TEST(Frame, Parse_AfterAnotherRecord_IsRefused) {
  const std::vector<std::string> frames = Frames(2);
  EXPECT_THAT(std::string(ParseFrame(frames[1], {}).status().message()),
              HasSubstr("number of the record: got 1, expected 0"));
  EXPECT_THAT(std::string(ParseFrame(frames[1], {1, 17}).status().message()),
              HasSubstr("chain: got"));
}

TEST(Frame, Parse_TooLong_IsRefusedWithoutReadingOn) {
  std::string bytes = Frames(1)[0];
  bytes[3] = '\xff';
  EXPECT_EQ(ParseFrame(bytes, {}).status().code(), absl::StatusCode::kDataLoss);
}

TEST(Frame, Parse_EveryPrefix_IsOutOfRange) {
  LedgerPosition next;
  const std::string bytes = EncodeFrame(1, "payload", &next);
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto frame = ParseFrame(absl::string_view(bytes).substr(0, size), {});
    EXPECT_EQ(frame.status().code(), absl::StatusCode::kOutOfRange) << size;
  }
}

// The frames before and after the damaged one are whole.
TEST(Frame, HasLaterFrame_AnyBitOfTheFirstFlipped_FindsTheNext) {
  const std::string bytes = Join(Frames(2));
  const size_t first = Frames(1)[0].size();
  for (size_t bit = 0; bit < 8 * first; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    EXPECT_TRUE(HasLaterFrame(flipped, {})) << "bit " << bit;
  }
}

TEST(Frame, HasLaterFrame_RecordsLostInTheMiddle_FindsTwoThatFollowEachOther) {
  std::vector<std::string> frames = Frames(12);
  frames.erase(frames.begin() + 2, frames.begin() + 10);
  LedgerPosition position{2, 0};
  EXPECT_TRUE(HasLaterFrame(Join({frames[2], frames[3]}), position));
}

TEST(Frame, HasLaterFrame_ZerosOverThreeFrames_FindsTheNextTwo) {
  const std::vector<std::string> frames = Frames(9);
  const std::string zeros(frames[4].size() + frames[5].size() + frames[6].size(), '\0');
  EXPECT_TRUE(HasLaterFrame(zeros + frames[7] + frames[8], {4, 1}));
}

// A power cut may leave any sectors of a write.
TEST(Frame, HasLaterFrame_OfTheSameWrite_FindsNone) {
  LedgerPosition position;
  std::string bytes;
  for (uint32_t type : {1 | kBeginsGroup, 2u, 3u, 4u}) {
    bytes += EncodeFrame(type, std::string(40, 'a'), &position);
  }
  for (size_t lost = 0; lost < bytes.size(); lost += kFrameAlignment) {
    std::string left = bytes;
    left.replace(lost, kFrameAlignment, kFrameAlignment, '\0');
    EXPECT_FALSE(HasLaterFrame(left, {})) << "bytes from " << lost << " on";
    LedgerPosition next = position;
    for (uint32_t type : {5, 6}) left += EncodeFrame(type | kBeginsGroup, "", &next);
    EXPECT_TRUE(HasLaterFrame(left, {})) << "bytes from " << lost << " on, and later writes";
  }
}

TEST(Frame, HasLaterFrame_OnlyOneTornFrame_FindsNone) {
  LedgerPosition next{3, 5};
  const std::string bytes = EncodeFrame(1, std::string(200, 'x'), &next);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(HasLaterFrame(bytes.substr(0, size), {3, 5})) << size;
    EXPECT_FALSE(
        HasLaterFrame(bytes.substr(0, size) + std::string(bytes.size() - size, '\0'), {3, 5}));
  }
}

TEST(Frame, HasWrongLength_OnlyTheLengthIsWrong_SaysSo) {
  LedgerPosition next{3, 5};
  const std::string bytes = EncodeFrame(1, "payload", &next);
  EXPECT_TRUE(HasWrongLength(bytes, {3, 5}));
  for (size_t length = 1; length <= 8; ++length) {
    next = {3, 5};
    EXPECT_TRUE(HasWrongLength(EncodeFrame(1, std::string(length, 'x'), &next), {3, 5})) << length;
  }
  std::string flipped = bytes;
  flipped[1] = '\1';
  EXPECT_TRUE(HasWrongLength(flipped, {3, 5}));
  EXPECT_FALSE(HasWrongLength(flipped.substr(0, 24), {3, 5}));
  EXPECT_FALSE(HasWrongLength(flipped, {3, 6}));
}

}  // namespace
}  // namespace gradwire
