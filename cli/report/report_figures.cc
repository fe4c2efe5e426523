#include "cli/report/report_figures.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace gradwire {
namespace {

constexpr size_t kPointsOfALine = 400;
constexpr size_t kUprightLabels = 5;  // more stand aslant
constexpr double kTicEachRank = 16;
// Told apart also by most who are colour-blind (Okabe and Ito), in this order.
constexpr const char* kColours[] = {"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                    "#56b4e9", "#d55e00", "#7f7f7f"};

std::string Colour(size_t index) { return kColours[index % std::size(kColours)]; }

// A number as gnuplot reads it; its word for a missing one.
std::string Cell(double value) {
  return std::isfinite(value) ? absl::StrFormat("%.9g", value) : "NaN";
}

std::string Head(const std::string& key) {
  return absl::StrCat("set terminal svg size 820,420 noenhanced font 'sans-serif,13' ",
                      "background 'white' name '", key, "'\n",
                      "set encoding utf8\nset grid ytics lc rgb '#d0d0d0'\n",
                      "set key outside right top\nset border 3\nset tics nomirror\n");
}

std::string BarHead(const std::string& key, const char* style, size_t bars) {
  return absl::StrCat(Head(key), "set style data histograms\nset style histogram ", style,
                      "\nset style fill solid noborder\nset boxwidth 0.8\nset yrange [0:*]\n",
                      "set ylabel 'seconds'\n",
                      bars > kUprightLabels ? "set xtics rotate by -30\n" : "");
}

std::vector<const RunStats*> Timed(const std::vector<RunStats>& runs) {
  std::vector<const RunStats*> timed;
  for (const RunStats& run : runs) {
    if (std::isfinite(run.iteration.mean)) timed.push_back(&run);
  }
  return timed;
}

// "$data", a line for each run: its name and what `values` gives.
template <typename Values>
std::string BarData(const std::vector<const RunStats*>& runs, Values values) {
  std::string data = "$data << END_OF_DATA\n";
  for (const RunStats* run : runs) {
    absl::StrAppend(&data, "\"", PlainLabel(run->name), "\"");
    for (const double value : values(*run)) absl::StrAppend(&data, " ", Cell(value));
    data += "\n";
  }
  return data + "END_OF_DATA\n";
}

// plot a column of $data for each title.
std::string PlotBars(const std::vector<std::string>& titles) {
  std::vector<std::string> plots;
  for (size_t i = 0; i < titles.size(); ++i) {
    plots.push_back(absl::StrCat("$data using ", i + 2, i == 0 ? ":xtic(1)" : "", " title '",
                                 titles[i], "' lc rgb '", Colour(i), "'"));
  }
  return absl::StrCat("plot ", absl::StrJoin(plots, ", \\\n     "), "\n");
}

Figure IterationFigure(const std::vector<const RunStats*>& runs) {
  const std::string data = BarData(runs, [](const RunStats& run) {
    return std::vector<double>{run.iteration.p50, run.iteration.p90};
  });
  return {"iteration", "Iteration time",
          "Median and 90th percentile over all iterations of all ranks but each rank's first.",
          BarHead("iteration", "clustered gap 1", runs.size()) + data +
              PlotBars({"median", "90th percentile"})};
}

Figure PhaseFigure(const std::vector<const RunStats*>& runs) {
  const std::string data = BarData(runs, [](const RunStats& run) {
    const PhaseSeconds& phases = run.phases;
    return std::vector<double>{phases.data,      phases.forward,
                               phases.backward,  phases.exposed_communication,
                               phases.optimizer, OtherSeconds(run)};
  });
  return {"phases", "Where an iteration goes",
          "Means of the phases of an iteration. Communication that runs beside forward or "
          "backward takes no time of its own; what stands here is the exposed part.",
          BarHead("phases", "rowstacked", runs.size()) + data +
              PlotBars({"waiting for data", "forward", "backward", "exposed communication",
                        "optimizer", "other"})};
}

// (step, loss), at most kPointsOfALine of them, each the mean of its neighbours.
std::vector<std::pair<double, double>> LossPoints(const RunStats& run) {
  std::vector<std::pair<double, double>> all;
  for (const StepStats& step : run.by_step) {
    if (std::isfinite(step.loss)) all.emplace_back(static_cast<double>(step.step), step.loss);
  }
  const size_t together = (all.size() + kPointsOfALine - 1) / kPointsOfALine;
  std::vector<std::pair<double, double>> points;
  for (size_t begin = 0; begin < all.size(); begin += together) {
    const size_t end = std::min(begin + together, all.size());
    std::pair<double, double> sum;
    for (size_t i = begin; i < end; ++i) {
      sum.first += all[i].first;
      sum.second += all[i].second;
    }
    const auto count = static_cast<double>(end - begin);
    points.emplace_back(sum.first / count, sum.second / count);
  }
  return points;
}

// Data blocks and what to plot of them.
struct Lines {
  std::string data;
  std::vector<std::string> plots;

  void Add(const std::vector<std::pair<double, double>>& points, const std::string& plot) {
    const std::string name = absl::StrCat("$line", plots.size());
    absl::StrAppend(&data, name, " << END_OF_DATA\n");
    for (const auto& [x, y] : points) absl::StrAppend(&data, Cell(x), " ", Cell(y), "\n");
    data += "END_OF_DATA\n";
    plots.push_back(absl::StrCat(name, " using 1:2 ", plot));
  }
  std::string Script() const {
    return absl::StrCat(data, "plot ", absl::StrJoin(plots, ", \\\n     "), "\n");
  }
};

std::string LineStyle(const char* kind, const std::string& title, const std::string& colour) {
  return absl::StrCat("with ", kind, " lw 2 lc rgb '", colour, "' title '", PlainLabel(title), "'");
}

Figure LossFigure(const std::vector<RunStats>& runs) {
  Lines lines;
  for (const RunStats& run : runs) {
    const auto points = LossPoints(run);
    if (points.empty()) continue;
    // A line of a single point would not be seen.
    const char* kind = points.size() == 1 ? "points pt 7" : "lines";
    lines.Add(points, LineStyle(kind, run.name, Colour(lines.plots.size())));
  }
  if (lines.plots.empty()) return {};
  return {"loss", "Loss",
          "Mean of the ranks' batches, by step; of a long run, means of neighbouring steps.",
          absl::StrCat(Head("loss"), "set xlabel 'step'\nset ylabel 'loss'\n", lines.Script())};
}

using Scaling = std::map<std::string, std::vector<std::pair<double, double>>>;

// (ranks, samples a second) by set-up, of those with several numbers of ranks.
Scaling ScalingOf(const std::vector<const RunStats*>& runs) {
  Scaling scaling;
  for (const RunStats* run : runs) {
    if (!std::isfinite(run->samples_per_second)) continue;
    scaling[run->setup].emplace_back(run->ranks, run->samples_per_second);
  }
  for (auto setup = scaling.begin(); setup != scaling.end();) {
    auto& points = setup->second;
    std::sort(points.begin(), points.end());
    const bool grows = points.front().first < points.back().first;
    setup = grows ? std::next(setup) : scaling.erase(setup);
  }
  return scaling;
}

Figure ScalingFigure(const std::vector<const RunStats*>& runs) {
  const Scaling scaling = ScalingOf(runs);
  if (scaling.empty()) return {};
  Lines lines;
  size_t colour = 0;
  double most_ranks = 0;
  for (const auto& [setup, points] : scaling) {
    most_ranks = std::max(most_ranks, points.back().first);
    lines.Add(points, LineStyle("linespoints pt 7", setup, Colour(colour)));
    const auto [ranks, speed] = points.front();
    const double most = points.back().first;
    lines.Add({{ranks, speed}, {most, speed * most / ranks}},
              absl::StrCat("with lines dt 2 lc rgb '", Colour(colour), "' title '",
                           colour == 0 ? "linear" : "", "'"));
    ++colour;
  }
  return {"scaling", "Scaling",
          "Samples a second of all ranks together, by their number; dashed: as many times more "
          "as there are ranks.",
          absl::StrCat(Head("scaling"), "set xlabel 'ranks'\nset ylabel 'samples/s'\n",
                       "set xtics ", most_ranks > kTicEachRank ? "autofreq" : "1",
                       "\nset yrange [0:*]\nset offsets 0.2, 0.2, 0, 0\n", lines.Script())};
}

}  // namespace

std::string PlainLabel(absl::string_view name) {
  std::string label;
  for (const char c : name) {
    const bool special = absl::string_view("\"'`\\$@{}").find(c) != absl::string_view::npos;
    const bool control = static_cast<unsigned char>(c) < ' ' || c == 0x7f;
    label += special || control ? '_' : c;
  }
  return label;
}

std::vector<Figure> MakeFigures(const std::vector<RunStats>& runs) {
  const std::vector<const RunStats*> timed = Timed(runs);
  std::vector<Figure> figures;
  if (!timed.empty()) figures = {IterationFigure(timed), PhaseFigure(timed)};
  for (Figure& figure : std::vector<Figure>{LossFigure(runs), ScalingFigure(timed)}) {
    if (!figure.script.empty()) figures.push_back(std::move(figure));
  }
  return figures;
}

}  // namespace gradwire
