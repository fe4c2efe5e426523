#include "common/options/option_parser.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/base/status_util.h"
#include "common/options/suggest.h"

namespace gradwire {
namespace {

constexpr size_t kHelpColumn = 34;

absl::Status UnexpectedArgument(const std::string& argument,
                                const std::vector<std::string>& names) {
  const std::string option = argument.substr(0, argument.find('='));
  const size_t start = option.find_first_not_of('-');
  if (start == 0 || start == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("unexpected argument '", argument, "'"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown option ", option, DidYouMean(option.substr(start), names, "--")));
}

// Whether `arg`, which is no option, belongs to the option in front of it.
bool IsValueOf(const OptionValue& option, const std::string& arg) {
  bool ignored = false;
  return !option.is_switch || Switch(&ignored).set(arg).ok();
}

// The help text with the default at the end of its first line.
std::string WithDefaultShown(const std::string& help, const std::string& initial) {
  if (initial.empty()) return help;
  const size_t line_end = std::min(help.find('\n'), help.size());
  return absl::StrCat(help.substr(0, line_end), " [", initial, "]", help.substr(line_end));
}

// One key of a config file, with the section that it stands in.
struct FileItem {
  std::string section;  // "" outside any
  std::string key;
  std::vector<std::string> values;
};

absl::StatusOr<std::vector<FileItem>> ReadItems(const std::string& path) {
  std::ifstream file(path);
  if (file) file.peek();  // a folder can be opened, and not read
  if (!file.is_open() || file.bad()) {
    return absl::NotFoundError(absl::StrCat("cannot read the config file '", path, "'"));
  }
  std::vector<FileItem> items;
  try {
    for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_config(file)) {
      if (item.name == "++" || item.name == "--") continue;
      FileItem read{CLI::detail::join(item.parents, "."), item.name, item.inputs};
      read.key = absl::StrReplaceAll(read.key, {{"_", "-"}});
      items.push_back(std::move(read));
    }
  } catch (const CLI::Error& error) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", error.what()));
  }
  return items;
}

}  // namespace

std::vector<std::string> Arguments(int argc, const char* const* argv) {
  return argc > 1 ? std::vector<std::string>(argv + 1, argv + argc) : std::vector<std::string>();
}

void PrintUsageError(absl::string_view program, absl::string_view message) {
  std::cerr << program << ": " << message << "\n"
            << "Try '" << program << " --help' for the options." << std::endl;
}

void PrintWarnings(absl::string_view program, const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) {
    std::cerr << program << ": warning: " << warning << std::endl;
  }
}

absl::optional<int> EarlyExit(absl::string_view program, const absl::Status& status,
                              const std::vector<std::string>& warnings, const std::string& print) {
  if (!status.ok()) {
    PrintUsageError(program, status.message());
    return kExitUsage;
  }
  if (!print.empty()) {
    std::cout << print << std::flush;
    return std::cout.good() ? kExitDone : kExitFailed;
  }
  PrintWarnings(program, warnings);
  return absl::nullopt;
}

OptionParser::OptionParser(std::string program, std::string description,
                           std::vector<std::string> sections)
    : program_(std::move(program)),
      description_(std::move(description)),
      sections_(std::move(sections)) {
  Group("General");
  Add("config", "FILE", "INI or TOML file with options as keys (batch-size = 64)", Text(&config_));
}

void OptionParser::Add(std::string name, std::string value_name, std::string help,
                       OptionValue value) {
  sources_[name] = Source{};
  options_.push_back(
      {std::move(name), group_, std::move(value_name), std::move(help), std::move(value)});
}

void OptionParser::TakeOperands(std::string value_name, std::string help) {
  operand_name_ = std::move(value_name);
  operand_help_ = std::move(help);
}

const OptionParser::Option* OptionParser::Find(const std::string& name) const {
  const auto found = std::find_if(options_.begin(), options_.end(),
                                  [&](const Option& option) { return option.name == name; });
  return found == options_.end() ? nullptr : &*found;
}

std::vector<std::string> OptionParser::Names() const {
  std::vector<std::string> names;
  for (const Option& option : options_) names.push_back(option.name);
  return names;
}

void OptionParser::Describe(CLI::App* app, Texts* given) const {
  app->allow_extras();
  app->get_formatter()->column_width(kHelpColumn);
  app->set_help_flag("-h,--help", "Print this help and exit")->group("General");
  const std::string version = absl::StrCat(program_, " ", GRADWIRE_VERSION);
  app->set_version_flag("--version", version, "Print the version and exit")->group("General");
  app->footer(footer_);
  if (!operand_name_.empty()) {
    app->add_option(operand_name_, operand_help_)->type_name("")->expected(0, -1);
  }
  for (const Option& option : options_) {
    const std::string help = WithDefaultShown(option.help, option.value.initial);
    CLI::Option* added = app->add_option("--" + option.name, (*given)[option.name], help);
    // A missing value is found here below, where it can be said in our words.
    added->group(option.group)->type_name(option.value_name)->expected(0, 1);
    // Values of a list are joined by line ends.
    added->multi_option_policy(option.value.is_list ? CLI::MultiOptionPolicy::Join
                                                    : CLI::MultiOptionPolicy::TakeLast);
  }
}

