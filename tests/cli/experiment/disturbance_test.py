"""cli/experiment/disturbance.py: signs that other processes used the cores, the verdicts with them, and
the sentences at the top of a report."""
import contextlib
import dataclasses
import io
import json
import pathlib
import re
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import fakes
from fakes import FakeRunner, conduct_with, option, request_of, results_of_plan
from lab_test import TIMES, measured, results_of, setting_of, trained
from cli.experiment import disturbance, emulation, lab, lab_answers, lab_sweep
from cli.experiment.experiment import EXPERIMENTS, with_hosts
from cli.experiment.lab_sweep import DEVICES, RANKS
from cli.experiment.study import CONFIRMED, NOT_MEASURABLE, Setting
from cli.experiment.work import LOSSES, Training

HOSTS = {"hostfile": "hosts"}


class Signs(unittest.TestCase):
    def test_speed_up_may_exceed_the_devices_by_a_quarter(self):
        self.assertEqual(disturbance.too_fast("a", 5.0, 4), [])
        self.assertEqual(disturbance.too_fast("a", 5.01, 4),
                         ["a: a speed-up of 5.01, of which 4 is possible"])

    def test_nothing_remains_below_zero(self):
        self.assertEqual(disturbance.below_zero("a", 0.0, 10), [])
        self.assertEqual(disturbance.below_zero("a", -0.19, 10), [])  # noise
        self.assertEqual(disturbance.below_zero("a", -0.5, 10),
                         ["a: -0.5 s of 10 s remain after computation"])

    def test_two_measurements_of_one_thing_may_be_a_quarter_apart(self):
        for first, second, count in ((1.0, 1.25, 0), (1.25, 1.0, 0), (1.0, 1.26, 1), (1.26, 1.0, 1)):
            found = disturbance.apart("a", ("b", first), ("c", second))
            self.assertEqual(len(found), count)
        self.assertEqual(found, ["a: b 1.26 s, c 1 s, which should be equal"])

    def test_iterations_of_one_run_measure_one_thing(self):
        works = [Training(name, "", 1, 1, 5, (), only=only) for name, only in
                 (("a", ""), ("b", ""), ("c", LOSSES), ("d", ""))]
        slow = trained(1.0, 1.0, 1.0, 9.0)
        found = disturbance.unsteady(works, {"a": trained(1.0, 1.1, 1.0), "b": slow, "c": slow})
        self.assertEqual(found, ["an iteration of b: mean 3 s, median 1 s, which should be equal"])

    def test_reason_has_the_first_sign_and_the_notice_all(self):
        one = ["a CPU, 2 cores"]
        self.assertEqual(disturbance.reason_of([], one), "")
        self.assertEqual(disturbance.notice_of([], one), "")
        self.assertEqual(disturbance.reason_of(["a"], one), "other processes used the cores (a)")
        self.assertIn("Signs: a; b; c. Run", disturbance.notice_of(["a", "b", "c"], one))

    def test_runs_of_two_machines_cannot_be_compared(self):
        machines = disturbance.machines_of(
            [{"cpu": cpu, "cores": 2, "date": date} for cpu, date in (("B", 1), ("A", 2), ("B", 3))])
        self.assertEqual(machines, ["A, 2 cores", "B, 2 cores"])
        self.assertEqual(disturbance.reason_of([], machines),
                         "the runs are of 2 machines (A, 2 cores; B, 2 cores)")
        self.assertIn("on 2 machines: A, 2 cores; B, 2 cores.", disturbance.notice_of([], machines))

    def test_late_sleeps_of_each_run_are_signs(self):
        works = [Training(name, "", 4, 8, 5, ()) for name in ("a", "b", "c")]
        setting = dataclasses.replace(
            setting_of(hosts="auto", workers=4),
            emulated={emulation.alone_of(works[0], setting_of()).name: (0.2, 0.3)})
        results = {"a": trained(1.0, ranks=4, backward=0.6), "b": trained(1.0, ranks=4, backward=0.3),
                   "c": trained(1.0, ranks=4, backward=0.7)}
        found = emulation.signs(setting, works, results)
        self.assertEqual([sign.split(":")[0] for sign in found],
                         ["an iteration of a-timed", "an iteration of c-timed"])

    def test_late_sleeps_may_make_an_iteration_longer_by_a_quarter(self):
        work = Training("a", "", 4, 8, 5, ())
        setting = dataclasses.replace(
            setting_of(hosts="auto", workers=4),
            emulated={emulation.alone_of(work, setting_of()).name: (0.2, 0.3)})
        for backward, seconds, expected in (
                (0.3, 1.0, []), (0.5, 1.0, []),
                (0.52, 1.0, ["an iteration of a-timed: with sleeps as planned 0.78 s, as it was 1 s, "
                             "which should be equal"]),
                (0.52, 2.0, [])):  # short beside the exchange
            results = {"a": trained(seconds, ranks=4, backward=backward)}
            self.assertEqual(emulation.signs(setting, [work], results), expected)
        self.assertEqual(emulation.signs(setting, [work], {"a": trained(ranks=4)}), [])
        self.assertEqual(emulation.signs(setting, [work], {}), [])


