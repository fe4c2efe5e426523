"""Sphinx's settings for the site of README.md, CHANGELOG.md and docs/ (the target docs).

The sources are Markdown as GitHub reads it; all that a site needs besides is here. Pages keep their
places, so links between them are those of the sources.
"""
import pathlib
import re
import shutil

ROOT = pathlib.Path(__file__).resolve().parents[2]

# What the side shows, in this order: tasks, then reference, then reasons. A page that is in no part
# is a warning, and those are errors.
NAVIGATION = {
    "Tasks": ["tasks/course", "tasks/own-program", "tasks/several-hosts", "tasks/which-method",
              "tasks/slow-run", "tasks/host-died", "checkpoints", "tasks/own-method", "tasks/upgrade"],
    "Reference": ["options", "output", "ledger", "operations", "deploy/README", "security", "observability",
                  "measuring", "library", "experiments", "claims", "results"],
    "How it works": ["reliability", "algorithms", "architecture", "protocol", "checkpoint-format",
                     "extending", "development", "../CHANGELOG"],
}
DEPLOY = ["hosts", "torchrun", "mpi", "slurm", "kubernetes", "compose", "cloudlab", "ansible", "systemd", "packages",
          "systems"]

project = "Gradwire"
version = re.search(r"project\(gradwire VERSION ([\d.]+)",
                    (ROOT / "CMakeLists.txt").read_text())[1]
html_title = f"Gradwire {version}"
root_doc = "README"
extensions = ["myst_parser"]
include_patterns = ["README.md", "CHANGELOG.md", "docs/**"]
# Sphinx walks through every folder that is not named here, build folders too.
exclude_patterns = [entry.name for entry in ROOT.iterdir() if entry.is_dir() and entry.name != "docs"]

myst_heading_anchors = 6  # named as GitHub names them
smartquotes = False  # text stays as it is in the sources
highlight_language = "none"  # of blocks without a language: commands, output, formulas

html_theme = "furo"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_copy_source = False
html_use_index = False
html_show_sphinx = False
html_show_copyright = False


def contents(folder, caption, pages):
    """A table of contents that only the side shows."""
    options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["\n```{toctree}", *options, "", *(folder + page for page in pages), "```\n"])


def add_what_a_site_needs(_app, page, source):
    """Changes the text of a page as Sphinx reads it. [folder/page.md](…) becomes a link "page"."""
    source[0] = re.sub(r"\[(?:[\w-]+/)*([\w-]+)\.md\]\(", r"[\1](", source[0])
    if page == root_doc:
        source[0] += "".join(contents("docs/", *part) for part in NAVIGATION.items())
    elif page == "docs/deploy/README":
        source[0] += contents("", "", DEPLOY)


def finish(app, error):
    """Completes the theme, because Debian's furo imports two files where no browser finds them, and
    is dark only on request. Then writes the first page once more, as the index of the folder."""
    site = pathlib.Path(app.outdir)
    if error or app.builder.name != "html":
        return
    css, script = site / "_static/styles/furo.css", site / "_static/scripts/furo.js"
    normalize = pathlib.Path("/usr/share/javascript/normalize.css/normalize.css")
    for file, imported in (css, normalize), (script, script.with_name("gumshoe-patched.js")):
        text = file.read_text()
        if (own := re.sub(r"\A@?import .*;\n", "", text)) != text:
            file.write_text(imported.read_text() + own)
    text = css.read_text()
    dark = re.search(r'body\[data-theme="dark"\] (\{.*?\})', text, re.DOTALL)[1]
    css.write_text(text + "\n@media screen and (prefers-color-scheme: dark) {\n"
                   f'body[data-theme="auto"] {dark} }}\n')
    shutil.copy(site / f"{root_doc}.html", site / "index.html")


def setup(app):
    app.connect("source-read", add_what_a_site_needs)
    app.connect("build-finished", finish)
