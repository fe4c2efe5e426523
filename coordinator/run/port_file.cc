#include "coordinator/run/port_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace gradwire {

absl::Status WritePortFile(const std::string& path, const std::string& grpc,
                           const std::string& metrics) {
  // Renamed into place, so that nobody reads half of it.
  const std::string draft = path + ".tmp";
  std::ofstream file(draft);
  file << "grpc=" << grpc << "\n";
  if (!metrics.empty()) file << "metrics=" << metrics << "\n";
  file.close();
  if (file && std::rename(draft.c_str(), path.c_str()) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("cannot write port file ", path, ": ",
                                                    absl::AsciiStrToLower(std::strerror(errno))));
}

}  // namespace gradwire
