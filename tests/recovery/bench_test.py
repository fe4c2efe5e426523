"""bench/recovery.py: what it says of a kill and of a stop."""
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench" / "recovery.py"
TABLE = re.compile(r"\n +p50 +p99 +max\nnew view +([\d.]+) s.*\ncomputing +([\d.]+) s.*\n"
                   r"done again +([\d.]+) s.*\niterations +([\d.]+) .*\n$")


def measure(*options):
    bin_dir = os.environ["GRADWIRE_BIN_DIR"]
    return subprocess.run([sys.executable, "-B", BENCH, "--workers", "3", *options],
                          env={**os.environ, "BIN_DIR": bin_dir}, text=True, timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)


def loaded():
    spec = importlib.util.spec_from_file_location("recovery_bench", BENCH)
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    return bench


class TimesTest(unittest.TestCase):
    def test_times_are_those_of_the_slowest_survivor(self):
        bench = loaded()
        survivors = [{"first_step": 7, "heard": heard, "gone_on": gone_on,
                      "seconds_lost_by_phase": {"computing": computing}}
                     for heard, gone_on, computing in
                     ((100.2, 100.4, 0.1), (100.3, 100.5, 0.2), (100.1, 100.9, 0.3),
                      (100.2, 100.3, 0.1))]
        found = bench.times_of(survivors, 100.0, 0.15)
        self.assertEqual(found.pop("step"), 7)
        for name, expected in (("new view", 0.3), ("computing", 0.9), ("done again", 0.3),
                               ("iterations", 2.0)):
            self.assertAlmostEqual(found.pop(name), expected, msg=name)
        self.assertEqual(found, {})


    def test_table_is_of_all_losses(self):
        losses = [{"new view": n, "computing": 2.0 * n, "done again": n / 100, "iterations": 10 - n}
                  for n in (3, 1, 2)]
        self.assertEqual(loaded().table(losses), [
            "                   p50       p99       max",
            "new view       2.000 s   2.980 s   3.000 s",
            "computing      4.000 s   5.960 s   6.000 s",
            "done again     0.020 s   0.030 s   0.030 s",
            "iterations        8.00      8.98      9.00"])


