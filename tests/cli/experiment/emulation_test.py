"""cli/experiment/emulation.py: runs, measurements and reports if hosts made here count more cores
than the machine has."""
import contextlib
import dataclasses
import io
import json
import os
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fakes import EMULATED_SECONDS, RUNS, SMALL, FakeRunner, conduct_with, option, request_of
from cli.experiment import course_claims, emulation, experiment, study
from cli.experiment.emulation import seconds_of, with_times, without
from cli.experiment.experiment import EXPERIMENTS, times_name
from cli.experiment.noise import compared
from cli.experiment.results import Trained
from cli.experiment.study import HOSTS, Setting
from cli.experiment.work import LOSSES, Training
from cli.runs.failure import Failure

ALONE = 2  # of the course: batches of 2 and of 3
REAL = 6  # of these one is of one rank
TIMED = 11


class EmulationTest(unittest.TestCase):
    def test_coordinator_has_the_times_of_the_emulated_run(self):
        (course,) = (one for one in EXPERIMENTS if one.name == "course")
        names = {}
        for hosts in ("auto", "h"):
            setting = Setting(request_of(self.out, hosts=hosts, workers=4), course.scales["tiny"],
                              2, 1 << 30)
            names[hosts] = [times_name(setting, work) for work in course.runs(setting)[:2]]
        self.assertEqual(names, {"auto": ["one-node", "gather-scatter-timed"],
                                 "h": ["one-node", "gather-scatter"]})

    def setUp(self):
        self.out = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), "out")
        self.said = io.StringIO()

    def conduct(self, runner=None, cores=2, out=None, name="course", **more):
        """What it started."""
        runner = runner or FakeRunner()
        request = request_of(out or self.out, name, **{
            "hosts": "auto", "rate": "1gbit", "link_gbit": 1, "cores": cores, **more})
        with contextlib.redirect_stderr(self.said), contextlib.redirect_stdout(io.StringIO()):
            conduct_with(runner, request)
        return runner.runs

    def emulated(self, runs):
        return [run for run in runs if "--compute-seconds" in run.ranks[0]]

    def trainings(self, runs):
        return [run for run in runs if run.ranks[0][0].endswith("worker")]

    def results(self):
        return json.loads((self.out / "results.json").read_text())

    def test_time_of_one_rank_alone_is_measured_first_and_slept(self):
        runs = self.conduct()
        self.assertEqual(len(runs), ALONE + REAL + TIMED + SMALL)
        self.assertEqual([(len(run.ranks), option(run.ranks[0], "--batch-size")) for run in runs[:2]],
                         [(1, "2"), (1, "3")])
        emulated = self.emulated(runs)
        self.assertEqual(len(emulated), TIMED)
        for run in emulated:
            self.assertGreater(len(run.ranks), 1)
            self.assertEqual(option(run.ranks[0], "--compute-seconds"), "0.3,0.5")

    def test_computation_is_real_where_losses_count_and_links_shaped_where_times_do(self):
        runs = self.conduct()
        real = [run for run in self.trainings(runs)
                if run not in self.emulated(runs) and len(run.ranks) > 1]
        self.assertEqual(len(real), REAL - 1)
        self.assertEqual({run.rate for run in real}, {"none"})
        self.assertEqual({run.rate for run in self.emulated(runs)}, {"1gbit"})

    def test_each_host_computes_with_its_cores(self):
        for more, threads in (({}, "1"), ({"threads": 3}, "3")):
            runs = self.conduct(out=self.out / threads, **more)
            self.assertEqual({option(run.ranks[0], "--threads") for run in self.trainings(runs)},
                             {threads})

    def test_losses_are_real_and_times_emulated(self):
        self.conduct()
        tables = self.results()["tables"]
        of_setup = {row["setup"]: row["mean"] for row in tables["times"]}
        self.assertEqual(of_setup["one node"], 1.0)
        self.assertEqual(of_setup["DDP"], EMULATED_SECONDS)
        self.assertEqual(tables["losses"][0]["ddp"], 2)
        self.assertEqual({row["ddp"] for row in tables["nodes"]}, {EMULATED_SECONDS})

    def test_coordinators_times_are_those_of_the_emulated_run(self):
        class SlowIfReal(FakeRunner):
            def run(self, run, *more):
                outputs = super().run(run, *more)
                if "--compute-seconds" in run.ranks[0]:
                    return outputs
                return dataclasses.replace(outputs, coordinator=outputs.coordinator.replace(
                    '"mean": 1.0', '"mean": 9.0'))
        self.conduct(SlowIfReal())
        totals = {row["total"] for row in self.results()["tables"]["coordinator"]}
        self.assertEqual(totals, {1.0})

    def test_claims_on_time_are_judged_and_say_so(self):
        self.conduct()
        claims = {claim["key"]: claim for claim in self.results()["claims"]}
        for key in ("first-loss", "reduce-same", "ddp-same", "by-parameter-same"):
            self.assertEqual(claims[key]["verdict"], "confirmed")
            self.assertNotIn("condition", claims[key])
        timed = [one.key for one in course_claims.STATEMENTS if HOSTS in one.needs]
        self.assertEqual([key for key, claim in claims.items() if "condition" in claim], timed)
        self.assertEqual({claims[key]["verdict"] for key in timed}, {"confirmed", "not-confirmed"})
        beside = "confirmed, computation emulated (as long as one rank alone takes here)"
        self.assertIn(f"\n{beside}: Gather and scatter takes less time", self.said.getvalue())
        for name in ("report.html", "report.md", "claims.csv"):
            self.assertIn(beside, (self.out / name).read_text())
        self.assertIn("vgg11-synthetic-2 0.3 s and 0.5 s", (self.out / "report.md").read_text())

    def test_not_measurable_claims_have_no_condition(self):
        self.conduct()
        for claim in self.results()["claims"]:
            if claim["verdict"] == "not-measurable":
                self.assertNotIn("condition", claim)

    def test_training_that_lacks_one_of_its_two_runs_is_in_no_part_of_an_early_report(self):
        for ended, missing in ((8, "gather-scatter-by-parameter-timed"),
                               (9, "all-reduce-by-parameter")):
            with self.assertRaises(Failure):
                self.conduct(FakeRunner(fail_at=ALONE + ended), out=self.out / str(ended))
            results = json.loads((self.out / str(ended) / "results.json").read_text())
            self.assertEqual(results["missing_runs"][0], missing)
            verdicts = {claim["key"]: claim["verdict"] for claim in results["claims"]}
            self.assertEqual(verdicts["gather-scatter-faster"],
                             "not-run" if ended == 8 else "confirmed")
            self.assertEqual(verdicts["all-reduce-faster"], "not-run")

    def test_break_is_gone_on_from_with_the_same_seconds(self):
        with self.assertRaises(Failure):
            self.conduct(FakeRunner(fail_at=ALONE + 3))
        self.assertEqual(len(self.conduct()), REAL + TIMED + SMALL - 3)
        self.assertEqual(self.conduct(FakeRunner(fail_at=0)), [])
        self.assertEqual(len(self.conduct(again=True)), ALONE + REAL + TIMED + SMALL)

    def test_scale_says_how_many_iterations_a_timed_run_has_at_most(self):
        (course,) = (one for one in EXPERIMENTS if one.name == "course")
        for more, most in (({}, "5"), ({"timed_iterations": 3}, "3")):
            with mock.patch.dict(course.scales["tiny"], more):
                ddp = [run for run in self.trainings(self.conduct(again=True))
                       if option(run.ranks[0], "--sync") == "ddp" and len(run.ranks) == 4]
            self.assertEqual({"--compute-seconds" in run.ranks[0]: option(run.ranks[0], "--iterations")
                              for run in ddp}, {False: "5", True: most})
        self.assertIn("has at most 3 iterations", (self.out / "report.md").read_text())

    def test_commands_show_all_that_was_run(self):
        self.conduct()
        commands = (self.out / "commands.txt").read_text()
        for name in ("alone-vgg11-synthetic-2", "ddp", "ddp-timed", "ddp-2-nodes"):
            self.assertIn(f"# {name}: ", commands)

    def test_nothing_is_emulated_on_enough_cores_or_other_hosts(self):
        for place, more in enumerate(({"cores": 4}, {"cores": 8, "threads": 2}, {"hosts": "/x"})):
            runs = self.conduct(out=self.out / str(place), **more)
            self.assertEqual((len(runs), self.emulated(runs)), (RUNS, []))
        self.assertTrue(self.emulated(self.conduct(out=self.out / "few", threads=2, cores=7)))

    def test_peers_sleep_alike(self):
        runs = self.conduct(peers=True)
        peers = [run for run in runs if "--mode" in run.ranks[0]]
        self.assertEqual([option(run.ranks[0], "--compute-seconds") for run in peers],
                         ["0.3,0.5"] * 3)

    def test_links_of_time_to_accuracy_are_those_of_the_emulated_runs(self):
        rates = [{"rate": "100mbit", "gbit": 0.1}]
        runs = self.conduct(name="time-to-accuracy", link=rates)
        self.assertEqual({run.rate for run in self.emulated(runs)}, {"100mbit"})

    def test_nothing_is_emulated_where_no_time_is_wanted(self):
        self.assertEqual(self.emulated(self.conduct(name="large-batch")), [])
        self.assertNotIn("EMULATED", (self.out / "report.md").read_text())
        lab = self.conduct(name="lab", out=self.out.parent / "lab")
        self.assertEqual([run for run in self.emulated(lab) if "--broadcast-buffers" in run.ranks[0]],
                         [])

    def test_every_experiment_goes_to_its_report(self):
        for one in EXPERIMENTS:
            self.conduct(name=one.name, out=self.out / one.name)
            self.assertTrue((self.out / one.name / "report.html").exists())


