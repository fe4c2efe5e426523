"""Launched runs whose members are stopped, or that end early: what the launcher says, and which
summaries there are."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

from kill_test import BIN, RUN, SECONDS, LaunchedTest, Run, undisturbed

SHORT_LEASE = ["--lease-seconds", "4"]  # a busy machine stops healthy workers for a while, too
LONGER = ["--iterations", "200"]
ENDLESS = ["--iterations", "1000000"]
SAME = "the others went on with its ranks, and the result is the same"


class StoppedTest(LaunchedTest):
    def assert_ended_by_the_launcher(self, run, rank, name):
        run.until(" iteration 8/")
        pid = run.pid_of(rank)
        run.signal(rank, signal.SIGSTOP)
        self.assert_same(run, undisturbed(*LONGER))
        self.assertRegex(
            run.text, rf"(?m)^gradwire launch: {name} \(process {pid}\) was lost: it was silent for "
            rf"\S+ s; it still existed when the others had finished, so the launcher ended it; {SAME}$")
        self.assertRegex(run.text, r"(?m)^ +rank +iteration ms ")

    def test_stopped_worker_is_ended_once_the_others_have_finished(self):
        run = Run("--sync", "ddp", *LONGER, options=SHORT_LEASE)
        self.assert_ended_by_the_launcher(run, 1, "rank 1")

    def test_stopped_worker_of_several_ranks_is_ended_likewise(self):
        run = Run("--sync", "ddp", *LONGER, workers=2, options=SHORT_LEASE)
        self.assert_ended_by_the_launcher(run, 2, "ranks 2-3")

    def test_stopped_program_of_a_run_that_ends_for_it_is_named(self):
        run = Run("--sync", "ddp", *ENDLESS, workers=2, world_size=2,
                  options=[*SHORT_LEASE, "--on-loss", "stop", "--program", BIN / "gradwire-worker"])
        run.until_step(0, 2)
        pid = run.pid_of(1)
        run.signal(1, signal.SIGSTOP)
        self.assertEqual(run.end(), 1, run.text)
        self.assertRegex(run.text, rf"gradwire launch: rank 1 \(process {pid}\) was lost: it was silent "
                         r"for 4\S* s; all have ended")


class EarlyEndTest(LaunchedTest):
    def coordinator_of(self, run):
        children = pathlib.Path(f"/proc/{run.process.pid}/task/{run.process.pid}/children")
        return next(int(pid) for pid in children.read_text().split() if b"gradwire-coordinator" in
                    pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0])

    def assert_ends_with_the_coordinator(self, run):
        """Gives the summaries of the ranks."""
        pid = self.coordinator_of(run)
        os.kill(pid, signal.SIGKILL)
        self.assertEqual(run.end(), 137, run.text)
        cause = f"coordinator (process {pid}) was killed by signal 9 (Killed)"
        self.assertEqual(run.text.splitlines()[-1], f"gradwire launch: {cause}; all have ended")
        summary = json.loads(run.summary.read_text())
        self.assertEqual(summary["ended"], {"code": 137, "reason": cause})
        self.assertNotIn("missing_ranks", summary)
        for rank in summary["ranks"]:
            self.assertEqual(rank["ended"]["code"], 75)
            self.assertIn("lost the coordinator", rank["ended"]["reason"])
            self.assertNotIn("parameters_sha256", rank)
        self.assertRegex(run.text, r"(?m)^ +rank +iteration ms ")
        return summary["ranks"]

    def test_killed_coordinator_is_the_cause_after_a_loss_that_was_recovered(self):
        run = Run("--sync", "ddp", *ENDLESS)
        run.until_step(0, 7)
        run.signal(2, signal.SIGKILL)
        run.until("is carried on by others")
        run.until_step(0, 20)
        ranks = self.assert_ends_with_the_coordinator(run)
        self.assertEqual([rank["rank"] for rank in ranks], [0, 1, 2, 3])
        self.assertTrue(all(rank["failures"]["losses"] == 1 for rank in ranks))
        self.assertGreaterEqual(ranks[0]["iterations"], 20)
        self.assertRegex(run.text, r"rank 2 \(process \d+\) was killed by signal 9 \(Killed\); the "
                         "others went on with its ranks\n")

    def test_computation_that_is_cut_off_leaves_a_summary(self):
        run = Run("--sync", "all-reduce", *ENDLESS, "--compute-seconds", "4,0", workers=2,
                  world_size=2)
        run.until_step(1, 0)
        time.sleep(1)  # the exchange is over then, and the next forward pass under way
        self.assert_ends_with_the_coordinator(run)
        self.assertIn("a computation under way was cut off", run.text)


class StartedByHandTest(unittest.TestCase):
    """Two workers, each with a summary of its own that no launcher moves."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def start(self, program, *words):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("GRADWIRE_")}
        process = subprocess.Popen([BIN / program, *words], env=environment, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def workers(self, summary, *more):
        """Starts a coordinator and them, with `more` options; gives those of rank 0 and 1."""
        ports = self.folder / "ports"
        self.start("gradwire-coordinator", "--world-size", "2", "--listen", "127.0.0.1:0",
                   "--metrics", "off", "--port-file", ports, *SHORT_LEASE)
        deadline = time.monotonic() + SECONDS
        while not ports.exists():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        address = ports.read_text().partition("grpc=")[2].split()[0]
        return [self.start("gradwire-worker", *RUN, *more, "--coordinator", address, "--rank",
                           str(rank), "--summary", self.folder / summary) for rank in range(2)]

    def assert_whole(self, summary):
        summary = json.loads((self.folder / summary).read_text())
        self.assertIn("parameters_sha256", summary)
        self.assertNotIn("ended", summary)

    def test_worker_that_was_lost_replaces_no_summary_of_one_that_carried_its_rank_on(self):
        (self.folder / "summary0.json").write_text("{}")  # of an earlier run
        carrier, lost = self.workers("summary{rank}.json")
        next(line for line in lost.stdout if " iteration 3/" in line)
        lost.send_signal(signal.SIGSTOP)
        carrier.communicate(timeout=SECONDS)
        self.assertEqual(carrier.returncode, 0)
        lost.send_signal(signal.SIGCONT)
        lost.communicate(timeout=SECONDS)
        self.assertNotEqual(lost.returncode, 0)
        for rank in range(2):
            self.assert_whole(f"summary{rank}.json")

    def test_early_summary_replaces_that_of_an_earlier_run_whatever_its_time(self):
        path = self.folder / "summary0.json"
        path.write_text("{}")
        ahead = time.time() + 3600  # as of a file server whose clock is fast
        os.utime(path, (ahead, ahead))
        workers = self.workers("summary{rank}.json", *ENDLESS)
        next(line for line in workers[0].stdout if " iteration 3/" in line)
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
        for worker in workers:
            worker.communicate(timeout=SECONDS)
        self.assertIn("ended", json.loads(path.read_text()))

    def test_summary_of_a_rank_taken_over_that_cannot_be_written_costs_no_other(self):
        for rank in range(2):
            (self.folder / str(rank)).mkdir()
        lost, carrier = self.workers("{rank}/summary.json")
        next(line for line in lost.stdout if " iteration 3/" in line)
        (self.folder / "0").rmdir()  # as on another host
        lost.kill()
        text, _ = carrier.communicate(timeout=SECONDS)
        self.assertEqual(carrier.returncode, 1, text)
        self.assertIn("/0/summary.json", text)
        self.assert_whole("1/summary.json")


if __name__ == "__main__":
    unittest.main()