class LogTest(unittest.TestCase):
    def test_each_line_is_taken_once_and_whole(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        worker = loaded().Worker(1, 0, mock.Mock(), folder, [], mock.Mock())
        lines = [json.dumps(line) + "\n" for line in (
            {"step": 0}, {"kind": "epoch", "epoch": 0}, {"kind": "recovery", "first_step": 1},
            {"kind": "step", "step": 1})]
        text, seen = "".join(lines), []
        worker.look()  # there is no log yet
        with open(folder / "rank1.jsonl", "w", encoding="utf-8") as log:
            for end in (5, len(lines[0]), len(lines[0]) + 3, len(text) - 4, len(text)):
                log.write(text[log.tell():end])
                log.flush()
                worker.look()
                seen.append((len(worker.steps), len(worker.recoveries)))
        self.assertEqual(seen, [(0, 0), (1, 0), (1, 0), (1, 1), (2, 1)])
        self.assertEqual([step["step"] for step in worker.steps], [0, 1])


class LosesOne:
    """A worker that makes a step of `seconds` each time it is looked at. Once one got a signal, the
    others tell of one recovery more, after several looks."""

    def __init__(self, rank, seconds, run):
        self.rank, self.ended, self._run = rank, False, run
        self.steps = [{"iteration_seconds": 100.0}] * 9
        self.recoveries, self.signals, self.was_ended = [], [], False
        self._seconds, self._told = seconds, 0

    def look(self):
        self.steps.append({"iteration_seconds": self._seconds})
        if self._run.lost > self._told and len(self.steps) % 3 == self.rank % 3:
            self._told += 1
            at = 1000.0 * self._told + self.rank
            self.recoveries.append({"first_step": 7 * self._told, "heard": at, "gone_on": at + 1,
                                    "seconds_lost_by_phase": {"computing": 6.0}})

    def send(self, number):
        self.signals.append(number)
        self._run.lost += 1
        return 1000.0 * self._run.lost

    def end(self):
        self.was_ended = True


class LoseTest(unittest.TestCase):
    def setUp(self):
        self.bench = loaded()
        self.run = self.bench.Run.__new__(self.bench.Run)
        self.run.lost = 0
        self.run._options = types.SimpleNamespace(train_seconds=0.0, by="stop")
        self.run._processes, self.run._patience = mock.Mock(), 30
        self.run.workers = [LosesOne(rank, seconds, self.run)
                            for rank, seconds in enumerate((0.001, 0.003, 0.003, 0.002))]
        self.everyone = list(self.run.workers)

    def test_second_loss_of_a_run_is_told_by_its_own_recoveries_and_usual_steps(self):
        rng = random.Random(1)
        losses = [self.run.lose(rng) for _ in range(2)]
        lost = [loss["rank"] for loss in losses]
        left = [worker.rank for worker in self.run.workers]
        self.assertEqual(sorted(lost + left), [0, 1, 2, 3])
        for number, loss in enumerate(losses):
            slowest = max(left + lost[number + 1:])
            self.assertEqual((loss["step"], loss["new view"], loss["computing"]),
                             (7 * (number + 1), slowest, slowest + 1))
        self.assertAlmostEqual(losses[0]["iterations"], 6 / 0.0025)  # of 1, 2, 3 and 3 ms
        self.assertEqual([worker.rank for worker in self.everyone if worker.was_ended], sorted(lost))
        self.assertEqual([worker.signals for worker in self.everyone if worker.was_ended],
                         [[signal.SIGSTOP]] * 2)

    def test_each_loss_is_preceded_by_the_time_to_train(self):
        self.run._options.train_seconds = 5.0
        waited, now = [], [100.0]

        def wait(condition, what):
            if what == "the next one's turn":
                now[0] = 104.9
                waited.append(condition())
                now[0] = 105.0
                waited.append(condition())
            while not condition():
                for worker in self.run.workers:
                    worker.look()
        clock = mock.Mock(monotonic=lambda: now[0])
        with mock.patch.object(self.run, "wait", wait), mock.patch.object(self.bench, "time", clock):
            self.run.lose(random.Random(1))
        self.assertEqual(waited, [False, True])

    def test_kills_are_those_of_several_runs(self):
        made = []

        class Lost:
            def __init__(self, *_):
                self.workers = [0] * 4
                made.append(self)

            def lose(self, _rng):
                self.workers.pop()
                return {"rank": len(made), "step": 1,
                        **dict.fromkeys(("new view", "computing", "done again", "iterations"), 1.0)}
        options = types.SimpleNamespace(seed=1, kills=5)
        with mock.patch.object(self.bench, "Run", Lost), \
                contextlib.redirect_stdout(io.StringIO()) as printed:
            losses = self.bench.measure(options, None)
        self.assertEqual([loss["rank"] for loss in losses], [1, 1, 2, 2, 3])
        self.assertEqual([len(run.workers) for run in made], [2, 2, 3])
        self.assertTrue(printed.getvalue().splitlines()[4].startswith("5: rank 3, step 1: new view"))


class RunTest(unittest.TestCase):
    def test_lease_and_time_to_train_go_to_the_coordinator_and_into_the_patience(self):
        bench, folder = loaded(), pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "ports").write_text("metrics=off grpc=10.0.0.1:7\n")
        hosts = mock.Mock(local=False, address=lambda host: f"10.0.0.{host + 1}",
                          command=lambda host, argv: (host, argv))
        started = []
        processes = mock.Mock(add=lambda command: started.append(command) or mock.Mock(ended=False))
        options = types.SimpleNamespace(lease_seconds=3.0, train_seconds=20.0, workers=3,
                                        words=["--backend", "ring"])
        run = bench.Run(options, hosts, folder, processes)
        self.assertEqual(run._patience, bench.PATIENCE + 23)
        (host, coordinator), *workers = started
        self.assertEqual(host, 0)
        for name, value in (("--listen", "10.0.0.1:0"), ("--world-size", "3"),
                            ("--lease-seconds", "3.0")):
            self.assertEqual(coordinator[coordinator.index(name) + 1], value)
        self.assertEqual([host for host, _ in workers], [0, 1, 2])
        for rank, (_, argv) in enumerate(workers):
            self.assertEqual(argv[argv.index("--rank") + 1], str(rank))
            self.assertEqual(argv[argv.index("--coordinator") + 1], "10.0.0.1:7")
            self.assertEqual(argv[-2:], ["--backend", "ring"])

    def test_wait_ends_after_its_patience(self):
        bench = loaded()
        run = bench.Run.__new__(bench.Run)
        run.workers, run._processes, run._patience = [], mock.Mock(), 0.25
        now = iter(n / 10 for n in range(9))
        with mock.patch.object(bench, "time", mock.Mock(monotonic=lambda: next(now))), \
                self.assertRaisesRegex(bench.Stuck, "^waited 0.25 s for steps$"):
            run.wait(lambda: False, "steps")
        self.assertEqual(next(now), 0.4)  # begun at 0, over at 0.3


