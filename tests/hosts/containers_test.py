"""`--hosts podman`: hosts that the command makes itself, as containers; what is left of them; and
programs in them that meet the limit of their memory."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE))
from cli.hosts.containers import ContainerHosts, why_no_containers
from cli.hosts.namespaces import NamespaceHosts
from cli.runs.failure import Failure
from cli.runs.process import Command
from cli.runs.process_set import ProcessSet

MEMORY = 600 << 20  # bytes of a container: enough for two of LeNet
LIMIT = "because memory ran out: the limit is 600 MiB"
FITS = ["--dataset", "synthetic", "--iterations", "8", "--threads", "1", "--print-every", "0",
        "--model", "lenet", "--batch-size", "8"]
# Not a training: near the limit the kernel may reclaim for minutes before it kills.
TOO_LARGE = [sys.executable, "-c", "b'x' * (1 << 30)"]
COLLECTIVES = ["bench", "collectives", "--hosts", "podman", "--workers", "3", "--sizes", "4K",
               "--backends", "ring,coordinator", "--warmup", "1"]
WAIT = 200  # seconds, a bound
CGROUPS = pathlib.Path("/sys/fs/cgroup")

GRADWIRE = pathlib.Path(os.environ["GRADWIRE_BIN_DIR"]) / "gradwire"


def groups():
    """Returns the cgroups of hosts on this machine, with either version of cgroups."""
    return set(CGROUPS.glob("gradwire-hosts-*")) | set(CGROUPS.glob("*/gradwire-hosts-*"))


class ContainersTest(unittest.TestCase):
    @contextlib.contextmanager
    def bench(self, *words):
        """Runs the benchmark in containers. Nothing of it may be left."""
        if reason := why_no_containers():
            self.skipTest(reason)
        folder = self.enterContext(tempfile.TemporaryDirectory())
        before = groups()
        with subprocess.Popen([GRADWIRE, *COLLECTIVES, *words], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={**os.environ, "TMPDIR": folder}) as process:
            self.addCleanup(process.kill)
            yield process
        self.assertEqual(os.listdir(folder), [])
        self.assertEqual(groups() - before, set())

    def test_measures_and_leaves_nothing(self):
        with self.bench("--iterations", "3") as process:
            printed, _ = process.communicate(timeout=WAIT)
        if process.returncode and "--hosts podman: podman" in printed:
            self.skipTest(printed)  # it makes no containers here
        self.assertEqual(process.returncode, 0, printed)
        self.assertIn("3 containers on this machine (--hosts podman)", printed)

    def test_ctrl_c_leaves_nothing(self):
        before = groups()
        with self.bench("--iterations", "100000000", "--seconds-per-size", "0") as process:
            until = time.monotonic() + WAIT
            while process.poll() is None and not groups() - before:
                self.assertLess(time.monotonic(), until)
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            printed, _ = process.communicate(timeout=WAIT)
        if "--hosts podman: podman" in printed:
            self.skipTest(printed)
        self.assertEqual(process.returncode, 130, printed)

    def hosts(self, count):
        """Makes containers of which each has MEMORY."""
        if reason := why_no_containers():
            self.skipTest(reason)
        hosts = ContainerHosts(count, 1, MEMORY, [str(GRADWIRE.parent), str(SOURCE)])
        try:
            hosts.up()
        except Failure as failure:
            self.skipTest(str(failure))  # it makes no containers here
        self.addCleanup(hosts.down)
        return hosts

    def test_group_is_removed_once_its_processes_have_ended(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        hosts = ContainerHosts(1, 1, MEMORY, [])
        group = folder / "cpu" / hosts._group
        busy = group / "container/busy"
        busy.parent.mkdir(parents=True)
        busy.touch()  # a folder with a file cannot be removed, just as a cgroup with a process
        ending = threading.Timer(0.2, busy.unlink)
        ending.start()
        self.addCleanup(ending.join)
        with mock.patch("cli.hosts.containers.CGROUPS", folder), \
                contextlib.ExitStack() as ends, \
                mock.patch.object(NamespaceHosts, "_up", side_effect=Failure("no")):
            with self.assertRaises(Failure):
                hosts._up(ends)
        self.assertFalse(group.exists())

    def ends(self, commands):
        """Returns how each ended and what all printed."""
        with ProcessSet() as processes:
            started = [processes.add(command) for command in commands]
            until = time.monotonic() + WAIT
            while processes.running():
                self.assertLess(time.monotonic(), until)
                processes.wait(1)
            return ([process.end for process in started],
                    b"".join(process.out + process.err for process in started).decode())

    def test_program_that_the_kernel_kills_for_memory(self):
        hosts = self.hosts(1)
        (end,), _ = self.ends([Command(hosts.command(0, TOO_LARGE), dict(os.environ),
                                       memory_group=hosts.memory_group(0))])
        self.assertEqual(end, f"was killed by signal 9 (Killed) {LIMIT}")

    def launched(self, hosts, *words):
        return Command(hosts.command(0, [GRADWIRE, "launch", "--listen", "127.0.0.1:0", "--metrics",
                                         "off", *words]), dict(os.environ))

    def test_launcher_within_a_container_names_the_worker_and_the_limit(self):
        _, said = self.ends([self.launched(self.hosts(1), "--workers", "1", "--program",
                                           TOO_LARGE[0], "--", *TOO_LARGE[1:])])
        self.assertRegex(said, r"rank 0 \(process \d+\) was killed by signal 9 \(Killed\) " + LIMIT)

    def test_training_in_a_container_has_the_bits_of_the_machine(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        inside = self.launched(self.hosts(1), "--workers", "2", "--summary", "/dev/stdout", "--",
                               *FITS)
        (end,), said = self.ends([inside])
        self.assertEqual(end, "ended with exit code 0", said)
        subprocess.run([GRADWIRE, "launch", "--workers", "2", "--metrics", "off", "--listen",
                        "127.0.0.1:0", "--summary", folder / "s", "--", *FITS], timeout=WAIT,
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        for rank in json.loads((folder / "s").read_text())["ranks"]:
            self.assertIn(rank["parameters_sha256"], said)


if __name__ == "__main__":
    unittest.main()
