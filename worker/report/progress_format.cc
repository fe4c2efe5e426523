#include "worker/report/progress_format.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gradwire {
namespace {

constexpr int kMostCells = 30;
constexpr int kFewestCells = 5;

// Returns the columns that can be used without a wrap.
size_t Columns(int width) { return static_cast<size_t>(std::max(width - 1, 0)); }

std::string Seconds(double seconds) {
  // Three decimals are not enough for a fast model.
  return seconds < 0.1 ? absl::StrFormat("%.3g s", seconds) : absl::StrFormat("%.3f s", seconds);
}

std::string ImagesPerSecond(double rate) {
  // A tenth is too coarse for a large model.
  return rate < 1 ? absl::StrFormat("%.2g", rate)
                  : absl::StrFormat("%.*f", rate < 10 ? 1 : 0, rate);
}

std::string Rates(const Progress& progress) {
  return absl::StrFormat("%s images/s  communication %.0f %%  left %s",
                         ImagesPerSecond(progress.images_per_second),
                         100 * progress.communication_share, FormatLeft(progress.left));
}

std::string Words(const Quality& quality) {
  return absl::StrFormat("loss %.4f  accuracy %.2f %%", quality.loss, 100 * quality.accuracy);
}

std::string Cells(const Progress& progress, int cells) {
  const double share = static_cast<double>(progress.iteration) /
                       static_cast<double>(std::max<int64_t>(progress.iterations, 1));
  const int full = static_cast<int>(std::min(share, 1.0) * cells);
  return absl::StrCat(std::string(static_cast<size_t>(full), '#'),
                      std::string(static_cast<size_t>(cells - full), '-'));
}

}  // namespace

std::string FormatLeft(absl::Duration left) {
  const int64_t seconds = absl::ToInt64Seconds(left + absl::Milliseconds(500));
  if (seconds < 60) return absl::StrCat(seconds, " s");
  if (seconds < 3600) return absl::StrCat(seconds / 60, " min ", seconds % 60, " s");
  const int64_t minutes = (seconds + 30) / 60;
  return absl::StrCat(minutes / 60, " h ", minutes % 60, " min");
}

std::string FormatPlain(const Progress& progress) {
  return absl::StrFormat("epoch %d/%d iteration %d/%d loss %.4f  %s/iteration  %s", progress.epoch,
                         progress.epochs, progress.iteration_in_epoch, progress.iterations_in_epoch,
                         progress.loss, Seconds(progress.seconds_per_iteration), Rates(progress));
}

std::string FormatBar(const Progress& progress, int width, bool colour) {
  const std::string text = absl::StrFormat("%d/%d  loss %.4f  %s", progress.iteration,
                                           progress.iterations, progress.loss, Rates(progress));
  const int room = width - 1 - static_cast<int>(text.size()) - 3;  // brackets and a space
  if (room < kFewestCells) return Padded(absl::string_view(text).substr(0, Columns(width)), width);
  const int cells = std::min(room, kMostCells);
  const std::string bar = Cells(progress, cells);
  const std::string rest = Padded(text, width - cells - 3);
  if (!colour) return absl::StrCat("[", bar, "] ", rest);
  return absl::StrCat("[\033[32m", bar, "\033[0m] ", rest);
}

std::string FormatEpoch(const EpochRow& row, int64_t epochs) {
  return absl::StrCat("epoch ", row.epoch + 1, "/", epochs, ": ", Words(row.train), "  lr ",
                      absl::StrFormat("%.4g", row.lr), "  ", Seconds(row.seconds), ", ",
                      Seconds(row.seconds_without_loading), " without loading",
                      row.test.has_value() ? "  test " + Words(*row.test) : "");
}

std::string FormatAverage(int64_t first_iteration, int64_t last_iteration, absl::Duration mean) {
  return absl::StrCat("average iteration time over iterations ", first_iteration, " to ",
                      last_iteration, ": ", Seconds(absl::ToDoubleSeconds(mean)));
}

std::string Padded(absl::string_view line, int width) {
  std::string padded(line);
  if (padded.size() < Columns(width)) padded.resize(Columns(width), ' ');
  return padded;
}

}  // namespace gradwire
