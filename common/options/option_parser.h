#ifndef GRADWIRE_COMMON_OPTIONS_OPTION_PARSER_H_
#define GRADWIRE_COMMON_OPTIONS_OPTION_PARSER_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "common/base/environment.h"
#include "common/options/option_values.h"

namespace CLI {
class App;
}

namespace gradwire {

// Where a value may come from, weakest first.
enum class Layer { kDefault, kFile, kLauncher, kEnvironment, kFlag };

// Where a value came from: "--rank", "GRADWIRE_RANK", "SLURM_PROCID",
// "rank in run.ini", "default".
struct Source {
  Layer layer = Layer::kDefault;
  std::string name = "default";
};

// By option name.
using Sources = std::map<std::string, Source>;

// A value that another program's environment gives to an option.
struct LauncherValue {
  std::string text;
  std::string variable;  // "SLURM_PROCID"
};
// By option name.
using LauncherValues = std::map<std::string, LauncherValue>;

// Whether all ranks of a run must have the same value of an option, and how a worker that joins
// lets the coordinator see that it has it.
enum class Agreement {
  kMayDiffer,             // each rank may have its own value
  kSetting,               // the same value everywhere; a setting of Hello
  kSettingUnlessDefault,  // the same; the setting is left out if the value is the default
  kCompared,              // the same; compared in another way than as a setting
};

// Judges an option that was given when all have their values: whether what it is for is there.
// InvalidArgument names its `source`; `sources` are those of all options.
using Need = std::function<absl::Status(const std::string& source, const Sources& sources)>;

// One option of a program: everything there is to say of it.
struct OptionRow {
  std::string name;        // "batch-size"
  std::string value_name;  // "N"
  std::string help;
  OptionValue value;  // its type, field and default
  Agreement agreement = Agreement::kMayDiffer;
  Need need;  // none: it is for every run
};

// What a program was told.
template <typename Options>
struct Parsed {
  Options options;
  Sources sources;                           // of every option
  std::map<std::string, std::string> texts;  // as given, of options that are not at their default
  std::vector<std::string> warnings;         // sentences for stderr
  std::string print;                         // not empty: print this to stdout and exit with 0
};

// The arguments after the program's name.
std::vector<std::string> Arguments(int argc, const char* const* argv);

// Prints `message` to stderr as "program: message" with a hint at --help.
void PrintUsageError(absl::string_view program, absl::string_view message);
// What a program does whose first argument has to be one of `commands`, and is missing or another:
// prints "got no command, expected one of a, b", or the wrong one with the nearest, as
// PrintUsageError does. `kind` is what they are: "command". Gives the exit code.
int NoSuchCommand(absl::string_view program, absl::string_view kind,
                  const std::vector<std::string>& commands, const std::vector<std::string>& args);
void PrintWarnings(absl::string_view program, const std::vector<std::string>& warnings);

// What main does with what it was told. A value: exit with it (a usage error was
// printed to stderr, or help to stdout). None: go on; warnings were printed.
template <typename Options>
absl::optional<int> EarlyExit(absl::string_view program,
                              const absl::StatusOr<Parsed<Options>>& parsed);
absl::optional<int> EarlyExit(absl::string_view program, const absl::Status& status,
                              const std::vector<std::string>& warnings, const std::string& print);

// The options of one program. Each can be given as --name, as GRADWIRE_NAME and
// as a key of the file that --config names; the strongest layer wins:
//
//   flag > GRADWIRE_NAME > launcher's environment > file > default
//
// Keys of the file outside any [section] are for every program that reads it;
// those in the sections that the program was made with are for it as well, and
// other sections are left alone. An option that is given twice keeps the last value, unless
// it is a list.
class OptionParser {
 public:
  // `program` as typed ("gradwire launch"); `sections` of a config file.
  OptionParser(const std::string& program, const std::string& description,
               std::vector<std::string> sections);

  ~OptionParser();

