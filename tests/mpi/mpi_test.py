"""Back end mpi, whose ranks mpirun starts. Skipped where it is not built or mpirun is missing."""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

BIN = pathlib.Path(os.environ["GRADWIRE_BIN_DIR"])
MODULE = BIN.parent / "libexec/gradwire/libgradwire_mpi.so"
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
RANKS = 4
TRAINING = ["--model", "lenet", "--dataset", "synthetic", "--batch-size", "4", "--threads", "1",
            "--print-every", "0", "--lr", "0.01"]
SECONDS_TO_END = 30


def setUpModule():
    if not MODULE.exists():
        raise unittest.SkipTest("back end mpi is not built (deploy/install-packages mpi)")
    if not shutil.which("mpirun"):
        raise unittest.SkipTest("no mpirun (apt-get install openmpi-bin)")


def unused_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def environment(**variables):
    kept = {name: text for name, text in os.environ.items()
            if not name.startswith(("GRADWIRE_", "OMPI_", "PMIX_"))}
    return {**kept, "OMP_NUM_THREADS": "1", **variables}


def run(command, timeout=120, **variables):
    return subprocess.run([str(word) for word in command], env=environment(**variables), text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=timeout, check=False)


def loopback():
    return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(unused_port()),
            "GRADWIRE_COORDINATOR_METRICS": "off"}


class ConformanceTest(unittest.TestCase):
    """The contract of an exchange; see mpi_rank.cc."""
    def ranks_of(self, test, ranks, ends_mpi=True):
        done = run([*MPIRUN, "-np", ranks, BIN / "mpi-rank", f"127.0.0.1:{unused_port()}",
                    f"--gtest_filter=MpiTest.{test}", "--gtest_color=no"])
        self.assertEqual(done.stdout.count("[  PASSED  ] 1 test."), ranks, done.stdout)
        if ends_mpi:
            self.assertEqual(done.returncode, 0, done.stdout)

    def test_means_and_bytes_on_all_ranks(self):
        for ranks in (1, 3):
            with self.subTest(ranks=ranks):
                self.ranks_of("RunStep_AllKindsOfBuckets*", ranks)

    def test_groups(self):
        self.ranks_of("RunStep_ThreeGroups*", 3)

    def test_rank_0_gathers(self):
        self.ranks_of("RunStep_Gathers*", 3)

    def test_second_exchange_of_a_process(self):
        self.ranks_of("Connect_AgainInTheSameProcess*", 2)

    def test_late_rank_is_named(self):
        self.ranks_of("AllReduce_ARankStaysAway*", 3, ends_mpi=False)

    def test_memory_after_cancel(self):
        self.ranks_of("Cancel_StepUnderWay*", 3, ends_mpi=False)


class TrainingTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="gradwire-mpi-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)

    def summaries(self, *options):
        """Returns the summaries of a launch of RANKS workers."""
        file = self.folder / "summary.json"
        done = run([BIN / "gradwire", "launch", "--workers", RANKS, "--metrics", "off",
                    "--summary", file, "--", *TRAINING, "--iterations", "5", *options])
        self.assertEqual(done.returncode, 0, done.stdout)
        return json.loads(file.read_text())["ranks"], done.stdout

    def under_mpirun(self, *options):
        done = run([*MPIRUN, "-np", RANKS, BIN / "gradwire-worker", "--host-coordinator",
                    "--summary", self.folder / "rank{rank}.json", *TRAINING, *options],
                   **loopback())
        self.assertEqual(done.returncode, 0, done.stdout)
        return [json.loads((self.folder / f"rank{rank}.json").read_text())
                for rank in range(RANKS)]

    def assert_near(self, got, fold):
        self.assertEqual(len({rank["parameters_sha256"] for rank in got}), 1)
        for mine, exact in zip(got, fold):
            self.assertEqual(mine["backend"], "mpi")
            for loss, expected in zip(mine["losses"], exact["losses"], strict=True):
                self.assertLess(abs(loss - expected), 1e-5 * abs(expected))

    def check_losses(self, *syncs):
        for sync in syncs:
            with self.subTest(sync=sync):
                fold, _ = self.summaries("--sync", sync, "--backend", "ring")
                got, text = self.summaries("--sync", sync, "--backend", "mpi")
                self.assert_near(got, fold)
                self.assertIn("[rank 3] ", text)

    def test_losses_are_near_the_folds(self):
        self.check_losses("ddp")

    def test_log_and_summary_follow_each_other_in_the_file_behind_stdout(self):
        """So `gradwire bench` and `experiment` read ranks of mpirun, which mixes their output."""
        file = self.folder / "out"
        done = run(["/bin/sh", "-c", f'exec "$0" "$@" >"{file}"', BIN / "gradwire-worker", *TRAINING,
                    "--sync", "none", "--iterations", "3", "--log-jsonl", "/dev/stdout", "--summary",
                    "/dev/stdout"])
        self.assertEqual(done.returncode, 0, done.stdout)
        lines, _, summary = file.read_text().partition("\n{\n")
        rows = [json.loads(line) for line in lines.splitlines()]
        self.assertEqual([row["step"] for row in rows if row.get("kind") != "epoch"], [0, 1, 2])
        self.assertRegex(json.loads("{" + summary)["parameters_sha256"], "^[0-9a-f]{64}$")

    def test_rank_0_gathers_same_bits_as_the_fold(self):
        options = ("--sync", "gather-scatter")
        fold, _ = self.summaries(*options, "--backend", "coordinator")
        got, _ = self.summaries(*options, "--backend", "mpi")
        self.assertEqual({rank["parameters_sha256"] for rank in got},
                         {rank["parameters_sha256"] for rank in fold})


class LongTest(TrainingTest, ConformanceTest):
    """What takes the ordinary tests too long."""
    def test_other_numbers_of_ranks(self):
        for ranks in (2, 5):
            with self.subTest(ranks=ranks):
                self.ranks_of("RunStep_AllKindsOfBuckets*", ranks)

    def test_losses_of_other_syncs_are_near_the_folds(self):
        self.check_losses("all-reduce", "per-layer", "local-sgd:2")

    def test_mpirun_alone_losses_near_the_folds(self):
        fold, _ = self.summaries("--sync", "ddp", "--backend", "ring")
        got = self.under_mpirun("--sync", "ddp", "--backend", "mpi", "--iterations", "5")
        self.assert_near(got, fold)


class WrongStartTest(unittest.TestCase):
    def assert_refused(self, command, exit_code, pattern, **variables):
        done = run(command, timeout=SECONDS_TO_END, **variables)
        self.assertEqual(done.returncode, exit_code, done.stdout)
        self.assertRegex(done.stdout, pattern)

    def test_without_mpirun(self):
        self.assert_refused(
            [BIN / "gradwire-worker", "--host-coordinator", "--rank", "0", "--world-size", "1",
             *TRAINING, "--backend", "mpi"], 2,
            "back end mpi: got neither OMPI_COMM_WORLD_SIZE nor PMIX_RANK in the environment, "
            r"expected workers that mpirun has started: .*\(docs/deploy/mpi.md\)", **loopback())

    def test_ranks_are_others(self):
        place = 'exec env GRADWIRE_RANK=$((1 - OMPI_COMM_WORLD_RANK)) "$@"'
        self.assert_refused(
            [*MPIRUN, "-np", "2", "/bin/sh", "-c", place, "sh", BIN / "gradwire-worker",
             "--host-coordinator", *TRAINING, "--backend", "mpi"], 1,
            "mpi cannot connect the ranks: got rank [01] of 2 from MPI, expected rank [01] of 2, "
            "as in the run; start all workers with one mpirun, without --rank", **loopback())

    def test_half_types(self):
        self.assert_refused(
            [BIN / "gradwire", "launch", "--workers", "2", "--", *TRAINING, "--backend", "mpi",
             "--wire", "bf16"], 2, "got 'bf16' with back end mpi, expected fp32")

    def test_launch_on_hosts(self):
        with tempfile.NamedTemporaryFile("w") as hostfile:
            hostfile.write("10.10.1.1\n10.10.1.2\n")
            hostfile.flush()
            self.assert_refused(
                [BIN / "gradwire", "launch", "--hostfile", hostfile.name, "--", *TRAINING,
                 "--backend", "mpi"], 2, "--backend mpi: it runs on this machine alone; on several "
                r"hosts, start the workers with mpirun \(docs/deploy/mpi.md\)")

    def test_launch_without_mpirun(self):
        self.assert_refused(
            [BIN / "gradwire", "launch", "--workers", "2", "--", *TRAINING, "--backend", "mpi"], 2,
            "--backend mpi: no mpirun: apt-get install openmpi-bin", PATH="/nonexistent")