class ConditionTest(unittest.TestCase):
    def test_verdict_has_its_own_condition_and_says_that_computation_was_emulated(self):
        statement = study.Statement("a", "A.", "b", "c", "d")
        for emulates, condition, expected in (
                (True, "noise", f"noise, {study.EMULATED}"), (True, "", study.EMULATED),
                (False, "noise", "noise"), (False, "", "")):
            setting = types.SimpleNamespace(needs_hosts="", disturbed="", emulates=emulates)
            claim = study.decide_time(setting, statement, True, "1", condition=condition)
            self.assertEqual(claim.condition, expected)


class RefusalTest(unittest.TestCase):
    def test_without_root_nothing_is_begun(self):
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(os, "geteuid", lambda: 1000), \
                self.assertRaisesRegex(Failure, "^--hosts auto: .*--hostfile"):
            out = pathlib.Path(folder, "out")
            try:
                experiment.main_with(request_of(out, hosts="auto"), None)
            finally:
                self.assertFalse(out.exists())


class PartsTest(unittest.TestCase):
    def test_options_go_with_their_values(self):
        self.assertEqual(without(("--lr", 1, "--evaluate-every", 1, "--augment", "false"),
                                 ("--evaluate-every",)), ("--lr", 1, "--augment", "false"))

    def test_ranks_sleep_as_long_as_the_median_behind_the_first_iteration(self):
        times = ((90, 80), (1, 4), (2, 3), (9, 3), (1, 3), (2, 9))
        records = [{"iteration_seconds": 1, "phase_seconds": {"forward": forward, "backward": backward}}
                   for forward, backward in times]
        self.assertEqual(seconds_of(Trained([{"records": records, "summary": {}}])), (2, 3))

    def test_iterations_beyond_the_emulated_ones_take_the_mean_behind_the_warm_up(self):
        def record(seconds, **more):
            return {"iteration_seconds": seconds, "phase_seconds": {"forward": seconds / 2}, **more}
        real = {"records": [record(100, loss=step, epoch=step // 3) for step in range(6)],
                "summary": {"epochs": [{"epoch": 0, "seconds": 300}, {"epoch": 1, "seconds": 300}]}}
        merged = with_times(real, {"records": [record(9), record(7), record(2), record(4)]}, 1)
        self.assertEqual([one["iteration_seconds"] for one in merged["records"]],
                         [9, 7, 2, 4, 3, 3])
        self.assertEqual(merged["records"][5]["phase_seconds"], {"forward": 1.5})
        self.assertEqual([one["loss"] for one in merged["records"]], list(range(6)))
        self.assertEqual([epoch["seconds"] for epoch in merged["summary"]["epochs"]], [18, 10])

    def test_times_that_were_filled_in_are_not_measured_again(self):
        def records(*seconds):
            return [{"iteration_seconds": one, "phase_seconds": {}} for one in seconds]
        timed = [9, *[1] * 11, *[4] * 3]
        merged = Trained([with_times({"records": records(*[7] * 40), "summary": {}},
                                     {"records": records(*timed)}, 0)])
        alone = Trained([{"records": records(*timed), "summary": {}}])
        self.assertEqual(merged.counted_seconds(), timed[1:])
        self.assertEqual((merged.counted_iterations(), merged.median_iteration()), (14, 1))
        self.assertAlmostEqual(merged.mean_iteration(), alone.mean_iteration())
        self.assertEqual(compared(merged, merged).noise, compared(alone, alone).noise)

    def setting(self, **more):
        return Setting(request_of("out", hosts="auto", workers=2, rate="1gbit", link_gbit=1, **more),
                       {"timed_iterations": 3}, 1, 1 << 30, {"alone-vgg11-synthetic-4": (0.3, 0.5)})

    def test_warm_up_is_emulated_beside_the_iterations_that_count(self):
        for options, most in (((), 3), (("--compress-warmup", 2), 5), (("--compress-warmup", 90), 50)):
            work = Training("a", "", 2, 4, 50, options)
            self.assertEqual(emulation.timed(work, self.setting()).iterations, most)

    def test_each_rank_has_its_own_times(self):
        def ranks(*seconds):
            return [{"records": [{"iteration_seconds": one} for one in of_rank], "summary": {}}
                    for of_rank in seconds]
        work = Training("a", "", 2, 4, 3, ())
        merged = emulation.merged([work], {"a": ranks((1, 1, 1), (1, 1, 1)),
                                           "a-timed": ranks((9, 2), (8, 5))})["a"]
        self.assertEqual([[one["iteration_seconds"] for one in rank["records"]] for rank in merged],
                         [[9, 2, 2], [8, 5, 5]])

    def test_emulated_run_has_neither_epochs_nor_tests(self):
        work = Training("a", "", 2, 4, 50, ("--evaluate-every", 1, "--lr", 1), epochs=5, tests=True,
                        sweep="s")
        timed = emulation.timed(work, self.setting())
        self.assertEqual((timed.name, timed.epochs, timed.tests, timed.sweep, timed.options),
                         ("a-timed", 0, False, "", ("--lr", 1, "--compute-seconds", "0.3,0.5")))

    def test_one_rank_alone_is_timed_for_each_computation(self):
        def work(name, batch=4, passes=1, **more):
            return Training(name, "", 2, batch, 50, ("--accumulate", passes), **more)
        works = [work("a"), work("b"), work("c", 8), work("d", passes=2), work("e", model="mlp"),
                 work("f", images=("--dataset", "mnist")), work("g", 16, only=LOSSES)]
        found = emulation.alones_of(works, self.setting())
        self.assertEqual([(one.name, one.ranks, one.batch_size, one.options[-1]) for one in found],
                         [("alone-vgg11-synthetic-4", 1, 4, 1), ("alone-vgg11-synthetic-8", 1, 8, 1),
                          ("alone-vgg11-synthetic-4-2-passes", 1, 4, 2),
                          ("alone-mlp-synthetic-4", 1, 4, 1), ("alone-vgg11-mnist-4", 1, 4, 1)])
        self.assertEqual(found[-1].images, ("--dataset", "mnist"))
        self.assertEqual([one.model for one in found], ["vgg11"] * 3 + ["mlp", "vgg11"])

    def test_links_of_an_emulated_run_are_its_own_or_else_the_settings(self):
        for more, expected in (({}, ("1gbit", 1)), ({"rate": "5mbit", "gbit": 0.005}, ("5mbit", 0.005))):
            timed = emulation.timed(Training("a", "", 2, 4, 50, (), **more), self.setting())
            self.assertEqual((timed.rate, timed.gbit), expected)

    def test_usual_iteration_is_of_those_behind_the_runs_own_warm_up(self):
        def ranks(*seconds):
            return [{"records": [{"iteration_seconds": one} for one in seconds], "summary": {}}]
        for options, usual in (((), 5), (("--compress-warmup", 1), 3)):
            work = Training("a", "", 2, 4, 5, options)
            (rank,) = emulation.merged([work], {"a": ranks(1, 1, 1, 1, 1),
                                                "a-timed": ranks(50, 9, 2, 4)})["a"]
            self.assertEqual([one["iteration_seconds"] for one in rank["records"]],
                             [50, 9, 2, 4, usual])


if __name__ == "__main__":
    unittest.main()
