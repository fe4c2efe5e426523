"""cli/runs/hostfile.py: which hosts a file names, and what is wrong with it."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.runs.failure import EXIT_USAGE, Failure
from cli.runs.hostfile import HostLine, parse_hosts, read_hostfile


class ParseHosts(unittest.TestCase):
    def assert_refused(self, text, message):
        with self.assertRaises(Failure) as raised:
            parse_hosts(text)
        self.assertEqual((str(raised.exception), raised.exception.exit_code),
                         (message, EXIT_USAGE))

    def test_comments_and_blank_lines_are_no_hosts(self):
        self.assertEqual(parse_hosts("# all\n\nnode0\n  10.10.1.2   # the second\n"),
                         [HostLine("node0", None, 3), HostLine("10.10.1.2", None, 4)])

    def test_slots_are_read_as_openmpi_writes_them(self):
        self.assertEqual(parse_hosts("a slots=4 max_slots=8\nme@b slots=2\n"),
                         [HostLine("a", 4, 1), HostLine("me@b", 2, 2)])

    def test_user_is_no_part_of_the_address(self):
        self.assertEqual(parse_hosts("me@node1")[0].network_name, "node1")

    def test_host_twice_names_both_lines(self):
        self.assert_refused("a\n# x\nb\nme@a\n", "line 4: 'a' again, after line 1")

    def test_no_host_is_refused(self):
        self.assert_refused("# none\n\n", "got no host, expected one a line")

    def test_other_word_is_named(self):
        self.assert_refused("a\nb cpu=4\n", "line 2: got 'cpu=4' after 'b', expected slots=N")
        self.assert_refused("a slots=0\n", "line 1: got 'slots=0' after 'a', expected slots=N")

    def test_option_is_no_host(self):
        self.assert_refused("-oProxyCommand=x\n",
                            "line 1: got '-oProxyCommand=x', expected a host's name or address")


class ReadHostfile(unittest.TestCase):
    def test_failure_names_the_file(self):
        with tempfile.NamedTemporaryFile("w") as file:
            with self.assertRaisesRegex(Failure, f"^--hostfile: {file.name}: got no host, expected one a line$"):
                read_hostfile(file.name)

    def test_no_file_is_refused(self):
        with self.assertRaisesRegex(Failure, "^--hostfile: cannot read '/no/file': no such file"):
            read_hostfile("/no/file")


if __name__ == "__main__":
    unittest.main()
