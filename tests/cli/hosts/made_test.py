"""cli/hosts/namespaces.py and containers.py: hosts that are made, where that is possible."""
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))
from cli.hosts.containers import ContainerHosts, cgroup_files, volumes, why_no_containers
from cli.hosts.namespaces import MOST_HOSTS, NamespaceHosts, is_running, run_tool, why_not
from cli.runs.failure import Failure

SEND = ("import socket, sys; c = socket.create_connection((sys.argv[1], 5000)); "
        "c.sendall(bytes(int(sys.argv[2])))")
MAKER = """import time
from cli.hosts.namespaces import NamespaceHosts
hosts = NamespaceHosts(2)
hosts.up()
print(*hosts._inits, flush=True)
time.sleep(60)"""
TAKE = """import socket, time
with socket.create_server(("0.0.0.0", 5000)) as server:
    print("listens", flush=True)
    connection, _ = server.accept()
    start, got = time.monotonic(), 0
    while piece := connection.recv(1 << 20):
        got += len(piece)
    print(got, time.monotonic() - start)"""


class Made(unittest.TestCase):
    def up(self, hosts):
        try:
            hosts.up()
        except Failure as failure:
            self.skipTest(str(failure))
        self.addCleanup(hosts.down)
        return hosts

    def output(self, hosts, host, *argv):
        return subprocess.run(hosts.command(host, argv), stdout=subprocess.PIPE, text=True,
                              check=True, timeout=60).stdout

    def sleeper(self, hosts):
        """A program that runs on host 0."""
        process = subprocess.Popen(hosts.command(0, ["sh", "-c", "echo runs; exec sleep 60"]),
                                   stdout=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "runs\n")
        return process

    def seconds_of(self, hosts, count):
        """That so many bytes take from host 1 to host 0, which is called by its name."""
        with subprocess.Popen(hosts.command(0, ["/usr/bin/python3", "-c", TAKE]), text=True,
                              stdout=subprocess.PIPE) as server:
            self.assertEqual(server.stdout.readline(), "listens\n")
            self.output(hosts, 1, "/usr/bin/python3", "-c", SEND, hosts.names[0], str(count))
            got, seconds = server.communicate(timeout=60)[0].split()
        self.assertEqual(int(got), count)
        return float(seconds)


@unittest.skipIf(why_not(), why_not())
class NamespaceHostsTest(Made):
    def test_links_have_their_rate_both_ways(self):
        hosts = self.up(NamespaceHosts(2))
        hosts.shape("80mbit")
        self.assertGreater(self.seconds_of(hosts, 5 << 20), 0.4)  # 0.5 s without the first burst
        for init, device in ((hosts._inits[1], "eth0"), (hosts._switch, "port1")):
            self.assertIn("rate 80Mbit", run_tool(
                "nsenter", "--target", str(init), "--net", "tc", "qdisc", "show", "dev", device))
        hosts.shape("none")
        self.assertLess(self.seconds_of(hosts, 5 << 20), 0.4)

    def test_rate_that_tc_does_not_know(self):
        with self.assertRaisesRegex(Failure, "tc qdisc replace .*fast"):
            self.up(NamespaceHosts(1)).shape("fast")

    def test_command_ends_well_by_sigterm(self):
        hosts = self.up(NamespaceHosts(1))
        script = "trap 'echo ends; exit 3' TERM; echo runs; while :; do sleep 0.1; done"
        with subprocess.Popen(hosts.command(0, ["sh", "-c", script]), text=True,
                              stdout=subprocess.PIPE, process_group=0) as process:
            self.assertEqual(process.stdout.readline(), "runs\n")
            os.killpg(process.pid, 15)
            self.assertEqual(process.communicate(timeout=10)[0], "ends\n")
        self.assertEqual(process.returncode, 3)

    def test_down_ends_all_that_runs_there(self):
        hosts = NamespaceHosts(1)
        self.up(hosts)
        with self.sleeper(hosts) as process:
            hosts.down()
            self.assertEqual(process.wait(10), -9)
        hosts.down()  # does no harm

    def test_they_end_with_the_process_that_made_them(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        maker = subprocess.Popen([sys.executable, "-B", "-c", MAKER], cwd=ROOT, text=True,
                                 env={**os.environ, "TMPDIR": folder}, stdout=subprocess.PIPE)
        with maker:
            inits = [int(word) for word in maker.stdout.readline().split()]
            self.assertEqual(list(map(is_running, inits)), [True] * 2)
            maker.kill()
        until = time.monotonic() + 10
        while any(map(is_running, inits)) and time.monotonic() < until:
            time.sleep(0.02)
        self.assertEqual(list(map(is_running, inits)), [False] * 2)

    def test_more_than_there_are_addresses(self):
        with self.assertRaisesRegex(Failure, "got 251 hosts, expected at most 250"):
            NamespaceHosts(MOST_HOSTS + 1).up()


@unittest.skipIf(why_no_containers(), why_no_containers())
class ContainerHostsTest(Made):
    def test_limits_names_and_files(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "own").write_text("this machine's")
            hosts = self.up(ContainerHosts(2, 1, 300 << 20, [folder]))
            hosts.shape("1gbit")
            self.assertEqual(self.output(hosts, 1, "hostname"), "host2\n")
            self.assertEqual(self.output(hosts, 1, "cat", f"{folder}/own"), "this machine's")
            self.output(hosts, 1, "sh", "-c", f"echo changed > {folder}/own || true")
            self.assertEqual(pathlib.Path(folder, "own").read_text(), "this machine's")
        self.seconds_of(hosts, 1 << 20)
        with self.sleeper(hosts) as process:
            limits = self.limits_of(process)
            hosts.down()
            self.assertNotEqual(process.wait(10), 0)
        self.assertIn(str(300 << 20), limits)
        self.assertTrue({"100000", "100000 100000"} & limits, limits)

    def limits_of(self, process):
        """What stands in the files of a process's cgroups for CPU and memory."""
        found = set()
        for file in map(pathlib.Path, cgroup_files(process.pid)):
            for name in ("cpu.max", "memory.max", "cpu.cfs_quota_us", "memory.limit_in_bytes"):
                if (file.parent / name).exists():
                    found.add((file.parent / name).read_text().strip())
        return found


class VolumesTest(unittest.TestCase):
    def test_only_mounts_are_named(self):
        self.assertEqual(volumes(["/", "/proc"]), ["--volume", "/proc:/proc:ro"])


if __name__ == "__main__":
    unittest.main()
