#ifndef GRADWIRE_CLI_REPORT_REPORT_FIGURES_H_
#define GRADWIRE_CLI_REPORT_REPORT_FIGURES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "cli/report/report_stats.h"

namespace gradwire {

// A figure before it is drawn.
struct Figure {
  std::string key;      // a word: "loss"
  std::string title;    // of the figure
  std::string caption;  // a sentence that says what is shown
  std::string script;   // gnuplot's; writes SVG to stdout
};

// Iteration time, phases, loss, and scaling, in this order; without those that
// the runs have no values for: times need two iterations, scaling two numbers of
// ranks of one set-up. Pure; of a long run's loss, means of neighbouring steps.
std::vector<Figure> MakeFigures(const std::vector<RunStats>& runs);

// A name as gnuplot may get it: characters that mean something to it are replaced.
std::string PlainLabel(absl::string_view name);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_REPORT_REPORT_FIGURES_H_
