"""The site of README.md, CHANGELOG.md and docs/ is made without a warning, has every page, needs no
network, and its links lead somewhere."""
import html.parser
import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PAGES = [SOURCE / "README.md", SOURCE / "CHANGELOG.md", *sorted((SOURCE / "docs").rglob("*.md"))]
TOOLS = {"sphinx": "python3-sphinx", "myst_parser": "python3-myst-parser", "furo": "furo"}
# What a style sheet loads, except what it contains itself.
STYLE_ADDRESS = re.compile(r"@import\s+[^;]*|url\((?!['\"]?(?:data:|#))[^)]*\)")


class Page(html.parser.HTMLParser):
    """What a page refers to: `links` that a reader follows, `parts` that the browser loads."""

    def __init__(self, file):
        super().__init__()
        self.links, self.parts, self.ids = [], [], set()
        self.feed(file.read_text())

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids.add(given.get("id"))
        address = given.get("href") or given.get("src")
        if address and tag != "use" and address != "#":
            (self.links if tag == "a" else self.parts).append(address)


class SiteTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        missing = [package for module, package in TOOLS.items()
                   if not importlib.util.find_spec(module)]
        if missing:
            raise unittest.SkipTest(f"needs {', '.join(missing)} (deploy/install-packages docs)")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.site = pathlib.Path(folder.name).resolve() / "html"
        done = subprocess.run(
            [sys.executable, "-B", "-m", "sphinx", "-b", "html", "-q", "-W", "--keep-going",
             "-c", SOURCE / "docs/site", "-d", cls.site.with_name("doctrees"), SOURCE, cls.site],
            capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(f"Sphinx ended with {done.returncode}:\n{done.stderr}")
        cls.pages = {file: Page(file) for file in sorted(cls.site.rglob("*.html"))}

    def page_of(self, source):
        return self.site / source.relative_to(SOURCE).with_suffix(".html")

    def test_every_page_is_there_and_in_the_navigation_of_the_first(self):
        self.assertLessEqual({self.page_of(page) for page in PAGES}, self.pages.keys())
        first = {(self.site / link.split("#")[0]).resolve()
                 for link in self.pages[self.site / "index.html"].links}
        self.assertEqual({self.page_of(page) for page in PAGES[1:]} - first, set())

    def test_links_lead_to_a_file_and_a_heading_of_the_site(self):
        wrong = []
        for file, page in self.pages.items():
            for link in page.links:
                address = urllib.parse.urlsplit(link)
                if address.scheme in ("http", "https"):  # a reader may follow it
                    continue
                path = urllib.parse.unquote(address.path)
                target = (file.parent / path).resolve() if path else file
                anchor = urllib.parse.unquote(address.fragment)
                if not target.is_file() or not target.is_relative_to(self.site) or (
                        anchor and anchor not in self.pages[target].ids):
                    wrong.append(f"{file.relative_to(self.site)}: {link}")
        self.assertEqual(wrong, [])

    def test_scripts_styles_fonts_and_pictures_are_files_of_the_site(self):
        wrong = [f"{file.relative_to(self.site)}: {part}"
                 for file, page in self.pages.items() for part in page.parts
                 if not (file.parent / part.split("?")[0].split("#")[0]).is_file()]
        for file in [*self.site.rglob("*.css"), *self.site.rglob("*.svg"), *self.pages]:
            styles = file.read_text()
            if file.suffix == ".html":
                styles = "".join(re.findall(r"<style>.*?</style>", styles, re.DOTALL))
            for address in STYLE_ADDRESS.findall(styles):
                name = re.sub(r"^url\(|['\")]", "", address)
                if not (file.parent / name).is_file():
                    wrong.append(f"{file.relative_to(self.site)}: {address}")
        # A browser does not import from a file.
        wrong += [f"{file.name}: {found}" for file in self.site.rglob("*.js")
                  for found in re.findall(r"^import .*", file.read_text(), re.MULTILINE)]
        self.assertEqual(wrong, [])

    def test_search_finds_words_of_the_pages(self):
        index = (self.site / "searchindex.js").read_text()
        for word in ("stale", "docs/tasks/course"):
            self.assertIn(word, index)


if __name__ == "__main__":
    unittest.main()
