#include "coordinator/ledger/log_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/coordinator/ledger/ledger_records.h"
#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::gradwire::testing::FramesOf;
using ::gradwire::testing::RunOf;
using ::gradwire::testing::SegmentOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct ReadResult {
  absl::StatusOr<absl::optional<TornTail>> torn;
  std::vector<std::string> names;
  LedgerPosition position;
};

ReadResult Read(const std::string& bytes, bool is_last = true) {
  ReadResult result;
  result.torn = ReadSegment(
      1, bytes, is_last,
      [&result](const LedgerEntry& entry) {
        result.names.emplace_back(NameOf(entry.record));
        return absl::OkStatus();
      },
      &result.position);
  return result;
}

std::string ErrorOf(const std::string& bytes, bool is_last = true) {
  return std::string(Read(bytes, is_last).torn.status().message());
}

std::string Segment(uint64_t steps = 3) {
  LedgerPosition position;
  return SegmentOf(RunOf(1, 0, steps), &position);
}

// The frames of Segment().
std::vector<std::string> Frames() {
  LedgerPosition position;
  return FramesOf(RunOf(1, 0, 3), &position);
}

TEST(LogReader, ReadSegment_Whole_GivesEachRecordInOrder) {
  const ReadResult result = Read(Segment(2));
  ASSERT_TRUE(result.torn.ok()) << result.torn.status();
  EXPECT_FALSE(result.torn->has_value());
  EXPECT_THAT(result.names, ElementsAre("Start", "Epoch", "View", "Sealed", "Sealed"));
  EXPECT_EQ(result.position.number, 5);
}

TEST(LogReader, ReadSegment_Empty_HasNoRecord) {
  EXPECT_TRUE(Read("", false).torn.ok());
  EXPECT_EQ(Read("").position, LedgerPosition());
}

// Each bit of each record but the last one.
TEST(LogReader, ReadSegment_AnyBitFlippedBeforeTheLastRecord_IsDamageAtThatRecord) {
  const std::vector<std::string> frames = Frames();
  size_t offset = 0;
  for (size_t i = 0; i + 1 < frames.size(); ++i) {
    for (size_t bit = 8 * offset; bit < 8 * (offset + frames[i].size()); ++bit) {
      std::string bytes = Segment();
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
      const absl::Status status = Read(bytes).torn.status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << "bit " << bit;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(absl::StrCat("ledger/00000001.log is damaged at byte ", offset, ": ")));
    }
    offset += frames[i].size();
  }
}

TEST(LogReader, ReadSegment_AnyBitFlippedInTheLastRecord_IsATailThatIsNotShort) {
  const std::vector<std::string> frames = Frames();
  const size_t offset = Segment().size() - frames.back().size();
  for (size_t bit = 8 * offset; bit < 8 * Segment().size(); ++bit) {
    std::string bytes = Segment();
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    const ReadResult result = Read(bytes);
    ASSERT_TRUE(result.torn.ok() && result.torn->has_value()) << "bit " << bit;
    EXPECT_EQ((*result.torn)->offset, offset);
    EXPECT_FALSE((*result.torn)->is_short) << "bit " << bit;
  }
}

TEST(LogReader, ReadSegment_EveryPrefix_IsSoundUpToItsLastWholeRecord) {
  const std::vector<std::string> frames = Frames();
  const std::string whole = Segment();
  size_t begin = 0, number = 0;
  for (size_t size = 0; size <= whole.size(); ++size) {
    if (number < frames.size() && size == begin + frames[number].size()) {
      begin = size;
      ++number;
    }
    const ReadResult result = Read(whole.substr(0, size));
    ASSERT_TRUE(result.torn.ok()) << result.torn.status();
    EXPECT_EQ(result.names.size(), number);
    ASSERT_EQ(result.torn->has_value(), size > begin) << size;
    if (size == begin) continue;
    EXPECT_EQ((*result.torn)->offset, begin);
    EXPECT_EQ((*result.torn)->bytes, size - begin);
    EXPECT_TRUE((*result.torn)->is_short);
  }
}

TEST(LogReader, ReadSegment_FileOfSomethingElse_IsDamageAndNotATail) {
  EXPECT_THAT(ErrorOf("notes that somebody keeps in this folder"),
              HasSubstr("is damaged at byte 0: got no Start record 0, expected one as the first"));
  EXPECT_THAT(ErrorOf("short note"), HasSubstr("got no Start record 0"));
}

