#include "worker/report/progress.h"

#include <sys/ioctl.h>

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "worker/report/progress_format.h"

namespace gradwire {
namespace {

// The course's average, of 39 values: iterations 2 to 40.
constexpr int64_t kLastAveraged = 40;
constexpr size_t kRecent = 20;
// Otherwise a fast model would spend its time on the terminal.
constexpr absl::Duration kDrawInterval = absl::Milliseconds(100);

}  // namespace

absl::StatusOr<ProgressMode> DetectMode(const Environment& environment, bool is_terminal) {
  const std::string wanted = Value(environment, "GRADWIRE_PROGRESS");
  if (wanted == "bar") return ProgressMode::kBar;
  if (wanted == "plain") return ProgressMode::kPlain;
  if (wanted == "none") return ProgressMode::kNone;
  if (!wanted.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("GRADWIRE_PROGRESS: got \"", wanted, "\", expected bar, plain or none"));
  }
  const bool can_redraw = is_terminal && Value(environment, "TERM") != "dumb";
  return can_redraw ? ProgressMode::kBar : ProgressMode::kPlain;
}

bool UseColour(const Environment& environment) { return Value(environment, "NO_COLOR").empty(); }

int TerminalWidth(const Environment& environment, int fd) {
  int columns = 0;
  if (absl::SimpleAtoi(Value(environment, "COLUMNS"), &columns) && columns > 0) return columns;
  winsize size = {};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

void ProgressReporter::OnStep(const StepRecord& record) {
  Remember(record);
  if (options_.mode == ProgressMode::kNone) return;
  const Progress progress = Now(record);
  if (IsPrinted(record.step.value(), options_.print_every)) PrintLine(FormatPlain(progress));
  if (done_ == kLastAveraged) PrintAverage();
  if (options_.mode == ProgressMode::kBar) DrawBar(progress, record.iteration);
}

void ProgressReporter::OnEpoch(const EpochRow& row) {
  if (options_.mode == ProgressMode::kNone || options_.print_every == 0) return;
  PrintLine(FormatEpoch(row, options_.epochs));
}

void ProgressReporter::Pause() {
  if (drawn_) out_ << '\n' << std::flush;
  drawn_ = false;
}

void ProgressReporter::Finish() {
  if (options_.mode == ProgressMode::kNone) return;
  Pause();
  if (!average_printed_ && done_ > 1) PrintAverage();
}

// The first iteration warms up, so it is dropped as soon as there is another.
void ProgressReporter::Remember(const StepRecord& record) {
  if (done_ == 0) before_ = static_cast<int64_t>(record.step.value());
  if (done_ == 1 || recent_.size() == kRecent) recent_.pop_front();
  recent_.push_back({record.samples, record.iteration, record.phases[Phase::kCommunication]});
  ++done_;
  if (done_ > 1 && done_ <= kLastAveraged) since_first_ += record.iteration;
}

Progress ProgressReporter::Now(const StepRecord& record) const {
  Sample sum;
  for (const Sample& sample : recent_) {
    sum.samples += sample.samples;
    sum.iteration += sample.iteration;
    sum.communication += sample.communication;
  }
  const auto step = static_cast<int64_t>(record.step.value());
  const int64_t step_in_epoch = step - record.epoch * options_.steps_per_epoch;
  const int64_t left = std::max<int64_t>(options_.total_steps - step - 1, 0);
  const absl::Duration mean = sum.iteration / static_cast<int64_t>(recent_.size());
  Progress progress;
  progress.epoch = record.epoch + 1;
  progress.epochs = options_.epochs;
  progress.iteration_in_epoch = step_in_epoch;
  // The run may end within an epoch.
  progress.iterations_in_epoch = std::min(options_.steps_per_epoch, step_in_epoch + 1 + left);
  progress.iteration = step + 1;
  progress.iterations = options_.total_steps;
  progress.loss = record.loss;
  progress.seconds_per_iteration = absl::ToDoubleSeconds(mean);
  progress.left = left * mean;
  if (sum.iteration <= absl::ZeroDuration()) return progress;
  progress.images_per_second =
      static_cast<double>(sum.samples * options_.world_size) / absl::ToDoubleSeconds(sum.iteration);
  progress.communication_share = absl::FDivDuration(sum.communication, sum.iteration);
  return progress;
}

void ProgressReporter::PrintAverage() {
  average_printed_ = true;
  if (options_.print_every == 0) return;
  const int64_t last = std::min(done_, kLastAveraged);
  PrintLine(FormatAverage(before_ + 2, before_ + last, since_first_ / (last - 1)));
}

void ProgressReporter::PrintLine(absl::string_view line) {
  out_ << (drawn_ ? Padded(line, options_.width) : std::string(line)) << '\n' << std::flush;
  drawn_ = false;
}

void ProgressReporter::DrawBar(const Progress& progress, absl::Duration iteration) {
  since_drawn_ += iteration;
  const bool last = progress.iteration >= progress.iterations;
  if (drawn_ && !last && since_drawn_ < kDrawInterval) return;
  since_drawn_ = absl::ZeroDuration();
  drawn_ = true;
  out_ << FormatBar(progress, options_.width, options_.colour) << '\r' << std::flush;
}

}  // namespace gradwire
