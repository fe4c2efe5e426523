#ifndef GRADWIRE_CLI_REPORT_REPORT_HTML_H_
#define GRADWIRE_CLI_REPORT_REPORT_HTML_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "cli/report/report_stats.h"

namespace gradwire {

// A figure as it stands in the page.
struct DrawnFigure {
  std::string title;
  std::string caption;
  std::string svg;  // an <svg> element
};

// What a report shows.
struct ReportPage {
  std::vector<RunStats> runs;
  std::vector<DrawnFigure> figures;
  std::vector<std::string> notes;  // sentences
  std::string runs_csv;            // names of the files beside it
  std::string steps_csv;
};

// One HTML page, complete in itself: it refers to nothing else.
std::string ToHtml(const ReportPage& page);

// `text` with what HTML would read as its own replaced.
std::string EscapeHtml(absl::string_view text);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_REPORT_REPORT_HTML_H_
