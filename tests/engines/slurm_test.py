"""deploy/slurm on a real Slurm: a controller and four nodes."""
import json
import os
import pathlib
import re
import signal
import tempfile
import unittest

import runs
from namespace_hosts import wait_until
from slurm_cluster import SlurmCluster

BATCH = runs.SOURCE / "deploy" / "slurm" / "gradwire.sbatch"
RANK0 = runs.SOURCE / "deploy" / "slurm" / "gradwire-rank0.sbatch"
UNEQUAL = ["--nodes=3", "--ntasks=4", "--ntasks-per-node=2"]  # 2, 1 and 1
# Stands in front of the real program in PATH; {starts} is what it does by how often the job was
# started again.
SHIM = """#!/bin/sh
case "$SLURM_RESTART_COUNT" in
{starts}
esac
exec {bin}/gradwire-worker "$@"
"""
RESTARTS = {"first": '""', "second": "1"}


class SlurmCase(unittest.TestCase):
    """With a Slurm of four nodes."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(SlurmCluster(4, runs.environment()))
        cls.expected = runs.launched_hashes(cls.cluster.folder)

    def tearDown(self):
        self.cluster.run("scancel", "--user", "root")
        wait_until("nodes without jobs", lambda: not self.cluster.leftovers(), 60)

    def out(self, job):
        return self.cluster.folder / f"gradwire-{job}"

    def targets_file(self, job):
        return self.cluster.folder / f"gradwire-{job}.targets.json"

    def started(self, script, *arguments, **variables):
        """A job of an endless run on all nodes that trains already."""
        job = self.cluster.submit("--nodes=4", *arguments, script, *runs.ENDLESS, **variables)
        self.wait_until_it_trains(job)
        return job

    def wait_until_it_trains(self, job):
        logs = [self.out(job) / f"log.{rank}.jsonl" for rank in range(runs.RANKS)]
        try:
            wait_until("lines of all ranks", lambda: all(
                log.exists() and log.stat().st_size for log in logs), 120)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.cluster.log(job)}") from None

    def assert_worker_killed_fails_and_leaves_nothing(self, script):
        job = self.started(script)
        pids = [pid for pid, line in self.cluster.jobs_processes(1).items()
                if line.split()[0].endswith("gradwire-worker")]
        self.assertEqual(len(pids), 1)
        os.kill(pids[0], signal.SIGKILL)
        state = self.cluster.end_of(job)
        self.assertEqual((state["JobState"], state["ExitCode"], state["Restarts"]),
                         ("FAILED", "1:0", "0"), self.cluster.log(job))
        self.assertRegex(self.cluster.log(job), r"rank 1 \(10\.10\.1\.2:\d+\) was lost in step")
        self.assert_nothing_left()

    def assert_scancel_leaves_nothing(self, script):
        job = self.started(script)
        self.cluster.run("scancel", job)
        self.assertEqual(self.cluster.end_of(job)["JobState"], "CANCELLED")
        self.assert_nothing_left()

    def assert_wrong_option_ends_with_2(self, script):
        """Of one rank, while the others wait for it."""
        path = self.path_with(first='[ "$SLURM_PROCID" != 1 ] || set -- "$@" --sync dpd')
        job = self.cluster.submit("--nodes=4", script, *runs.RUN, PATH=path)
        state = self.cluster.end_of(job)
        self.assertEqual((state["JobState"], state["ExitCode"], state["Restarts"]),
                         ("FAILED", "2:0", "0"), self.cluster.log(job))
        self.assertIn("dpd", self.cluster.log(job))

    def assert_continues_when_out_of_time(self, script, every):
        """Slurm's signal before the end of --time comes while it trains."""
        run_dir = self.cluster.folder / f"run-{every}"
        job = self.cluster.submit("--nodes=4", script, *runs.MODEL, "--iterations", "600",
                                  GRADWIRE_RUN_DIR=str(run_dir), GRADWIRE_CHECKPOINT_EVERY=every)
        self.wait_until_it_trains(job)
        if every != "0":
            wait_until("a checkpoint", lambda: list(run_dir.glob("step-*[0-9]")), 60)
        self.cluster.run("scancel", "--batch", "--signal=USR1", job)
        state = self.cluster.end_of(job)
        log = self.cluster.log(job)
        self.assertEqual((state["JobState"], state["ExitCode"], state["Restarts"]),
                         ("COMPLETED", "0:0", "1"), log)
        self.assertRegex(log, r"(?s)queued again, to continue from step-0*[1-9].*"
                              r"resumes before step [1-9]")
        return int(re.search(r"resumes before step (\d+)", log)[1])
        verified = self.cluster.run("gradwire", "ledger", "verify", run_dir)
        self.assertIn("the ledger is sound", verified)
        self.assertIn("600 sealed steps, from 0 to 599", verified)

    def assert_nothing_left(self):
        wait_until("nodes without jobs", lambda: not self.cluster.leftovers(), 10)

    def assert_done(self, job):
        state = self.cluster.end_of(job)
        self.assertEqual((state["JobState"], state["ExitCode"]), ("COMPLETED", "0:0"),
                         self.cluster.log(job))
        self.assertEqual(runs.hashes_in(self.out(job)), self.expected, self.cluster.log(job))
        return state

    def assert_targets_answer(self, job):
        file = self.targets_file(job)
        wait_until("targets", file.exists, 60)
        targets = {entry["targets"][0]: entry["labels"] for entry in json.loads(file.read_text())}
        self.assertEqual(sorted(labels.get("rank", "") for labels in targets.values()),
                         ["", "0", "1", "2", "3"])
        for target in targets:
            self.assertIn("gradwire_build_info",
                          self.cluster.run("curl", "-sS", f"http://{target}/metrics"))

    def path_with(self, **starts):
        """PATH whose gradwire-worker does first what `starts` says, by name of restart."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.cluster.folder))
        shim = folder / "gradwire-worker"
        lines = [f"{RESTARTS[name]}) {action} ;;" for name, action in starts.items()]
        shim.write_text(SHIM.format(starts="\n".join(lines), bin=runs.BIN))
        shim.chmod(0o755)
        return f"{folder}:{runs.BIN}:{os.environ['PATH']}"


class SlurmTest(SlurmCase):
    def test_batch_four_nodes_same_hashes(self):
        self.assert_done(self.cluster.submit("--nodes=4", BATCH, *runs.RUN))

    def test_rank0_unequal_nodes_same_hashes(self):
        self.assert_done(self.cluster.submit(*UNEQUAL, RANK0, *runs.RUN))

    def test_env_unequal_nodes_each_task_knows_its_place(self):
        text = self.cluster.run("srun", *UNEQUAL, "sh", "-c",
                                "gradwire env --json 2>/dev/null | tr -d '\\n'; echo")
        places = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        self.assertEqual(sorted((place["rank"]["value"], place["local-world-size"]["value"])
                                for place in places), [(0, 2), (1, 2), (2, 1), (3, 1)])
        self.assertEqual({place["coordinator"]["value"] for place in places}, {"node1:29400"})

    def test_batch_worker_killed_job_fails_and_leaves_nothing(self):
        self.assert_worker_killed_fails_and_leaves_nothing(BATCH)

    def test_batch_scancel_leaves_nothing(self):
        self.assert_scancel_leaves_nothing(BATCH)

    def test_batch_signal_before_the_time_limit_ends_with_143(self):
        job = self.started(BATCH)
        self.assert_targets_answer(job)
        self.cluster.run("scancel", "--batch", "--signal=TERM", job)
        state = self.cluster.end_of(job)
        self.assertEqual((state["JobState"], state["ExitCode"]), ("FAILED", "143:0"),
                         self.cluster.log(job))
        self.assertIn("stopped by a signal", self.cluster.log(job))
        self.assertFalse(self.targets_file(job).exists())

    def test_batch_try_again_later_and_preemption_run_again_from_the_start(self):
        path = self.path_with(first="exit 75", second='set -- "$@" --iterations 10000000')
        job = self.cluster.submit("--nodes=4", BATCH, *runs.RUN, PATH=path)
        self.wait_until_it_trains(job)
        self.assertEqual(self.cluster.job(job)["Restarts"], "1")
        self.assertIn("queued again", self.cluster.log(job))
        urgent = self.cluster.submit("--nodes=4", "--partition=urgent", "--exclusive",
                                     "--wrap", "true")
        self.assertEqual(self.cluster.end_of(urgent)["JobState"], "COMPLETED")
        self.assertEqual(self.assert_done(job)["Restarts"], "2")

    def test_batch_wrong_option_ends_with_2_and_is_not_queued_again(self):
        self.assert_wrong_option_ends_with_2(BATCH)


class LongSlurmTest(SlurmCase):
    """What is run with tests/run --long."""

    def test_batch_out_of_time_makes_a_checkpoint_is_queued_again_and_continues(self):
        self.assert_continues_when_out_of_time(BATCH, every="0")

    def test_batch_out_of_time_waits_for_a_checkpoint_newer_than_the_last(self):
        resumed = self.assert_continues_when_out_of_time(BATCH, every="150")
        self.assertGreater(resumed, 150)
        self.assertNotEqual(resumed % 150, 0)  # by chance in 1 of 150 runs

    def test_rank0_out_of_time_is_queued_again_and_continues(self):
        self.assert_continues_when_out_of_time(RANK0, every="20")

    def test_rank0_worker_killed_job_fails_and_leaves_nothing(self):
        self.assert_worker_killed_fails_and_leaves_nothing(RANK0)

    def test_rank0_scancel_leaves_nothing(self):
        self.assert_scancel_leaves_nothing(RANK0)

    def test_rank0_wrong_option_ends_with_2_and_is_not_queued_again(self):
        self.assert_wrong_option_ends_with_2(RANK0)

    def test_rank0_try_again_later_for_ever_ends_with_75(self):
        job = self.cluster.submit("--nodes=4", RANK0, *runs.RUN, MAX_REQUEUES="0",
                                  PATH=self.path_with(first="exit 75"))
        state = self.cluster.end_of(job)
        self.assertEqual((state["ExitCode"], state["Restarts"]), ("75:0", "0"))


if __name__ == "__main__":
    unittest.main()
