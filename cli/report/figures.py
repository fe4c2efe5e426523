#!/usr/bin/python3
"""Draws figures for print and screen: PNG, SVG and PDF of each.

    figures.py FILE     FILE: JSON, described here

{"stem": "out/course",          figure "loss" becomes out/course.loss.png, .svg and .pdf
 "figures": [{
   "name": "loss",
   "kind": "lines",             or "bars", "stacked", "box" or "ranks"
   "title": "Loss",             optional, if a heading beside the figure has it
   "x_label": "step",           with its unit, if it has one
   "y_label": "loss",
   "x_log": 2, "y_log": 10,     optional: a logarithmic axis, to this base
   "y_from_zero": true,         optional, for lines; bars and boxes always start at zero
   "categories": ["a", "b"],    not for lines: names of the rows of bars or boxes
   "series": [{
     "name": "ddp",             in the legend; optional
     "colour": "#56b4e9",       optional
     "hatch": "////",           optional, matplotlib's, for print without colors
     "x": [...], "y": [...],    lines; a null leaves a gap
     "dashed": true,            lines, optional: no markers, and the color of the previous series
     "values": [...]}],         a number for each category; a list of numbers for a box
   "panels": [{                 ranks only, in place of series: side by side
     "name": "ring",
     "ranks": [{"input": "0 1", "output": "5 6"}],
     "links": [{"from": 0, "to": 1, "label": "16 B"}]}]}]}

Bars and boxes are horizontal, so that long names have room. Boxes hold the middle half of their
values, with a line at the median; whiskers go from the 10th percentile to the 90th. Each rank is
drawn with its input above and its output below, and each link as an arrow. Exit: 0 done, 1 failed;
the last line on stderr says why.
"""
import io
import json
import math
import pathlib
import sys
import textwrap

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from cli.runs.failure import Failure
from cli.runs.output_file import replace_file
from cli.runs.quantiles import quantile

try:
    import matplotlib
except ImportError:
    sys.exit("matplotlib, which draws the figures, is missing: "
             "install Debian's package python3-matplotlib")
matplotlib.use("Agg")
from matplotlib.cbook import boxplot_stats
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from matplotlib.ticker import FormatStrFormatter, LogLocator, MaxNLocator, NullFormatter

# Okabe and Ito's colors, which most color-blind people can tell apart. Markers help in print.
COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7f7f7f"]
MARKERS = "osD^vPX"
MOST_MARKED = 40      # a line with more points has no markers
MARKER, NEXT_MARKER, LEAST_MARKER = 7.0, 1.0, 3.0  # points: of the first line, less for each after it
MOST_TICKS = 6        # at values of x: if there are more, matplotlib chooses the ticks
LEAST_GAP = 0.05      # between such ticks, relative to the axis
FEW_POWERS = 1000     # a logarithmic axis of y that spans less has more ticks
ROOM = 1.06           # of an axis from zero, relative to the largest value
WIDTH = 6.3           # inches: the text of an A4 page
HEIGHTS = {"lines": 3.5, "ranks": 2.9}
TITLE_WIDTH = 70      # characters
ROW_HEIGHT = 0.3
LETTER = 0.065        # width of one, about
AXIS = 0.3            # beside the names of the rows
HANDLE = 0.5          # of a legend, with its gap
MOST_COLUMNS = 6
ARC = 0.45            # bend of a link, relative to its length
STYLE = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#d8dde3",
    "hatch.color": "white",
    "hatch.linewidth": 0.8,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "pdf.fonttype": 42,
    "svg.hashsalt": "gradwire",
}
FORMATS = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


def colour_of(series, index):
    return series.get("colour") or COLOURS[index % len(COLOURS)]


def plain(text):
    """Escapes dollar signs, which would begin a formula."""
    return text.replace("$", r"\$")


def label_of(series):
    """Returns the label in the legend, from which matplotlib omits names that begin with _."""
    if "name" not in series:
        return "_"
    return plain(f" {series['name']}" if series["name"].startswith("_") else series["name"])


def numbers(values):
    """Returns NaN, which is not drawn, for what is None or not finite."""
    return [value if value is not None and math.isfinite(value) else float("nan")
            for value in values]


