#include "common/telemetry/trace_log.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "common/base/clock.h"
#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::ReadFile;
using testing::TempDir;

TraceSpan Span(TraceSpan::Lane lane, const char* name, int bucket) {
  const absl::Time begin = SteadyNow();
  return {lane, name, Step(7), Bucket(bucket), begin, begin + absl::Microseconds(250)};
}

// Takes an event's time, which is to be a time of day, out of it.
void TakeTime(json* event) {
  const double now = static_cast<double>(absl::ToUnixMicros(absl::Now()));
  EXPECT_NEAR(event->at("ts").get<double>(), now, 60e6);
  event->erase("ts");
}

class TraceLogTest : public ::testing::Test {
 protected:
  // What is in the file after these spans.
  json EventsOf(const std::vector<TraceSpan>& spans) {
    auto log = TraceLog::Open(path_, 2, "rank 2");
    EXPECT_TRUE(log.ok()) << log.status();
    for (const TraceSpan& span : spans) (*log)->Add(span);
    const absl::Status closed = (*log)->Close(absl::Microseconds(-1500));
    EXPECT_TRUE(closed.ok()) << closed;
    return json::parse(ReadFile(path_));
  }

  TempDir dir_;
  const std::string path_ = dir_.File("trace");
};

TEST_F(TraceLogTest, NoSpans_NamesTheProcessAndTellsTheClock) {
  EXPECT_EQ(EventsOf({}), json::parse(R"([
    {"name": "process_name", "ph": "M", "pid": 2, "tid": 0, "args": {"name": "rank 2"}},
    {"name": "clock_offset", "ph": "M", "pid": 2, "tid": 0, "args": {"microseconds": -1500.0}}])"));
}

TEST_F(TraceLogTest, Compute_IsACompleteEventOfItsThread) {
  json events = EventsOf({Span(TraceSpan::Lane::kCompute, "forward", 0)});
  EXPECT_EQ(events[1]["args"]["name"], "compute");
  TakeTime(&events[2]);
  EXPECT_EQ(events[2], json::parse(R"({"name": "forward", "cat": "compute", "ph": "X", "pid": 2,
    "tid": 1, "dur": 250.0, "args": {"step": 7}})"));
}

TEST_F(TraceLogTest, Transfer_HasAThreadOfItsBucket) {
  const json events = EventsOf({Span(TraceSpan::Lane::kTransfer, "bucket", 1)});
  EXPECT_EQ(events[2]["args"]["name"], "transfer of bucket 1");
  EXPECT_EQ(events[2]["tid"], events[3]["tid"]);
  EXPECT_EQ(events[3]["name"], "bucket 1");
  EXPECT_EQ(events[3]["cat"], "transfer");
}

TEST_F(TraceLogTest, ManyTransfers_ThreadsAreNamedOnce) {
  const json events = EventsOf({Span(TraceSpan::Lane::kTransfer, "bucket", 0),
                                Span(TraceSpan::Lane::kTransfer, "bucket", 0)});
  EXPECT_EQ(events.size(), 5u) << events;
}

TEST_F(TraceLogTest, Sums_AreAsynchronousEventsWithIdsOfTheirOwn) {
  json events = EventsOf({Span(TraceSpan::Lane::kAggregation, "fold", 4),
                          Span(TraceSpan::Lane::kAggregation, "fold", 4)});
  EXPECT_NEAR(events[2]["ts"].get<double>() - events[1]["ts"].get<double>(), 250, 1);
  TakeTime(&events[1]);
  EXPECT_EQ(events[1], json::parse(R"({"name": "fold bucket 4", "cat": "aggregation", "ph": "b",
    "pid": 2, "tid": 0, "id": 8589934593, "args": {"step": 7}})"));
  EXPECT_EQ(events[2]["ph"], "e");
  EXPECT_EQ(events[3]["id"], 8589934594);  // the process is in it
}

TEST_F(TraceLogTest, SetClockOffset_FileIsCutOff_HasItAndWhatCameBefore) {
  const auto log = TraceLog::Open(path_, 2, "rank 2");
  ASSERT_TRUE(log.ok()) << log.status();
  (*log)->Add(Span(TraceSpan::Lane::kCompute, "forward", 0));
  (*log)->SetClockOffset(absl::Microseconds(20));
  EXPECT_THAT(ReadFile(path_), HasSubstr("forward"));
  EXPECT_THAT(ReadFile(path_), HasSubstr("{\"microseconds\":20.000}},\n"));
}

TEST_F(TraceLogTest, Open_NoSuchFolder_SaysSo) {
  const absl::Status status = TraceLog::Open(dir_.File("none/trace"), 0, "rank 0").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("none/trace: no such file or directory"));
}

TEST(TraceLog, FullDisk_CloseSaysSo) {
  auto log = TraceLog::Open("/dev/full", 0, "rank 0");
  ASSERT_TRUE(log.ok()) << log.status();
  const absl::Status status = (*log)->Close(absl::ZeroDuration());
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/dev/full: no space left on device"));
}

}  // namespace
}  // namespace gradwire