class MainTest(unittest.TestCase):
    def run_main(self, *words):
        bench, made = loaded(), mock.MagicMock()
        losses = [dict.fromkeys(bench.COLUMNS, 1.0)]
        with mock.patch.object(bench.MadeHosts, "alike", made), \
                mock.patch.object(bench, "measure", return_value=losses) as measured, \
                mock.patch.object(sys, "argv", ["recovery.py", *words]), \
                contextlib.redirect_stderr(io.StringIO()) as said, \
                contextlib.redirect_stdout(io.StringIO()):
            try:
                bench.main()
            except SystemExit as end:
                return end.code, said.getvalue()
        return made.call_args.args[:3], measured.call_args.args[0]

    def test_hosts_are_those_of_the_options(self):
        made, options = self.run_main("--hosts", "auto", "--rate", "5mbit", "--workers", "3")
        self.assertEqual(made, ("auto", 3, "5mbit"))
        self.assertEqual((options.kills, options.lease_seconds, options.train_seconds, options.by),
                         (10, 10.0, 0.0, "kill"))

    def test_no_kills_are_refused(self):
        code, said = self.run_main("--kills", "0")
        self.assertEqual(code, 2)
        self.assertIn("got 0 kills of 4 workers, expected 1 or more", said)


class BenchTest(unittest.TestCase):
    def times(self, result):
        """The medians of the table."""
        self.assertEqual(result.returncode, 0, result.stdout)
        found = TABLE.search(result.stdout)
        self.assertTrue(found, result.stdout)
        return [float(text) for text in found.groups()]

    def test_one_killed_a_line_and_a_table(self):
        result = measure("--kills", "1")
        new_view, computing, _, _ = self.times(result)
        self.assertLessEqual(new_view, computing)
        self.assertRegex(result.stdout, r"^1: rank [012], step \d+: new view [\d.]+ s, computing ")

    def test_one_stopped_is_lost_after_its_lease(self):
        new_view, _, _, _ = self.times(measure("--kills", "1", "--by", "stop", "--lease-seconds", "1",
                                               "--", "--backend", "sharded"))
        self.assertGreaterEqual(new_view, 0.9)

    def test_run_that_does_not_go_on_fails(self):
        result = measure("--kills", "1", "--", "--backend", "gloo")
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertRegex(result.stdout, r"(?s)^bench/recovery\.py: rank \d ended:\n.*was lost in step")

    def test_too_few_workers_are_refused(self):
        result = measure("--workers", "2")
        self.assertEqual(result.returncode, 2, result.stdout)
        self.assertIn("got 10 kills of 2 workers, expected 1 or more of 3 or more", result.stdout)


if __name__ == "__main__":
    unittest.main()
