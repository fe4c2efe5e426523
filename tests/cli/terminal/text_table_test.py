"""cli/runs/tables.py: tables on a terminal."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.runs.json_fields import number_at, text_at
from cli.runs.tables import TextColumn, text_table


class TextTable(unittest.TestCase):
    def test_columns_are_right_aligned_in_their_units(self):
        columns = [TextColumn(("name",), "name"), TextColumn(("time", "mean"), "mean ms", 1, 1000)]
        self.assertEqual(text_table(columns, [{"name": "a", "time": {"mean": 0.25}}]),
                         ["    name  mean ms", "       a    250.0"])

    def test_missing_values_are_dashes(self):
        columns = [TextColumn(("x",), "x"), TextColumn(("none",), "none")]
        self.assertEqual(text_table(columns, [{"none": None}]),
                         ["       x    none", "       -       -"])

    def test_long_value_widens_its_column(self):
        self.assertEqual(text_table([TextColumn(("a",), "a")], [{"a": "10.10.1.1:29400"}]),
                         ["                a", "  10.10.1.1:29400"])

    def test_no_rows_have_their_titles(self):
        self.assertEqual(text_table([TextColumn(("name",), "name")], []), ["    name"])

    def test_number_is_none_of_what_is_no_number(self):
        for value in (None, "1", True, [1], float("inf"), float("nan")):
            self.assertIsNone(number_at({"a": value}, "a"), value)
        self.assertIsNone(number_at([], "a"))
        self.assertEqual(number_at({"a": {"b": 1}}, "a", "b"), 1)

    def test_control_characters_of_a_text_are_shown(self):
        self.assertEqual(text_at({"a": "x\x1b"}, "a"), "x\\x1b")


if __name__ == "__main__":
    unittest.main()
