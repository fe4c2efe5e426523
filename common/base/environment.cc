#include "common/base/environment.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/plain_text.h"

namespace gradwire {

namespace {

constexpr absl::string_view kPrefix = "GRADWIRE_";

// The variables of all programs' options, without kPrefix, because several programs usually share
// one environment. Also the variable that belongs to no option.
const std::vector<std::string>& KnownVariables() {
  static const auto* const known = [] {
    auto* names = new std::vector<std::string>;
    for (const char* option : {
#include "options/option_names.inc"
             "progress",
         }) {
      names->push_back(VariableOf(option).substr(kPrefix.size()));
    }
    return names;
  }();
  return *known;
}

}  // namespace

Environment CurrentEnvironment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string::npos) continue;
    environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

std::string Value(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

std::string VariableOf(absl::string_view option) {
  return absl::StrCat(kPrefix, absl::AsciiStrToUpper(absl::StrReplaceAll(option, {{"-", "_"}})));
}

std::vector<std::string> UnknownVariables(const Environment& environment) {
  const std::vector<std::string>& known = KnownVariables();
  std::vector<std::string> sentences;
  for (const auto& [name, value] : environment) {
    if (!absl::StartsWith(name, kPrefix)) continue;
    const std::string option = name.substr(kPrefix.size());
    if (std::find(known.begin(), known.end(), option) != known.end()) continue;
    sentences.push_back(
        absl::StrCat("unknown environment variable ", name, DidYouMean(option, known, kPrefix)));
  }
  return sentences;
}

std::string ProgramDir() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

std::string PrivateFile(absl::string_view name) {
  const std::string file(name);
  std::error_code error;
  const std::filesystem::path dir = ProgramDir();
  if (std::filesystem::exists(dir / file, error)) return (dir / file).string();
  return (dir.parent_path() / "libexec" / "gradwire" / file).string();
}

}  // namespace gradwire
