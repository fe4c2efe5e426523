#include "cli/bench/cpu_sampler.h"

#include <unistd.h>

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/terminal/scratch_dir.h"

namespace gradwire {
namespace {

constexpr size_t kNameLength = 15;  // of a process in /proc
constexpr size_t kUserField = 11;   // proc(5): fields 14 and 15, counted behind the name
constexpr size_t kSystemField = 12;

}  // namespace

absl::optional<double> CpuTicks(const std::string& stat, const std::string& program) {
  const size_t open = stat.find('('), close = stat.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  if (stat.substr(open + 1, close - open - 1) != program.substr(0, kNameLength)) return {};
  const std::vector<std::string> fields =
      absl::StrSplit(stat.substr(close + 1), ' ', absl::SkipWhitespace());
  double user = 0, system = 0;
  if (fields.size() <= kSystemField || !absl::SimpleAtod(fields[kUserField], &user) ||
      !absl::SimpleAtod(fields[kSystemField], &system)) {
    return {};
  }
  return user + system;
}

void CpuSampler::Sample(pid_t pid) {
  const auto ticks = CpuTicks(ReadFile(absl::StrCat("/proc/", pid, "/stat")), program_);
  if (!ticks.has_value()) return;
  last_ = *ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  if (!first_.has_value()) first_ = last_;
}

absl::optional<double> CpuSampler::seconds() const {
  if (!first_.has_value()) return {};
  return last_ - *first_;
}

}  // namespace gradwire
