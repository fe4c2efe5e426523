"""cli/runs/hosts.py: this machine, or hosts that a program drives."""
import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.runs.failure import Failure
from cli.runs.hosts import Hosts


def never():
    pass


class HostsTest(unittest.TestCase):
    """With a program that says what it was asked, in a file of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.log = pathlib.Path(folder.name, "log")
        self.program = self.write(folder.name, f'''echo "$*" >> {self.log}
[ "$1" = addr ] && echo "10.0.0.$2"
exit 0''')

    def write(self, folder, script):
        program = pathlib.Path(folder, "hosts")
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o700)
        return str(program)

    def test_program_makes_asks_and_removes(self):
        with Hosts(self.program, 2, "1gbit", never) as hosts:
            self.assertFalse(hosts.local)
            self.assertEqual(hosts.address(1), "10.0.0.1")
            self.assertEqual(hosts.command(1, ["prog", "arg"]).argv,
                             [self.program, "run", "1", "prog", "arg"])
        self.assertEqual(self.log.read_text(), "up 2 1gbit\naddr 0\naddr 1\ndown\n")

    def test_other_rate_makes_them_anew(self):
        with Hosts(self.program, 1, "1gbit", never) as hosts:
            hosts.shape("1gbit")
            hosts.shape("100mbit")
        self.assertEqual(self.log.read_text(),
                         "up 1 1gbit\naddr 0\ndown\nup 1 100mbit\naddr 0\ndown\n")

    def test_this_machine_has_no_rate(self):
        with Hosts("", 1, "none", never) as hosts:
            hosts.shape("1gbit")
            self.assertTrue(hosts.local)

    def test_commands_get_no_variables_of_gradwire(self):
        with mock.patch.dict(os.environ, {"GRADWIRE_RANK": "3", "MINE": "4"}):
            command = Hosts("", 1, "none", never).command(0, ["prog"], {"MORE": "5"})
        environment = command.environment
        self.assertNotIn("GRADWIRE_RANK", environment)
        self.assertEqual((environment["MINE"], environment["MORE"]), ("4", "5"))

    def test_program_fails_says_why_and_takes_down_what_is_there(self):
        program = self.write(os.path.dirname(self.program), f'''echo "$1" >> {self.log}
[ "$1" = down ] && exit 0
echo not root >&2
exit 1''')
        with self.assertRaises(Failure) as raised:
            with Hosts(program, 2, "none", never):
                pass
        self.assertEqual(str(raised.exception),
                         f"{program} up 2 none ended with exit code 1:\n  not root")
        self.assertEqual(self.log.read_text(), "up\ndown\n")

    def test_hosts_that_cannot_be_removed_are_a_warning(self):
        program = self.write(os.path.dirname(self.program), '[ "$1" = down ] && exit 3; echo 10.0.0.1')
        with contextlib.redirect_stderr(io.StringIO()) as err:
            with Hosts(program, 1, "none", never) as hosts:
                self.assertEqual(hosts.address(0), "10.0.0.1")
        self.assertEqual(err.getvalue(), f"warning: {program} down ended with exit code 3\n")

    def test_hosts_may_be_processes_that_the_program_leaves(self):
        pid = self.log.with_name("pid")
        program = self.write(os.path.dirname(self.program), f"""case $1 in
up) sleep 1000 >/dev/null 2>&1 & echo $! > {pid} ;;
addr) grep -q "^State:.[^Z]" "/proc/$(cat {pid})/status" && echo 10.0.0.1 ;;
down) kill "$(cat {pid})" ;;
esac""")
        with contextlib.redirect_stderr(io.StringIO()) as err:
            with Hosts(program, 1, "none", never) as hosts:
                self.assertEqual(hosts.address(0), "10.0.0.1")
        self.assertEqual(err.getvalue(), "")

    def test_no_program_is_this_machine(self):
        with Hosts("", 3, "none", never) as hosts:
            self.assertTrue(hosts.local)
            self.assertEqual(hosts.address(2), "127.0.0.1")
            self.assertEqual(hosts.command(2, ["prog"]).argv, ["prog"])


if __name__ == "__main__":
    unittest.main()
