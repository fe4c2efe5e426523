#ifndef GRADWIRE_CLI_REPORT_GNUPLOT_H_
#define GRADWIRE_CLI_REPORT_GNUPLOT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/environment.h"

namespace gradwire {

// The program `gnuplot` in PATH (of `environment`; /usr/bin if that is not set).
// FailedPrecondition names the Debian package that has it.
absl::StatusOr<std::string> FindGnuplot(const Environment& environment);

// Runs `gnuplot`, a path, on `script` and gives what it wrote to stdout, SVG, as
// an element for an HTML page: from <svg on, its ids beginning with `key`.
// Internal: gnuplot failed, with what it said, or wrote no SVG; or no file for the
// script could be made.
absl::StatusOr<std::string> DrawSvg(const std::string& gnuplot, absl::string_view key,
                                    absl::string_view script);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_REPORT_GNUPLOT_H_
