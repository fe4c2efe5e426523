#include "cli/terminal/script.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/environment.h"
#include "common/base/output_file.h"
#include "common/base/status_util.h"

namespace gradwire {

namespace {

using Json = nlohmann::ordered_json;

constexpr char kPython[] = "/usr/bin/python3";  // Debian's, which finds Debian's packages

// Characters that no shell takes for anything else.
constexpr char kPlain[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";

std::string ShellWord(const std::string& arg) {
  const bool plain = !arg.empty() && arg.find_first_not_of(kPlain) == std::string::npos;
  return plain ? arg : absl::StrCat("'", absl::StrReplaceAll(arg, {{"'", "'\\''"}}), "'");
}

// InvalidArgument if `data` is not UTF-8: the script would read a different name.
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

// The command line. Errors as BecomeScript. "-X utf8": file names are UTF-8 in every locale.
absl::StatusOr<std::vector<std::string>> ArgumentsOf(absl::string_view name, const Json& data,
                                                     const std::vector<std::string>& operands) {
  const absl::StatusOr<std::string> text = Utf8(data);
  if (!text.ok()) return text.status();
  const std::string script = PrivateFile(name);
  if (access(script.c_str(), R_OK) != 0) {
    return absl::NotFoundError(absl::StrCat("no '", script, "'; it is installed with gradwire"));
  }
  std::vector<std::string> args = {kPython, "-E", "-s", "-B", "-X", "utf8", script, *text};
  args.insert(args.end(), operands.begin(), operands.end());
  return args;
}

}  // namespace

absl::Status BecomeScript(absl::string_view name, const Json& data, const Environment& environment,
                          const std::vector<std::string>& operands) {
  absl::StatusOr<std::vector<std::string>> args = ArgumentsOf(name, data, operands);
  if (!args.ok()) return args.status();
  std::vector<std::string> variables;
  for (const auto& [variable, value] : environment) {
    variables.push_back(absl::StrCat(variable, "=", value));
  }
  execve(kPython, Pointers(&*args).data(), Pointers(&variables).data());
  return absl::FailedPreconditionError(
      absl::StrCat("cannot start '", kPython, "': ", std::strerror(errno)));
}

std::string CommandLine(absl::string_view program, const std::vector<std::string>& args) {
  std::string line(program);
  for (const std::string& arg : args) absl::StrAppend(&line, " ", ShellWord(arg));
  return line;
}

int RunCommand(absl::string_view program, const absl::StatusOr<Parsed<ScriptCall>>& parsed,
               const Environment& environment) {
  if (const absl::optional<int> exit_code = EarlyExit(program, parsed)) return *exit_code;
  const ScriptCall& call = parsed->options;
  const absl::Status status = BecomeScript(call.name, call.data, environment, call.operands);
  std::cerr << program << ": " << status.message() << std::endl;
  return ExitCode(status);
}

absl::Status CheckWritable(const ReportFiles& files) {
  const std::pair<const char*, const std::string&> outputs[] = {
      {"--json", files.json}, {"--csv", files.csv}, {"--markdown", files.markdown}};
  for (const auto& [option, file] : outputs) {
    const absl::Status status = file.empty() ? absl::OkStatus() : CheckWritable(file);
    if (!status.ok()) return Annotate(status, option);
  }
  return absl::OkStatus();
}

nlohmann::ordered_json ToJson(const ReportFiles& files) {
  return {{"json", files.json}, {"csv", files.csv}, {"markdown", files.markdown}};
}

}  // namespace gradwire
