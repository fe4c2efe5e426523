"""Workers on hosts of their own lose each other's packets, without a reset. The fewest that explain it
are lost, and the result is that of the undisturbed run, to the bit."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from namespace_hosts import Hosts, wait_until  # noqa: E402

BIN = pathlib.Path(os.environ["GRADWIRE_BIN_DIR"])
WORLD_SIZE = 4  # a worker on each of the hosts behind the coordinator's, which is the first
PORT = 29400
RUN = ["--model", "lenet", "--dataset", "synthetic", "--seed", "744", "--batch-size", "4",
       "--threads", "1", "--iterations", "60", "--print-every", "1"]
CUT_AT = 12  # iterations
SECONDS = 90
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("GRADWIRE_")}


class CutRun:
    """A coordinator and a worker on each of `hosts`, in `folder`."""

    def __init__(self, hosts, folder, *words, last=None):
        """The worker of rank `last` is the last to join."""
        self._hosts, self._folder = hosts, folder
        self.coordinator = self._start(0, "coordinator", BIN / "gradwire-coordinator", "--listen",
                                       f"{hosts.addresses[0]}:{PORT}", "--metrics", "off",
                                       "--world-size", WORLD_SIZE)
        self.workers = [None] * WORLD_SIZE
        for rank in sorted(range(WORLD_SIZE), key=lambda rank: rank == last):
            if rank == last:
                wait_until("the others", lambda: "3 of 4 workers are present" in
                           self.coordinator.text(), SECONDS)
            self.workers[rank] = self._start(
                rank + 1, f"rank{rank}", BIN / "gradwire-worker", "--coordinator",
                f"{hosts.addresses[0]}:{PORT}", "--rank", rank, "--summary",
                folder / "summary{rank}.json", *RUN, *words)

    def _start(self, host, name, *argv):
        return self._hosts.start(host, argv, self._folder / f"{name}.log", env=ENVIRONMENT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for program in [*self.workers, self.coordinator]:
            program.end()

    def drop(self, at, sender):
        """From now on host `at` sees no packet of host `sender`; until the hosts are gone."""
        self._hosts.run(at, ["iptables", "-A", "INPUT", "-s", self._hosts.addresses[sender],
                             "-j", "DROP"])

    def until_it_trains(self):
        wait_until("some iterations", lambda: f" iteration {CUT_AT}/" in self.workers[0].text(),
                   SECONDS)

    def lost(self):
        """The ranks whose workers ended badly, once all have ended."""
        wait_until("the workers' end", lambda: not any(one.running() for one in self.workers), SECONDS)
        return [rank for rank, worker in enumerate(self.workers) if worker.wait() != 0]

    def hashes(self):
        """Of all ranks: whoever carried them."""
        summaries = [json.loads((self._folder / f"summary{rank}.json").read_text())
                     for rank in range(WORLD_SIZE)]
        return [(one["parameters_sha256"], one["buffers_sha256"]) for one in summaries]

    def text(self):
        return "\n".join(f"--- {program.output.name}\n{program.text()}"
                         for program in [self.coordinator, *self.workers])


class HostsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("iptables"):
            raise unittest.SkipTest("iptables not there (apt-get install iptables)")
        with (Hosts(1 + WORLD_SIZE) as hosts, tempfile.TemporaryDirectory() as folder,
              CutRun(hosts, pathlib.Path(folder)) as run):
            if run.lost():
                raise AssertionError(run.text())
            cls.undisturbed = run.hashes()

    def check(self, backend, lost, drops, last=None):
        """`drops`: pairs of hosts, the first of which sees no packet of the second. `lost`: the ranks
        of which one, or the only one, is to go."""
        with (Hosts(1 + WORLD_SIZE) as hosts, tempfile.TemporaryDirectory() as folder,
              CutRun(hosts, pathlib.Path(folder), "--sync", "ddp", "--backend", backend,
                     last=last) as run):
            run.until_it_trains()
            for at, sender in drops:
                run.drop(at, sender)
            gone = run.lost()
            self.assertEqual(len(gone), 1, run.text())
            self.assertIn(gone[0], lost, run.text())
            self.assertEqual(run.coordinator.wait(), 0, run.text())
            self.assertEqual(run.hashes(), self.undisturbed, run.text())
            return run.coordinator.text()

    def check_silent_host(self):
        self.check("ring", lost=(2,), drops=[(3, other) for other in (0, 1, 2, 4)] +
                   [(other, 3) for other in (0, 1, 2, 4)])


class CutTest(HostsTest):
    def test_two_neighbours_of_a_ring_that_do_not_hear_each_other(self):
        said = self.check("ring", lost=(1, 2), drops=[(2, 3), (3, 2)])
        self.assertIn("got no answer from", said)

    def test_two_that_sum_for_each_other_and_do_not_hear_each_other(self):
        said = self.check("sharded", lost=(0, 3), drops=[(1, 4), (4, 1)])
        self.assertIn("got no answer from", said)

    def test_one_hears_another_that_does_not_hear_it(self):
        said = self.check("ring", lost=(1, 2), drops=[(3, 2)])
        self.assertIn("got no answer from", said)

    def test_one_hears_no_worker_and_no_worker_hears_it(self):
        """It is the first to go: the first who misses it may be the only one to say so."""
        pairs = [(3, other) for other in (1, 2, 4)]
        said = self.check("sharded", lost=(2,), drops=pairs + [pair[::-1] for pair in pairs], last=2)
        self.assertIn("got no answer from", said)

    def test_a_host_that_falls_silent(self):
        """Its neighbours miss it sooner than its lease is over, which is long at first."""
        self.check_silent_host()


class FullLoadTest(HostsTest):
    """The same while others want all cores twice."""

    def setUp(self):
        for _ in range(2 * len(os.sched_getaffinity(0))):
            loop = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            self.addCleanup(loop.wait)
            self.addCleanup(loop.kill)

    def test_a_host_that_falls_silent(self):
        self.check_silent_host()

    def test_one_hears_another_that_does_not_hear_it(self):
        for backend in ("ring", "sharded"):
            with self.subTest(backend=backend):
                self.check(backend, lost=(1, 2), drops=[(3, 2)])

    def test_one_that_the_coordinator_does_not_hear(self):
        self.check("sharded", lost=(2,), drops=[(0, 3)])


if __name__ == "__main__":
    unittest.main()
