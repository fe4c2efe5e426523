#include "common/base/plain_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gradwire {
namespace {

bool IsControl(unsigned char byte) { return byte < 0x20 || byte == 0x7f; }

// U+0080 to U+009F are C2 80 to C2 9F.
bool IsLateControl(absl::string_view text) {
  return text.size() >= 2 && text[0] == '\xc2' && static_cast<unsigned char>(text[1]) < 0xa0;
}

bool ContinuesCharacter(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

}  // namespace

std::string WithoutControls(absl::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const bool late = IsLateControl(text.substr(i));
    if (late) ++i;
    const auto byte = static_cast<unsigned char>(text[i]);
    if (late || IsControl(byte)) {
      absl::StrAppendFormat(&plain, "\\x%02x", byte);
    } else {
      plain.push_back(text[i]);
    }
  }
  return plain;
}

std::string Shortened(absl::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  while (most > 0 && ContinuesCharacter(text[most])) --most;
  return absl::StrCat(text.substr(0, most), "…");
}

}  // namespace gradwire
