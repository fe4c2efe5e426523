"""cli/report/paper.py: what is on which page."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.report.paper import HEIGHT, MARGIN, WIDTH, Paper, shared

DRAWING = {"kind": "bars", "name": "times", "title": "Times", "categories": ["a", "b"],
           "x_label": "time (s)", "series": [{"name": "measured", "values": [1, 2]}]}


class Recorded(Paper):
    """Keeps the pages' texts, with their places in inches from the left and from above."""

    def __init__(self):
        self.pages = []
        super().__init__()

    def _finish_page(self):
        if self._page is not None:
            self.pages.append([(text.get_text(), text.get_position()[0] * WIDTH,
                                (1 - text.get_position()[1]) * HEIGHT)
                               for text in self._page.texts])
        super()._finish_page()

    def texts(self):
        return [[text for text, *_ in page] for page in self.pages]


class PaperTest(unittest.TestCase):
    def test_all_stands_one_below_the_other_within_the_margins(self):
        paper = Recorded()
        paper.heading("Heading")
        paper.paragraph("word " * 60)
        paper.items(["one", "two"])
        self.assertTrue(paper.done().startswith(b"%PDF-"))
        (page,) = paper.pages
        self.assertEqual(" ".join(text for text, *_ in page).split(),
                         ["Heading", *["word"] * 60, "•", "one", "•", "two"])
        tops = [top for *_, top in page]
        self.assertEqual(tops, sorted(set(tops)))
        self.assertGreaterEqual(tops[0], MARGIN)

    def test_letters_beyond_256_can_be_copied(self):
        paper = Paper()
        paper.paragraph("2(N−1) • ≤")
        content = paper.done()
        self.assertIn(b"/CIDFontType2", content)
        self.assertNotIn(b"/Type3", content)

    def test_text_that_does_not_fit_goes_on_on_the_next_page(self):
        paper = Recorded()
        for number in range(100):
            paper.paragraph(f"line {number}")
        paper.done()
        self.assertGreater(len(paper.pages), 1)
        self.assertEqual(sum(paper.texts(), []), [f"line {number}" for number in range(100)])
        self.assertLess(max(top for page in paper.pages for *_, top in page), HEIGHT - MARGIN)

    def test_every_page_of_a_table_has_its_head(self):
        paper = Recorded()
        paper.table(["name", "value"], [["a", "1"]] * 100, [False, True])
        paper.done()
        self.assertGreater(len(paper.pages), 1)
        for texts in paper.texts():
            self.assertEqual(texts[:2], ["name", "value"])
        self.assertEqual(sum(texts.count("a") for texts in paper.texts()), 100)

    def test_long_cells_are_wrapped_and_numbers_are_at_the_right(self):
        paper = Recorded()
        paper.table(["name", "value"], [["word " * 80, "1"]], [False, True])
        paper.done()
        (page,) = paper.pages
        self.assertGreater(len(page), 4)
        values = [x for text, x, _ in page if text in ("value", "1")]
        self.assertEqual(values[0], values[1])
        self.assertLessEqual(max(values), WIDTH - MARGIN)

    def test_figure_is_on_the_page_of_its_title(self):
        paper = Recorded()
        paper.paragraph("text " * 900)
        for number in range(5):
            paper.figure(f"Figure {number}", DRAWING)
        paper.done()
        tops = {text: top for page in paper.pages for text, _, top in page if "Figure" in text}
        self.assertEqual(len(tops), 5)
        self.assertLess(max(tops.values()), HEIGHT - MARGIN - 2)

    def test_dollar_signs_stay(self):
        paper = Recorded()
        paper.paragraph("$1 and $2")
        paper.done()
        self.assertEqual(paper.texts(), [[r"\$1 and \$2"]])

    def test_widest_columns_give_way_first_and_none_below_its_least(self):
        self.assertEqual(shared([10, 50, 20], [5, 5, 5], 60), [10, 30, 20])
        self.assertEqual(shared([10, 50, 20], [10, 40, 20], 60), [10, 40, 20])
        self.assertEqual(shared([10, 5], [1, 1], 60), [10, 5])


if __name__ == "__main__":
    unittest.main()
