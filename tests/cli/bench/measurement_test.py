"""cli/bench/measurement.py: what is written of a measurement, however it ended."""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.bench import measurement
from cli.runs.failure import Failure
from cli.runs.report import Part
from cli.runs.tables import Column


class FakeRunner:
    """Makes no hosts."""
    entered = 0

    def __init__(self, _request, _check):
        pass

    def __enter__(self):
        FakeRunner.entered += 1
        return self

    def __exit__(self, *_):
        FakeRunner.entered -= 1


def rows(count):
    return [Part("rows", "", [Column("a", "a")], [{"a": row} for row in range(count)])]


class MeasureAndReport(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(mock.patch.object(measurement, "Runner", FakeRunner))
        self.request = {"command": "gradwire bench x", "peers": False, "versions": {}, "hosts": "",
                        "hostfile": "", "link_gbit": None,
                        "files": {"json": str(self.folder / "json"), "csv": "",
                                  "markdown": str(self.folder / "md")}}

    def measure(self, measure):
        with contextlib.redirect_stdout(io.StringIO()):
            measurement.measure_and_report(self.request, lambda: None, measure)

    def written(self):
        return json.loads((self.folder / "json").read_text())

    def test_what_was_measured_is_written_with_its_environment(self):
        def measure(_request, _runner, report):
            self.assertEqual(FakeRunner.entered, 1)
            report.title, report.parts = "T", rows(2)
        self.measure(measure)
        self.assertEqual((self.written()["title"], self.written()["rows"]),
                         ("T", [{"a": 0}, {"a": 1}]))
        self.assertEqual(self.written()["environment"]["link"], "unshaped")
        self.assertNotIn("pytorch", self.written()["environment"])
        self.assertEqual(FakeRunner.entered, 0)

    def test_failure_half_way_keeps_what_was_measured(self):
        def measure(_request, _runner, report):
            report.parts = rows(1)
            raise Failure("rank 1 ended")
        with self.assertRaisesRegex(Failure, "^rank 1 ended$"):
            self.measure(measure)
        self.assertEqual(self.written()["rows"], [{"a": 0}])

    def test_failure_before_the_first_row_writes_nothing(self):
        def measure(_request, _runner, report):
            report.parts = rows(0)
            raise Failure("no data")
        with self.assertRaisesRegex(Failure, "^no data$"):
            self.measure(measure)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_first_failure_is_the_one_that_is_told(self):
        self.request["files"]["json"] = "/no/such/file"

        def measure(_request, _runner, report):
            report.parts = rows(1)
        with self.assertRaisesRegex(Failure, "^cannot write /no/such/file: "):
            self.measure(measure)

        def fails(_request, _runner, report):
            report.parts = rows(1)
            raise Failure("first")
        with self.assertRaisesRegex(Failure, "^first$"):
            self.measure(fails)

    def test_peers_are_asked_for_their_version(self):
        self.request["peers"] = True

        def measure(_request, _runner, report):
            report.parts = rows(1)
        with mock.patch.object(measurement, "torch_version", return_value="1.13"):
            self.measure(measure)
        self.assertEqual(self.written()["environment"]["pytorch"], "1.13")


if __name__ == "__main__":
    unittest.main()
