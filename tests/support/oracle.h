#ifndef GRADWIRE_TESTS_SUPPORT_ORACLE_H_
#define GRADWIRE_TESTS_SUPPORT_ORACLE_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gradwire::testing {

// What tests/oracle/SCRIPT says on its standard output, run with Debian's own
// Python. FailedPrecondition if that has no torch (the message says how to get
// it); Internal, with what the script wrote, if it fails.
absl::StatusOr<nlohmann::json> AskOracle(absl::string_view script,
                                         const std::vector<std::string>& arguments);

}  // namespace gradwire::testing

#endif  // GRADWIRE_TESTS_SUPPORT_ORACLE_H_
