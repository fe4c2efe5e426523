#include "bench/machine.h"

#include <grpcpp/grpcpp.h>
#include <sched.h>
#include <sys/utsname.h>

#include <fstream>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/blas.h"

namespace gradwire {
namespace {

int Cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
}

std::string Kernel() {
  utsname name = {};
  return uname(&name) == 0 ? absl::StrCat(name.sysname, " ", name.release) : "unknown";
}

}  // namespace

std::string CpuModel(const std::string& cpuinfo) {
  for (absl::string_view line : absl::StrSplit(cpuinfo, '\n')) {
    if (!absl::StartsWith(line, "model name")) continue;
    return std::string(absl::StripAsciiWhitespace(line.substr(line.find(':') + 1)));
  }
  return "unknown";
}

nlohmann::ordered_json DescribeMachine() {
  std::ifstream file("/proc/cpuinfo");
  const std::string cpuinfo{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const absl::StatusOr<Blas> blas = FindBlas();
  return {{"date", absl::FormatTime("%Y-%m-%d %H:%M UTC", absl::Now(), absl::UTCTimeZone())},
          {"cores", Cores()},
          {"cpu", CpuModel(cpuinfo)},
          {"kernel", Kernel()},
          {"blas", blas.ok() ? Describe(*blas) : std::string(blas.status().message())},
          {"gradwire", GRADWIRE_VERSION},
          {"grpc", grpc::Version()}};
}

std::string MarkdownList(const nlohmann::ordered_json& fields) {
  std::string text;
  for (const auto& [key, value] : fields.items()) {
    absl::StrAppend(&text, "- ", key, ": ",
                    value.is_string() ? value.get<std::string>() : value.dump(), "\n");
  }
  return text;
}

}  // namespace gradwire
