"""docs/claims.md is what docs/claims/make writes from the statements and the records."""
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import pathlib
import tempfile
import unittest
from unittest import mock

SOURCE = pathlib.Path(__file__).resolve().parents[2]
FACTS = {"date": "2026-01-02 03:04 UTC", "cores": 2, "cpu": "a CPU", "kernel": "Linux 6",
         "hosts": "here", "link": "1 Gbit/s"}


def loaded():
    loader = importlib.machinery.SourceFileLoader("claims_make", str(SOURCE / "docs/claims/make"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("claims_make", loader))
    loader.exec_module(module)
    return module


make = loaded()


def results_of(command="gradwire experiment course", **verdicts):
    """`verdicts`: of the claims, by key, with _ in place of -."""
    return {"experiment": "course", "scale": "quick", "command": command, "environment": FACTS,
            "claims": [{"key": key.replace("_", "-"), "claim": key, "verdict": verdict,
                        "evidence": f"by {command}"} for key, verdict in verdicts.items()]}


class Current(unittest.TestCase):
    def test_page_and_records_fit_the_statements(self):
        self.assertEqual(list(make.problems()), [])

    def test_each_statement_has_one_result(self):
        for file in sorted((SOURCE / "docs/claims").glob("*.json")):
            keys = [key for run in json.loads(file.read_text()) for key in run["claims"]]
            self.assertEqual(len(keys), len(set(keys)), file.name)


class Records(unittest.TestCase):
    def test_last_result_of_a_statement_is_kept(self):
        runs = make.with_results([], results_of("a", epoch="confirmed", first_loss="confirmed"))
        runs = make.with_results(runs, results_of("b", epoch="not-confirmed"))
        self.assertEqual([(run["command"], list(run["claims"])) for run in runs],
                         [("a", ["first-loss"]), ("b", ["epoch"])])

    def test_result_that_decides_nothing_replaces_no_decision(self):
        runs = make.with_results([], results_of("a", epoch="confirmed"))
        self.assertEqual(make.with_results(runs, results_of("b", epoch="not-measurable")), runs)
        runs = make.with_results([], results_of("a", epoch="not-measurable"))
        (run,) = make.with_results(runs, results_of("b", epoch="not-measurable"))
        self.assertEqual(run["command"], "b")

    def test_result_of_a_run_that_ended_early_is_not_recorded(self):
        runs = make.with_results([], results_of("a", epoch="not-run"))
        self.assertEqual(runs, [])
        runs = make.with_results([], results_of("a", epoch="not-measurable"))
        self.assertEqual(make.with_results(runs, results_of("b", epoch="not-run")), runs)

    def test_run_without_a_result_is_dropped(self):
        runs = make.with_results([], results_of("a", epoch="confirmed"))
        (run,) = make.with_results(runs, results_of("b", epoch="confirmed"))
        self.assertEqual(run["command"], "b")

    def test_names_on_a_machine_are_left_out(self):
        self.assertEqual(
            make.without_names("gradwire experiment course --out /tmp/x --data-dir=/d --peers"),
            "gradwire experiment course --data-dir … --peers")
        self.assertEqual(
            make.without_names("gradwire experiment lab --hostfile h --workers 4 --weights=/w --out=/o"),
            "gradwire experiment lab --hostfile … --workers 4 --weights …")
        self.assertEqual(
            make.without_names("gradwire experiment course --out 'my folder' '--data-dir=a b' --peers"),
            "gradwire experiment course --data-dir … --peers")


class Page(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name, place in (("HERE", self.folder), ("PAGE", self.folder / "claims.md")):
            self.enterContext(mock.patch.object(make, name, place))

    def recorded(self, results):
        (self.folder / "results.json").write_text(json.dumps(results))
        self.assertEqual(make.main([str(self.folder)]), 0)
        (self.folder / "results.json").unlink()
        return (self.folder / "claims.md").read_text()

    def test_row_has_quantity_verdict_figures_command_date_and_machine(self):
        page = self.recorded(results_of("gradwire experiment course --out x", epoch="confirmed"))
        self.assertIn("| An epoch is 196 iterations at a total batch of 256. | the assignment | "
                      "iterations of an epoch | confirmed | by gradwire experiment course --out x | 1 |\n", page)
        self.assertIn("\n1. `gradwire experiment course`, 2026-01-02 03:04 UTC: 2 cores, a CPU, "
                      "Linux 6, here, 1 Gbit/s\n", page)

    def test_several_folders_are_recorded_and_each_statement_has_the_run_of_its_result(self):
        folders = []
        for number, verdicts in enumerate(({"epoch": "confirmed", "first_loss": "confirmed"},
                                           {"epoch": "not-confirmed"})):
            folders.append(self.folder / str(number))
            folders[-1].mkdir()
            (folders[-1] / "results.json").write_text(json.dumps(results_of(f"run {number}", **verdicts)))
        self.assertEqual(make.main([str(folder) for folder in folders]), 0)
        page = make.PAGE.read_text()
        self.assertRegex(page, r"(?m)^\| An epoch is 196 .* \| not confirmed \| by run 1 \| 2 \|$")
        self.assertRegex(page, r"(?m)^\|.* \| confirmed \| by run 0 \| 1 \|$")
        statements = len(next(one for one in make.EXPERIMENTS if one.name == "course").statements)
        self.assertRegex(page, rf"(?m)^\| \[.*\]\(#.*\) \| .* \| {statements} \| 1 \|$")

    def test_statement_without_a_result_says_so_with_the_command(self):
        page = self.recorded(results_of(epoch="confirmed"))
        self.assertIn("| DDP takes less time than all-reduce. | figure of mean times | mean time of "
                      "iterations 2 to 40 | not run yet | `gradwire experiment course --hosts auto` |  |\n", page)
        self.assertRegex(page, r"\| float32 ends within .* \| `gradwire experiment "
                               r"time-to-accuracy --hosts auto --peers`, needs --peers, .* \|  \|\n")

    def test_unknown_key_and_stale_page_are_reported(self):
        self.recorded(results_of(epoch="confirmed"))
        self.assertEqual(list(make.problems()), [])
        self.recorded(results_of(old_one="confirmed"))
        self.assertEqual(list(make.problems()),
                         ["docs/claims/course.json: course has no statement old-one"])
        make.PAGE.write_text("other")
        self.assertIn("docs/claims.md is not current: run docs/claims/make", make.problems())

    def test_record_of_no_experiment_is_reported(self):
        self.recorded(results_of(epoch="confirmed"))
        (self.folder / "curse.json").write_text("[]")
        self.assertEqual(list(make.problems()), ["docs/claims/curse.json is of no experiment"])

    def test_folder_without_results_is_refused(self):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(make.main(["nothing"]), 2)
        self.assertEqual(said.getvalue(), "make: got 'nothing', expected a folder with results.json "
                                          "or --check\n")


if __name__ == "__main__":
    unittest.main()
