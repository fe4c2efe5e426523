#include "bench/report.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

TEST(ToMarkdown, Report_HasCommandEnvironmentTablesAndNotes) {
  const Report report{"Title",
                      "gradwire bench x",
                      {{"cores", 2}},
                      {"A note."},
                      {{"rows", "Part", {{"a", "a"}}, {{{"a", 1}}}}}};
  EXPECT_EQ(ToMarkdown(report),
            "## Title\n\n    gradwire bench x\n\n- cores: 2\n\nPart:\n\n"
            "|   a |\n| --: |\n|   1 |\n\nA note.\n");
}

TEST(ToJson, Report_HasRowsUnderTheirKey) {
  const Report report{"T", "c", {{"cores", 2}}, {}, {{"rows", "", {}, {{{"a", 1.5}}}}}};
  const auto json = nlohmann::json::parse(ToJson(report));
  EXPECT_EQ(json["rows"][0]["a"], 1.5);
  EXPECT_EQ(json["environment"]["cores"], 2);
}

TEST(CheckWritable, NoSuchFolder_NamesTheOption) {
  ReportFiles files;
  files.csv = "/no/such/folder/x.csv";
  const absl::Status status = CheckWritable(files);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message().substr(0, 6), "--csv:");
}

}  // namespace
}  // namespace gradwire
