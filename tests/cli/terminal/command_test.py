"""cli/terminal/command.py: how a command in Python begins and ends."""
import contextlib
import io
import pathlib
import signal
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.runs.failure import EXIT_USAGE, Failure, Stopped
from cli.terminal import command
from cli.terminal.command import WrongUsage


class Command(unittest.TestCase):
    def setUp(self):
        self.addCleanup(signal.signal, signal.SIGINT, signal.getsignal(signal.SIGINT))

    def run_with(self, main, *arguments):
        """Exit code, and what was said on stderr."""
        said = io.StringIO()
        with mock.patch.object(sys, "argv", ["script", *arguments]), \
                contextlib.redirect_stderr(said):
            return command.run("gradwire x", main), said.getvalue()

    def test_main_gets_data_and_operands_and_gives_the_code(self):
        got = []

        def main(*arguments):
            got.extend(arguments)
            return 7
        self.assertEqual(self.run_with(main, '{"a": [1]}', "b", "c d"), (7, ""))
        self.assertEqual(got, [{"a": [1]}, ["b", "c d"]])

    def test_failure_is_said_with_its_code(self):
        def main(*_):
            raise Failure("no disk", 5)
        self.assertEqual(self.run_with(main, "null"), (5, "gradwire x: no disk\n"))

    def test_wrong_usage_hints_at_help(self):
        def main(*_):
            raise WrongUsage("--a is missing")
        self.assertEqual(self.run_with(main, "null"), (
            EXIT_USAGE, "gradwire x: --a is missing\nTry 'gradwire x --help' for the options.\n"))

    def test_error_of_the_program_is_not_hidden(self):
        def main(*_):
            raise KeyError("bug")
        with self.assertRaises(KeyError):
            self.run_with(main, "null")

    def test_ctrl_c_ends_it_as_it_does_others(self):
        def main(*_):
            return signal.getsignal(signal.SIGINT)
        self.assertEqual(self.run_with(main, "null"), (signal.SIG_DFL, ""))

    def test_first_signal_counts_and_stops_the_next_check(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            self.addCleanup(signal.signal, number, signal.getsignal(number))
        stop = command.StopSignals()
        stop.check()
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        self.assertEqual(stop.received, signal.SIGTERM)
        with self.assertRaisesRegex(Stopped, "^stopped$"):
            stop.check()

    def test_only_a_word_that_is_near_is_meant(self):
        self.assertEqual(command.did_you_mean("corse", ["lab", "course"]), "; did you mean course?")
        self.assertEqual(command.did_you_mean("x", ["lab", "course"]), "")

    def test_names_that_are_no_utf8_stay_as_they_are(self):
        with mock.patch.object(sys, "argv", ["script", '"ä"'.encode().decode(
                "ascii", "surrogateescape")]), \
                mock.patch("os.fsencode", lambda text: text.encode("ascii", "surrogateescape")):
            self.assertEqual(command.given_data(), "ä")


if __name__ == "__main__":
    unittest.main()
