"""Workers of launched runs are killed, and the result is that of the undisturbed run, to the bit. At
which point of a step is a matter of chance here: see matrix_test.py."""
import functools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.request

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cifar_files import write_cifar10  # noqa: E402

BIN = pathlib.Path(os.environ["GRADWIRE_BIN_DIR"])
STEPS = 40
RUN = ["--model", "lenet", "--dataset", "synthetic", "--seed", "744", "--batch-size", "4",
       "--threads", "1", "--iterations", str(STEPS), "--print-every", "1"]
SECONDS = 120


def place_of(pid):
    """Which ranks a process was started for; none if it is no worker."""
    try:
        variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    return next((variable.partition(b"=")[2].decode() for variable in variables
                 if variable.startswith(b"GRADWIRE_RANK=")), None)


class Run:
    """`gradwire launch`, whose workers can be killed at a step."""

    def __init__(self, *words, workers=4, world_size=4, metrics="off", options=()):
        self._folder = tempfile.TemporaryDirectory()
        self.summary = pathlib.Path(self._folder.name, "summary.json")
        summary = [] if "--program" in options else ["--summary", self.summary]
        argv = [BIN / "gradwire", "launch", "--workers", str(workers), "--world-size", str(world_size),
                "--metrics", metrics, *summary, *options, "--", *RUN, *words]
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("GRADWIRE_")}
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True, env=environment)
        self.text = ""
        self.gone = set()  # ids of workers that were killed, or stopped and not continued
        self._watchdog = threading.Timer(SECONDS, self.process.kill)
        self._watchdog.start()

    def until(self, expression):
        """Reads on until a line that has it."""
        for line in self.process.stdout:
            self.text += line
            if re.search(expression, line):
                return
        raise AssertionError(f"no line with {expression}:\n{self.text}")

    def until_step(self, rank, step):
        self.until(rf"^\[rank {rank}\] epoch .* iteration {step}/")

    def _children(self):
        path = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return map(int, path.read_text().split())

    def pid_of(self, rank):
        return next(pid for pid in self._children()
                    if rank in map(int, (place_of(pid) or "-1").split(",")))

    def pid_of_program(self, name):
        return next(pid for pid in self._children()
                    if pathlib.Path(f"/proc/{pid}/exe").resolve().name == name)

    def signal(self, rank, number):
        pid = self.pid_of(rank)
        os.kill(pid, number)
        (self.gone.discard if number == signal.SIGCONT else self.gone.add)(pid)

    def signal_launcher(self, number):
        self.process.send_signal(number)

    def end(self):
        """Gives its exit code."""
        self.text += self.process.stdout.read()
        self.process.stdout.close()
        code = self.process.wait()
        self._watchdog.cancel()
        return code

    def _ranks(self):
        return json.loads(self.summary.read_text())["ranks"]

    def hashes(self):
        return [(rank["parameters_sha256"], rank["buffers_sha256"]) for rank in self._ranks()]

    def losses(self):
        """How many workers were lost, by each rank's summary."""
        return {rank["failures"]["losses"] for rank in self._ranks()}


@functools.lru_cache(maxsize=None)
def undisturbed(*words, **size):
    run = Run(*words, **size)
    assert run.end() == 0, run.text
    return run.hashes()


class LaunchedTest(unittest.TestCase):
    def assert_same(self, run, expected):
        self.assertEqual(run.end(), 0, run.text)
        self.assertEqual(run.hashes(), expected, run.text)
        # The result is the same, too, if a healthy worker dies of a loss and is recovered.
        self.assertEqual(run.losses(), {len(run.gone)}, run.text)

    def kill_one(self, sync, backend, expected):
        run = Run("--sync", sync, "--backend", backend)
        run.until_step(0, 7)
        run.signal(2, signal.SIGKILL)
        self.assert_same(run, expected)
        self.assertRegex(run.text, r"rank 2 \(process \d+\) was killed by signal 9 ")


class LongKillTest(LaunchedTest):
    """What takes the ordinary tests too long."""

    def test_each_back_end_and_sync_one_killed(self):
        for sync in ("gather-scatter", "all-reduce", "per-layer", "ddp"):
            for backend in ("coordinator", "sharded", "ring"):
                with self.subTest(sync=sync, backend=backend):
                    self.kill_one(sync, backend, undisturbed())
        with self.subTest(backend="tree"):
            self.kill_one("ddp", "tree", undisturbed("--backend", "tree"))

    def test_three_of_four_killed_one_after_the_other(self):
        run = Run("--sync", "ddp")
        for rank, step in ((0, 5), (3, 15), (1, 25)):
            run.until_step(2, step)
            run.signal(rank, signal.SIGKILL)
        self.assert_same(run, undisturbed())

    def test_stopped_worker_is_lost_with_its_lease(self):
        run = Run("--sync", "ddp", options=["--lease-seconds", "1.5"])
        run.until_step(0, 8)
        run.signal(1, signal.SIGSTOP)
        run.until("is carried on by others")
        run.signal(1, signal.SIGKILL)
        self.assert_same(run, undisturbed())