class LossTest(unittest.TestCase):
    """A rank that is killed or stopped ends the run within a bound, and leaves no process."""
    def start(self, *options):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gradwire-mpi-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.log = self.folder / "log"
        with self.log.open("wb") as log:
            launch = subprocess.Popen(
                [BIN / "gradwire", "launch", "--workers", str(RANKS), "--metrics", "off",
                 "--", *TRAINING, "--backend", "mpi", "--iterations", "1000000", "--log-jsonl",
                 self.folder / "log{rank}.jsonl", *options],
                env=environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(launch.wait)
        self.addCleanup(launch.kill)
        until = time.monotonic() + 60
        while not all(file.exists() and file.stat().st_size for file in map(
                self.log_of, range(RANKS))):
            self.assertIsNone(launch.poll(), self.log.read_text())
            self.assertLess(time.monotonic(), until, self.log.read_text())
            time.sleep(0.1)
        return launch

    def log_of(self, rank):
        return self.folder / f"log{rank}.jsonl"

    def workers(self):
        """Returns process ids by rank."""
        found = {}
        for proc in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                variables = (proc / "environ").read_bytes()
                words = (proc / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if str(self.folder).encode() not in b" ".join(words) or b"mpirun" in words[0]:
                continue
            rank = re.search(rb"\0GRADWIRE_RANK=(\d+)\0", b"\0" + variables)
            if rank and words[0].endswith(b"gradwire-worker"):
                found[int(rank[1])] = int(proc.name)
        return found

    def assert_ends(self, launch, pattern):
        self.assertNotEqual(launch.wait(SECONDS_TO_END), 0)
        self.assertRegex(self.log.read_text(), pattern)
        self.assertNotIn("Segmentation fault", self.log.read_text())
        until = time.monotonic() + SECONDS_TO_END
        while self.workers():
            self.assertLess(time.monotonic(), until, f"processes {self.workers()} are left")
            time.sleep(0.1)

    def test_killed_rank(self):
        launch = self.start()
        workers = self.workers()
        self.assertEqual(sorted(workers), list(range(RANKS)))
        os.kill(workers[2], signal.SIGKILL)
        self.assert_ends(launch, "rank 2 .*was lost in step")

    def test_stopped_rank(self):
        launch = self.start("--step-timeout-seconds", "3")
        os.kill(self.workers()[1], signal.SIGSTOP)
        self.assert_ends(launch, "rank 1")


class LongLossTest(LossTest):
    """Other ways in which a run ends."""
    def test_interrupted(self):
        launch = self.start()
        launch.send_signal(signal.SIGINT)
        self.assert_ends(launch, "stopped by signal 2")

    def test_killed_launch(self):
        launch = self.start()
        launch.kill()
        self.assert_ends(launch, "rank 0")  # its last lines


class BenchTest(unittest.TestCase):
    def measure(self, *options):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "rows.json")
            done = run([BIN / "gradwire", "bench", "collectives", "--workers", "3", "--sizes", "4K",
                        "--iterations", "3", "--warmup", "1", "--json", file, *options])
            return done, json.loads(file.read_text())["rows"] if file.exists() else []

    def test_rows_beside_ring_and_gloo(self):
        done, rows = self.measure("--backends", "ring,gloo,mpi", "--ops", "all-reduce,broadcast")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual([row["backend"] for row in rows], ["ring", "gloo", "mpi"] * 2)
        self.assertEqual([row["wrong"] for row in rows], [0] * 6)

    def test_named_on_hosts_is_refused(self):
        done, _ = self.measure("--backends", "mpi", "--hosts", "auto")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("--backends: mpi: it runs on this machine alone", done.stdout)


if __name__ == "__main__":
    unittest.main()
