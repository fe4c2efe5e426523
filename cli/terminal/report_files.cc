#include "cli/terminal/report_files.h"

#include <utility>

#include "common/base/output_file.h"
#include "common/base/status_util.h"

namespace gradwire {

absl::Status CheckWritable(const ReportFiles& files) {
  const std::pair<const char*, const std::string&> outputs[] = {
      {"--json", files.json}, {"--csv", files.csv}, {"--markdown", files.markdown}};
  for (const auto& [option, file] : outputs) {
    const absl::Status status = file.empty() ? absl::OkStatus() : CheckWritable(file);
    if (!status.ok()) return Annotate(status, option);
  }
  return absl::OkStatus();
}

nlohmann::ordered_json ToJson(const ReportFiles& files) {
  return {{"json", files.json}, {"csv", files.csv}, {"markdown", files.markdown}};
}

}  // namespace gradwire
