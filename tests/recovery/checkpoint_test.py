"""All processes of a run with checkpoints are killed at once. The same command continues the run on
any number of processes, and the result is that of the undisturbed run, to the bit."""
import contextlib
import functools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

BIN = pathlib.Path(os.environ["GRADWIRE_BIN_DIR"])
WORLD_SIZE = 4
STEPS = 24
EVERY = 4
SECONDS = 240
RUN = ["--model", "lenet", "--dataset", "synthetic", "--seed", "744", "--batch-size", "4",
       "--threads", "1", "--iterations", str(STEPS), "--print-every", "1"]
RECORDER = BIN.parent / "tests/libdisk_recorder.so"
BATCH_NORM = ["--model", "vgg11", "--batch-size", "2", "--iterations", "10"]
# What each run adds to RUN; the last of equal options counts.
CASES = {
    "ddp, SGD": ["--sync", "ddp"],
    "ddp, Adam": ["--sync", "ddp", "--optimizer", "adam"],
    "gather-scatter, SGD, Nesterov": ["--sync", "gather-scatter", "--nesterov", "true"],
    "gather-scatter, AdamW, cosine": ["--sync", "gather-scatter", "--optimizer", "adamw",
                                      "--lr-schedule", "cosine"],
    "ddp, no momentum": ["--sync", "ddp", "--momentum", "0"],
    "all-reduce in bf16": ["--sync", "all-reduce", "--backend", "coordinator", "--wire", "bf16"],
    "accumulation and clipping": ["--sync", "ddp", "--accumulate", "2", "--clip-norm", "1"],
    "local-sgd": ["--sync", "local-sgd:3"],
    "local-sgd with a delay": ["--sync", "local-sgd:4", "--delay", "2"],
    "int8": ["--sync", "ddp", "--compress", "int8"],
    "int8 over the network": ["--sync", "ddp", "--backend", "sharded", "--compress", "int8"],
    "top-k": ["--sync", "ddp", "--compress", "top-k:0.05"],
    "top-k, warm-up, coordinator": ["--sync", "gather-scatter", "--backend", "coordinator",
                                    "--compress", "top-k:0.05", "--compress-warmup", "12"],
    "powersgd": ["--sync", "ddp", "--compress", "powersgd:1"],
    "powersgd, warm-up, ring": ["--sync", "all-reduce", "--compress", "powersgd:2",
                                "--compress-warmup", "12"],
    "diloco": ["--sync", "diloco:3", "--optimizer", "adam"],
}
SLOW_CASES = {
    "BatchNorm, broadcast": [*BATCH_NORM, "--sync", "ddp"],
    "BatchNorm of each rank": [*BATCH_NORM, "--sync", "ddp", "--broadcast-buffers", "false"],
    "BatchNorm, gather-scatter": [*BATCH_NORM, "--sync", "gather-scatter", "--broadcast-buffers",
                                  "false"],
    "BatchNorm, diloco": [*BATCH_NORM, "--sync", "diloco:2"],
    "dropout": ["--model", "squeezenet1_0", "--image-size", "64", "--batch-size", "2", "--iterations",
                "10", "--sync", "ddp"],
    "evaluation in the middle": ["--sync", "ddp", "--batch-size", "1000", "--evaluate",
                                 "--evaluate-every", "1"],
}


class Run:
    """`gradwire launch` with checkpoints."""

    def __init__(self, words, run_dir=None, workers=WORLD_SIZE, options=(), variables=None,
                 under=()):
        self._folder = tempfile.TemporaryDirectory()
        self._summary = pathlib.Path(self._folder.name, "summary.json")
        keeps = ["--run-dir", run_dir, "--checkpoint-every", str(EVERY)] if run_dir else []
        argv = [*under, BIN / "gradwire", "launch", "--workers", str(workers), "--world-size",
                str(WORLD_SIZE), "--metrics", "off", "--summary", self._summary, *keeps, *options,
                "--", *RUN, *words]
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("GRADWIRE_")} | (variables or {})
        self._process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                         text=True, env=environment)
        self.text = ""
        self._watchdog = threading.Timer(SECONDS, self._process.kill)
        self._watchdog.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()
        self._watchdog.cancel()
        self._folder.cleanup()

    def until(self, expression):
        for line in self._process.stdout:
            self.text += line
            if re.search(expression, line):
                return
        raise AssertionError(f"no line with {expression}:\n{self.text}")

    def _children(self):
        path = pathlib.Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return list(map(int, path.read_text().split()))

    def kill_everything(self):
        everyone = [self._process.pid, *self._children()]
        for pid in everyone:
            with contextlib.suppress(ProcessLookupError):  # it ends with the launcher
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        deadline = time.monotonic() + SECONDS
        while any(pathlib.Path(f"/proc/{pid}").exists() for pid in everyone[1:]):
            if time.monotonic() > deadline:
                raise AssertionError("a killed process still exists")
            time.sleep(0.01)

    def signal(self, number):
        self._process.send_signal(number)

    def wait(self):
        """Returns the exit code."""
        self.text += self._process.stdout.read()
        return self._process.wait()

    def hashes(self):
        """Returns the hashes of parameters and buffers of all ranks."""
        exit_code = self.wait()
        if exit_code != 0:
            raise AssertionError(f"got exit code {exit_code}:\n{self.text}")
        ranks = self.ranks = json.loads(self._summary.read_text())["ranks"]
        if len(ranks) != WORLD_SIZE:
            raise AssertionError(f"got summaries of {len(ranks)} ranks:\n{self.text}")
        return [(rank["parameters_sha256"], rank["buffers_sha256"]) for rank in ranks]