def draw_lines(axes, figure):
    index = -1
    for series in figure["series"]:
        dashed = series.get("dashed", False)
        index += 0 if dashed else 1
        marked = not dashed and len(series["x"]) <= MOST_MARKED
        axes.plot(numbers(series["x"]), numbers(series["y"]), label=label_of(series),
                  color=colour_of(series, max(index, 0)), linewidth=1.5,
                  linestyle="--" if dashed else "-",
                  marker=MARKERS[index % len(MARKERS)] if marked else None,
                  markersize=max(LEAST_MARKER, MARKER - index * NEXT_MARKER))
    place_ticks(axes, sorted({x for series in figure["series"] for x in series["x"]}))
    if figure.get("y_from_zero"):
        highest = axes.dataLim.y1
        axes.set_ylim(0, ROOM * highest if 0 < highest < math.inf else None)


def place_ticks(axes, values):
    """Places the ticks of x, whose `values` are sorted. Few whole numbers each have one, so that no
    tick is where nothing was measured."""
    if not all(value == int(value) for value in values):
        return
    gaps = [after - before for before, after in zip(values, values[1:])]
    if len(values) <= MOST_TICKS and all(gap >= LEAST_GAP * sum(gaps) for gap in gaps):
        axes.set_xticks(values)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def label_few_powers(axes):
    """Places ticks also at 2 and 5 times the powers of ten, if an axis of y has few of these."""
    low, high = axes.get_ylim()
    if axes.yaxis.get_transform().base == 10 and high < low * FEW_POWERS:
        axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FormatStrFormatter("%g"))
        axes.yaxis.set_minor_formatter(NullFormatter())


def draw_bars(axes, figure):
    all_series = figure["series"]
    height = 0.8 / len(all_series)
    for index, series in enumerate(all_series):
        middle = (index - (len(all_series) - 1) / 2) * height
        bars = axes.barh([row + middle for row in range(len(series["values"]))],
                         numbers(series["values"]), height * 0.95, label=label_of(series),
                         color=colour_of(series, index))
        axes.bar_label(bars, fmt="%.4g", padding=2, fontsize=8)
    axes.margins(x=0.12)


def draw_stacked(axes, figure):
    ends = [0.0] * len(figure["categories"])
    for index, series in enumerate(figure["series"]):
        values = [0.0 if math.isnan(value) else value for value in numbers(series["values"])]
        axes.barh(range(len(values)), values, 0.7, left=ends, label=label_of(series),
                  color=colour_of(series, index), edgecolor="white", linewidth=0.5,
                  hatch=series.get("hatch"))
        ends = [end + value for end, value in zip(ends, values)]
    axes.set_xlim(right=ROOM * max(ends, default=0) or None)


def box_of(values):
    """Returns matplotlib's description of a box. Its own whiskers would end at a value, and be missing
    if there are few."""
    values = [value for value in values if value is not None]
    (box,) = boxplot_stats(values)
    if values:
        box["whislo"], box["whishi"] = quantile(values, 0.1), quantile(values, 0.9)
    return box


def draw_box(axes, figure):
    # matplotlib 3.10 renamed the argument, and warns of the old name.
    is_new = matplotlib.__version_info__[:2] >= (3, 10)
    flat = {"orientation": "horizontal"} if is_new else {"vert": False}
    for index, series in enumerate(figure["series"]):
        boxes = axes.bxp([box_of(values) for values in series["values"]],
                         positions=range(len(series["values"])), widths=0.6, **flat,
                         showfliers=False, patch_artist=True,
                         medianprops={"color": "black", "linewidth": 1.5})
        for box in boxes["boxes"]:
            box.set_facecolor(colour_of(series, index))
            box.set_label(label_of(series) if box is boxes["boxes"][0] else "_")
    axes.margins(x=0.05)


def draw_rank(axes, x, rank, values):
    axes.text(x, 0, f"rank {rank}", fontsize=7, ha="center", va="center", zorder=3,
              bbox={"boxstyle": "round", "facecolor": "#e8eef4", "edgecolor": COLOURS[0]})
    for y, field in ((1.25, "input"), (-1.25, "output")):
        axes.text(x, y, plain(values[field]), fontsize=6, family="monospace", ha="center",
                  va="center")


