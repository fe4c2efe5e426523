#include "cli/report/gnuplot.h"

#include <unistd.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "cli/bench/job_group.h"
#include "cli/terminal/scratch_dir.h"
#include "common/base/output_file.h"

namespace gradwire {
namespace {

constexpr absl::Duration kTimeToDraw = absl::Seconds(60);

// Without the lines in front of it, which only a file of its own has; several
// figures of one page must not share ids.
absl::StatusOr<std::string> ToElement(absl::string_view key, const std::string& svg) {
  const size_t begin = svg.find("<svg");
  const size_t end = svg.rfind("</svg>");
  if (begin == std::string::npos || end == std::string::npos) {
    return absl::InternalError("gnuplot drew no figure");
  }
  const std::string prefix = absl::StrCat(key, "-");
  return absl::StrReplaceAll(svg.substr(begin, end + 6 - begin),
                             {{" id='", absl::StrCat(" id='", prefix)},
                              {" id=\"", absl::StrCat(" id=\"", prefix)},
                              {"href='#", absl::StrCat("href='#", prefix)},
                              {"url(#", absl::StrCat("url(#", prefix)}});
}

}  // namespace

absl::StatusOr<std::string> FindGnuplot(const Environment& environment) {
  std::string path = Value(environment, "PATH");
  if (path.empty()) path = "/usr/bin";
  for (absl::string_view folder : absl::StrSplit(path, ':', absl::SkipEmpty())) {
    const std::string program = absl::StrCat(folder, "/gnuplot");
    if (access(program.c_str(), X_OK) == 0) return program;
  }
  return absl::FailedPreconditionError(
      "gnuplot, which draws the figures, is not in PATH: install Debian's package gnuplot-nox");
}

absl::StatusOr<std::string> DrawSvg(const std::string& gnuplot, absl::string_view key,
                                    absl::string_view script) {
  const ScratchDir scratch;
  if (scratch.path().empty()) {
    return absl::InternalError("cannot make a folder for temporary files (TMPDIR)");
  }
  const std::string file = absl::StrCat(scratch.path(), "/", key, ".gnuplot");
  const absl::Status written = ReplaceFile(file, script);
  if (!written.ok()) return written;
  const Job job{"gnuplot",
                {{gnuplot, "--default-settings", file}, {{"LC_ALL", "C.UTF-8"}}},
                /*serves=*/false};
  const absl::StatusOr<std::string> svg = RunJob(job, kTimeToDraw, [] { return false; });
  if (!svg.ok()) return absl::InternalError(svg.status().message());
  return ToElement(key, *svg);
}

}  // namespace gradwire
