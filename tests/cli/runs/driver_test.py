"""cli/terminal/command.py: how a script that starts others ends."""
import pathlib
import signal
import subprocess
import sys
import unittest

SOURCES = pathlib.Path(__file__).resolve().parents[3]
WAITS = """
from cli.runs.hosts import own_environment
from cli.runs.jobs import run_job
from cli.runs.process import Command
def run(request, check):
    print("up", flush=True)
    run_job("a", Command(["/bin/sleep", "1000"], own_environment()), 1000, check)
"""
FAILS = """
from cli.runs.failure import Failure
def run(request, check):
    raise Failure(f"no {request['what']}", 7)
"""
WORKS = """
def run(request, check):
    print(request["what"])
"""

PRINTS = """
from cli.runs.report import print_all
def run(request, check):
    print_all("x")
"""


def start(script, data="{}", environment=None, stdout=subprocess.PIPE):
    script = f"{script}\nimport sys\nfrom cli.terminal.command import drive\n" \
             "sys.exit(drive('gradwire x', run))"
    return subprocess.Popen([sys.executable, "-B", "-c", script, data], cwd=SOURCES,
                            env=environment, stdout=stdout, stderr=subprocess.PIPE)


class Drive(unittest.TestCase):
    def test_done_is_0(self):
        with start(WORKS, '{"what": "data"}') as script:
            self.assertEqual(script.communicate(), (b"data\n", b""))
        self.assertEqual(script.returncode, 0)

    def test_failure_is_told_and_has_its_exit_code(self):
        with start(FAILS, '{"what": "data"}') as script:
            self.assertEqual(script.communicate(), (b"", b"gradwire x: no data\n"))
        self.assertEqual(script.returncode, 7)

    def test_signal_ends_it_with_128_and_its_number(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with start(WAITS) as script:
                script.stdout.readline()
                script.send_signal(number)
                self.assertEqual(script.communicate(), (b"", b""))
            self.assertEqual(script.returncode, 128 + number)

    def test_full_disk_under_stdout_is_told_once(self):
        with open("/dev/full", "wb") as full, start(PRINTS, stdout=full) as script:
            self.assertEqual(script.communicate()[1], b"gradwire x: cannot write to stdout\n")
        self.assertEqual(script.returncode, 1)

    def test_texts_are_utf8_in_every_locale(self):
        with start(WORKS, '{"what": "ä"}', {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0",
                                            "PYTHONUTF8": "0"}) as script:
            self.assertEqual(script.communicate(), ("ä\n".encode(), b""))


if __name__ == "__main__":
    unittest.main()
