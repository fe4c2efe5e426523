#include "worker/iteration_log.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

TEST(PathOfRank, Placeholder_BecomesTheRank) {
  EXPECT_EQ(PathOfRank("log-{rank}.jsonl", Rank(3)), "log-3.jsonl");
}

TEST(PathOfRank, NoPlaceholder_StaysAsItIs) {
  EXPECT_EQ(PathOfRank("log.jsonl", Rank(3)), "log.jsonl");
}

TEST(IterationLog, Write_EachIteration_IsALineAtOnce) {
  testing::TempDir dir;
  auto log = IterationLog::Open(dir.File("{rank}.jsonl"), Rank(1));
  ASSERT_TRUE(log.ok()) << log.status();
  IterationRecord record;
  record.step = Step(7);
  record.loss = std::numeric_limits<double>::quiet_NaN();
  record.times.iteration = absl::Seconds(2);
  record.bytes_sent = 5;
  ASSERT_TRUE((*log)->Write(record).ok());
  EXPECT_EQ(testing::ReadFile(dir.File("1.jsonl")),
            R"({"step":7,"epoch":0,"rank":1,"loss":null,"iteration_seconds":2.0,)"
            R"("phase_seconds":{"data":0.0,"forward":0.0,"backward":0.0,"communication":0.0,)"
            R"("exposed_communication":0.0,"optimizer":0.0},"bytes_sent":5,"bytes_received":0,)"
            R"("samples":0})"
            "\n");
}

TEST(IterationLog, Open_NoSuchFolder_NamesFileAndCause) {
  testing::TempDir dir;
  const std::string path = dir.File("no/log");
  EXPECT_EQ(IterationLog::Open(path, Rank(0)).status().message(),
            "cannot write '" + path + "': No such file or directory");
}

TEST(IterationLog, Write_DeviceIsFull_IsAnError) {
  auto log = IterationLog::Open("/dev/full", Rank(0));
  ASSERT_TRUE(log.ok());
  EXPECT_EQ((*log)->Write(IterationRecord()).message(),
            "cannot write '/dev/full': No space left on device");
}

}  // namespace
}  // namespace gradwire
