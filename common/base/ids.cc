#include "common/base/ids.h"

#include <random>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"

namespace gradwire {

std::string ToHex(const RunId& run_id) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(run_id.data()), run_id.size()));
}

RunId MakeRunId() {
  std::random_device device;
  RunId run_id;
  for (auto& byte : run_id) byte = static_cast<uint8_t>(device());
  return run_id;
}

Incarnation MakeIncarnation() {
  std::random_device device;
  return Incarnation((static_cast<uint64_t>(device()) << 32) | device());
}

}  // namespace gradwire