  // Options added from here on are under this title in --help.
  void Group(const std::string& title);
  void Add(const std::string& name, const std::string& value_name, const std::string& help,
           OptionValue value, Agreement agreement = Agreement::kMayDiffer, Need need = nullptr);
  // In --help, `mark` follows the default of options added from here on that have an Agreement
  // other than kMayDiffer. Without this call none is marked: most programs start no ranks.
  void MarkAgreement(const std::string& mark);
  // Arguments that are no options and no option's values, such as "FILE", any number
  // of them, also what is behind "--". Without this they are errors.
  // `value_name` has no ':', which some versions of CLI11 refuse.
  void TakeOperands(const std::string& value_name, const std::string& help);
  // Options that stand behind "--": the message for one that stands in front of it says so.
  void KnowBehindDashes(std::vector<std::string> names) { behind_dashes_ = std::move(names); }
  // A last paragraph of --help.
  void Footer(const std::string& text);

  // Writes the fields. InvalidArgument: a sentence that names the option and
  // where it was given, what was got, what was expected; for an unknown name
  // the nearest that exists. NotFound: the config file cannot be read. A value
  // that a stronger layer replaces is not judged.
  // What the launcher says of options that this program has not is left alone.
  absl::Status Parse(const std::vector<std::string>& args, const Environment& environment,
                     const LauncherValues& launcher = {});
  // The same, and all that is to be known of it besides the fields.
  template <typename Options>
  absl::Status Parse(const std::vector<std::string>& args, const Environment& environment,
                     const LauncherValues& launcher, Parsed<Options>* parsed);

  // Of two names for one thing, or two ways to say one thing: the one that is in
  // force, "" if both are at their default. InvalidArgument if both were given
  // in the same layer.
  absl::StatusOr<std::string> InForce(const std::string& first, const std::string& second) const;

  // The first error, by name, of the needs of options that were given.
  absl::Status CheckNeeds() const;

  // All options, by name.
  const std::map<std::string, OptionRow>& rows() const { return rows_; }
  const Source& source(const std::string& name) const { return sources_.at(name); }
  const Sources& sources() const { return sources_; }
  const std::map<std::string, std::string>& texts() const { return texts_; }
  const std::vector<std::string>& operands() const { return operands_; }
  // Not empty if --help or --version was among the arguments.
  const std::string& print() const { return print_; }

 private:
  std::vector<std::string> Names() const;
  // The text of an option in a layer, which counts if no layer before gave one.
  void Give(const std::string& name, const std::string& text, Source source);
  std::vector<std::string> JoinSwitches(const std::vector<std::string>& args) const;
  absl::Status ReadFlags(const std::vector<std::string>& args);
  absl::Status ReadFile(const std::string& path);
  absl::Status WriteFields() const;

  const std::unique_ptr<CLI::App> app_;
  const std::vector<std::string> sections_;
  std::string config_;
  bool takes_operands_ = false;
  std::vector<std::string> behind_dashes_;
  std::vector<std::string> operands_;
  std::string agreement_mark_;
  std::map<std::string, OptionRow> rows_;
  Sources sources_;
  std::map<std::string, std::string> texts_;
  std::string print_;
};

template <typename Options>
absl::Status OptionParser::Parse(const std::vector<std::string>& args,
                                 const Environment& environment, const LauncherValues& launcher,
                                 Parsed<Options>* parsed) {
  absl::Status status = Parse(args, environment, launcher);
  parsed->sources = sources_;
  parsed->texts = texts_;
  parsed->warnings = UnknownVariables(environment);
  parsed->print = print_;
  return status;
}

template <typename Options>
absl::optional<int> EarlyExit(absl::string_view program,
                              const absl::StatusOr<Parsed<Options>>& parsed) {
  if (!parsed.ok()) return EarlyExit(program, parsed.status(), {}, "");
  return EarlyExit(program, absl::OkStatus(), parsed->warnings, parsed->print);
}

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_OPTIONS_OPTION_PARSER_H_
