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

// Possible origins of a value, weakest first.
enum class Layer { kDefault, kFile, kLauncher, kEnvironment, kFlag };

// The origin of a value: "--rank", "GRADWIRE_RANK", "SLURM_PROCID",
// "rank in run.ini", "default".
struct Source {
  Layer layer = Layer::kDefault;
  std::string name = "default";
};

// By option name.
using Sources = std::map<std::string, Source>;

// The value of an option in another program's environment.
struct LauncherValue {
  std::string text;
  std::string variable;  // "SLURM_PROCID"
};
// By option name.
using LauncherValues = std::map<std::string, LauncherValue>;

// Whether all ranks of a run must have the same value of an option, and how a worker that joins
// proves it to the coordinator.
enum class Agreement {
  kMayDiffer,             // each rank may have its own value
  kSetting,               // the same value everywhere; a setting of Hello
  kSettingUnlessDefault,  // the same; the setting is left out if the value is the default
  kCompared,              // the same; compared in another way
};

// Checks the prerequisites of an option that was given, once all options have their values.
// InvalidArgument names its `source`; `sources` has the sources of all options.
using Need = std::function<absl::Status(const std::string& source, const Sources& sources)>;

// One option of a program.
struct OptionRow {
  std::string name;        // "batch-size"
  std::string value_name;  // "N"
  std::string help;
  OptionValue value;  // its type, field and default
  Agreement agreement = Agreement::kMayDiffer;
  Need need;  // empty: no prerequisites
};

// The result of reading a program's options.
template <typename Options>
struct Parsed {
  Options options;
  Sources sources;                           // of every option
  std::map<std::string, std::string> texts;  // as given; only options not at their default
  std::vector<std::string> warnings;         // sentences for stderr
  std::string print;                         // if not empty: print it to stdout and exit with 0
};

// Returns the arguments after the program's name.
std::vector<std::string> Arguments(int argc, const char* const* argv);

// Prints `message` to stderr as "program: message" with a hint at --help.
void PrintUsageError(absl::string_view program, absl::string_view message);
// Handles a first argument that is missing or is not one of `commands`: prints "got no command,
// expected one of a, b", or the wrong word and the nearest command, as PrintUsageError does. `kind`
// names the group, such as "command". Returns the exit code.
int NoSuchCommand(absl::string_view program, absl::string_view kind,
                  const std::vector<std::string>& commands, const std::vector<std::string>& args);
// Handles --help, -h and --version as the first argument: prints `help`, or the version of
// `program`. Returns the exit code; none if it is another argument.
absl::optional<int> HelpOrVersion(absl::string_view program, absl::string_view help,
                                  const std::vector<std::string>& args);
void PrintWarnings(absl::string_view program, const std::vector<std::string>& warnings);
// Returns `exit_code` if all that was printed to stdout could be written. Otherwise says so on
// stderr, and returns kExitFailed.
int ExitAfterPrinting(absl::string_view program, int exit_code);

// Returns the exit code if main must exit now (a usage error was printed to stderr, or help to
// stdout). Returns none if main must continue; warnings were printed.
template <typename Options>
absl::optional<int> EarlyExit(absl::string_view program,
                              const absl::StatusOr<Parsed<Options>>& parsed);
absl::optional<int> EarlyExit(absl::string_view program, const absl::Status& status,
                              const std::vector<std::string>& warnings, const std::string& print);

// The options of one program. Each can be given as --name, as GRADWIRE_NAME and as a key of the
// file named by --config. The strongest layer wins:
//
//   flag > GRADWIRE_NAME > launcher's environment > file > default
//
// Keys of the file outside any [section] apply to every program that reads it, so each of these
// programs must have the option. Keys in the sections given to the constructor apply to this
// program as well; other sections are ignored, unless their names resemble one of these, or a
// section of the programs that make runs: Parse refuses these. An option that is given twice keeps
// the last value, unless it is a list.
class OptionParser {
 public:
  // `program` as typed ("gradwire launch"); `sections` of a config file.
  OptionParser(const std::string& program, const std::string& description,
               std::vector<std::string> sections);

  ~OptionParser();

  // Lists the options added from here on under this title in --help.
  void Group(const std::string& title);
  void Add(const std::string& name, const std::string& value_name, const std::string& help,
           OptionValue value, Agreement agreement = Agreement::kMayDiffer, Need need = nullptr);
  // From here on, --help prints `mark` after the default of options whose Agreement is not
  // kMayDiffer. Without this call no option is marked: most programs start no ranks.
  void MarkAgreement(const std::string& mark);
  // Accepts any number of arguments that are neither options nor values of options, such as "FILE",
  // and those after "--". Without this call they are errors. A number after a switch is an operand,
  // too. `value_name` must not contain ':', which some versions of CLI11 refuse.
  void TakeOperands(const std::string& value_name, const std::string& help);
  // Names the options that belong after "--"; if one stands before it, the error says so.
  void KnowBehindDashes(std::vector<std::string> names) { behind_dashes_ = std::move(names); }
  // Names the options of another program that reads the same sections: there, Parse ignores their
  // keys if this program lacks the option.
  void ShareSections(std::vector<std::string> names) { of_others_ = std::move(names); }
  // Sets the last paragraph of --help.
  void Footer(const std::string& text);

  // Writes the fields. InvalidArgument: a sentence with the option, where it was given, the value,
  // and the expected values; for an unknown name also the nearest known one. NotFound: the config
  // file cannot be read. A value that a stronger layer replaces is not checked. Values of the
  // launcher for options that this program lacks are ignored.
  absl::Status Parse(const std::vector<std::string>& args, const Environment& environment,
                     const LauncherValues& launcher = {});
  // The same, and writes everything else that is known besides the fields.
  template <typename Options>
  absl::Status Parse(const std::vector<std::string>& args, const Environment& environment,
                     const LauncherValues& launcher, Parsed<Options>* parsed);

  // Of two options with one meaning, returns the one in effect, "" if both have their default.
  // InvalidArgument if both were given in the same layer.
  absl::StatusOr<std::string> InForce(const std::string& first, const std::string& second) const;

  // Returns the first error, by name, of the needs of options that were given.
  absl::Status CheckNeeds() const;

  // Returns all options, by name.
  const std::map<std::string, OptionRow>& rows() const { return rows_; }
  const Source& source(const std::string& name) const { return sources_.at(name); }
  const Sources& sources() const { return sources_; }
  const std::map<std::string, std::string>& texts() const { return texts_; }
  const std::vector<std::string>& operands() const { return operands_; }
  // Not empty if --help or --version was among the arguments.
  const std::string& print() const { return print_; }

 private:
  std::vector<std::string> Names() const;
  // Records the text of an option in a layer, unless a stronger layer has set it.
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
  std::vector<std::string> of_others_;
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
