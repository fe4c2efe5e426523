"""cli/report/report.py: what it refuses, and what it writes."""
import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

SOURCES = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(SOURCES), str(SOURCES / "tests" / "support")]
from cli.report import report
from cli.runs.failure import Failure
from cli.terminal.command import WrongUsage
from logs import log_text
from phases import PHASES


class Report(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        self.out = str(self.dir / "out.html")

    def log(self, name, text):
        (self.dir / name).write_text(text)
        return str(self.dir / name)

    def report(self, *logs, runs=(), out=None):
        """What it says on stderr."""
        data = {"phases": PHASES, "runs": len(runs), "runs_from": "--run"}
        with contextlib.redirect_stderr(io.StringIO()) as err:
            report.main(data, [out or self.out, *runs, *logs])
        return err.getvalue()

    def error_of(self, *logs, kind=WrongUsage, exit_code=2, **more):
        with self.assertRaises(Failure) as raised:
            self.report(*logs, **more)
        self.assertIs(type(raised.exception), kind)
        self.assertEqual(raised.exception.exit_code, exit_code)
        return str(raised.exception)

    def test_two_runs_give_page_tables_and_figures(self):
        said = self.report(self.log("a-1.rank0", log_text(0, 4)),
                           self.log("a-2.rank0", log_text(0, 4)),
                           self.log("a-2.rank1", log_text(1, 4)))
        self.assertEqual(said, "")
        page = pathlib.Path(self.out).read_text()
        for title in ("Iteration time", "Where an iteration goes", "Loss", "Scaling"):
            self.assertIn(f"<h2>{title}</h2>\n<figure>\n<img alt=", page)
        self.assertIn("<li>a-2: Bottleneck: computation", page)
        for name in ("out.iteration-time.png", "out.phases.svg", "out.scaling.pdf"):
            self.assertTrue((self.dir / name).exists(), name)
        self.assertIn("\na-2,a,2,4,0.5,", (self.dir / "out.runs.csv").read_text())
        self.assertIn("\na-2,3,0,2,", (self.dir / "out.steps.csv").read_text())

    def test_named_runs_have_their_names_and_come_first(self):
        self.report(self.log("a", log_text(0, 1)),
                    runs=[f" my run ={self.log('b', log_text(0, 1))}"])
        self.assertRegex((self.dir / "out.runs.csv").read_text(), "\nmy run,my run,1,.*\na,a,1,")

    def test_missing_rank_is_told_on_stderr_and_in_the_page(self):
        self.assertIn("gradwire report: warning: Run a has no log of rank 0",
                      self.report(self.log("a", log_text(1, 1))))
        self.assertIn("<li>Run a has no log of rank 0", pathlib.Path(self.out).read_text())

    def test_name_that_is_no_utf8_is_replaced(self):
        name = os.path.join(os.fsencode(self.dir), b"r\xff.jsonl")
        with open(name, "w", encoding="ascii") as file:
            file.write(log_text(0, 1))
        self.report(os.fsdecode(name))
        self.assertIn("\nr\ufffd,r\ufffd,1,", (self.dir / "out.runs.csv").read_text())

    def test_no_log_is_refused(self):
        self.assertEqual(self.error_of(), "no log is named; a worker writes one with --log-jsonl")

    def test_log_named_twice_is_refused(self):
        self.assertEqual(self.error_of("a", runs=["r=a"]), "'a' is named twice")

    def test_log_that_would_be_overwritten_is_refused(self):
        for name in ("x.html", "x.runs.csv", "x.steps.csv"):
            self.assertEqual(self.error_of(name, out="x.html"),
                             f"--out: '{name}' is one of the logs, and would be overwritten")

    def test_run_without_name_or_files_is_shown(self):
        for text in ("", "a", "=a", "a=", "a=,"):
            self.assertEqual(self.error_of(runs=[text]),
                             f"--run: got '{text}', expected NAME=FILE[,FILE...]")

    def test_two_runs_of_one_name_are_refused(self):
        self.assertEqual(self.error_of(runs=["r=a", "r=b"]), "--run: there are two runs 'r'")

    def test_named_run_like_another_is_refused(self):
        said = self.error_of(self.log("a", log_text(0, 2)),
                             runs=[f"a={self.log('b', log_text(0, 2))}"], kind=Failure)
        self.assertIn("--run: the logs without --run are of a run 'a' too", said)

    def test_missing_log_is_named_and_nothing_written(self):
        self.assertEqual(self.error_of(self.log("a", log_text(0, 2)), "/no/log", kind=Failure),
                         "cannot read the log '/no/log': No such file or directory")
        self.assertEqual({path.name for path in self.dir.iterdir()}, {"a"})

    def test_out_that_cannot_be_written_is_told_before_logs_are_read(self):
        self.assertEqual(self.error_of("/no/log", out="/no/folder/x.html", kind=Failure),
                         "--out: cannot write /no/folder/x.html: no such file or directory")

    def test_file_that_cannot_be_replaced_is_told(self):
        (self.dir / "out.loss.png").mkdir()
        self.assertEqual(
            self.error_of(self.log("a", log_text(0, 1)), kind=Failure, exit_code=1),
            f"cannot write {self.dir}/out.loss.png: is a directory")

    def test_without_matplotlib_its_package_is_named(self):
        with mock.patch.dict(sys.modules, {"matplotlib": None}):
            for name in ("figures", "page"):
                sys.modules.pop(f"cli.report.{name}", None)
                vars(sys.modules["cli.report"]).pop(name, None)
            said = self.error_of(self.log("a", log_text(0, 1)), kind=Failure, exit_code=1)
        self.assertIn("install Debian's package python3-matplotlib", said)


if __name__ == "__main__":
    unittest.main()
