"""cli/report/page.py: what it says of runs, in its tables, figures and page."""
import csv
import io
import math
import pathlib
import sys
import unittest

SOURCES = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(SOURCES), str(SOURCES / "tests" / "support")]
from cli.launch.bottleneck import bottleneck
from cli.report import page as report
from cli.report.grouping import LoggedRun
from cli.report.logs import parse_log
from logs import log_line, log_text
from phases import PHASES


def run_of(*texts, name="a", setup="a"):
    logs = [parse_log("a", text.encode(), PHASES) for text in texts]
    return report.Run(LoggedRun(name, setup, logs), PHASES)


def run_named(name, setup, ranks=1, steps=3, seconds=0.5):
    return run_of(*(log_text(rank, steps, seconds) for rank in range(ranks)),
                  name=name, setup=setup)


TWO = (log_text(0, seconds=0.4), log_text(1, seconds=0.6))


class Runs(unittest.TestCase):
    def test_two_ranks_have_their_means(self):
        row = run_of(*TWO).row
        self.assertEqual((row["ranks"], row["steps"]), (2, 3))
        self.assertAlmostEqual(row["iteration_seconds_mean"], 0.5)
        self.assertAlmostEqual(row["exposed_communication_seconds"], 0.05)
        self.assertAlmostEqual(row["exposed_share"], 0.1)
        self.assertEqual(row["bytes_sent_per_rank_and_step"], 1000000)
        self.assertEqual((row["first_loss"], row["last_loss"]), (2.0, 1.8))

    def test_samples_a_second_are_of_all_ranks_together(self):
        self.assertAlmostEqual(run_of(*TWO).samples_per_second, 8 / 0.4 + 8 / 0.6)

    def test_bytes_are_a_mean_over_the_steps_of_all_ranks(self):
        row = run_of(log_line(0, 0, bytes_sent=600) + log_line(0, 1, bytes_sent=0),
                     log_line(1, 0, bytes_sent=0) + log_line(1, 1, bytes_sent=1000)).row
        self.assertEqual(row["bytes_sent_per_rank_and_step"], 400)

    def test_first_and_last_loss_are_of_the_steps_that_have_a_finite_one(self):
        losses = [None, 3.0, 2.0, 1.0, None]
        row = run_of("".join(log_line(0, step, loss=loss) for step, loss in enumerate(losses))).row
        self.assertEqual((row["first_loss"], row["last_loss"]), (3.0, 1.0))

    def test_log_that_begins_in_the_middle_has_no_time_of_its_first_iteration(self):
        run = run_of(log_text(0, 4, 1), log_line(1, 2, 9) + log_line(1, 3, 3))
        self.assertAlmostEqual(run.row["iteration_seconds_mean"], 1.5)
        self.assertEqual([(step["step"], step["ranks"]) for step in run.steps],
                         [(0, 1), (1, 1), (2, 2), (3, 2)])

    def test_percentiles_lie_between_the_nearest_values(self):
        log = "".join(log_line(0, step, seconds) for step, seconds in enumerate([9, 1, 2, 3, 4]))
        row = run_of(log).row
        self.assertAlmostEqual(row["iteration_seconds_p50"], 2.5)
        self.assertAlmostEqual(row["iteration_seconds_p90"], 3.7)

    def test_first_iteration_counts_in_no_time(self):
        run = run_of(log_line(0, 0, 9) + log_line(0, 1, 1) + log_line(0, 2, 1))
        self.assertEqual(run.row["iteration_seconds_mean"], 1)

    def test_one_iteration_has_a_loss_and_no_times(self):
        row = run_of(log_text(0, 1)).row
        for field in ("iteration_seconds_p50", "forward_seconds", "exposed_share"):
            self.assertTrue(math.isnan(row[field]), field)
        self.assertEqual(row["last_loss"], 2.0)

    def test_summary_has_means_behind_the_first_iteration(self):
        first, second = run_of(log_line(0, 0, 9) + log_line(0, 1, 1) + log_line(0, 2, 2),
                               log_text(1)).summaries()
        self.assertEqual((first["rank"], second["rank"]), (0, 1))
        self.assertEqual(first["iteration_seconds"], {"mean": 1.5})
        self.assertEqual(set(first["phase_seconds"]), {phase["name"] for phase in PHASES})
        self.assertAlmostEqual(first["phase_seconds"]["backward"], 1.35)

    def test_summary_of_one_iteration_has_no_times(self):
        self.assertEqual(run_of(log_text(0, 1)).summaries(),
                         [{"rank": 0, "iteration_seconds": {}, "phase_seconds": {},
                           "own_work_seconds": {}, "ranks_of_worker": {"last": [0]},
                           "failures": {"recoveries": [{"adopted": []}]}}])

    def test_ranks_with_the_same_times_in_a_step_are_of_one_worker(self):
        first, second, third = (summary["ranks_of_worker"] for summary in run_of(
            log_line(0, 0, 0.4) + log_line(0, 1, 0.4) + log_line(0, 2, 0.7),
            log_line(1, 0, 0.5) + log_line(1, 1, 0.5) + log_line(1, 2, 0.7),
            log_line(2, 0, 0.6) + log_line(2, 1, 0.7) + log_line(2, 2, 0.6)).summaries())
        self.assertEqual(first, {"mean": 1.5, "last": [0, 1]})
        self.assertEqual(second, {"mean": 1.5, "last": [0, 1]})
        self.assertEqual(third, {"mean": 1, "last": [2]})

    def test_times_that_were_not_measured_are_not_the_same(self):
        summaries = run_of(*("".join(log_line(rank, step, None) for step in range(2))
                             for rank in range(2))).summaries()
        self.assertEqual([summary["ranks_of_worker"]["last"] for summary in summaries], [[0], [1]])

    def test_worker_that_took_over_a_rank_is_slow_for_that_and_not_for_its_host(self):
        recovery = '{"kind":"recovery","rank":2,"first_step":1,"adopted":[3]}\n'
        def times(work):
            return {"phase_seconds": {"data": 0.0, "forward": 0.0, "backward": work,
                                      "communication": 0.1, "exposed_communication": 0.06 - work,
                                      "optimizer": 0.0}}
        def log(rank, steps, work):
            return "".join(log_line(rank, step, 0.06 + work / 1e6 + step / 1e9 + rank / 1e8,
                                    **times(work)) for step in steps)
        alone, both = (log(2, [0], 0.014), log(2, range(1, 9), 0.028))
        adopted = log(3, [0], 0.015) + both.replace('"rank":2', '"rank":3')
        run = run_of(log(0, range(9), 0.014), log(1, range(9), 0.013), alone + recovery + both,
                     adopted)
        self.assertEqual(run.summaries()[3]["ranks_of_worker"], {"mean": 2, "last": [2, 3]})
        said = bottleneck(run.summaries())
        self.assertIn("the loss of a worker: since rank 3 was lost, the worker of ranks 2, 3 "
                      "computes 2 ranks one after the other", said)
        self.assertNotIn("host", said)

    def test_summary_has_the_standard_error_of_own_work(self):
        phases = {"data": 0, "forward": 0, "backward": 0, "communication": 0.5,
                  "exposed_communication": 0.5, "optimizer": 0}
        run = run_of("".join(log_line(0, step, seconds, phase_seconds=phases)
                             for step, seconds in enumerate([9, 1, 2, 3, 4])))
        self.assertAlmostEqual(run.summaries()[0]["own_work_seconds"]["standard_error"],
                               math.sqrt(5 / 12))

    def test_iteration_that_was_not_measured_counts_in_no_mean(self):
        run = run_of(log_line(0, 0) + log_line(0, 1, None) + log_line(0, 2, 2))
        self.assertEqual(run.summaries()[0]["iteration_seconds"], {"mean": 2})

    def test_iterations_of_no_time_are_no_error(self):
        self.assertTrue(math.isnan(run_of(log_line(0, 0) + log_line(0, 1, 0.0)).row["exposed_share"]))

    def test_rest_is_what_no_phase_takes(self):
        phases = {"data": 0, "forward": 0.3, "backward": 0.5, "communication": 0.9,
                  "exposed_communication": 0, "optimizer": 0}
        run = run_of(log_line(0, 0) + log_line(0, 1, 1.0, phase_seconds=phases))
        self.assertAlmostEqual(run.other(), 0.2)

    def test_phases_longer_than_the_iteration_leave_no_rest(self):
        phases = {"data": 0, "forward": 2, "backward": 0, "communication": 0,
                  "exposed_communication": 0, "optimizer": 0}
        run = run_of(log_line(0, 0) + log_line(0, 1, 1.0, phase_seconds=phases))
        self.assertEqual(run.other(), 0)


