#include "coordinator/run/port_file.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/output_file.h"

namespace gradwire {

absl::Status WritePortFile(const std::string& path, const std::string& grpc,
                           const std::string& metrics) {
  std::string text = absl::StrCat("grpc=", grpc, "\n");
  if (!metrics.empty()) absl::StrAppend(&text, "metrics=", metrics, "\n");
  // Renamed into place, so that nobody reads half of it.
  const absl::Status written = ReplaceFile(path, text);
  if (written.ok()) return written;
  return absl::FailedPreconditionError(absl::StrCat(
      "cannot write port file ", absl::StripPrefix(written.message(), "cannot write ")));
}

}  // namespace gradwire
