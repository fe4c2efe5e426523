#include "common/base/token.h"

#include <openssl/crypto.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace gradwire {
namespace {

constexpr size_t kLeast = 16;
constexpr size_t kMost = 1024;
constexpr size_t kRandomBytes = 32;

absl::Status CheckToken(absl::string_view token) {
  if (token.size() < kLeast || token.size() > kMost) {
    return absl::InvalidArgumentError(
        absl::StrCat("got ", token.size(), " characters, expected ", kLeast, " to ", kMost));
  }
  const auto is_plain = [](char c) { return absl::ascii_isgraph(static_cast<unsigned char>(c)); };
  if (std::all_of(token.begin(), token.end(), is_plain)) return absl::OkStatus();
  return absl::InvalidArgumentError("got white space or a character outside ASCII in the token");
}

void WarnIfPublic(const std::string& path) {
  std::error_code error;
  const auto permissions = std::filesystem::status(path, error).permissions();
  const bool is_public =
      (permissions & std::filesystem::perms::others_read) != std::filesystem::perms::none;
  if (!error && is_public) {
    spdlog::warn("all users of this host can read the token in '{}'; restrict it with chmod 600",
                 path);
  }
}

}  // namespace

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  std::ifstream file(path);
  if (file) file.peek();  // a folder can be opened but not read
  if (!file.is_open() || file.bad()) {
    return absl::NotFoundError(absl::StrCat("--token-file: cannot read '", path, "'"));
  }
  std::string text;
  for (char c; text.size() <= 2 * kMost && file.get(c);) text.push_back(c);
  absl::StripTrailingAsciiWhitespace(&text);
  if (absl::Status status = CheckToken(text); !status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--token-file: no token is in '", path, "': ", status.message()));
  }
  WarnIfPublic(path);
  return text;
}

std::string MakeToken() {
  std::random_device device;
  std::string bytes;
  while (bytes.size() < kRandomBytes) bytes.push_back(static_cast<char>(device()));
  return absl::BytesToHexString(bytes);
}

bool IsSameToken(absl::string_view said, absl::string_view expected) {
  return said.size() == expected.size() &&
         CRYPTO_memcmp(said.data(), expected.data(), expected.size()) == 0;
}

}  // namespace gradwire