@functools.lru_cache(maxsize=None)
def undisturbed(words):
    with Run(words, workers=2) as run:
        return run.hashes()


def checkpoints(run_dir):
    return sorted(int(path.name.removeprefix("step-")) for path in pathlib.Path(run_dir).iterdir()
                  if re.fullmatch(r"step-\d+", path.name))


class CheckpointCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.run_dir = self.folder / "run"

    def killed(self, words, at=r"checkpoint before step (?!24 )\d+ "):
        """Kills a run, with all its processes, after this line. Begins again if the disk is so slow that
        the run ends before."""
        for left in reversed(range(5)):
            with Run(words, self.run_dir) as run:
                try:
                    run.until(at)
                except AssertionError:
                    if left == 0 or "finished after" not in run.text:
                        raise
                else:
                    run.kill_everything()
                    return
            shutil.rmtree(self.run_dir)

    def check_resumes(self, words, workers):
        copy = shutil.copytree(self.run_dir, self.folder / f"on{workers}")
        with Run(words, copy, workers=workers) as run:
            hashes = run.hashes()
            self.assertRegex(run.text, r"the run resumes before step \d+")
            self.assertRegex(run.text, r"\[rank.* info resumes before step [1-9]")
            first = int(re.search(r"the run resumes before step (\d+)", run.text)[1])
            self.assertEqual({rank["first_step"] for rank in run.ranks}, {first})
        self.assertEqual(hashes, undisturbed(tuple(words)), f"on {workers} processes")

    def check(self, words, on=(1, 3, 4)):
        self.killed(words)
        for workers in on:
            with self.subTest(workers=workers):
                self.check_resumes(words, workers)


class PublishCase(CheckpointCase):
    """The coordinator stops, and everything is killed, after a given operation on the disk."""
    WORDS = CASES["ddp, SGD"]
    OPTIONS = ["--keep-checkpoints", "1"]
    FIRST = ["rename step-*.tmp"]  # a checkpoint gets its name
    SECOND = [*FIRST, *FIRST]  # the next one, too

    def recorded(self, stop_after=()):
        """Returns a run, and the file with its operations on the disk."""
        log = self.folder / "log"
        return log, Run(self.WORDS, self.run_dir, options=self.OPTIONS, variables={
            "LD_PRELOAD": str(RECORDER), "DISK_ROOT": str(self.run_dir), "DISK_LOG": str(log),
            "DISK_STOP_AFTER": "\n".join(stop_after)})

    def operations(self):
        """Returns those of the second checkpoint of an undisturbed run, except the ledger's."""
        log, run = self.recorded()
        with run:
            run.hashes()
        lines = [line.split("\t")[:2] for line in log.read_text().splitlines()]
        names = [f"{kind} {re.sub('step-[0-9]+', 'step-*', os.path.relpath(path, self.run_dir))}"
                 for kind, path in lines]
        begins = [i for i, name in enumerate(names) if name == "make-folder step-*.tmp"]
        return [name for name in names[begins[1]:begins[2]] if " ledger/" not in name]

    def check_killed_after(self, stop_after, workers):
        log, run = self.recorded(stop_after)
        with run:
            deadline = time.monotonic() + SECONDS
            while not log.exists() or "stopped\n" not in log.read_text():
                self.assertLess(time.monotonic(), deadline, stop_after)
                time.sleep(0.01)
            run.kill_everything()
        with Run(self.WORDS, self.run_dir, workers=workers, options=self.OPTIONS) as run:
            self.assertEqual(run.hashes(), undisturbed(tuple(self.WORDS)), stop_after)
            self.assertRegex(run.text, r"the run resumes before step [1-9]", stop_after)
        verified = subprocess.run([BIN / "gradwire", "ledger", "verify", self.run_dir], text=True,
                                  capture_output=True, timeout=60)
        self.assertEqual(verified.returncode, 0, f"{stop_after}: {verified.stdout}{verified.stderr}")


