#include "cli/report/report_html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/launch/log_lines.h"

namespace gradwire {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::MakeLog;
using ::testing::Not;

ReportPage Page() {
  ReportPage page;
  page.runs = {Describe(MakeRun("<ddp>", {MakeLog("a", 0)}).value())};
  page.figures = {{"Loss", "It <falls>.", "<svg>drawn</svg>"}};
  page.notes = {"One & two."};
  page.runs_csv = "r.runs.csv";
  page.steps_csv = "r.steps.csv";
  return page;
}

TEST(ToHtml, Run_IsARowOfTheTable) {
  EXPECT_THAT(ToHtml(Page()), HasSubstr("<tr><td>&lt;ddp&gt;</td><td>1</td><td>3</td>"
                                        "<td>500.0</td><td>500.0</td><td>0.0</td><td>100.0</td>"
                                        "<td>350.0</td><td>200.0</td><td>50.0</td><td>10</td>"
                                        "<td>0.0</td><td>16.0</td><td>1.00</td><td>2.0000</td>"
                                        "<td>1.8000</td></tr>"));
}

TEST(ToHtml, NotMeasured_IsADash) {
  ReportPage page = Page();
  page.runs = {Describe(MakeRun("r", {MakeLog("a", 0, 1)}).value())};
  EXPECT_THAT(ToHtml(page), HasSubstr("<td>r</td><td>1</td><td>1</td><td>–</td><td>–</td>"));
}

TEST(ToHtml, Bottleneck_StandsBelowTheTable) {
  EXPECT_THAT(ToHtml(Page()), HasSubstr("<li>&lt;ddp&gt;: Bottleneck: computation"));
}

TEST(ToHtml, Figure_IsWithinThePage) {
  EXPECT_THAT(ToHtml(Page()), AllOf(HasSubstr("<svg>drawn</svg>"), HasSubstr("It &lt;falls&gt;.")));
}

TEST(ToHtml, Notes_AreListed) {
  EXPECT_THAT(ToHtml(Page()), HasSubstr("<h2>Notes</h2>\n<ul>\n<li>One &amp; two.</li>"));
}

TEST(ToHtml, NoNotes_HaveNoTitle) {
  ReportPage page = Page();
  page.notes.clear();
  EXPECT_THAT(ToHtml(page), Not(HasSubstr("Notes")));
}

TEST(ToHtml, CsvFiles_AreNamed) {
  EXPECT_THAT(ToHtml(Page()), HasSubstr("r.runs.csv and r.steps.csv"));
}

TEST(ToHtml, Page_RefersToNothingElse) {
  const std::string html = ToHtml(Page());
  for (const char* reference : {"src=", "href=", "@import", "url(", "http"}) {
    EXPECT_THAT(html, Not(HasSubstr(reference)));
  }
}

TEST(EscapeHtml, SpecialCharacters_AreReplaced) {
  EXPECT_EQ(EscapeHtml("<a href=\"b\">'&'</a>"),
            "&lt;a href=&quot;b&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
}

}  // namespace
}  // namespace gradwire
