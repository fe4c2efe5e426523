#include "common/options/option_parser.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/base/plain_text.h"
#include "common/base/status_util.h"
#include "common/options/version.h"

namespace gradwire {
namespace {

constexpr size_t kHelpColumn = 34;

// Options of mpirun, horovodrun and torchrun, and the option here that means the same.
constexpr struct {
  const char* theirs;
  const char* ours;
} kOtherLaunchers[] = {{"n", "workers"},
                       {"np", "workers"},
                       {"nproc_per_node", "workers"},
                       {"nproc-per-node", "workers"},
                       {"machinefile", "hostfile"}};

// Returns "; did you mean --…?" for an option that `names` has by another name, or else the
// nearest.
std::string Hint(const std::string& option, const std::vector<std::string>& names) {
  for (const auto& [theirs, ours] : kOtherLaunchers) {
    if (option == theirs && absl::c_linear_search(names, ours))
      return DidYouMean(ours, names, "--");
  }
  return DidYouMean(option, names, "--");
}

absl::Status UnexpectedArgument(const std::string& argument, const std::vector<std::string>& names,
                                const std::vector<std::string>& behind_dashes) {
  const std::string option = argument.substr(0, argument.find('='));
  const size_t start = option.find_first_not_of('-');
  if (start == 0 || start == std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("unexpected argument '", argument, "'", DidYouMean(argument, names, "--")));
  }
  if (absl::c_linear_search(behind_dashes, option.substr(start))) {
    return absl::InvalidArgumentError(
        absl::StrCat(option, " is an option of the workers: put it after --"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown option ", option, Hint(option.substr(start), names)));
}

// Returns the help text with default and `mark` at the end of its first line.
std::string HelpOf(const OptionRow& row, const std::string& mark) {
  std::string behind = row.value.initial.empty() ? "" : absl::StrCat(" [", row.value.initial, "]");
  if (row.agreement != Agreement::kMayDiffer && !mark.empty()) absl::StrAppend(&behind, " ", mark);
  const size_t line_end = std::min(row.help.find('\n'), row.help.size());
  return absl::StrCat(row.help.substr(0, line_end), behind, row.help.substr(line_end));
}

// Names the sections of which a program takes the keys.
std::string HelpOfConfig(const std::vector<std::string>& sections) {
  const std::string help = "INI or TOML file with options as keys";
  if (sections.empty()) return help;
  return absl::StrCat(help, ", in section [", absl::StrJoin(sections, "] or ["), "]");
}

// The sections of the programs that make runs, to find misspelled ones. Those of the others
// resemble names of a user's sections, such as [model].
const char* const kSections[] = {"bench", "coordinator", "experiment", "launch", "worker"};

// Returns "; did you mean [worker]?" for a section that resembles one of `own` or of kSections; ""
// if it is one of them, or resembles none and so belongs to another program.
std::string HintAtSection(const std::string& section, std::vector<std::string> own) {
  own.insert(own.end(), std::begin(kSections), std::end(kSections));
  if (section.empty() || absl::c_linear_search(own, section)) return "";
  const std::string nearest = Nearest(section, own);
  return nearest.empty() ? "" : absl::StrCat("; did you mean [", nearest, "]?");
}

// One key of a config file, with its section.
struct FileItem {
  std::string section;  // "" outside any
  std::string key;
  std::vector<std::string> values;
};

absl::StatusOr<std::vector<FileItem>> ReadItems(const std::string& path) {
  std::ifstream file(path);
  if (file) file.peek();  // a folder can be opened but not read
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

int NoSuchCommand(absl::string_view program, absl::string_view kind,
                  const std::vector<std::string>& commands, const std::vector<std::string>& args) {
  const std::string word = args.empty() ? "" : args[0];
  std::vector<std::string> near = commands;
  near.insert(near.end(), {"--help", "--version"});
  const absl::string_view what = absl::StartsWith(word, "-") ? "option" : kind;
  const std::string got =
      args.empty() ? absl::StrCat("got no ", kind) : absl::StrCat("unknown ", what, " ", word);
  PrintUsageError(program, absl::StrCat(got, ", expected one of ", absl::StrJoin(commands, ", "),
                                        DidYouMean(word, near, "")));
  return kExitUsage;
}

absl::optional<int> HelpOrVersion(absl::string_view program, absl::string_view help,
                                  const std::vector<std::string>& args) {
  const std::string word = args.empty() ? "" : args[0];
  if (word == "--version") {
    std::cout << VersionText(program);
    return ExitAfterPrinting(program, kExitDone);
  }
  if (word != "--help" && word != "-h") return absl::nullopt;
  std::cout << help;
  return ExitAfterPrinting(program, kExitDone);
}

void PrintWarnings(absl::string_view program, const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) {
    std::cerr << program << ": warning: " << warning << std::endl;
  }
}

int ExitAfterPrinting(absl::string_view program, int exit_code) {
  if (std::cout.flush()) return exit_code;
  std::cerr << program << ": cannot write to stdout" << std::endl;
  return kExitFailed;
}

absl::optional<int> EarlyExit(absl::string_view program, const absl::Status& status,
                              const std::vector<std::string>& warnings, const std::string& print) {
  if (!status.ok()) {
    PrintUsageError(program, status.message());
    return kExitUsage;
  }
  if (!print.empty()) {
    std::cout << print;
    return ExitAfterPrinting(program, kExitDone);
  }
  PrintWarnings(program, warnings);
  return absl::nullopt;
}

OptionParser::OptionParser(const std::string& program, const std::string& description,
                           std::vector<std::string> sections)
    : app_(std::make_unique<CLI::App>(description, program)), sections_(std::move(sections)) {
  Group("General");
  app_->allow_extras();  // refused with our own message
  app_->option_defaults()->take_last();
  app_->get_formatter()->column_width(kHelpColumn);
  app_->set_help_flag("-h,--help", "Print this help and exit");
  app_->set_version_flag("--version", "", "Print version and build, and exit");
  Add("config", "FILE", HelpOfConfig(sections_), Text(&config_));
}

OptionParser::~OptionParser() = default;

void OptionParser::Group(const std::string& title) { app_->option_defaults()->group(title); }

void OptionParser::Add(const std::string& name, const std::string& value_name,
                       const std::string& help, OptionValue value, Agreement agreement, Need need) {
  OptionRow row{name, value_name, help, std::move(value), agreement, std::move(need)};
  CLI::Option* option =
      app_->add_option("--" + name, CLI::callback_t(), HelpOf(row, agreement_mark_));
  option->option_text(value_name);
  // ReadFlags reports a missing value, with our own message.
  row.value.is_switch ? option->expected(0) : option->expected(0, 1);
  if (row.value.is_list) option->join();
  sources_[name] = Source{};
  rows_[name] = std::move(row);
}

void OptionParser::MarkAgreement(const std::string& mark) { agreement_mark_ = mark; }

void OptionParser::TakeOperands(const std::string& value_name, const std::string& help) {
  app_->add_option(value_name, operands_, help)->type_name("")->expected(0, -1);
  takes_operands_ = true;
}

void OptionParser::Footer(const std::string& text) { app_->footer(text); }

std::vector<std::string> OptionParser::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, row] : rows_) names.push_back(name);
  return names;
}

void OptionParser::Give(const std::string& name, const std::string& text, Source source) {
  if (rows_.count(name) > 0 && texts_.emplace(name, text).second) {
    sources_[name] = std::move(source);
  }
}

// "--switch", "false" becomes "--switch=false"; otherwise CLI11 would not connect them. So does
// "--switch", "1", unless the program takes operands.
std::vector<std::string> OptionParser::JoinSwitches(const std::vector<std::string>& args) const {
  std::vector<std::string> joined;
  bool behind_switch = false;
  for (const std::string& arg : args) {
    bool ignored = false;
    // A number may be an operand, such as a step.
    const bool may_be_value = !takes_operands_ || !absl::c_all_of(arg, absl::ascii_isdigit);
    if (behind_switch && may_be_value && Switch(&ignored).set(arg).ok()) {
      absl::StrAppend(&joined.back(), "=", arg);
    } else {
      joined.push_back(arg);
    }
    const auto option = absl::StartsWith(arg, "--") ? rows_.find(arg.substr(2)) : rows_.end();
    behind_switch = option != rows_.end() && option->second.value.is_switch;
  }
  return joined;
}

absl::Status OptionParser::ReadFlags(const std::vector<std::string>& args) {
  std::vector<std::string> flags = JoinSwitches(args);
  std::reverse(flags.begin(), flags.end());
  try {
    app_->parse(std::move(flags));
  } catch (const CLI::CallForHelp&) {
    print_ = app_->help();
    return absl::OkStatus();
  } catch (const CLI::CallForVersion&) {
    print_ = VersionText(app_->get_name());
    return absl::OkStatus();
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(error.what());
  }
  for (const std::string& extra : app_->remaining()) {
    if (extra != "--" || !takes_operands_) {
      return UnexpectedArgument(extra, Names(), behind_dashes_);
    }
  }
  for (const std::string& name : Names()) {
    const CLI::Option& option = *app_->get_option("--" + name);
    if (option.count() == 0) continue;
    if (std::count(option.results().begin(), option.results().end(), "") > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", name, ": no value given, expected ", option.get_option_text()));
    }
    Give(name, option.reduced_results().back(), {Layer::kFlag, "--" + name});
  }
  return absl::OkStatus();
}

absl::Status OptionParser::ReadFile(const std::string& path) {
  const absl::StatusOr<std::vector<FileItem>> items = ReadItems(path);
  if (!items.ok()) return items.status();
  // The last value of a key counts.
  for (auto item = items->rbegin(); item != items->rend(); ++item) {
    const bool mine =
        item->section.empty() || std::count(sections_.begin(), sections_.end(), item->section) > 0;
    if (!mine) {
      const std::string hint = HintAtSection(item->section, sections_);
      if (hint.empty()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": unknown section [", item->section, "]", hint));
    }
    const bool is_known = rows_.count(item->key) > 0;
    const bool is_of_others = absl::c_linear_search(of_others_, item->key);
    if (!is_known && is_of_others && !item->section.empty()) continue;
    if (item->key == "config" || !is_known) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": unknown key '", item->key, "'",
                                                     DidYouMean(item->key, Names(), "")));
    }
    if (item->values.size() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": ", item->key, ": got ", item->values.size(),
                       " values, expected one; put a value with a comma or a blank in quotes"));
    }
    // Some versions of CLI11 take # for the start of a comment within quotes, too.
    const std::string& text = item->values.front();
    const bool begins = absl::StartsWith(text, "\"") || absl::StartsWith(text, "'");
    const bool is_cut = begins && (text.size() == 1 || text.back() != text.front());
    if (is_cut) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": ", item->key, ": got ", text,
                                                     ", expected a quote at its end, too; # cannot "
                                                     "be in a value, because it begins a comment"));
    }
    Give(item->key, text, {Layer::kFile, absl::StrCat(item->key, " in ", path)});
  }
  return absl::OkStatus();
}

