#include "common/base/clock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace gradwire {
namespace {

namespace fs = std::filesystem;

// What is told as a time of day: `time` of a record, an event or a page, two machines' clocks
// side by side, the date of a measurement, what is compared with the dates of files.
bool IsTimeOfDay(absl::string_view line) {
  for (const char* allowed :
       {"UnixSeconds(absl::Now())", "record.time = absl::Now();", "history_",
        "recovery.gone_on = absl::Now();", "AddEvent({absl::Now()", "{absl::Now(), step",
        "{absl::Now(), loss.step", "const absl::Time begun = absl::Now();",
        "const absl::Time begun_ = absl::Now();", "FormatTime(", "manifest.time = absl::Now();",
        "{absl::Now(), run.step", "SetCheckpoint(kept.step, absl::Now()"}) {
    if (absl::StrContains(line, allowed)) return true;
  }
  return false;
}

// Lines of C++ that read a clock which somebody may set, for something else.
std::vector<std::string> SettableClocksIn(const fs::path& folder) {
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name == "clock.h" || !(absl::EndsWith(name, ".cc") || absl::EndsWith(name, ".h"))) continue;
    std::ifstream file(entry.path());
    std::string line;
    while (std::getline(file, line)) {
      const bool reads =
          absl::StrContains(line, "absl::Now()") || absl::StrContains(line, "system_clock");
      if (reads && !IsTimeOfDay(line)) found.push_back(absl::StrCat(entry.path().string(), line));
    }
  }
  return found;
}

TEST(Clock, Sources_DeadlinesAndDurations_OnTheSteadyClock) {
  for (const char* folder : {"bench", "cli", "common", "coordinator", "library", "worker"}) {
    EXPECT_THAT(SettableClocksIn(fs::path(GRADWIRE_SOURCE_DIR) / folder), ::testing::IsEmpty());
  }
}

TEST(Clock, ToTimeOfDay_SteadyNow_IsNow) {
  const absl::Duration off = ToTimeOfDay(SteadyNow()) - absl::Now();
  EXPECT_LT(absl::AbsDuration(off), absl::Seconds(1));
}

TEST(Clock, ToGrpcDeadline_InAMinute_IsAMinuteAhead) {
  const auto deadline = ToGrpcDeadline(SteadyNow() + absl::Minutes(1));
  const absl::Duration ahead = absl::FromChrono(deadline) - absl::Now();
  EXPECT_LT(absl::AbsDuration(ahead - absl::Minutes(1)), absl::Seconds(1));
  const absl::Duration back = FromGrpcDeadline(deadline) - SteadyNow();
  EXPECT_LT(absl::AbsDuration(back - absl::Minutes(1)), absl::Seconds(1));
}

}  // namespace
}  // namespace gradwire
