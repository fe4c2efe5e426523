#include "cli/terminal/script.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/program_files.h"

namespace gradwire {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kPython[] = "/usr/bin/python3";  // Debian's, which finds Debian's packages

// What is not UTF-8 would reach the script as another name.
absl::StatusOr<std::string> Utf8(const Json& data) {
  const std::string text = data.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text == data.dump(-1, ' ', false, Json::error_handler_t::ignore)) return text;
  return absl::InvalidArgumentError(absl::StrCat("got a text that is not UTF-8, in ", text));
}

std::vector<char*> Pointers(std::vector<std::string>* texts) {
  std::vector<char*> pointers;
  for (std::string& text : *texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

absl::Status BecomeScript(absl::string_view name, const Json& data,
                          const Environment& environment) {
  const absl::StatusOr<std::string> text = Utf8(data);
  if (!text.ok()) return text.status();
  const std::string script = PrivateFile(name);
  if (access(script.c_str(), R_OK) != 0) {
    return absl::NotFoundError(absl::StrCat("no '", script, "'; it is installed with gradwire"));
  }
  std::vector<std::string> args = {kPython, "-E", "-s", "-B", script, *text};
  std::vector<std::string> variables;
  for (const auto& [variable, value] : environment) {
    variables.push_back(absl::StrCat(variable, "=", value));
  }
  execve(kPython, Pointers(&args).data(), Pointers(&variables).data());
  return absl::FailedPreconditionError(
      absl::StrCat("cannot start '", kPython, "': ", std::strerror(errno)));
}

}  // namespace gradwire
