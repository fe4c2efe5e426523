#include "common/telemetry/http_token.h"

#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "common/base/token.h"

namespace gradwire {

bool ShowsToken(absl::string_view authorization, absl::string_view token) {
  const std::pair<absl::string_view, absl::string_view> words =
      absl::StrSplit(authorization, absl::MaxSplits(' ', 1));
  const absl::string_view said = absl::StripAsciiWhitespace(words.second);
  if (absl::EqualsIgnoreCase(words.first, "Bearer")) return IsSameToken(said, token);
  std::string text;
  if (!absl::EqualsIgnoreCase(words.first, "Basic") || !absl::Base64Unescape(said, &text)) {
    return false;
  }
  const size_t colon = text.find(':');
  return colon != std::string::npos &&
         IsSameToken(absl::string_view(text).substr(colon + 1), token);
}

}  // namespace gradwire
