"""cli/launch/lines.py: lines and bars of a program's output."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.launch.lines import LineSplitter


class Lines(unittest.TestCase):
    def setUp(self):
        self.lines, self.bars = [], []
        self.plain = LineSplitter(self.lines.append)
        self.with_bar = LineSplitter(self.lines.append, self.bars.append)

    def test_line_in_pieces_is_given_once(self):
        self.plain.feed(b"on")
        self.assertEqual(self.lines, [])
        self.plain.feed(b"e\ntwo\nthr")
        self.assertEqual(self.lines, [b"one", b"two"])

    def test_line_without_end_is_given_by_flush(self):
        self.plain.feed(b"one\ntwo")
        self.plain.flush()
        self.assertEqual(self.lines, [b"one", b"two"])

    def test_nothing_left_is_no_line(self):
        self.plain.feed(b"one\n")
        self.plain.flush()
        self.assertEqual(self.lines, [b"one"])

    def test_empty_line_is_a_line(self):
        self.plain.feed(b"\n\n")
        self.assertEqual(self.lines, [b"", b""])

    def test_carriage_return_before_newline_is_dropped(self):
        self.plain.feed(b"one\r\n")
        self.assertEqual(self.lines, [b"one"])

    def test_carriage_return_without_bars_is_a_character(self):
        self.plain.feed(b"a\rb\n\r")
        self.plain.feed(b"c\n")
        self.assertEqual(self.lines, [b"a\rb", b"\rc"])

    def test_spaces_at_the_end_of_a_line_without_bars_stay(self):
        self.plain.feed(b"a  \n")
        self.assertEqual(self.lines, [b"a  "])

    def test_very_long_line_comes_in_parts(self):
        self.plain.feed(b"x" * 140000)
        self.assertEqual([len(line) for line in self.lines], [65536, 65536])
        self.plain.flush()
        self.assertEqual(len(self.lines[-1]), 140000 - 2 * 65536)

    def test_bar_is_given_at_once(self):
        self.with_bar.feed(b"10 %  \r")
        self.assertEqual((self.bars, self.lines), ([b"10 %"], []))

    def test_line_over_a_bar_loses_its_padding(self):
        self.with_bar.feed(b"10 %\rloss 1   \n")
        self.assertEqual((self.bars, self.lines), ([b"10 %"], [b"loss 1"]))

    def test_bar_that_ends_its_line_becomes_a_line(self):
        self.with_bar.feed(b"100 %\r")
        self.with_bar.feed(b"\n")
        self.assertEqual((self.bars, self.lines), ([b"100 %", b""], [b"100 %"]))

    def test_bar_at_the_end_is_no_line(self):
        self.with_bar.feed(b"100 %\r")
        self.with_bar.flush()
        self.with_bar.feed(b"\n")
        self.assertEqual(self.lines, [b""])


if __name__ == "__main__":
    unittest.main()
