#include "common/telemetry/host_names.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace gradwire {
namespace {

// RFC 6761, 6762, 8375, and those of clusters.
constexpr absl::string_view kPrivateDomains[] = {".local", ".localhost", ".internal", ".home.arpa",
                                                 ".test",  ".svc",       ".cluster"};

absl::string_view WithoutPort(absl::string_view host) {
  if (absl::ConsumePrefix(&host, "[")) return host.substr(0, host.find(']'));
  return host.substr(0, host.find(':'));
}

bool IsNumeric(const std::string& name) {
  unsigned char address[16];
  return inet_pton(AF_INET, name.c_str(), address) == 1 ||
         inet_pton(AF_INET6, name.c_str(), address) == 1;
}

std::string NameOfThisHost() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? absl::AsciiStrToLower(name) : "";
}

}  // namespace

bool IsOurs(absl::string_view host, const std::vector<std::string>& names) {
  const std::string name = absl::AsciiStrToLower(absl::StripSuffix(WithoutPort(host), "."));
  if (!absl::StrContains(name, ".") || IsNumeric(name)) return true;
  const bool is_private =
      std::any_of(std::begin(kPrivateDomains), std::end(kPrivateDomains),
                  [&](absl::string_view domain) { return absl::EndsWith(name, domain); });
  return is_private || name == NameOfThisHost() ||
         std::any_of(names.begin(), names.end(),
                     [&](const std::string& own) { return absl::EqualsIgnoreCase(own, name); });
}

}  // namespace gradwire