class Steps(unittest.TestCase):
    def test_step_names_the_slowest_rank_and_sums_bytes(self):
        step = run_of(*TWO).steps[1]
        self.assertEqual((step["ranks"], step["slowest_rank"], step["samples"]), (2, 1, 16))
        self.assertEqual(step["longest_iteration_seconds"], 0.6)
        self.assertEqual(step["bytes_received"], 4000000)

    def test_step_has_its_epoch_and_the_means_and_sums_of_its_ranks(self):
        run = run_of(*("".join(log_line(rank, step, 0.5 + rank, 2 * step, epoch=step // 2,
                                        samples=8 - rank, bytes_sent=10 * step + rank)
                               for step in range(4)) for rank in range(2)))
        step = run.steps[3]
        self.assertEqual((step["epoch"], step["samples"], step["bytes_sent"], step["loss"],
                          step["iteration_seconds"]), (1, 15, 61, 6, 1.0))
        self.assertAlmostEqual(step["backward_seconds"], 0.85)

    def test_slowest_rank_is_the_one_that_works_longest_and_not_the_one_that_waits(self):
        def line(rank, iteration, exposed):
            return log_line(rank, 0, iteration, phase_seconds={
                "data": 0, "forward": 0, "backward": iteration - exposed, "communication": exposed,
                "exposed_communication": exposed, "optimizer": 0})
        step = run_of(line(0, 0.9, 0.7), line(1, 0.8, 0.1), line(2, 1.0, 0.6)).steps[0]
        self.assertEqual((step["slowest_rank"], step["longest_iteration_seconds"]), (1, 1.0))

    def test_rank_that_was_not_measured_is_not_the_slowest(self):
        step = run_of(log_line(0, 0, None), log_line(1, 0, 0.5)).steps[0]
        self.assertEqual((step["slowest_rank"], step["longest_iteration_seconds"]), (1, 0.5))

    def test_loss_that_is_not_finite_is_left_out_of_the_mean(self):
        run = run_of(log_line(0, 0, loss=None), log_line(1, 0, loss=3.0))
        self.assertEqual(run.steps[0]["loss"], 3.0)

    def test_rank_that_ends_early_is_not_in_later_steps(self):
        self.assertEqual(run_of(log_text(0, 4), log_text(1, 2)).steps[3]["ranks"], 1)


