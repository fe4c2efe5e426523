"""mpirun over two hosts, which share two ranks each; one host: tests/launchers."""
import contextlib
import os
import pathlib
import shutil
import signal
import tempfile
import unittest

import runs
from namespace_hosts import Hosts, wait_until

# What mpirun takes for ssh, and what waits on the other host for its command.
AGENT = """#!/bin/sh
shift
printf '%s\\n' "$*" >{folder}/asked
cat {folder}/ended
"""
SERVER = 'read -r command <"$0/asked"; eval "$command"; echo "$?" >"$0/ended"'


class MpiTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("mpirun"):
            raise unittest.SkipTest("no mpirun (apt-get install openmpi-bin)")
        cls.hosts = cls.enterClassContext(Hosts(2))
        cls.folder = pathlib.Path(cls.enterClassContext(
            tempfile.TemporaryDirectory(prefix="gradwire-mpi-")))
        cls.expected = runs.launched_hashes(cls.folder)
        (cls.folder / "hostfile").write_text("host1 slots=2\nhost2 slots=2\n")
        (cls.folder / "agent").write_text(AGENT.format(folder=cls.folder))
        (cls.folder / "agent").chmod(0o755)

    def setUp(self):
        for name in ("asked", "ended"):
            with contextlib.suppress(FileNotFoundError):
                (self.folder / name).unlink()
            os.mkfifo(self.folder / name)
        self.hosts.start(1, ["sh", "-c", SERVER, self.folder], self.folder / "host2.log",
                         env=runs.environment())

    def mpirun(self, *worker_options):
        """Started on the first host; rank 0 hosts the coordinator."""
        return self.hosts.start(
            0, ["mpirun", "--allow-run-as-root", "--mca", "plm_rsh_agent", self.folder / "agent",
                "-np", runs.RANKS, "--hostfile", self.folder / "hostfile", "-x", "PATH",
                "-x", "MASTER_ADDR=host1", "gradwire-worker", "--host-coordinator",
                *worker_options], self.folder / f"{self.id()}.log", env=runs.environment())

    def workers(self, host):
        return [pid for pid, line in self.hosts.processes(host).items()
                if line.startswith("gradwire-worker ")]

    def assert_nothing_left(self):
        wait_until("hosts without processes",
                   lambda: not any(map(self.hosts.processes, range(2))), 30)

    def test_two_hosts_same_hashes(self):
        mpirun = self.mpirun("--summary", self.folder / "summary.{rank}.json", *runs.RUN)
        self.assertEqual(mpirun.wait(120), 0, mpirun.text())
        self.assertEqual(runs.hashes_in(self.folder), self.expected)
        self.assert_nothing_left()

    def test_two_hosts_worker_killed_fails_and_leaves_nothing(self):
        mpirun = self.mpirun("--log-jsonl", self.folder / "log.{rank}.jsonl", *runs.ENDLESS)
        logs = [self.folder / f"log.{rank}.jsonl" for rank in range(runs.RANKS)]
        wait_until("lines of all ranks", lambda: all(
            log.exists() and log.stat().st_size for log in logs), 120)
        self.assertEqual([len(self.workers(host)) for host in range(2)], [2, 2])
        os.kill(self.workers(1)[0], signal.SIGKILL)
        self.assertNotEqual(mpirun.wait(120), 0)
        self.assertRegex(mpirun.text(), r"rank [23] \(10\.10\.1\.2:\d+\) was lost in step|signal 9")
        self.assert_nothing_left()


if __name__ == "__main__":
    unittest.main()
