"""cli/experiment/: the report of an experiment that ends early."""
import pathlib
import shutil
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fakes import RUNS, Conducted, FakeRunner, request_of, results_of_plan
from cli.experiment import writing
from cli.experiment.experiment import EXPERIMENTS, with_hosts
from cli.experiment.study import (NOT_MEASURABLE, NOT_RUN, EndedRuns, Setting, experiment_called)
from cli.report import figures
from cli.runs.failure import Failure, Stopped


class EndsEarly(Conducted):
    def verdicts(self):
        return {claim["key"]: claim["verdict"] for claim in self.results()["claims"]}

    def test_experiment_that_ends_early_reports_the_runs_that_have_ended(self):
        for error, why in ((Failure, "rank 0 ended with exit code 1:\n  bad"), (Stopped, "stopped")):
            with self.subTest(why):
                shutil.rmtree(self.out, ignore_errors=True)
                with self.assertRaises(error):
                    self.conduct(FakeRunner(fail_at=10, why=why, error=error))
                left = ["ddp-2-nodes", "ddp-3-nodes", "send-recv-ring", "all-reduce-ring"]
                notice = (f"INCOMPLETE: 4 of {RUNS} runs have not ended: {', '.join(left)}. "
                          "Statements that need them are not run. Reason: "
                          f"ddp-2-nodes: {' '.join(why.split())}")
                self.assertEqual((self.out / "report.md").read_text().split("\n")[0], notice)
                self.assertIn(f"<body>\n<p><strong>{notice}</strong></p>\n<h1>",
                              (self.out / "report.html").read_text())
                self.assertEqual(self.results()["missing_runs"], left)
                verdicts = self.verdicts()
                self.assertEqual({key for key, verdict in verdicts.items() if verdict == "not-run"},
                                 {"time-falls-ddp", "bytes-rise", "exposed-rises"})
                self.assertEqual(verdicts["ddp-same"], "confirmed")
                self.assertEqual([*verdicts], [one.key for one in experiment_called(
                    "course", EXPERIMENTS).statements])
                self.assertIn("report.html is incomplete; the same command continues",
                              self.said.getvalue())

    def test_incomplete_report_has_what_its_runs_give(self):
        with self.assertRaises(Failure):
            self.conduct(FakeRunner(fail_at=5), figures.render)
        tables = self.results()["tables"]
        self.assertEqual([row["name"] for row in tables["ended"]],
                         ["one-node", "gather-scatter", "all-reduce", "ddp",
                          "gather-scatter-by-parameter"])
        self.assertIn(b"%PDF-", (self.out / "report.pdf").read_bytes())
        self.assertEqual({row["question"] for row in tables["answers"]}, {
            "What does the coordinator do in an iteration?",
            "What does the coordinator do in an iteration (all-reduce)?",
            "What does the coordinator do in an iteration (DDP)?",
            "Do the parts end with the same parameters?",
            "Why is the first loss of each rank the same?",
            "Is the workload compute-bound or network-bound?",
            "What does gather and scatter gain, compared with one node?"})
        self.assertNotIn("times", tables)

    def test_without_a_run_that_has_ended_there_is_no_report(self):
        with self.assertRaises(Failure):
            self.conduct(FakeRunner(fail_at=0))
        self.assertEqual([*self.out.glob("report.*"), *self.out.glob("results.json")], [])

    def test_failure_is_said_even_if_the_report_cannot_be_written(self):
        full = mock.Mock(side_effect=Failure("cannot write claims.csv: no space left on device"))
        with mock.patch.object(writing, "write", full), \
                self.assertRaisesRegex(Failure, "^gather-scatter-by-parameter: no host$"):
            self.conduct(FakeRunner(fail_at=4, why="no host"))
        said = self.said.getvalue()
        self.assertIn("there is no report: cannot write claims.csv: no space left on device\n", said)
        self.assertNotIn("is incomplete", said)

    def test_report_stays_if_the_command_that_would_replace_it_starts_no_run(self):
        self.conduct(FakeRunner())
        page = (self.out / "report.html").read_text()
        (self.out / "runs/ddp.json").unlink()
        runner = FakeRunner()
        runner.try_out = mock.Mock(side_effect=Failure("no host"))
        with self.assertRaisesRegex(Failure, "no host"):
            self.conduct(runner)
        self.assertEqual((self.out / "report.html").read_text(), page)

    def test_report_does_not_outlive_the_runs_it_shows(self):
        self.conduct(FakeRunner())
        with self.assertRaises(Failure):
            self.conduct(FakeRunner(fail_at=3), again=True)
        self.assertEqual([row["name"] for row in self.results()["tables"]["ended"]],
                         ["one-node", "gather-scatter", "all-reduce"])
        self.assertEqual(len(self.results()["missing_runs"]), RUNS - 3)

    def test_no_form_of_a_report_outlives_the_runs_it_shows(self):
        self.conduct(FakeRunner())
        with self.assertRaises(Failure):
            self.conduct(FakeRunner(fail_at=0), again=True)
        self.assertEqual([*self.out.glob("report.*"), *self.out.glob("results.json")], [])

    def test_no_table_or_figure_outlives_the_runs_it_shows(self):
        self.conduct(FakeRunner())
        names = {"claims.csv", "times.csv", "times.png", "times.svg", "times.pdf"}
        self.assertLessEqual(names, {path.name for path in self.out.iterdir()})
        for name in ("mine.csv", "mine.pdf"):
            (self.out / name).touch()
        with self.assertRaises(Failure):
            self.conduct(FakeRunner(fail_at=0), again=True)
        self.assertEqual({path.name for path in self.out.iterdir()},
                         {"commands.txt", "experiment.json", "mine.csv", "mine.pdf", "runs"})

    def test_incomplete_report_begins_with_what_a_complete_one_begins_with(self):
        with self.assertRaises(Failure):
            self.conduct(FakeRunner(fail_at=1))
        (head,) = self.results()["head"]
        self.assertTrue(head.startswith("REHEARSAL: scale tiny"), head)
        self.assertIn(f"<p><strong>{head}</strong></p>", (self.out / "report.html").read_text())


class Ended(unittest.TestCase):
    def test_every_experiment_reports_whatever_runs_have_ended(self):
        for one in EXPERIMENTS:
            for more in ({}, {"hosts": "h", "peers": True, "threads": 1}):
                request = with_hosts(one, request_of("out", one.name, **more))
                setting = Setting(request, one.scales["tiny"], 8, 1 << 40)
                results = results_of_plan(one, setting)
                names = [*results]
                left = []
                for count in range(len(names) + 1):
                    ended = EndedRuns({name: results[name] for name in names[:count]},
                                      names[count:])
                    self.assertIsInstance(one.signs(setting, one.runs(setting), ended), list)
                    findings = one.find(setting, ended).without_gaps(one.statements)
                    self.assertEqual([claim.key for claim in findings.claims],
                                     [statement.key for statement in one.statements])
                    verdicts = [claim.verdict for claim in findings.claims]
                    left.append(verdicts.count(NOT_RUN))
                    if count == 0:
                        self.assertLessEqual({*verdicts}, {NOT_RUN, NOT_MEASURABLE}, one.name)
                self.assertGreater(left[0], len(one.statements) / 2)
                self.assertEqual((left[-1], left), (0, sorted(left, reverse=True)), one.name)
                complete = one.find(setting, results)
                self.assertEqual((findings.claims, findings.shown, findings.notes),
                                 (complete.claims, complete.shown, complete.notes))


if __name__ == "__main__":
    unittest.main()
