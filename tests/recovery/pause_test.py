"""Runs with fewer workers than they are to go on with wait for those that fell silent."""
import os
import re
import signal
import time
import unittest

from kill_test import LaunchedTest, Run, undisturbed

LEASE_SECONDS = 1.5
ALL = ["--min-workers", "4", "--lease-seconds", str(LEASE_SECONDS)]
PAUSED = "is not heard: .*; the run is paused"
SILENT_SECONDS = 3.5  # longer than the lease, and shorter than connections live without answers
SOON = 1  # as --pause-timeout
LONGER = ["--iterations", "150"]
OWN_BUFFERS = ["--model", "vgg11", "--broadcast-buffers", "false", "--batch-size", "2",
               "--iterations", "14"]
MEANWHILE_SECONDS = 5  # longer than an awake coordinator needs to decide on a loss
COORDINATOR_SECONDS = 12  # longer than connections between workers live without answers


class CoordinatorPauseTest(LaunchedTest):
    """The coordinator itself is stopped for a while."""

    def test_nobody_is_lost(self):
        words = ["--sync", "ddp", "--backend", "coordinator", *LONGER]
        run = Run(*words)
        run.until_step(0, 7)
        coordinator = run.pid_of_program("gradwire-coordinator")
        os.kill(coordinator, signal.SIGSTOP)
        time.sleep(COORDINATOR_SECONDS)
        os.kill(coordinator, signal.SIGCONT)
        self.assert_same(run, undisturbed(*LONGER))
        self.assertNotIn("was lost", run.text)
        self.assertNotIn("is carried on by others", run.text)


    def test_worker_killed_meanwhile_is_the_only_one_lost(self):
        run = Run("--sync", "ddp", "--backend", "ring", *LONGER)
        run.until_step(0, 7)
        coordinator = run.pid_of_program("gradwire-coordinator")
        os.kill(coordinator, signal.SIGSTOP)
        run.signal(2, signal.SIGKILL)
        time.sleep(MEANWHILE_SECONDS)
        os.kill(coordinator, signal.SIGCONT)
        self.assert_same(run, undisturbed(*LONGER))
        self.assertEqual(re.findall(r"rank (\d) \S+ was lost", run.text), ["2"])


class PauseTest(LaunchedTest):
    def stop_one(self, words, rank):
        run = Run(*words, options=[*ALL, "--pause-timeout", "60"])
        run.until_step(0, 7)
        run.signal(rank, signal.SIGSTOP)
        run.until(PAUSED)
        time.sleep(SILENT_SECONDS - LEASE_SECONDS)
        run.signal(rank, signal.SIGCONT)
        return run

    def test_one_was_silent_and_comes_back(self):
        for sync, backend in (("gather-scatter", "coordinator"), ("ddp", "ring")):
            with self.subTest(backend=backend):
                run = self.stop_one(["--sync", sync, "--backend", backend, *LONGER], 2)
                self.assert_same(run, undisturbed(*LONGER))
                self.assertRegex(run.text, r"is heard again; the run goes on: generation \d")
                self.assertNotIn("was lost", run.text)

    def test_ranks_with_buffers_of_their_own_keep_them(self):
        words = ["--sync", "ddp", *OWN_BUFFERS]
        run = self.stop_one(words, 2)
        expected = undisturbed(*words)
        self.assertEqual(len({buffers for _, buffers in expected}), 4)
        self.assert_same(run, expected)
        self.assertIn("the run goes on: generation", run.text)

    def test_one_is_killed_and_nobody_comes(self):
        run = Run("--sync", "ddp", *LONGER, options=[*ALL, "--pause-timeout", str(SOON)])
        run.until_step(0, 7)
        run.signal(1, signal.SIGKILL)
        run.until("rank 1 .* was lost: .*; 3 workers are left, expected 4 or more to go on; "
                  "the run is paused for 1 s")
        begun = time.monotonic()
        self.assertEqual(run.end(), 137, run.text)
        self.assertGreater(time.monotonic() - begun, 0.9 * SOON)
        self.assertIn("the run was paused for 1 s, and not all workers came back: rank 1 ", run.text)
        # Nobody went on meanwhile.
        steps = [int(step) for step in re.findall(r"\[rank 0\] epoch .* iteration (\d+)/", run.text)]
        self.assertLess(max(steps), 149)


if __name__ == "__main__":
    unittest.main()