def draw_link(axes, start, end, label):
    """Draws an arc: above the ranks to the right, below them to the left."""
    axes.add_patch(FancyArrowPatch((start, 0), (end, 0), connectionstyle=f"arc3,rad={-ARC}",
                                   arrowstyle="-|>", mutation_scale=8, shrinkA=13, shrinkB=13,
                                   color=COLOURS[5], linewidth=0.9))
    axes.text((start + end) / 2, ARC * (end - start) / 2, plain(label), fontsize=6, ha="center",
              va="center", zorder=4,
              bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"})


def draw_ranks(axes, figure):
    axes.set_axis_off()
    axes.set_aspect("equal")  # otherwise labels would miss their arcs
    left = 0
    for panel in figure["panels"]:
        right = left + len(panel["ranks"]) - 1
        axes.text((left + right) / 2, 1.75, plain(panel["name"]), ha="center", weight="bold")
        for rank, values in enumerate(panel["ranks"]):
            draw_rank(axes, left + rank, rank, values)
        for link in panel["links"]:
            draw_link(axes, left + link["from"], left + link["to"], link["label"])
        left = right + 1.5
    axes.set_xlim(-0.6, left - 0.9)
    axes.set_ylim(-1.6, 2)


DRAWERS = {"lines": draw_lines, "bars": draw_bars, "stacked": draw_stacked, "box": draw_box,
           "ranks": draw_ranks}


def rows_of(figure):
    bars = len(figure["series"]) if figure["kind"] == "bars" else 1
    return len(figure["categories"]) * max(1.0, bars * 0.6)


def name_rows(axes, figure):
    axes.set_yticks(range(len(figure["categories"])), map(plain, figure["categories"]))
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(figure["categories"]) - 0.5, -0.5)
    if "x_log" not in figure:
        axes.set_xlim(left=0)


def title_of(figure):
    return plain(textwrap.fill(figure.get("title", ""), TITLE_WIDTH))


def legend_columns(labels, categories):
    """Returns how many columns fit above the axes, beside the names of the rows."""
    room = WIDTH - AXIS - LETTER * max(map(len, categories))
    return max(1, min(MOST_COLUMNS, int(room / (HANDLE + LETTER * max(map(len, labels))))))


def add_legend(axes, figure):
    """Above the plot, so that it hides nothing; a single series needs none."""
    handles, labels = axes.get_legend_handles_labels()
    if len(labels) < 2:
        return
    columns = legend_columns(labels, figure.get("categories", [""]))
    axes.legend(handles, labels, loc="lower left", bbox_to_anchor=(0, 1), ncols=columns,
                borderaxespad=0.2, columnspacing=1.5, handlelength=1.8)
    rows = -(-len(labels) // columns)
    axes.set_title(title_of(figure), loc="left", pad=8 + 13 * rows)


def draw(figure):
    """Returns a matplotlib Figure of one description."""
    lines, has_rows = figure["kind"] == "lines", "categories" in figure
    height = 1.4 + ROW_HEIGHT * rows_of(figure) if has_rows else HEIGHTS[figure["kind"]]
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        canvas = Figure(figsize=(WIDTH, height))
        axes = canvas.add_subplot()
        axes.set_title(title_of(figure), loc="left")
        axes.grid(True, axis="both" if lines else "x")
        axes.set_xlabel(plain(figure.get("x_label", "")))
        axes.set_ylabel(plain(figure.get("y_label", "")))
        DRAWERS[figure["kind"]](axes, figure)
        if "x_log" in figure:
            axes.set_xscale("log", base=figure["x_log"])
        if "y_log" in figure:
            axes.set_yscale("log", base=figure["y_log"])
            label_few_powers(axes)
        if has_rows:
            name_rows(axes, figure)
        add_legend(axes, figure)
    return canvas


def render(figure):
    """Returns {"png": bytes, "svg": bytes, "pdf": bytes}, equal for equal descriptions."""
    canvas = draw(figure)
    files = {}
    with matplotlib.rc_context(STYLE):
        for kind, metadata in FORMATS.items():
            file = io.BytesIO()
            canvas.savefig(file, format=kind, dpi=200, metadata=metadata)
            files[kind] = file.getvalue()
    return files


def main(path):
    with open(path, encoding="utf-8") as file:
        description = json.load(file)
    for figure in description["figures"]:
        for kind, content in render(figure).items():
            replace_file(f"{description['stem']}.{figure['name']}.{kind}", content)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: figures.py FILE")
    try:
        main(sys.argv[1])
    except Failure as failure:
        sys.exit(str(failure))
