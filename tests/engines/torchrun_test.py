"""torchrun on two nodes, and Kubeflow's variables; one node: tests/launchers."""
import os
import pathlib
import shutil
import signal
import tempfile
import unittest

import runs
from namespace_hosts import Hosts, wait_until

# Debian's torchrun 1.13 cannot say "no redirection" under its Python 3.11; that of a rank that is
# not there leaves all others without.
TORCHRUN = ["/usr/bin/torchrun", "--redirects", "9:1", "--tee", "9:1", "--no_python"]
WORKER = ["gradwire-worker", "--host-coordinator"]


class TorchrunCase(unittest.TestCase):
    """With four hosts."""

    @classmethod
    def setUpClass(cls):
        if not shutil.which(TORCHRUN[0]):
            raise unittest.SkipTest("no torchrun (apt-get install python3-torch)")
        cls.hosts = cls.enterClassContext(Hosts(4))
        cls.folder = pathlib.Path(cls.enterClassContext(
            tempfile.TemporaryDirectory(prefix="gradwire-torchrun-")))
        cls.expected = runs.launched_hashes(cls.folder)

    def start(self, node, command, **variables):
        return self.hosts.start(node, [*command, "--metrics", "0.0.0.0:0"],
                                self.folder / f"{self.id()}.{node}.log",
                                env=runs.environment(**variables))

    def with_summaries(self):
        return [*WORKER, "--summary", self.folder / (self.id() + ".{rank}.json"), *runs.RUN]

    def assert_done(self, started):
        for node, program in enumerate(started):
            self.assertEqual(program.wait(120), 0, f"node {node}: {program.text()}")
        self.assertEqual(runs.hashes_in(self.folder, self.id() + ".{rank}.json"), self.expected)

    @staticmethod
    def two_nodes(node):
        return [*TORCHRUN, "--nnodes", "2", "--nproc_per_node", "2", "--node_rank", node,
                "--master_addr", "host1", "--master_port", "29500"]


class TorchrunTest(TorchrunCase):
    def test_two_nodes_same_hashes(self):
        self.assert_done([self.start(node, [*self.two_nodes(node), *self.with_summaries()])
                          for node in range(2)])

    def test_kubeflow_without_torchrun_worker_finds_its_place(self):
        self.assert_done([self.start(
            node, self.with_summaries(), PET_NNODES="4", PET_NPROC_PER_NODE="1",
            PET_NODE_RANK=str(node), PET_MASTER_ADDR="host1", PET_MASTER_PORT="29500")
            for node in range(4)])


class LongTorchrunTest(TorchrunCase):
    """What is run with tests/run --long."""

    def test_two_nodes_worker_killed_both_fail_and_leave_nothing(self):
        logs = [self.folder / f"log.{rank}.jsonl" for rank in range(runs.RANKS)]
        started = [self.start(node, [*self.two_nodes(node), *WORKER, "--log-jsonl",
                                     self.folder / "log.{rank}.jsonl", *runs.ENDLESS])
                   for node in range(2)]
        wait_until("lines of all ranks", lambda: all(
            log.exists() and log.stat().st_size for log in logs), 120)
        workers = [pid for pid, line in self.hosts.processes(1).items()
                   if line.startswith("gradwire-worker ")]
        self.assertEqual(len(workers), 2)
        os.kill(workers[0], signal.SIGKILL)
        for program in started:
            self.assertNotEqual(program.wait(120), 0)
        self.assertRegex(started[0].text(), r"rank [23] \(10\.10\.1\.2:\d+\) was lost in step")
        wait_until("hosts without processes",
                   lambda: not any(map(self.hosts.processes, range(2))), 10)

    def test_one_node_worker_killed_torchrun_restarts_all_and_the_run_continues(self):
        run_dir = self.folder / "run"
        torchrun = self.start(0, [*TORCHRUN, "--nproc_per_node", "4", "--max_restarts", "1", *WORKER,
                                  *runs.MODEL, "--iterations", "400"],
                              GRADWIRE_RUN_DIR=str(run_dir), GRADWIRE_CHECKPOINT_EVERY="20",
                              GRADWIRE_ON_LOSS="stop")
        wait_until("a checkpoint", lambda: list(run_dir.glob("step-*[0-9]")), 120)
        workers = [pid for pid, line in self.hosts.processes(0).items()
                   if line.startswith("gradwire-worker ")]
        os.kill(workers[-1], signal.SIGKILL)
        self.assertEqual(torchrun.wait(300), 0, torchrun.text())
        self.assertRegex(torchrun.text(), r"resumes before step [1-9]")
        verified = self.hosts.run(0, ["gradwire", "ledger", "verify", run_dir],
                                  env=runs.environment()).stdout
        self.assertIn("400 sealed steps, from 0 to 399", verified)

    def test_kubeflow_torchrun_finds_its_options_in_pet_variables(self):
        self.assert_done([self.start(
            node, [*TORCHRUN, *self.with_summaries()], PET_NNODES="2", PET_NPROC_PER_NODE="2",
            PET_NODE_RANK=str(node), PET_MASTER_ADDR="host1", PET_MASTER_PORT="29500")
            for node in range(2)])


if __name__ == "__main__":
    unittest.main()