class Csv(unittest.TestCase):
    def test_run_is_a_line_in_its_units(self):
        self.assertEqual(
            report.csv_text([run_named("a,b", "a,b").row]),
            "run,setup,ranks,steps,iteration_seconds_p50,iteration_seconds_p90,"
            "iteration_seconds_mean,data_seconds,forward_seconds,backward_seconds,"
            "communication_seconds,exposed_communication_seconds,optimizer_seconds,exposed_share,"
            "samples_per_second,bytes_sent_per_rank_and_step,first_loss,last_loss\n"
            '"a,b","a,b",1,3,0.5,0.5,0.5,0.0,0.1,0.35,0.2,0.05,0.0,0.1,16.0,1000000.0,2.0,1.8\n')

    def test_what_was_not_measured_is_empty(self):
        self.assertIn("\na,a,1,1,,,,,,,,,,,,1000000.0,2.0,2.0\n",
                      report.csv_text([run_of(log_text(0, 1)).row]))

    def test_each_step_is_a_line(self):
        rows = list(csv.DictReader(io.StringIO(report.csv_text(run_of(*TWO).steps))))
        self.assertEqual([row["step"] for row in rows], ["0", "1", "2"])
        self.assertEqual(rows[1]["loss"], "1.9")


class Figures(unittest.TestCase):
    def names(self, *runs):
        return [figure["name"] for figure in report.make_figures(list(runs))]

    def figure(self, name, *runs):
        return next(f for f in report.make_figures(list(runs)) if f["name"] == name)

    def test_one_run_has_all_but_scaling(self):
        self.assertEqual(self.names(run_of(*TWO)), ["iteration-time", "phases", "loss"])

    def test_two_numbers_of_ranks_of_one_setup_have_scaling(self):
        self.assertEqual(self.names(run_named("a-1", "a"), run_named("a-2", "a", 2))[-1],
                         "scaling")

    def test_two_setups_have_no_scaling(self):
        self.assertNotIn("scaling", self.names(run_named("a-1", "a"), run_named("b-2", "b", 2)))

    def test_two_setups_with_several_numbers_of_ranks_have_two_lines_each_and_one_name_for_linear(self):
        runs = [run_named(f"{setup}-{ranks}", setup, ranks) for setup in "ba" for ranks in (4, 1, 2)]
        series = self.figure("scaling", *runs)["series"]
        self.assertEqual([(line.get("name"), line.get("dashed", False), line["x"])
                          for line in series],
                         [("a", False, [1, 2, 4]), ("linear", True, [1, 4]),
                          ("b", False, [1, 2, 4]), (None, True, [1, 4])])

    def test_each_run_has_its_own_bar_of_phases_and_its_own_line_of_losses(self):
        rest = {"data": 0, "forward": 0.1, "backward": 0, "communication": 0,
                "exposed_communication": 0, "optimizer": 0}
        runs = [run_named("a", "a"), run_of(log_line(0, 0) + log_line(0, 1, phase_seconds=rest),
                                            name="b")]
        bars = {one["name"]: one["values"] for one in self.figure("phases", *runs)["series"]}
        for name, expected in (("forward", [100, 100]), ("other", [0, 400])):
            for value, right in zip(bars[name], expected):
                self.assertAlmostEqual(value, right)
        self.assertEqual([(line["name"], line["x"]) for line in self.figure("loss", *runs)["series"]],
                         [("a", [0, 1, 2]), ("b", [0, 1])])

    def test_run_without_times_is_in_the_figure_of_losses_alone(self):
        runs = [run_named("a", "a"), run_of(log_text(0, 1), name="b")]
        self.assertEqual(self.figure("iteration-time", *runs)["categories"], ["a"])
        self.assertEqual(len(self.figure("loss", *runs)["series"]), 2)

    def test_one_iteration_has_its_loss_alone(self):
        self.assertEqual(self.names(run_of(log_text(0, 1))), ["loss"])

    def test_iteration_time_is_a_box_for_each_run_in_milliseconds(self):
        figure = self.figure("iteration-time", run_named("a", "a"),
                             run_named("b", "b", seconds=0.25))
        self.assertEqual(figure["categories"], ["a", "b"])
        self.assertEqual(figure["series"][0]["values"], [[500, 500], [250, 250]])

    def test_phases_are_the_exposed_part_and_the_rest_without_hidden_communication(self):
        series = self.figure("phases", run_named("a", "a"))["series"]
        self.assertEqual([s["name"] for s in series],
                         [*(phase["label"] for phase in PHASES if phase["is_part"]), "other"])
        self.assertEqual([s["colour"] for s in series[:-1]],
                         [phase["colour"] for phase in PHASES if phase["is_part"]])
        milliseconds = {s["name"]: s["values"][0] for s in series}
        for name, expected in (("data", 0), ("forward", 100), ("backward", 350),
                               ("exposed communication", 50), ("other", 0)):
            self.assertAlmostEqual(milliseconds[name], expected)

    def test_each_phase_is_in_the_table_of_the_page(self):
        cells = dict(report.cells(run_named("a", "a")))
        for phase in PHASES:
            self.assertRegex(cells[phase["title"]], r"^\d+\.\d$")

    def test_loss_has_a_point_for_each_step(self):
        series = self.figure("loss", run_named("a", "a"))["series"][0]
        self.assertEqual((series["x"], series["y"]), ([0, 1, 2], [2.0, 1.9, 1.8]))

    def test_loss_of_a_long_run_has_means_of_neighbours(self):
        series = self.figure("loss", run_named("a", "a", steps=1000))["series"][0]
        self.assertEqual(len(series["x"]), 334)
        self.assertEqual(series["x"][0], 1)  # of steps 0, 1, 2
        self.assertAlmostEqual(series["y"][0], 1.9)

    def test_scaling_has_samples_and_the_line(self):
        line, linear = self.figure("scaling", run_named("a-2", "a", 2),
                                   run_named("a-1", "a"))["series"]
        self.assertEqual((line["x"], line["y"]), ([1, 2], [16, 32]))
        self.assertEqual((linear["x"], linear["y"]), ([1, 2], [16, 32]))
        self.assertEqual((line["name"], linear["name"]), ("a", "linear"))

    def test_scaling_is_in_proportion_to_the_fewest_ranks_that_ran(self):
        _, linear = self.figure("scaling", run_named("a-4", "a", 4, seconds=1),
                                run_named("a-2", "a", 2))["series"]
        self.assertEqual((linear["x"], linear["y"]), ([2, 4], [32, 64]))


