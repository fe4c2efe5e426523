#include "worker/progress.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/suggest.h"

namespace gradwire {
namespace {

constexpr int kFirstAveraged = 2;
constexpr int kLastAveraged = 41;
constexpr double kWeightOfNewest = 0.1;
constexpr absl::Duration kRedrawInterval = absl::Milliseconds(100);
constexpr int kSmallestBar = 10;
constexpr int kLargestBar = 40;
// Clears what an earlier, longer bar left behind.
constexpr char kClearToEnd[] = "\x1b[K";

std::string Percent(double share) { return absl::StrFormat("%.0f %%", 100 * share); }

// "[=====>    ]" with `width` characters inside.
std::string Bar(double share, int width) {
  const int filled = static_cast<int>(std::clamp(share, 0.0, 1.0) * width);
  std::string inside(filled, '=');
  if (filled < width) inside += '>';
  inside.resize(width, ' ');
  return absl::StrCat("[", inside, "]");
}

double Blend(double old_mean, double value, bool first) {
  return first ? value : old_mean + kWeightOfNewest * (value - old_mean);
}

}  // namespace

absl::StatusOr<ProgressStyle> ChooseProgressStyle(const Environment& environment,
                                                  bool is_terminal) {
  const std::string wish = Value(environment, "GRADWIRE_PROGRESS");
  if (wish == "bar") return ProgressStyle::kBar;
  if (wish == "plain") return ProgressStyle::kPlain;
  if (wish == "none") return ProgressStyle::kNone;
  if (!wish.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("GRADWIRE_PROGRESS: got '", wish,
                                                   "', expected one of bar, plain, none",
                                                   DidYouMean(wish, {"bar", "plain", "none"}, "")));
  }
  const bool can_redraw = is_terminal && Value(environment, "TERM") != "dumb";
  return can_redraw ? ProgressStyle::kBar : ProgressStyle::kPlain;
}

int TerminalColumns(const Environment& environment) {
  int columns = 0;
  const bool number = absl::SimpleAtoi(Value(environment, "COLUMNS"), &columns);
  return number && columns >= 20 && columns <= 1000 ? columns : 80;
}

std::string DurationText(absl::Duration duration) {
  if (duration == absl::InfiniteDuration() || duration < absl::ZeroDuration()) return "?";
  const int64_t seconds = absl::ToInt64Seconds(duration + absl::Milliseconds(500));
  const int64_t hours = seconds / 3600;
  const int64_t minutes = seconds / 60 % 60;
  if (hours > 0) return absl::StrFormat("%d:%02d:%02d", hours, minutes, seconds % 60);
  return absl::StrFormat("%d:%02d", minutes, seconds % 60);
}

std::string PlainLine(const ProgressState& state) {
  const std::string epoch =
      state.epochs > 0 ? absl::StrCat(state.epoch, "/", state.epochs) : absl::StrCat(state.epoch);
  return absl::StrFormat(
      "epoch %s iteration %d/%d loss %.4f %.3f s/iteration %.0f images/s communication %s", epoch,
      state.iteration, state.iterations_per_epoch, state.loss, state.iteration_seconds,
      state.images_per_second, Percent(state.communication_share));
}

std::string BarLine(const ProgressState& state, int columns) {
  const double share =
      static_cast<double>(state.done) / static_cast<double>(std::max<int64_t>(state.total, 1));
  const absl::Duration left =
      absl::Seconds(state.iteration_seconds * static_cast<double>(state.total - state.done));
  const std::string head = absl::StrFormat("%3.0f %% ", 100 * share);
  const std::string tail = absl::StrFormat(
      " %d/%d loss %.4f %.0f images/s communication %s %s left", state.done, state.total,
      state.loss, state.images_per_second, Percent(state.communication_share), DurationText(left));
  const int room = columns - 1 - static_cast<int>(head.size() + tail.size()) - 2;
  std::string line =
      absl::StrCat(head, Bar(share, std::clamp(room, kSmallestBar, kLargestBar)), tail);
  if (static_cast<int>(line.size()) > columns - 1) line.resize(columns - 1);
  return line;
}

ProgressReporter::ProgressReporter(const ProgressOptions& options, Sink sink, Clock clock)
    : options_(options), sink_(std::move(sink)), clock_(std::move(clock)) {}

void ProgressReporter::OnIteration(const IterationRecord& record) {
  ++done_;
  Measure(record);
  if (options_.style == ProgressStyle::kNone) return;
  const ProgressState state = State(record);
  if (options_.print_every > 0 && done_ % options_.print_every == 0) PrintLine(PlainLine(state));
  if (done_ == kLastAveraged) PrintAverage();
  if (options_.style == ProgressStyle::kBar) DrawBar(state);
}

void ProgressReporter::Finish() {
  if (options_.style == ProgressStyle::kNone) return;
  if (!average_printed_ && done_ >= kFirstAveraged) PrintAverage();
  if (bar_is_drawn_) sink_(absl::StrCat(kClearToEnd, "\r"));
  bar_is_drawn_ = false;
}

void ProgressReporter::Measure(const IterationRecord& record) {
  const double seconds = absl::ToDoubleSeconds(record.times.iteration);
  const double communication = absl::ToDoubleSeconds(record.times.communication);
  // The first iteration warms up; the second replaces it.
  const bool first = done_ <= kFirstAveraged;
  seconds_ = Blend(seconds_, seconds, first);
  communication_seconds_ = Blend(communication_seconds_, communication, first);
  samples_ = Blend(samples_, static_cast<double>(record.samples), first);
  if (done_ >= kFirstAveraged && done_ <= kLastAveraged) seconds_sum_ += seconds;
}

ProgressState ProgressReporter::State(const IterationRecord& record) const {
  ProgressState state;
  state.epoch = record.epoch + 1;
  state.epochs = options_.epochs;
  state.iterations_per_epoch = options_.iterations_per_epoch;
  state.iteration = (done_ - 1) % std::max<int64_t>(options_.iterations_per_epoch, 1) + 1;
  state.done = done_;
  state.total = options_.total;
  state.loss = record.loss;
  state.iteration_seconds = seconds_;
  if (seconds_ > 0) {
    state.images_per_second = samples_ * static_cast<double>(options_.world_size) / seconds_;
    state.communication_share = communication_seconds_ / seconds_;
  }
  return state;
}

void ProgressReporter::PrintAverage() {
  const int64_t last = std::min<int64_t>(done_, kLastAveraged);
  const double mean = seconds_sum_ / static_cast<double>(last - kFirstAveraged + 1);
  PrintLine(absl::StrFormat("average iteration time over iterations %d to %d: %.4f s",
                            kFirstAveraged, last, mean));
  average_printed_ = true;
}

void ProgressReporter::PrintLine(absl::string_view line) {
  sink_(absl::StrCat(bar_is_drawn_ ? kClearToEnd : "", line, "\n"));
}

void ProgressReporter::DrawBar(const ProgressState& state) {
  const absl::Time now = clock_();
  if (state.done < state.total && now - last_drawn_ < kRedrawInterval) return;
  sink_(absl::StrCat(BarLine(state, options_.columns), kClearToEnd, "\r"));
  last_drawn_ = now;
  bar_is_drawn_ = true;
}

}  // namespace gradwire