class KillTest(LaunchedTest):
    def test_one_killed(self):
        self.kill_one("all-reduce", "ring", undisturbed())

    def test_two_killed_at_once(self):
        words = ["--sync", "ddp", "--backend", "sharded", "--optimizer", "adam"]
        expected = undisturbed(*words)
        run = Run(*words)
        run.until_step(1, 10)
        run.signal(0, signal.SIGKILL)
        run.signal(3, signal.SIGKILL)
        self.assert_same(run, expected)

    def test_loss_is_told_by_summary_table_log_and_trace(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        log, trace = (pathlib.Path(folder.name, name) for name in ("rank{rank}.jsonl", "trace.json"))
        run = Run("--sync", "ddp", "--log-jsonl", log, options=["--trace", trace])
        run.until_step(0, 7)
        run.signal(2, signal.SIGKILL)
        self.assertEqual(run.end(), 0, run.text)
        ranks = json.loads(run.summary.read_text())["ranks"]
        for failures in (rank["failures"] for rank in ranks):
            self.assertEqual((failures["views"], failures["losses"]), (2, 1))
            self.assertAlmostEqual(sum(failures["seconds_lost_by_phase"].values()),
                                   failures["seconds_lost"])
        recovery = ranks[0]["failures"]["recoveries"][0]
        self.assertEqual(recovery["lost_ranks"], [2])
        carrier, = recovery["carriers"]
        self.assertEqual(carrier["adopted"], [2])
        names = ", ".join(map(str, carrier["ranks"]))
        self.assertRegex(run.text, rf"(?m)^ +rank 2 +{recovery['first_step']} +ranks {names} +\d+\.\d{{3}} ")
        lines = pathlib.Path(folder.name, "rank0.jsonl").read_text().splitlines()
        told = [line for line in map(json.loads, lines) if line.get("kind") == "recovery"]
        self.assertEqual([line["generation"] for line in told], [2])
        self.assertLessEqual(told[0]["heard"], told[0]["gone_on"])
        events = json.loads(trace.read_text())["traceEvents"]
        spans = [event for event in events if event["name"] == "recover"]
        self.assertEqual(len(spans), 3)

    def test_status_says_who_is_left_and_the_cost_that_the_workers_tell(self):
        run = Run("--sync", "ddp", "--iterations", "200", metrics="127.0.0.1:0", options=["--linger-seconds", "30"])
        run.until("watch the run on")
        address = re.search(r"watch the run on http://([^/]+)/", run.text)[1]
        run.until_step(0, 7)
        pid = run.pid_of(2)
        os.kill(pid, signal.SIGKILL)
        run.until("is carried on by others")
        left = self.status(address)["reason"]
        run.until("all ranks finished")
        loss, = self.status(address)["failures"]["last"]
        run.signal_launcher(signal.SIGTERM)
        run.end()
        self.assertRegex(left, "^3 of 4 workers are present: rank 2 .* was lost .*, and rank 2 is carried "
                               "on by the worker of ranks ")
        self.assertEqual(loss["pid"], pid)
        costs = [float(cost) for cost in re.findall(r"goes on; the loss cost ([\d.]+) s", run.text)]
        self.assertEqual(len(costs), 3)
        self.assertAlmostEqual(loss["seconds_lost"], max(costs), delta=0.001)
        self.assertAlmostEqual(sum(loss["seconds_lost_by_phase"].values()), loss["seconds_lost"])

    def status(self, address):
        with urllib.request.urlopen(f"http://{address}/status.json", timeout=20) as answer:
            return json.load(answer)

    def test_told_to_stop_on_a_loss(self):
        run = Run("--sync", "ddp", options=["--on-loss", "stop"])
        run.until_step(0, 5)
        run.signal(2, signal.SIGKILL)
        self.assertEqual(run.end(), 137, run.text)
        self.assertRegex(run.text, r"rank 2 \(process \d+\) was killed by signal 9 ")

    def test_what_cannot_recover_says_why(self):
        run = Run("--sync", "ddp", "--backend", "gloo")
        run.until_step(0, 5)
        run.signal(2, signal.SIGKILL)
        self.assertEqual(run.end(), 137, run.text)
        self.assertIn("with back end gloo a worker carries one rank", run.text)

    def test_fewer_than_min_workers_ends_the_run(self):
        run = Run("--sync", "ddp", options=["--min-workers", "4"])
        run.until_step(0, 5)
        run.signal(2, signal.SIGKILL)
        self.assertEqual(run.end(), 137, run.text)
        self.assertIn("3 workers are left, expected 4 or more", run.text)


class EvaluationTest(LaunchedTest):
    @classmethod
    def setUpClass(cls):
        data = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()), "cifar10")
        # Two epochs of 13 iterations. An evaluation takes so long that a worker is lost meanwhile.
        write_cifar10(data, trained=1000, tested=10000)
        cls.words = ("--sync", "ddp", "--dataset", "cifar10", "--data-dir", str(data), "--batch-size", "20",
                     "--iterations", "26", "--evaluate", "--evaluate-every", "1")

    def test_killed_while_evaluations_are_shared(self):
        """In the midst of one, and behind it."""
        expected = undisturbed(*self.words)
        for moment in ("epoch 1/.* iteration 12/", "epoch 1/.*: loss"):
            with self.subTest(moment=moment):
                run = Run(*self.words)
                run.until(rf"^\[rank 0\] {moment}")
                run.signal(3, signal.SIGKILL)
                self.assert_same(run, expected)

    def test_loss_some_steps_after_an_evaluation_has_not_cost_what_is_before_its_step(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        run = Run(*self.words, "--log-jsonl", folder / "rank{rank}.jsonl")
        run.until(r"^\[rank 0\] epoch 1/.*: loss")
        for _ in range(3):
            run.until(r"^\[rank 0\] epoch 2/.* iteration ")
        run.signal(3, signal.SIGKILL)
        self.assert_same(run, undisturbed(*self.words))
        lines = [json.loads(line) for line in (folder / "rank0.jsonl").read_text().splitlines()]
        recovery, = (line for line in lines if line.get("kind") == "recovery")
        # The one before it may end after it has begun.
        before, = (line for line in lines
                   if "kind" not in line and line["step"] == recovery["first_step"] - 2)
        self.assertGreater(recovery["gone_on"] - recovery["seconds_lost"], before["time"])


if __name__ == "__main__":
    unittest.main()
