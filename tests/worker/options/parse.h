#ifndef GRADWIRE_TESTS_WORKER_OPTIONS_PARSE_H_
#define GRADWIRE_TESTS_WORKER_OPTIONS_PARSE_H_

#include <string>
#include <vector>

#include "worker/options/worker_option_parser.h"

namespace gradwire::testing {

inline absl::StatusOr<Parsed<WorkerOptions>> Parse(const std::vector<std::string>& args,
                                                   const Environment& environment = {}) {
  return ParseWorkerOptions(args, environment);
}

inline std::string ErrorOf(const std::vector<std::string>& args,
                           const Environment& environment = {}) {
  return std::string(Parse(args, environment).status().message());
}

}  // namespace gradwire::testing

#endif  // GRADWIRE_TESTS_WORKER_OPTIONS_PARSE_H_
