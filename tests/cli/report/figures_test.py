"""cli/report/figures.py: what descriptions become."""
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCES = pathlib.Path(__file__).resolve().parents[3]
SCRIPT = SOURCES / "cli" / "report" / "figures.py"
sys.path.insert(0, str(SCRIPT.parent))
import figures

LINES = {"name": "loss", "kind": "lines", "title": "Loss", "x_label": "step", "y_label": "loss",
         "series": [{"name": "a", "x": [0, 1, 2], "y": [2.0, None, 1.5]}]}
STACKED = {"name": "phases", "kind": "stacked", "title": "Phases", "x_label": "time (ms)",
           "categories": ["r", "s"],
           "series": [{"name": "forward", "colour": "#56b4e9", "values": [100, 110]},
                      {"name": "exposed", "colour": "#d55e00", "hatch": "////",
                       "values": [50, None]},
                      {"name": "optimizer", "colour": "#009e73", "values": [5, 6]}]}
BOX = {"name": "time", "kind": "box", "title": "Time", "x_label": "time (ms)",
       "categories": ["r", "s"], "series": [{"values": [[1, 2, None, 30], []]}]}


def axes_of(figure, **changes):
    return figures.draw({**figure, **changes}).axes[0]


def legend_of(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()] if axes.get_legend() else []


def hex_of(patch):
    return "#" + "".join(f"{round(255 * part):02x}" for part in patch.get_facecolor()[:3])


RANKS = {"name": "gather", "kind": "ranks", "title": "Gather",
         "panels": [{"name": name, "ranks": [{"input": f"{name} in {rank}", "output": "out"}
                                             for rank in range(3)],
                     "links": [{"from": 1, "to": 0, "label": "8 B"},
                               {"from": 0, "to": 2, "label": "9 B"}]}
                    for name in ("ring", "tree")]}


class Ranks(unittest.TestCase):
    def test_all_texts_are_there_once(self):
        texts = [text.get_text() for text in axes_of(RANKS).texts]
        for name in ("ring", "tree"):
            self.assertEqual(texts.count(name), 1)
            self.assertEqual(texts.count(f"{name} in 2"), 1)
        self.assertEqual(texts.count("rank 1"), 2)
        self.assertEqual(texts.count("8 B"), 2)

    def test_panels_lie_side_by_side(self):
        places = {text.get_text(): text.get_position()[0] for text in axes_of(RANKS).texts}
        self.assertLess(places["ring in 2"], places["tree in 0"])

    def test_label_lies_above_what_goes_to_the_right_and_below_what_goes_to_the_left(self):
        heights = {text.get_text(): text.get_position()[1] for text in axes_of(RANKS).texts}
        self.assertGreater(heights["9 B"], 0)
        self.assertLess(heights["8 B"], 0)