class Page(unittest.TestCase):
    def page(self, *runs, notes=(), drawn=()):
        runs = list(runs) or [run_named("<ddp>", "<ddp>")]
        return report.page(runs, ["Bottleneck: <none>."] * len(runs), list(notes), list(drawn),
                           ["r.runs.csv", "r.loss.png"])

    def test_run_is_a_row_of_the_table(self):
        self.assertIn("<tr><td>&lt;ddp&gt;</td><td>1</td><td>3</td><td>500.0</td><td>500.0</td>"
                      "<td>0.0</td><td>100.0</td><td>350.0</td><td>200.0</td><td>50.0</td>"
                      "<td>0.0</td><td>10</td><td>16.0</td><td>1.00</td><td>2.0000</td>"
                      "<td>1.8000</td></tr>", self.page())

    def test_median_and_percentile_of_the_table_are_of_all_iterations(self):
        cells = dict(report.cells(run_of("".join(
            log_line(0, step, seconds) for step, seconds in enumerate([9, 1, 2, 3, 4])))))
        self.assertEqual((cells["median ms"], cells["p90 ms"]), ("2500.0", "3700.0"))

    def test_what_was_not_measured_is_a_dash(self):
        self.assertIn("<td>a</td><td>1</td><td>1</td><td>–</td><td>–</td>",
                      self.page(run_of(log_text(0, 1))))

    def test_bottleneck_stands_below_the_table(self):
        self.assertIn("<li>&lt;ddp&gt;: Bottleneck: &lt;none&gt;.</li>", self.page())

    def test_figure_is_within_the_page(self):
        page = self.page(drawn=[({"title": "Loss", "caption": "It <falls>."}, b"<svg/>")])
        self.assertIn('<img alt="Loss" src="data:image/svg+xml;base64,PHN2Zy8+">', page)
        self.assertIn("It &lt;falls&gt;.", page)

    def test_notes_are_listed(self):
        self.assertIn("<h2>Notes</h2>\n<ul>\n<li>One &amp; two.</li>",
                      self.page(notes=["One & two."]))

    def test_no_notes_have_no_title(self):
        self.assertNotIn("Notes", self.page())

    def test_other_files_are_named(self):
        self.assertIn("Beside this page: r.runs.csv, r.loss.png.", self.page())

    def test_page_refers_to_nothing_else(self):
        page = self.page(drawn=[({"title": "Loss", "caption": "c"}, b"<svg/>")])
        for reference in ('src="h', "href=", "@import", "url(", "http", "<script"):
            self.assertNotIn(reference, page)


class Files(unittest.TestCase):
    def test_all_stand_beside_the_page_which_is_the_last(self):
        files = report.files_of([run_of(log_text(0))], ["b"], [], "x/r.html")
        self.assertEqual(list(files)[-1], "x/r.html")
        self.assertEqual(set(files), {"x/r.html", "x/r.runs.csv", "x/r.steps.csv"} | {
            f"x/r.{name}.{kind}" for name in ("iteration-time", "phases", "loss")
            for kind in ("png", "svg", "pdf")})


if __name__ == "__main__":
    unittest.main()
