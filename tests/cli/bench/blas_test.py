"""bench/blas.py: its table, with stand-ins for the processes that compute."""
import contextlib
import io
import json
import pathlib
import runpy
import subprocess
import tempfile
import unittest
from unittest import mock

BENCH = pathlib.Path(__file__).resolve().parents[3] / "bench" / "blas.py"
OF_LIBRARY = {"a": 0.1, "b": 0.2}
OF_WORK = {"linear": 0.0, "vgg11": 0.3}
OF_ROUND = (0.0, 0.001, 0.006)
STARTS_IN_A_ROUND = 40  # of 2 libraries and 2 works: 1 + 1 + 2 + 2 + 4


class Blas(unittest.TestCase):
    """The first process of a case makes one pass, each other one 3 that take 10 ms longer than those
    of the process before."""

    def setUp(self):
        folder = self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.libraries = []
        for name in OF_LIBRARY:
            (folder / name).mkdir()
            (folder / name / "libblas.so.3").touch()
            self.libraries.append(f"{name}={folder / name}")
        self.words, self.running, self.said = [], 0, "ready\n"
        self.errors = io.StringIO()
        self.heard = []  # from processes, and what they were told

    def start(self, command, env, **_):
        work, *words = command[command.index("--compute") + 1:]
        seconds = (OF_LIBRARY[pathlib.Path(env["LD_LIBRARY_PATH"]).name] + OF_WORK[work] +
                   OF_ROUND[len(self.words) // STARTS_IN_A_ROUND] + self.running / 100)
        passes = [seconds] * (3 if self.running else 1)
        self.words.append(words)
        self.running += 1

        def communicate():
            self.running -= 1
            return json.dumps(passes), None

        def readline():
            self.heard.append("ready")
            return self.said
        return mock.Mock(**{"stdout.readline": readline, "communicate": communicate,
                            "stdin.write": self.heard.append})

    def measure(self, *words):
        with mock.patch.object(subprocess, "Popen", self.start), \
                mock.patch("sys.argv", ["blas.py", *words, *self.libraries]), \
                contextlib.redirect_stderr(self.errors), \
                contextlib.redirect_stdout(io.StringIO()) as printed:
            runpy.run_path(str(BENCH))
        return printed.getvalue().splitlines()

    def test_figures_are_medians_of_all_processes_and_of_all_rounds(self):
        self.assertEqual(self.measure(), [
            "| ms | processes × threads | a | b |", "|---|---|---|---|",
            "| linear | 1 × 1 | 101.0 | 201.0 |", "| linear | 1 × 2 | 101.0 | 201.0 |",
            "| linear | 2 × 1 | 111.0 | 211.0 |", "| linear | 2 × 2 | 111.0 | 211.0 |",
            "| linear | 4 × 1 | 121.0 | 221.0 |",
            "| vgg11 | 1 × 1 | 401.0 | 501.0 |", "| vgg11 | 1 × 2 | 401.0 | 501.0 |",
            "| vgg11 | 2 × 1 | 411.0 | 511.0 |", "| vgg11 | 2 × 2 | 411.0 | 511.0 |",
            "| vgg11 | 4 × 1 | 421.0 | 521.0 |"])

    def test_no_process_begins_before_all_are_ready(self):
        self.measure("--rounds", "1")
        self.assertEqual(self.heard[-8:], ["ready"] * 4 + ["go\n"] * 4)

    def test_processes_are_told_threads_seconds_and_priority(self):
        self.measure("--rounds", "1", "--seconds", "0.5", "--nice", "7")
        self.assertEqual(len(self.words), STARTS_IN_A_ROUND)
        # Of the first case, and of the second, each with both libraries.
        self.assertEqual(self.words[:4], [["1", "0.5", "7"]] * 2 + [["2", "0.5", "7"]] * 2)

    def test_process_that_does_not_get_ready_ends_the_measurement(self):
        self.said = ""
        with self.assertRaisesRegex(SystemExit, "^a process on .*/a failed$"):
            self.measure()

    def test_folder_without_a_library_is_refused(self):
        for library, expected in ((f"c={self.folder}", "expected a folder that holds libblas.so.3"),
                                  (str(self.folder / "a"), "expected NAME=DIR")):
            self.libraries[1:] = [library]
            with self.assertRaises(SystemExit) as end:
                self.measure()
            self.assertEqual(end.exception.code, 2)
            self.assertIn(f"got '{library}', {expected}", self.errors.getvalue())
            self.assertEqual(self.words, [])


if __name__ == "__main__":
    unittest.main()
