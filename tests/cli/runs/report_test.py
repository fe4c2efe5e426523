"""cli/runs/report.py and tables.py: what is written of a measurement."""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.runs.failure import Failure
from cli.runs.report import Part, Report, write_report
from cli.runs.tables import Column, as_columns, csv_table, markdown_table, values_of

COLUMNS = [Column("size", "size (B)"), Column("name", "name"), Column("time", "time (s)", 2)]
ROWS = [{"size": 36924456, "name": "ring", "time": 0.4567},
        {"size": 4, "name": 'a,"b"', "time": None}]


def small_report():
    return Report("Title", "gradwire bench x", {"cores": 2},
                  [Part("rows", "Part", [Column("a", "a")], [{"a": 1}])], ["A note."])


class Tables(unittest.TestCase):
    def test_markdown_lines_up_numbers_texts_and_gaps(self):
        self.assertEqual(markdown_table(COLUMNS, ROWS),
                         "|   size (B) | name  | time (s) |\n"
                         "| ---------: | ----- | -------: |\n"
                         "| 36,924,456 | ring  |     0.46 |\n"
                         "|          4 | a,\"b\" |          |\n")

    def test_markdown_without_rows_is_a_head(self):
        self.assertEqual(markdown_table([Column("a", "a")], []), "|   a |\n| --: |\n")

    def test_csv_has_exact_numbers_texts_and_gaps(self):
        self.assertEqual(csv_table(COLUMNS, ROWS), "size,name,time\n"
                                                   "36924456,ring,0.4567\n"
                                                   '4,"a,""b""",\n')


    def test_numbers_that_are_not_finite_are_named_for_people_and_empty_for_programs(self):
        rows = [{"time": float("nan")}, {"time": float("inf")}]
        self.assertEqual(markdown_table(COLUMNS[2:], rows).count("| not finite |"), 2)
        self.assertEqual(csv_table(COLUMNS[2:], rows), "time\n\n\n")

    def test_values_of_a_tuple_are_computed_of_its_parts(self):
        fields = [("sum", "Sum", lambda a, b: a + b, 2), ("first", "First", lambda a, b: a)]
        self.assertEqual(values_of(fields, (3, 4)), {"sum": 7, "first": 3})
        self.assertEqual(values_of([("length", "Length", len)], "abc"), {"length": 3})
        self.assertEqual(as_columns(fields), [Column("sum", "Sum", 2), Column("first", "First", 0)])


class Reports(unittest.TestCase):
    def test_markdown_has_command_environment_tables_and_notes(self):
        self.assertEqual(small_report().markdown(),
                         "## Title\n\n    gradwire bench x\n\n- cores: 2\n\nPart:\n\n"
                         "|   a |\n| --: |\n|   1 |\n\nA note.\n")

    def test_json_has_rows_under_their_key(self):
        self.assertEqual(list(json.loads(small_report().json()).items()),
                         [("title", "Title"), ("command", "gradwire bench x"),
                          ("environment", {"cores": 2}), ("notes", ["A note."]),
                          ("rows", [{"a": 1}])])


    def test_csv_is_of_the_first_table_and_the_others_are_in_markdown_and_json(self):
        report = small_report()
        report.parts.append(Part("more", "", [Column("b", "µs")], [{"b": 2}]))
        self.assertEqual(report.csv(), "a\n1\n")
        self.assertIn("\n|   1 |\n\n|  µs |\n", report.markdown())
        self.assertEqual(json.loads(report.json())["more"], [{"b": 2}])

    def test_report_without_notes_ends_with_its_table(self):
        report = small_report()
        report.notes = []
        self.assertTrue(report.markdown().endswith("|   1 |\n"))

    def test_letters_beyond_ascii_are_readable_in_json(self):
        report = small_report()
        report.notes = ["20 µs"]
        self.assertIn('\n  "notes": [\n    "20 µs"\n  ],\n', report.json())


class WriteReport(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, **files):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            write_report(small_report(), {"json": "", "csv": "", "markdown": "", **files})
        return printed.getvalue()

    def test_without_files_markdown_is_printed(self):
        self.assertEqual(self.write(), small_report().markdown())

    def test_files_get_their_texts_and_nothing_is_printed(self):
        files = {kind: str(self.folder / kind) for kind in ("json", "csv", "markdown")}
        self.assertEqual(self.write(**files), "")
        for kind, file in files.items():
            self.assertEqual(pathlib.Path(file).read_text(), getattr(small_report(), kind)())

    def test_one_cannot_be_written_the_others_are(self):
        with self.assertRaisesRegex(Failure, "^cannot write /no/x: no such file or directory$"):
            self.write(json="/no/x", csv=str(self.folder / "x.csv"))
        self.assertEqual((self.folder / "x.csv").read_text(), "a\n1\n")
        with self.assertRaisesRegex(Failure, "^cannot write /no/x: "):
            self.write(json="/no/x", csv="/no/y")


if __name__ == "__main__":
    unittest.main()