class Lines(unittest.TestCase):
    def test_axes_have_title_and_labels(self):
        axes = axes_of(LINES)
        self.assertEqual((axes.get_title("left"), axes.get_xlabel(), axes.get_ylabel()),
                         ("Loss", "step", "loss"))

    def test_logarithmic_axis_of_few_powers_has_ticks_between_them(self):
        def ticks(values):
            axes = axes_of({**LINES, "y_log": 10, "series": [{"x": [0, 1], "y": values}]})
            low, high = axes.get_ylim()
            # The last bit of a power depends on the processor.
            return [float(f"{tick:.12g}") for tick in axes.get_yticks()
                    if low <= tick * 1.000001 and tick <= high * 1.000001]
        self.assertEqual(ticks([2.0, 54.0]), [2, 5, 10, 20, 50])
        self.assertEqual(ticks([1e-4, 1.0]), [1e-4, 1e-3, 1e-2, 1e-1, 1])

    def test_figure_whose_heading_has_the_title_has_none(self):
        untitled = {name: value for name, value in LINES.items() if name != "title"}
        self.assertEqual(axes_of(untitled).get_title("left"), "")

    def test_long_title_has_lines_that_fit(self):
        title = "Test accuracy by seconds of training: a small net on small images at 100mbit"
        lines = axes_of({**LINES, "title": title}).get_title("left").split("\n")
        self.assertEqual(" ".join(lines), title)
        self.assertLessEqual(max(map(len, lines)), 70)

    def test_null_leaves_a_gap(self):
        values = axes_of(LINES).lines[0].get_ydata()
        self.assertEqual((values[0], values[2]), (2.0, 1.5))
        self.assertTrue(math.isnan(values[1]))

    def test_infinity_leaves_a_gap(self):
        line = {"name": "a", "x": [0, 1], "y": [1.0, math.inf]}
        values = axes_of({**LINES, "series": [line]}).lines[0].get_ydata()
        self.assertTrue(math.isnan(values[1]))

    def test_dashed_has_the_colour_of_the_series_before(self):
        dashed = {"x": [0, 1], "y": [1, 2], "dashed": True}
        more = {"name": "b", "x": [0, 1], "y": [1, 2]}
        first, line, second = axes_of(LINES, series=[LINES["series"][0], dashed, more]).lines
        self.assertEqual(first.get_color(), line.get_color())
        self.assertNotEqual(first.get_color(), second.get_color())
        self.assertEqual(line.get_linestyle(), "--")

    def test_series_differ_by_their_markers_too(self):
        more = {"name": "b", "x": [0, 1], "y": [1, 2]}
        first, second = axes_of(LINES, series=[LINES["series"][0], more]).lines
        self.assertNotEqual(first.get_marker(), second.get_marker())

    def test_many_points_have_no_markers(self):
        series = [{"name": "a", "x": list(range(100)), "y": list(range(100))}]
        self.assertEqual(axes_of(LINES, series=series).lines[0].get_marker(), "None")

    def test_whole_numbers_have_whole_ticks(self):
        series = [{"name": "a", "x": [1, 2], "y": [1, 2]}]
        ticks = axes_of(LINES, series=series).get_xticks()
        self.assertTrue(all(tick == int(tick) for tick in ticks), ticks)

    def test_few_whole_numbers_have_a_tick_each_and_no_other_has_one(self):
        for values in ([1, 3], [32, 64, 128, 256]):
            series = [{"name": "a", "x": values, "y": values}]
            self.assertEqual(list(axes_of(LINES, series=series).get_xticks()), values)

    def test_values_that_are_too_close_for_a_tick_each_have_whole_ones(self):
        series = [{"name": "a", "x": [1, 2, 1000], "y": [1, 2, 3]}]
        self.assertNotIn(1, axes_of(LINES, series=series).get_xticks())

    def test_logarithmic_axes_have_their_base(self):
        series = [{"name": "a", "x": [1, 1024], "y": [1, 100]}]
        axes = axes_of(LINES, series=series, x_log=2, y_log=10)
        self.assertEqual((axes.xaxis.get_transform().base, axes.yaxis.get_transform().base),
                         (2, 10))

    def test_y_from_zero_stands_on_zero(self):
        self.assertEqual(axes_of(LINES, y_from_zero=True).get_ylim()[0], 0)
        self.assertGreater(axes_of(LINES).get_ylim()[0], 0)

    def test_y_from_zero_has_room_above_the_highest_marker(self):
        series = [{"name": "a", "x": [1, 3], "y": [0.52, 0.53]}]
        self.assertGreater(axes_of(LINES, series=series, y_from_zero=True).get_ylim()[1], 0.55)

    def test_y_from_zero_of_no_values_is_drawn(self):
        series = [{"name": "a", "x": [1, 3], "y": [None, None]}]
        self.assertEqual(axes_of(LINES, series=series, y_from_zero=True).get_ylim()[0], 0)

    def test_a_line_below_others_has_larger_markers_which_stay_visible(self):
        series = [{"name": name, "x": [0, 1], "y": [1, 1]} for name in "abc"]
        sizes = [drawn.get_markersize() for drawn in axes_of(LINES, series=series).lines]
        self.assertEqual(sizes, sorted(set(sizes), reverse=True))


class Legend(unittest.TestCase):
    def test_single_series_needs_none(self):
        self.assertEqual(legend_of(axes_of(LINES)), [])

    def test_name_that_begins_with_an_underscore_is_there(self):
        series = [{"name": name, "x": [0], "y": [1]} for name in ("_a", "b")]
        self.assertEqual(legend_of(axes_of(LINES, series=series)), [" _a", "b"])

    def test_dollar_signs_are_no_formula(self):
        series = [{"name": name, "x": [0], "y": [1]} for name in ("$\\nonsense$", "b")]
        files = figures.render({**LINES, "title": "$\\other$", "series": series})
        self.assertIn(b"$\\nonsense$", files["svg"])

    def test_series_without_a_name_is_not_there(self):
        series = [*STACKED["series"], {"values": [1, 1]}]
        self.assertEqual(legend_of(axes_of(STACKED, series=series)),
                         ["forward", "exposed", "optimizer"])


