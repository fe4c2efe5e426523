"""SshHosts of cli/runs/hosts.py, with an ssh that runs everything on this machine."""
import os
import pathlib
import socket
import sys
import tempfile
import time
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.runs.failure import EXIT_USAGE, Failure
from cli.runs.hosts import SshHosts
from cli.runs.jobs import Jobs
from cli.runs.runner import COORDINATOR, Run, Runner

# As sshd, it hands one text to a shell; 127.0.0.9 is switched off.
SSH = '''while [ "${1#-}" != "$1" ]; do [ "$1" = -o ] && shift; shift; done
host=$1
[ "$host" = 127.0.0.9 ] && { echo "ssh: connect to host $host port 22: No route" >&2; exit 255; }
shift
HOST=$host exec sh -c "$*"'''
COORDINATOR_SCRIPT = 'echo "$HOST $*" > "$0.args"; exec sleep 1000'


def never():
    pass


def shell(script, *words):
    return ["/bin/sh", "-c", script, "sh", *words]


class SshHostsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.script("ssh", SSH)
        self.coordinator = self.script("coordinator", COORDINATOR_SCRIPT)
        path = mock.patch.dict(os.environ, {"PATH": f"{self.folder}:{os.environ['PATH']}"})
        path.start()
        self.addCleanup(path.stop)

    def script(self, name, text):
        program = self.folder / name
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o700)
        return str(program)

    def file(self, *lines):
        path = self.folder / "hosts"
        path.write_text("".join(f"{line}\n" for line in lines))
        return str(path)

    def runner(self, *lines, ranks=2):
        return Runner({"hosts": "", "hostfile": self.file(*lines), "workers": ranks,
                       "rate": "none", "port": 29400, "timeout_seconds": 60,
                       "programs": {"coordinator": self.coordinator}}, never)

    def assert_refused(self, message, *lines, ranks=2):
        with self.assertRaisesRegex(Failure, message) as raised:
            SshHosts(self.file(*lines), ranks)
        self.assertEqual(raised.exception.exit_code, EXIT_USAGE)

    def test_rank_runs_on_its_host_with_its_arguments_as_they_are(self):
        said = shell('echo "$HOST $*"', "a b", "$HOME", "it's")
        with self.runner("127.0.0.1", "127.0.0.2") as runner:
            outputs = runner.run(Run([said, said], coordinator=False))
        self.assertEqual(outputs.ranks, ["127.0.0.1 a b $HOME it's\n",
                                         "127.0.0.2 a b $HOME it's\n"])

    def test_coordinator_has_the_next_host_or_the_first(self):
        for lines, host in ((("127.0.0.1", "127.0.0.2"), "127.0.0.1"),
                            (("127.0.0.1", "127.0.0.2", "127.0.0.3"), "127.0.0.3")):
            with self.runner(*lines) as runner:
                outputs = runner.run(Run([shell(
                    f'until [ -s {self.coordinator}.args ]; do :; done; echo "$1"', COORDINATOR)]))
            self.assertEqual(outputs.ranks, [f"{host}:29400\n"])
            args = pathlib.Path(f"{self.coordinator}.args")
            self.assertTrue(args.read_text().startswith(f"{host} --listen {host}:29400 "))
            args.unlink()

    def test_variables_reach_the_host(self):
        run = Run([shell('echo "$MINE"')], coordinator=False, environment={"MINE": "a b"})
        with self.runner("127.0.0.1", ranks=1) as runner:
            self.assertEqual(runner.run(run).ranks, ["a b\n"])

    def test_dead_host_is_named_before_anything_counts(self):
        with self.runner("127.0.0.1", "127.0.0.9") as runner:
            with self.assertRaises(Failure) as raised:
                runner.try_out(["/bin/true"])
        self.assertEqual(str(raised.exception),
                         "true on host 127.0.0.9 ended with exit code 255:\n"
                         "  ssh: connect to host 127.0.0.9 port 22: No route")
        self.assertEqual(raised.exception.exit_code, EXIT_USAGE)

    def test_each_host_is_tried_once(self):
        with self.runner("127.0.0.1", "127.0.0.2") as runner:
            runner.try_out(shell(f'echo "$HOST" >> {self.folder}/tried'))
        self.assertEqual(sorted((self.folder / "tried").read_text().split()),
                         ["127.0.0.1", "127.0.0.2"])

    def test_program_ends_when_its_connection_does(self):
        """Also one that ssh has left alone over there, as a real one does."""
        self.script("ssh", SSH.replace("exec sh -c", "exec setsid -w sh -c"))
        pid_file = self.folder / "pid"
        hosts = SshHosts(self.file("127.0.0.1"), 1)
        with Jobs(never) as jobs:
            jobs.start("x", hosts.command(0, shell(f"echo $$ > {pid_file}; exec sleep 1000")))
            jobs.run_until(lambda: pid_file.exists() and pid_file.read_text(),
                           time.monotonic() + 30)
            pid = int(pid_file.read_text())
        deadline = time.monotonic() + 30
        while pathlib.Path(f"/proc/{pid}").exists():
            self.assertLess(time.monotonic(), deadline)

    def test_too_few_hosts_are_refused(self):
        self.assert_refused("got 1 hosts, expected 2, one for each rank$", "127.0.0.1")

    def test_name_without_address_is_refused(self):
        with mock.patch("socket.getaddrinfo", side_effect=socket.gaierror):
            self.assert_refused("hosts: line 1: no address for 'node7'$", "node7", "node8")
        self.assert_refused("hosts: line 1: no address for 'a..b'$", "a..b", "c")

    def test_loopback_among_others_is_refused(self):
        self.assert_refused("line 2: '127.0.1.1' is 127.0.1.1 here, and other hosts cannot reach",
                            "10.10.1.2", "127.0.1.1")

    def test_addresses_that_all_hosts_reach_are_those_of_the_ranks_and_the_coordinator(self):
        hosts = SshHosts(self.file("10.10.1.1", "10.10.1.2"), 2)
        self.assertEqual([hosts.address(place) for place in range(3)],
                         ["10.10.1.1", "10.10.1.2", "10.10.1.1"])

    def test_without_ssh_says_what_to_install(self):
        with mock.patch.dict(os.environ, {"PATH": "/no/such/folder"}):
            self.assert_refused("needs ssh; run: apt-get install openssh-client", "127.0.0.1")


if __name__ == "__main__":
    unittest.main()