class PublishTest(PublishCase):
    def test_killed_when_a_checkpoint_has_its_name_but_no_record(self):
        self.check_killed_after(self.SECOND, workers=3)


class EachPublishStepTest(PublishCase):
    """For tests/run --long."""

    def test_each_operation_of_a_checkpoint(self):
        operations = self.operations()
        self.assertGreater(len(operations), 15, operations)
        record = ["sync-folder .", "write ledger/00000001.log", "sync ledger/00000001.log"]
        ways = [self.FIRST + operations[:count] for count in range(1, len(operations) + 1)]
        ways += [self.SECOND + record[:count] for count in (2, 3)]
        for number, stop_after in enumerate(ways):
            with self.subTest(after=stop_after[-1], number=number):
                self.setUp()
                self.check_killed_after(stop_after, workers=(1, 3, 4)[number % 3])
        print(f"{len(ways)} kills")


class KillEverythingTest(CheckpointCase):
    """What the ordinary tests have time for."""

    def test_ddp(self):
        self.check(CASES["ddp, SGD"], on=(3,))

    def test_diloco_with_an_optimizer_of_each_rank(self):
        self.check(CASES["diloco"], on=(3,))

    def test_int8_with_residuals_of_ranks_and_means(self):
        self.check(CASES["int8 over the network"], on=(3,))


class EveryCaseTest(CheckpointCase):
    """All cases, for tests/run --long."""

    def test_each_case(self):
        for name, words in {**CASES, **SLOW_CASES}.items():
            with self.subTest(name):
                self.setUp()
                self.check(words)

    def test_kills_at_drawn_moments(self):
        draw = random.Random(744)
        words = CASES["ddp, SGD"]
        for number in range(50):
            with self.subTest(number=number):
                self.setUp()
                with Run(words, self.run_dir) as run:
                    run.until("the run begins with generation")
                    time.sleep(draw.uniform(0, 1.5))
                    run.kill_everything()
                with Run(words, self.run_dir, workers=draw.choice((1, 3, 4))) as run:
                    self.assertEqual(run.hashes(), undisturbed(tuple(words)))


class RunDirCase(CheckpointCase):
    WORDS = ["--sync", "ddp"]

    def finish(self, words=WORDS, workers=2, **options):
        with Run(words, self.run_dir, workers, **options) as run:
            return run.hashes(), run.text

    def refused(self, words=WORDS, exit_code=2, workers=1, **options):
        """Returns what a run says that ends with this exit code."""
        with Run(words, self.run_dir, workers, **options) as run:
            self.assertEqual(run.wait(), exit_code, run.text)
            return run.text


class FailedCheckpointTest(RunDirCase):
    def test_each_due_one_is_tried_and_the_end_waits_for_none(self):
        """Files may have the 1 MiB of the ledger's reserve, so no checkpoint of a larger model can be
        written."""
        words = [*self.WORDS, "--model", "mlp"]
        begun = time.monotonic()
        after, text = self.finish(words, under=["prlimit", f"--fsize={1 << 20}"])
        self.assertLess(time.monotonic() - begun, SECONDS / 2)  # the step timeout is 300 s
        self.assertEqual(after, undisturbed(tuple(words)))
        failed = re.findall(r"no checkpoint before step (\d+): .*file too large", text)
        self.assertEqual(failed[-1], str(STEPS), text)
        self.assertGreater(len(failed), 2, text)