class Lab(unittest.TestCase):
    def setting(self, **more):
        """With the lab's times of the ranks alone."""
        return setting_of(**{**HOSTS, **more})

    def test_plausible_times_have_no_sign(self):
        self.assertEqual(measured().signs(), [])

    def test_impossible_speed_up_and_rest_are_signs(self):
        self.assertEqual(len(measured(times={(4, 32): 0.7}).signs()), 2)  # 5.71 times as fast
        without_loading = {"ranks-1-devices-batch-32": trained(1.0, data=0.0)}
        self.assertEqual(measured(times={(4, 32): 0.9}, **without_loading).signs(),
                         ["ranks-4-devices-batch-32: -38.85 s of 351.9 s remain after computation"])

    def test_one_device_takes_the_same_time_in_both_ways_here(self):
        for alone, count in ((1.2, 0), (1.3, 1)):
            results = {**results_of(RANKS, {**TIMES, (1, 32): alone}), **results_of(DEVICES, TIMES)}
            self.assertEqual(len(lab_sweep.signs_of_baselines(setting_of(), results)), count)
            self.assertEqual(lab_sweep.signs_of_baselines(setting_of(**HOSTS), results), [])

    def test_one_device_of_a_host_with_other_threads_need_not_take_the_same_time(self):
        results = {**results_of(RANKS, {**TIMES, (1, 32): 1.3}), **results_of(DEVICES, TIMES)}
        for workers, count in ((2, 0), (4, 1)):  # 4 threads, and 2 as a device here
            setting = setting_of(cores=8, hosts="auto", workers=workers)
            self.assertEqual(len(lab_sweep.signs_of_baselines(setting, results)), count)

    def test_no_time_is_judged_and_each_answer_says_so(self):
        why = disturbance.reason_of(["a", "b"], ["a CPU, 2 cores"])
        self.assertEqual(why, "other processes used the cores (a; 1 more signs of it)")
        setting = dataclasses.replace(setting_of(**HOSTS), disturbed=why)
        ranks, devices = (measured(way, setting=setting) for way in (RANKS, DEVICES))
        for claim in (lab.longer_claim(devices), lab.faster_devices_claim(setting, devices),
                      lab.faster_ranks_claim(setting, ranks), lab.strong_ranks_claim(setting, ranks),
                      lab.strong_devices_claim(setting, devices), lab.share_claim(setting, ranks)):
            self.assertEqual(claim.verdict, NOT_MEASURABLE, claim.key)
            self.assertTrue(claim.numbers.startswith(f"{why}; "), claim.numbers)
        self.assertIn(f"Q1 is not measurable here: {why}. An epoch took 1172.2 s with 32",
                      lab_answers.longer_or_shorter(devices))
        self.assertIn(f"DDP ranks: whether strong scaling would be worse is not measurable here: {why}",
                      lab_answers.other_scaling(ranks))

    def test_row_of_one_rank_is_the_run_that_gave_the_sleeps(self):
        setting = setting_of(hosts="auto", workers=4, cores=2)
        works = lab.runs(setting)
        names = [work.name for work in emulation.alones_of(works, setting)]
        self.assertEqual(names, ["ranks-1-devices-batch-32", "ranks-1-devices-batch-128"])
        emulates = dataclasses.replace(setting, emulated={names[0]: (0.2, 0.3)})
        planned = {work.name: work for work in emulation.split(works, emulates)}
        self.assertEqual([name for name in names if name in planned], [names[1]])
        timed = planned["ranks-4-devices-batch-32-timed"]
        self.assertIn("0.2,0.3", timed.options)
        self.assertNotIn("ranks-4-devices-batch-128-timed", planned)  # no memory for a rank of it