absl::Status OptionParser::WriteFields() const {
  absl::Status status;
  for (const auto& [name, text] : texts_) {
    const OptionValue& value = rows_.at(name).value;
    std::vector<std::string> parts = {text};
    if (value.is_list) parts = absl::StrSplit(text, '\n');
    for (const std::string& part : parts) {
      status.Update(Annotate(value.set(part), sources_.at(name).name));
    }
  }
  return status;
}

absl::Status OptionParser::Parse(const std::vector<std::string>& args,
                                 const Environment& environment, const LauncherValues& launcher) {
  absl::Status status = ReadFlags(args);
  if (!status.ok() || !print_.empty()) return status;
  for (const std::string& name : Names()) {
    const std::string text = Value(environment, VariableOf(name));
    if (!text.empty()) Give(name, text, {Layer::kEnvironment, VariableOf(name)});
  }
  for (const auto& [name, value] : launcher) {
    Give(name, value.text, {Layer::kLauncher, value.variable});
  }
  if (texts_.count("config") > 0) status = ReadFile(texts_["config"]);
  return status.ok() ? WriteFields() : status;
}

absl::Status OptionParser::CheckNeeds() const {
  absl::Status status;
  for (const auto& [name, row] : rows_) {
    const Source& from = source(name);
    if (row.need && from.layer != Layer::kDefault) status.Update(row.need(from.name, sources_));
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
