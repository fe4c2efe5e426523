#include "cli/status/status_command.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "cli/status/http_client.h"
#include "cli/status/status_text.h"
#include "common/base/status_util.h"

namespace gradwire {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kProgram[] = "gradwire status";
constexpr char kPath[] = "/status.json";
constexpr absl::Duration kAnswerWithin = absl::Seconds(5);
constexpr absl::Duration kEvery = absl::Seconds(1);

constexpr char kDescription[] =
    "Shows what a running coordinator says of its run: ranks, step, phases of the last step,\n"
    "slowest rank, losses of workers. HOST:PORT is the coordinator's --metrics, which gradwire\n"
    "launch says at its start; without it, 127.0.0.1:9400.";

constexpr char kFooter[] =
    "With --json nothing is left out; with --watch that is a line for each second. GRADWIRE_JSON\n"
    "is another program's, and not read here.\n"
    "\n"
    "Exit: 0 shown, or the run that was watched is over; 1 another program answers there;\n"
    "2 wrong usage; 75 nobody answers.";

// What GET /status.json gave.
struct Answer {
  std::string text;
  Json status;
};

// Unavailable: nobody is there; DeadlineExceeded: it is silent; FailedPrecondition:
// another program is there.
absl::StatusOr<Answer> Ask(const std::string& coordinator) {
  absl::StatusOr<std::string> text = HttpGet(coordinator, kPath, kAnswerWithin);
  if (absl::IsUnavailable(text.status()) || absl::IsDeadlineExceeded(text.status())) {
    return Annotate(text.status(),
                    absl::StrCat("cannot reach a coordinator's --metrics at ", coordinator));
  }
  absl::StatusOr<Json> status = text.ok() ? ParseStatus(*text) : text.status();
  if (!status.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        coordinator, " is no coordinator's --metrics address: ", status.status().message()));
  }
  return Answer{*std::move(text), *std::move(status)};
}

// Shows one answer after the other.
class Screen {
 public:
  explicit Screen(const StatusOptions& options)
      : options_(options), redraws_(options.watch && !options.json && isatty(STDOUT_FILENO) == 1) {}

  // False if nobody reads any more.
  bool Show(const Answer& answer) {
    if (options_.json) {
      std::cout << (options_.watch ? answer.status.dump() + "\n" : answer.text);
    } else if (redraws_) {
      Redraw(StatusText(answer.status));
    } else {
      std::cout << (blocks_ > 0 ? "\n" : "") << StatusText(answer.status);
    }
    ++blocks_;
    std::cout.flush();
    return std::cout.good();
  }

 private:
  // From the upper left corner; each line clears what stood behind it.
  void Redraw(const std::string& text) {
    winsize size = {};
    const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 1;
    const std::string fitted = FitTo(text, known ? size.ws_col : 80, known ? size.ws_row - 1 : 24);
    std::cout << (blocks_ == 0 ? "\x1b[2J" : "") << "\x1b[H"
              << absl::StrReplaceAll(fitted, {{"\n", "\x1b[K\n"}}) << "\x1b[J";
  }

  const StatusOptions& options_;
  const bool redraws_;
  int blocks_ = 0;
};

void Say(absl::string_view sentence) { std::cerr << kProgram << ": " << sentence << std::endl; }

int Fail(const absl::Status& status) {
  Say(status.message());
  return absl::IsDeadlineExceeded(status) ? kExitTryAgain : ExitCode(status);
}

// After `last` was shown, the coordinator is not there any more: it ends soon
// after its run.
int AfterTheEnd(const std::string& coordinator, const Json& last) {
  Say(absl::StrCat(coordinator, " answers no more: its run is over (last seen: ",
                   ProgressText(last), "); how it ended is in the coordinator's log"));
  return kExitDone;
}

int Watch(const StatusOptions& options, Answer answer) {
  Screen screen(options);
  while (screen.Show(answer)) {
    if (!options.watch || HasEnded(answer.status)) return kExitDone;
    absl::SleepFor(kEvery);
    absl::StatusOr<Answer> next = Ask(options.coordinator);
    if (absl::IsUnavailable(next.status())) return AfterTheEnd(options.coordinator, answer.status);
    if (!next.ok()) return Fail(next.status());
    answer = *std::move(next);
  }
  return kExitFailed;
}

absl::Status SetAddress(const std::vector<std::string>& addresses, StatusOptions* options) {
  if (addresses.empty()) return absl::OkStatus();
  if (addresses.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("got ", addresses.size(), " addresses, expected one HOST:PORT"));
  }
  return ConnectAddress(&options->coordinator).set(addresses.front());
}

}  // namespace

absl::StatusOr<Parsed<StatusOptions>> ParseStatusOptions(const std::vector<std::string>& args,
                                                         const Environment& environment) {
  Parsed<StatusOptions> parsed;
  OptionParser parser(kProgram, kDescription, {"status"});
  parser.Group("Status");
  parser.Add("watch", "true|false", "again each second, until the run ends or Ctrl-C",
             Switch(&parsed.options.watch));
  parser.Add("json", "true|false", "print what came, as JSON", Switch(&parsed.options.json));
  parser.TakeOperands("HOST:PORT", "the coordinator's --metrics [127.0.0.1:9400]");
  parser.Footer(kFooter);
  Environment own = environment;
  own.erase(VariableOf("json"));
  absl::Status status = parser.Parse(args, own, {}, &parsed);
  if (status.ok() && parsed.print.empty()) status = SetAddress(parser.operands(), &parsed.options);
  if (!status.ok()) return status;
  return parsed;
}

int StatusCommand(const std::vector<std::string>& args, const Environment& environment) {
  const absl::StatusOr<Parsed<StatusOptions>> parsed = ParseStatusOptions(args, environment);
  if (const absl::optional<int> exit_code = EarlyExit(kProgram, parsed)) return *exit_code;
  absl::StatusOr<Answer> first = Ask(parsed->options.coordinator);
  if (first.ok()) return Watch(parsed->options, *std::move(first));
  return Fail(first.status());
}

}  // namespace gradwire