class Experiments(unittest.TestCase):
    def test_no_statement_on_time_of_any_experiment_has_a_verdict(self):
        on_time = re.compile(r"\btime\b|communication|computation|barrier|seconds|speed-up")
        for one in EXPERIMENTS:
            request = with_hosts(one, request_of("out", one.name, hosts="h"))
            setting = Setting(request, one.scales["tiny"], 8, 1 << 40, disturbed="two machines")
            claims = one.find(setting, results_of_plan(one, setting)).claims
            times = {statement.key for statement in one.statements
                     if on_time.search(statement.quantity)}
            judged = {claim.key for claim in claims if claim.verdict != NOT_MEASURABLE}
            self.assertEqual(times & judged, set(), one.name)


class Reports(unittest.TestCase):
    def setUp(self):
        self.out = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), "out")

    def report(self, text_of=fakes.text_of, **more):
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()), \
                mock.patch.object(fakes, "text_of", text_of):
            conduct_with(FakeRunner(), request_of(self.out, **{"name": "lab", "hosts": "h", **more}))
        return json.loads((self.out / "results.json").read_text())

    def disturbed(self, argv, rank):
        """Ranks that train alone take 60 times as long."""
        text = fakes_text_of(argv, rank)
        alone = option(argv, "--sync") == "none" and "--epochs" not in argv
        return text.replace('"iteration_seconds": 1.0', '"iteration_seconds": 60.0') if alone else text

    def test_other_processes_are_named_at_the_top_and_decide_all_statements_on_time(self):
        results = self.report(self.disturbed)
        head = results["head"][0]
        self.assertTrue(head.startswith("NOT MEASURABLE: other processes used the cores"), head)
        self.assertIn("a speed-up of 120.00, of which 2 is possible", head)
        lines = (self.out / "report.md").read_text().split("\n")
        self.assertEqual(lines[2], f"**{head}**")
        self.assertIn(f"scale tiny</h1>\n<p><strong>{head}</strong></p>\n",
                      (self.out / "report.html").read_text())
        verdicts = {claim["key"]: claim["verdict"] for claim in results["claims"]}
        self.assertEqual({key for key, verdict in verdicts.items() if verdict == "confirmed"} &
                         {"batch", "faster-devices", "faster-ranks", "strong-ranks", "share"}, set())
        self.assertEqual(verdicts["order"], "confirmed")

    def test_undisturbed_report_says_what_it_is(self):
        results = self.report()
        self.assertEqual(results["head"], ["REHEARSAL: scale tiny is smaller than what the source asks "
                                           "for. The report to hand in is that of --scale full."])
        self.assertEqual({claim["key"]: claim["verdict"] for claim in results["claims"]}["faster-ranks"],
                         CONFIRMED)

    def test_emulated_computation_is_said_at_the_top(self):
        head = self.report(name="course", hosts="auto", workers=4, rate="1gbit", link_gbit=1)["head"]
        self.assertTrue(head[-1].startswith("COMPUTATION IS EMULATED: "), head)


fakes_text_of = fakes.text_of


if __name__ == "__main__":
    unittest.main()
