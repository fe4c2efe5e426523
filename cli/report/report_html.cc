#include "cli/report/report_html.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace gradwire {
namespace {

constexpr char kHead[] = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Gradwire report</title>
<style>
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 1.5rem auto; max-width: 78rem;
       padding: 0 1rem; }
h2 { margin: 2rem 0 .5rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .8rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .35rem; text-align: right; white-space: nowrap;
         border-bottom: 1px solid #8886; }
th:first-child, td:first-child { text-align: left; }
figure { margin: 0; }
figure svg { background: #fff; height: auto; max-width: 100%; }
figcaption { max-width: 50rem; opacity: .8; }
</style>
</head>
<body>
<h1>Gradwire report</h1>
)";

constexpr const char* kTitles[] = {"run",           "ranks",   "steps",      "median ms",
                                   "p90 ms",        "data",    "forward",    "backward",
                                   "communication", "exposed", "exposed %",  "optimizer",
                                   "samples/s",     "MB sent", "first loss", "last loss"};

std::string Number(double value, int digits) {
  return std::isfinite(value) ? absl::StrFormat("%.*f", digits, value) : "–";
}

std::vector<std::string> Cells(const RunStats& run) {
  const PhaseSeconds& phases = run.phases;
  const auto milliseconds = [](double seconds) { return Number(seconds * 1000, 1); };
  return {EscapeHtml(run.name),
          absl::StrCat(run.ranks),
          absl::StrCat(run.steps),
          milliseconds(run.iteration.p50),
          milliseconds(run.iteration.p90),
          milliseconds(phases.data),
          milliseconds(phases.forward),
          milliseconds(phases.backward),
          milliseconds(phases.communication),
          milliseconds(phases.exposed_communication),
          Number(phases.exposed_communication / run.iteration.mean * 100, 0),
          milliseconds(phases.optimizer),
          Number(run.samples_per_second, 1),
          Number(run.bytes_sent / 1e6, 2),
          Number(run.first_loss, 4),
          Number(run.last_loss, 4)};
}

std::string Table(const std::vector<RunStats>& runs) {
  std::string html = "<div class=\"wide\"><table>\n<tr>";
  for (const char* title : kTitles) absl::StrAppend(&html, "<th>", title, "</th>");
  html += "</tr>\n";
  for (const RunStats& run : runs) {
    html += "<tr>";
    for (const std::string& cell : Cells(run)) absl::StrAppend(&html, "<td>", cell, "</td>");
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

std::string List(const std::vector<std::string>& sentences) {
  std::string html = "<ul>\n";
  for (const std::string& sentence : sentences) {
    absl::StrAppend(&html, "<li>", EscapeHtml(sentence), "</li>\n");
  }
  return html + "</ul>\n";
}

std::string Overview(const ReportPage& page) {
  std::string html = absl::StrCat(
      "<h2>Runs</h2>\n", Table(page.runs),
      "<p>Phases are means in milliseconds over all ranks and iterations but each rank's first; "
      "MB sent: of a rank in an iteration.</p>\n");
  std::vector<std::string> bottlenecks;
  for (const RunStats& run : page.runs) {
    bottlenecks.push_back(absl::StrCat(run.name, ": ", run.bottleneck));
  }
  html += List(bottlenecks);
  if (!page.notes.empty()) absl::StrAppend(&html, "<h2>Notes</h2>\n", List(page.notes));
  return html;
}

}  // namespace

std::string EscapeHtml(absl::string_view text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

std::string ToHtml(const ReportPage& page) {
  std::string html = absl::StrCat(kHead, Overview(page));
  for (const DrawnFigure& figure : page.figures) {
    absl::StrAppend(&html, "<h2>", EscapeHtml(figure.title), "</h2>\n<figure>\n", figure.svg,
                    "\n<figcaption>", EscapeHtml(figure.caption), "</figcaption>\n</figure>\n");
  }
  absl::StrAppend(&html, "<p>The figures' values are in ", EscapeHtml(page.runs_csv), " and ",
                  EscapeHtml(page.steps_csv), ".</p>\n</body>\n</html>\n");
  return html;
}

}  // namespace gradwire