class Rows(unittest.TestCase):
    def test_legend_beside_long_names_of_rows_is_on_the_figure(self):
        series = [{"name": name, "values": [1]} for name in
                  ("forward", "backward", "exposed communication", "optimizer")]
        for letters in (1, 24, 40, 60):
            canvas = figures.draw({**STACKED, "categories": [("ResNet-50, " * 6)[:letters]], "series": series})
            canvas.draw_without_rendering()
            legend = canvas.axes[0].get_legend().get_window_extent()
            self.assertLessEqual(legend.x1, canvas.bbox.x1, letters)

    def test_stacked_begin_where_the_one_before_ends(self):
        bars = axes_of(STACKED).patches
        self.assertEqual([bar.get_x() for bar in bars], [0, 0, 100, 110, 150, 110])
        self.assertEqual([bar.get_width() for bar in bars], [100, 110, 50, 0, 5, 6])

    def test_series_have_their_colours_and_hatches(self):
        bars = axes_of(STACKED).patches[::2]
        self.assertEqual([hex_of(bar) for bar in bars], ["#56b4e9", "#d55e00", "#009e73"])
        self.assertEqual([bool(bar.get_hatch()) for bar in bars], [False, True, False])

    def test_bars_stand_side_by_side_with_their_values(self):
        axes = axes_of(STACKED, kind="bars")
        self.assertEqual([bar.get_x() for bar in axes.patches], [0] * 6)
        self.assertEqual(len({round(bar.get_y(), 6) for bar in axes.patches}), 6)
        self.assertEqual([text.get_text() for text in axes.texts],
                         ["100", "110", "50", "", "5", "6"])

    def test_first_category_is_on_top(self):
        axes = axes_of(STACKED)
        self.assertEqual([label.get_text() for label in axes.get_yticklabels()], ["r", "s"])
        self.assertGreater(*axes.get_ylim())

    def test_box_is_cut_by_the_median_of_what_is_there(self):
        axes = axes_of(BOX)
        medians = [line.get_xdata()[0] for line in axes.lines if line.get_color() == "black"
                   and len(line.get_xdata()) == 2 and line.get_linewidth() == 1.5]
        self.assertEqual(medians[0], 2)

    def test_whiskers_end_at_the_percentiles_even_of_few_values(self):
        axes = axes_of(BOX, series=[{"values": [[0, 1, 2, 10], [1]]}])
        ends = [line.get_xdata()[1] for line in axes.lines if line.get_linewidth() == 1.0
                and len(set(line.get_xdata())) == 2][:2]
        self.assertEqual([round(end, 6) for end in ends], [0.3, 7.6])
        self.assertGreater(axes.get_xlim()[1], 7.6)

    def test_stacked_bars_end_before_the_axis(self):
        self.assertGreater(axes_of(STACKED).get_xlim()[1], 155 * 1.05)

    def test_box_of_one_value_is_drawn(self):
        figures.draw({**BOX, "series": [{"values": [[1], [2, 3]]}]})

    def test_more_rows_make_a_higher_figure(self):
        more = {**BOX, "categories": list("abcdef"), "series": [{"values": [[1, 2]] * 6}]}
        self.assertGreater(figures.draw(more).get_figheight(), figures.draw(BOX).get_figheight())


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)

    def run_script(self, stem, **environment):
        description = self.dir / "d.json"
        description.write_text(json.dumps({"stem": stem, "figures": [LINES, BOX]}))
        return subprocess.run(["/usr/bin/python3", "-B", SCRIPT, description],
                              env={**os.environ, **environment}, capture_output=True, text=True,
                              check=False)

    def test_render_gives_the_three_formats(self):
        files = figures.render(STACKED)
        self.assertEqual(files["png"][:8], b"\x89PNG\r\n\x1a\n")
        self.assertGreater(int.from_bytes(files["png"][16:20], "big"), 1200)
        self.assertIn(b"<svg", files["svg"])
        self.assertEqual(files["pdf"][:5], b"%PDF-")

    def test_equal_descriptions_give_equal_bytes(self):
        self.assertEqual(figures.render(STACKED), figures.render(STACKED))

    def test_script_writes_each_figure_in_each_format(self):
        result = self.run_script(str(self.dir / "out"))
        self.assertEqual(result.returncode, 0, result.stderr)
        written = {path.name for path in self.dir.iterdir()} - {"d.json"}
        self.assertEqual(written, {f"out.{name}.{kind}" for name in ("loss", "time")
                                   for kind in ("png", "svg", "pdf")})

    def test_folder_that_is_not_there_is_named(self):
        result = self.run_script("/no/folder/out")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr,
                         "cannot write /no/folder/out.loss.png: no such file or directory\n")

    def test_file_that_cannot_be_replaced_leaves_no_part(self):
        (self.dir / "out.loss.png").mkdir()
        result = self.run_script(str(self.dir / "out"))
        self.assertEqual(result.returncode, 1)
        self.assertEqual({path.name for path in self.dir.iterdir()}, {"d.json", "out.loss.png"})

    def test_without_matplotlib_its_package_is_named(self):
        (self.dir / "matplotlib.py").write_text("raise ImportError")
        result = self.run_script(str(self.dir / "out"), PYTHONPATH=str(self.dir))
        self.assertEqual(result.returncode, 1)
        self.assertIn("install Debian's package python3-matplotlib", result.stderr)


if __name__ == "__main__":
    unittest.main()