std::vector<std::string> OptionParser::SplitOffOperands(const std::vector<std::string>& args) {
  std::vector<std::string> others;
  const Option* before = nullptr;  // whose value may come
  for (auto arg = args.begin(); arg != args.end(); ++arg) {
    if (*arg == "--") {
      operands_.insert(operands_.end(), arg + 1, args.end());
      break;
    }
    const bool is_option = absl::StartsWith(*arg, "-");
    const bool is_value = before != nullptr && IsValueOf(before->value, *arg);
    (is_option || is_value ? others : operands_).push_back(*arg);
    before = absl::StartsWith(*arg, "--") ? Find(arg->substr(2)) : nullptr;
  }
  return others;
}

absl::StatusOr<OptionParser::Texts> OptionParser::ReadFlags(const std::vector<std::string>& args) {
  CLI::App app(description_, program_);
  Texts given;
  Describe(&app, &given);
  try {
    std::vector<std::string> flags = operand_name_.empty() ? args : SplitOffOperands(args);
    std::reverse(flags.begin(), flags.end());
    app.parse(std::move(flags));
  } catch (const CLI::CallForHelp&) {
    print_ = app.help();
    return Texts();
  } catch (const CLI::CallForVersion& version) {
    print_ = absl::StrCat(version.what(), "\n");
    return Texts();
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(error.what());
  }
  const std::vector<std::string> extras = app.remaining();
  if (!extras.empty()) return UnexpectedArgument(extras.front(), Names());
  Texts texts;
  for (const Option& option : options_) {
    if (app.count("--" + option.name) == 0) continue;
    const std::string& text = given[option.name];
    if (text.empty() && !option.value.is_switch) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", option.name, ": no value given, expected ", option.value_name));
    }
    texts[option.name] = text.empty() ? "true" : text;
  }
  return texts;
}

absl::Status OptionParser::Set(const std::string& name, const std::string& text, Source source) {
  const OptionValue& value = Find(name)->value;
  std::vector<std::string> parts = {text};
  if (value.is_list) parts = absl::StrSplit(text, '\n');
  for (const std::string& part : parts) {
    const absl::Status status = value.set(part);
    if (!status.ok()) return Annotate(status, source.name);
  }
  sources_[name] = std::move(source);
  texts_[name] = text;
  return absl::OkStatus();
}

absl::Status OptionParser::ReadFile(const std::string& path) {
  const absl::StatusOr<std::vector<FileItem>> items = ReadItems(path);
  if (!items.ok()) return items.status();
  for (const FileItem& item : *items) {
    const bool mine = item.section.empty() || std::find(sections_.begin(), sections_.end(),
                                                        item.section) != sections_.end();
    if (!mine) continue;
    if (item.key == "config" || Find(item.key) == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": unknown key '", item.key, "'", DidYouMean(item.key, Names(), "")));
    }
    if (item.values.size() != 1) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": ", item.key, ": got ",
                                                     item.values.size(), " values, expected one"));
    }
    const Source source{Layer::kFile, absl::StrCat(item.key, " in ", path)};
    const absl::Status status = Set(item.key, item.values.front(), source);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status OptionParser::Parse(const std::vector<std::string>& args,
                                 const Environment& environment,
                                 const std::map<std::string, LauncherValue>& launcher) {
  absl::StatusOr<Texts> flags = ReadFlags(args);
  if (!flags.ok() || !print_.empty()) return flags.status();
  Texts variables;
  for (const std::string& name : Names()) {
    const std::string text = Value(environment, VariableOf(name));
    if (!text.empty()) variables[name] = text;
  }
  const std::string config = flags->count("config") > 0 ? (*flags)["config"] : variables["config"];
  absl::Status status = config.empty() ? absl::OkStatus() : ReadFile(config);
  for (const auto& [name, value] : launcher) {
    // Not ours: it is judged only if it counts.
    const bool overridden = flags->count(name) > 0 || variables.count(name) > 0;
    if (status.ok() && !overridden && Find(name) != nullptr) {
      status = Set(name, value.text, {Layer::kLauncher, value.variable});
    }
  }
  for (const auto& [name, text] : variables) {
    if (status.ok()) status = Set(name, text, {Layer::kEnvironment, VariableOf(name)});
  }
  for (const auto& [name, text] : *flags) {
    if (status.ok()) status = Set(name, text, {Layer::kFlag, "--" + name});
  }
  return status;
}

absl::StatusOr<std::string> OptionParser::InForce(const std::string& first,
                                                  const std::string& second) const {
  const Source& a = source(first);
  const Source& b = source(second);
  if (a.layer == Layer::kDefault && b.layer == Layer::kDefault) return std::string();
  if (a.layer == b.layer) {
    return absl::InvalidArgumentError(
        absl::StrCat(a.name, " and ", b.name, " exclude each other; give only one of them"));
  }
  return a.layer > b.layer ? first : second;
}

}  // namespace gradwire
