"""cli/report/document.py: pages that are complete in themselves."""
import base64
import html.parser
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.report import document

ODD = 'a <b> & "c"'


class Tags(html.parser.HTMLParser):
    """Tags that are open, and the attributes of all."""
    VOID = ("meta", "img", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.attributes = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag


class Document(unittest.TestCase):
    def test_page_is_whole(self):
        tags = Tags(document.page("T", document.figure("F", "c", b"<svg/>")))
        self.assertEqual(tags.open, [])

    def test_titles_and_captions_are_no_tags(self):
        page = document.page(ODD, document.figure(ODD, ODD, b""))
        self.assertNotIn("<b>", page)
        self.assertEqual(page.count("a &lt;b&gt; &amp; &quot;c&quot;"), 5)
        self.assertIn(("alt", ODD), Tags(page).attributes)

    def test_figure_is_held_by_the_page(self):
        svg = b"<svg>\xc3\xa4</svg>"
        figure = document.figure("F", "c", svg)
        (held,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]*)"', figure)
        self.assertEqual(base64.b64decode(held), svg)

    def test_page_loads_nothing_from_elsewhere(self):
        page = document.page("T", document.figure("F", "c", b"<svg/>"))
        self.assertNotRegex(page, r'(src|href)="(?!data:)')
        self.assertNotIn("@import", page)
        self.assertNotIn("<script", page)

    def test_braces_of_a_body_stay(self):
        self.assertIn("<p>{x} {{y}}</p>", document.page("T", "<p>{x} {{y}}</p>\n"))


if __name__ == "__main__":
    unittest.main()