class FinishedRunTest(RunDirCase):
    """Each test has a copy of the folder of one finished run."""
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.finished = pathlib.Path(folder.name, "run")
        with Run(cls.WORDS, cls.finished) as run:
            cls.hashes = run.hashes()

    def setUp(self):
        super().setUp()
        shutil.copytree(self.finished, self.run_dir)

    def test_checkpoints_do_not_change_the_result(self):
        self.assertEqual(self.hashes, undisturbed(tuple(self.WORDS)))

    def test_finished_run_says_so_and_has_the_same_result(self):
        after, text = self.finish()
        self.assertIn("has already finished with step 24", text)
        self.assertEqual(after, self.hashes)

    def test_raised_number_of_steps_goes_on(self):
        longer = [*self.WORDS, "--iterations", "30"]
        self.assertEqual(self.finish(longer)[0], undisturbed(tuple(longer)))

    def test_fewer_steps_than_the_checkpoint_has(self):
        self.assertIn("got 10, expected 24", self.refused([*self.WORDS, "--iterations", "10"]))

    def test_other_settings_are_refused_with_both_values(self):
        self.assertIn("setting 'seed': got 1, expected 744, as in the checkpoint",
                      self.refused([*self.WORDS, "--seed", "1"]))
        self.assertIn("setting 'threads': got 2, expected 1",
                      self.refused([*self.WORDS, "--threads", "2"]))
        self.assertIn("world size: got 2, expected 4",
                      self.refused(options=["--world-size", "2"]))

    def test_resume_from_a_step_and_never(self):
        step = checkpoints(self.run_dir)[-2]  # of a busy machine, any but the last may be missing
        hashes, text = self.finish(options=["--resume", str(step)])
        self.assertEqual(hashes, self.hashes)
        self.assertIn(f"the run resumes before step {step}", text)
        self.assertIn("expected a folder without checkpoints",
                      self.refused(options=["--resume", "never"]))
        self.refused(options=["--resume", "17"])

    def test_damaged_checkpoint_is_named_and_skipped(self):
        step = checkpoints(self.run_dir)[-2]
        shard = next((self.run_dir / "step-000000000024").glob("model-*.safetensors"))
        data = bytearray(shard.read_bytes())
        data[-1] ^= 1
        shard.write_bytes(data)
        hashes, text = self.finish()
        self.assertEqual(hashes, self.hashes)
        self.assertIn("step-000000000024", text)
        self.assertIn(f"the run resumes before step {step}", text)

    def test_no_sound_checkpoint_although_some_exist(self):
        for manifest in self.run_dir.glob("step-*/manifest.json"):
            manifest.write_text("{}")
        before = checkpoints(self.run_dir)
        self.refused()
        self.assertEqual(checkpoints(self.run_dir), before)


class ResumeTest(RunDirCase):
    def test_checkpoint_at_the_end_and_older_ones_are_deleted(self):
        self.finish(options=["--keep-checkpoints", "1"])
        self.assertEqual(checkpoints(self.run_dir), [STEPS])

    def test_run_dir_in_use(self):
        with Run([*self.WORDS, "--iterations", "100000"], self.run_dir, workers=1) as run:
            run.until(f"checkpoint before step {EVERY} ")
            self.assertIn("run", self.refused(exit_code=75))

    def test_runs_without_checkpoints_are_refused(self):
        for words, reason in ((["--sync", "parameter-server"], "aggregators keep the model"),
                              (["--sync", "gather-scatter", "--backend", "coordinator", "--compress",
                                "int8"], "the coordinator keeps residuals"),
                              (["--sync", "all-reduce", "--backend", "gloo"], "cannot resume")):
            with self.subTest(reason):
                # A worker of back end gloo carries one rank.
                self.assertIn(reason, self.refused(words, workers=WORLD_SIZE))

    def test_sync_none_is_refused(self):
        with Run(["--sync", "none"], self.run_dir, workers=1, options=["--world-size", "1"]) as run:
            self.assertEqual(run.wait(), 2, run.text)
            self.assertIn("expected a sync that averages", run.text)

    def test_signal_makes_a_checkpoint(self):
        words = [*self.WORDS, "--iterations", "100000"]
        with Run(words, self.run_dir, workers=2, options=["--checkpoint-every", "0"]) as run:
            run.until("iteration 3/")
            run.signal(signal.SIGUSR1)
            run.until(r"checkpoint before step \d+ in")
            run.kill_everything()
        self.assertEqual(len(checkpoints(self.run_dir)), 1)

    def test_signal_before_the_models_are_made_makes_a_checkpoint(self):
        words = [*self.WORDS, "--model", "vgg11", "--batch-size", "2", "--iterations", "100000"]
        with Run(words, self.run_dir, workers=2, options=["--checkpoint-every", "0"]) as run:
            run.until("the run begins with generation 1")
            run.signal(signal.SIGUSR1)
            run.until("a checkpoint before step 3 was asked for")
            run.until("checkpoint before step 3 in")
            run.kill_everything()
        self.assertEqual(len(checkpoints(self.run_dir)), 1)

    def test_launcher_says_how_to_resume(self):
        with Run([*self.WORDS, "--iterations", "100000"], self.run_dir, workers=2) as run:
            run.until(f"checkpoint before step {EVERY} ")
            run.signal(signal.SIGTERM)
            self.assertEqual(run.wait(), 128 + signal.SIGTERM)
            self.assertIn("the same command continues the run from its last checkpoint", run.text)


if __name__ == "__main__":
    unittest.main()
