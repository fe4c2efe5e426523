"""Self-contained pages, which can be sent as they are."""
import base64
import html
import importlib

from cli.runs.failure import Failure

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.45 system-ui, sans-serif; margin: 1.5rem auto; max-width: 78rem;
       padding: 0 1rem; }}
h2 {{ margin: 2rem 0 .5rem; }}
.wide, pre {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-size: .8rem; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .25rem .35rem; text-align: right; white-space: nowrap;
         border-bottom: 1px solid #8886; }}
th:first-child, td:first-child {{ text-align: left; }}
.text th, .text td {{ text-align: left; white-space: normal; vertical-align: top; }}
figure {{ margin: 0; }}
figure img {{ background: #fff; max-width: 52rem; width: 100%; }}
figcaption {{ max-width: 50rem; opacity: .8; }}
</style>
</head>
<body>
{notice}<h1>{title}</h1>
{body}</body>
</html>
"""
FIGURE = """<h2>{title}</h2>
<figure>
<img alt="{title}" src="data:image/svg+xml;base64,{svg}">
<figcaption>{caption}</figcaption>
</figure>
"""


def figure(title, caption, svg):
    """Returns HTML that contains the figure; `svg`: bytes."""
    return FIGURE.format(title=html.escape(title), caption=html.escape(caption),
                         svg=base64.b64encode(svg).decode())


def table_rows(titles, rows):
    """Returns the HTML of a table's lines: the head, then one for each row of texts."""
    return "".join("<tr>" + "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in texts) +
                   "</tr>\n" for tag, texts in [("th", titles), *(("td", row) for row in rows)])


def items(texts):
    return "".join(f"<li>{html.escape(text)}</li>\n" for text in texts)


def page(title, body, notice=""):
    """Returns a page; `body`: HTML, in lines; `notice`: a sentence above the title."""
    shown = f"<p><strong>{html.escape(notice)}</strong></p>\n" if notice else ""
    return PAGE.format(title=html.escape(title), body=body, notice=shown)


def drawing_module(name):
    """Loads a module that draws, which takes time. Failure without matplotlib."""
    try:
        return importlib.import_module(name)
    except SystemExit as end:
        raise Failure(end.code) from None
