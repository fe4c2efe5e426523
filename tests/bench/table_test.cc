#include "bench/table.h"

#include <gtest/gtest.h>

#include "bench/report.h"

namespace gradwire {
namespace {

const std::vector<TableColumn>& Columns() {
  static const auto* const columns =
      new std::vector<TableColumn>{{"size", "size (B)"}, {"name", "name"}, {"time", "time (s)", 2}};
  return *columns;
}

TableRows Rows() {
  return {{{"size", 36924456}, {"name", "ring"}, {"time", 0.4567}},
          {{"size", 4}, {"name", "a,\"b\""}, {"time", nullptr}}};
}

TEST(MarkdownTable, NumbersTextsAndGaps_AreLinedUp) {
  EXPECT_EQ(MarkdownTable(Columns(), Rows()),
            "|   size (B) | name  | time (s) |\n"
            "| ---------: | ----- | -------: |\n"
            "| 36,924,456 | ring  |     0.46 |\n"
            "|          4 | a,\"b\" |          |\n");
}

TEST(MarkdownTable, NoRows_IsAHead) {
  EXPECT_EQ(MarkdownTable({{"a", "a"}}, {}), "|   a |\n| --: |\n");
}

TEST(CsvTable, NumbersTextsAndGaps_AreExact) {
  EXPECT_EQ(CsvTable(Columns(), Rows()),
            "size,name,time\n"
            "36924456,ring,0.4567\n"
            "4,\"a,\"\"b\"\"\",\n");
}

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