// Some file systems leave zeros where a write was cut.
TEST(LogReader, ReadSegment_OnlyZeros_IsATail) {
  const ReadResult result = Read(std::string(64, '\0'));
  ASSERT_TRUE(result.torn.ok()) << result.torn.status();
  EXPECT_EQ((*result.torn)->bytes, 64u);
}

TEST(LogReader, ReadSegment_ShortButNotTheLast_IsDamage) {
  const std::string whole = Segment();
  EXPECT_THAT(ErrorOf(whole.substr(0, whole.size() - 8), false),
              HasSubstr("is not valid although a later segment exists"));
}

TEST(LogReader, ReadSegment_LostRecord_IsDamageWhereItWas) {
  std::vector<std::string> frames = Frames();
  frames.erase(frames.begin() + 3);
  std::string bytes;
  for (const std::string& frame : frames) bytes += frame;
  EXPECT_THAT(ErrorOf(bytes), HasSubstr("record 3 is not valid although later ones are: number of "
                                        "the record: got 4, expected 3"));
}

TEST(LogReader, ReadSegment_UnknownType_IsDamageThatNamesIt) {
  LedgerPosition position;
  EXPECT_THAT(ErrorOf(EncodeFrame(8, "", &position)), HasSubstr("type: got 8, expected 1 to 7"));
}

TEST(LogReader, ReadSegment_PayloadOfAnotherKind_IsDamage) {
  LedgerPosition position;
  EXPECT_THAT(ErrorOf(EncodeFrame(4, "\xff\xff", &position)),
              HasSubstr("got a payload that is no Sealed record"));
}

TEST(LogReader, ReadSegment_ErrorOfTheCaller_EndsTheReading) {
  LedgerPosition position;
  int calls = 0;
  const auto torn = ReadSegment(
      1, Segment(), true,
      [&calls](const LedgerEntry&) {
        return ++calls == 2 ? absl::InvalidArgumentError("enough") : absl::OkStatus();
      },
      &position);
  EXPECT_EQ(torn.status(), absl::InvalidArgumentError("enough"));
  EXPECT_EQ(position.number, 1);
}

class ReadLedgerTest : public ::testing::Test {
 protected:
  ReadLedgerTest() { std::filesystem::create_directories(run_dir_ + "/ledger"); }

  void Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(run_dir_ + "/ledger/" + name, std::ios::binary) << bytes;
  }
  absl::StatusOr<LedgerEnd> Read() const {
    return ReadLedger(run_dir_, [](const LedgerEntry&) { return absl::OkStatus(); });
  }

  const testing::TempDir folder_;
  const std::string& run_dir_ = folder_.path();
};

TEST_F(ReadLedgerTest, SeveralSegments_AreOneChain) {
  LedgerPosition position;
  for (int segment = 1; segment <= 3; ++segment) {
    Write(SegmentName(segment), SegmentOf(RunOf(segment, 0, 2), &position));
  }
  Write("reserve", "zeros");
  const auto end = Read();
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->segment, 3);
  EXPECT_EQ(end->position, position);
}

TEST_F(ReadLedgerTest, SegmentOfAnotherLedger_IsDamageAtItsBegin) {
  LedgerPosition position;
  Write(SegmentName(1), SegmentOf(RunOf(1, 0, 2), &position));
  LedgerPosition other{position.number, 4711};
  Write(SegmentName(2), SegmentOf(RunOf(2, 0, 2), &other));
  EXPECT_THAT(std::string(Read().status().message()),
              HasSubstr("ledger/00000002.log is damaged at byte 0"));
}

TEST_F(ReadLedgerTest, MissingSegment_IsNamed) {
  LedgerPosition position;
  Write(SegmentName(1), SegmentOf(RunOf(1, 0, 2), &position));
  Write(SegmentName(3), "");
  EXPECT_EQ(Read().status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Read().status().message()),
              HasSubstr("got 00000003.log, expected 00000002.log before it"));
}

TEST_F(ReadLedgerTest, NoLedger_IsNotFound) {
  std::filesystem::remove_all(run_dir_);
  EXPECT_EQ(Read().status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ReadLedgerTest, NoSegment_HasNoRecord) {
  const auto end = Read();
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->segment, 0);
}

TEST_F(ReadLedgerTest, FilesOfOtherNames_AreIgnored) {
  LedgerPosition position;
  Write(SegmentName(1), SegmentOf(RunOf(1, 0, 2), &position));
  for (const char* name : {"00000002.log.bak", "2.log", "00000000.log", "notes.log", ".log"}) {
    Write(name, "of somebody");
  }
  const auto end = Read();
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->segment, 1);
  EXPECT_EQ(end->position, position);
}

}  // namespace
}  // namespace gradwire
