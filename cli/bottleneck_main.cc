// gradwire-bottleneck: `gradwire report` gives it a JSON array on stdin, for each run what
// `gradwire launch --summary` writes of one. It says what holds up each of them, as `gradwire
// launch` does: a line each.
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/launch/launch_report.h"
#include "common/base/status_util.h"

int main() {
  const auto runs = nlohmann::ordered_json::parse(std::cin, nullptr, /*allow_exceptions=*/false);
  if (!runs.is_array()) {
    std::cerr << "gradwire-bottleneck: expected a JSON array on stdin" << std::endl;
    return gradwire::kExitUsage;
  }
  for (const auto& run : runs) std::cout << gradwire::BottleneckSentence(run, 0) << "\n";
  std::cout.flush();
  return std::cout.good() ? gradwire::kExitDone : gradwire::kExitFailed;
}
