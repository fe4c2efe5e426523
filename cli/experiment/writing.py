"""The report of an experiment: a self-contained page, the same in Markdown and on paper, and each
table and figure as files.

    report.html, report.md, report.pdf
    KEY.csv                        a table
    KEY.png, KEY.svg, KEY.pdf      a figure
    claims.csv
    results.json                   {"experiment", "scale", "command", "environment",
                                    "tables": {KEY: [{column: value}]},
                                    "claims": [{"key", "claim", "verdict": "confirmed",
                                                "not-confirmed", "not-measurable" or "not-run",
                                                "evidence", "condition" if it has one}],
                                    "head": the sentences at the top of the report,
                                    "missing_runs": their names, if it has ended early}
    commands.txt                   each run's commands; {coordinator} and {master}: addresses

An experiment that has ended early has the same report of the runs that have ended; its first line
says which are missing.
"""
import html
import json
import shlex

from cli.experiment.folder import REPORT
from cli.experiment.study import VERDICTS, tabulate
from cli.report import document, figures
from cli.report.paper import TITLE, Paper
from cli.runs.output_file import replace_file
from cli.runs.tables import csv_table, is_infinite, markdown_cell, markdown_table



def claims_table(claims):
    return tabulate("claims", "Claims", "", claims, [
        ("claim", "claim", lambda claim: claim.text),
        ("source", "of", lambda claim: claim.source),
        ("verdict", "verdict", lambda claim: claim.said),
        ("numbers", "by", lambda claim: claim.numbers)])


def json_value(cell):
    """Returns None for a number that is not finite, which JSON does not have."""
    return None if is_infinite(cell) else cell


def table_html(table, kind=""):
    lines = document.table_rows([column.title for column in table.columns],
                                [[markdown_cell(row.get(column.field), column)
                                  for column in table.columns] for row in table.rows])
    return f'<div class="wide"><table class="{kind}">\n{lines}</table></div>\n'


def paragraphs_html(text):
    """Returns a paragraph for each part between empty lines."""
    return "".join(f"<p>{html.escape(part)}</p>\n" for part in text.split("\n\n") if part)


def heading(part):
    return f"{part.title} ({part.source})"


def drawing_of(picture):
    """Returns the figure, without the title, which its heading has."""
    return {**picture.drawing, "name": picture.key}


def numbered(pictures):
    """Returns (heading, picture) of each."""
    return [(f"Figure {number}: {heading(picture)}", picture)
            for number, picture in enumerate(pictures, 1)]


def add_table(paper, table):
    texts = [[markdown_cell(row.get(column.field), column) for column in table.columns]
             for row in table.rows]
    paper.table([column.title for column in table.columns], texts,
                [not any(isinstance(row.get(column.field), str) for row in table.rows)
                 for column in table.columns])


def notice_of(missing, count, why):
    """Returns the first line of a report to which runs are missing."""
    return (f"INCOMPLETE: {len(missing)} of {count} runs have not ended: {', '.join(missing)}. "
            f"Statements that need them are not run. Reason: {' '.join(why.split())}")


class Writing:
    """Renders the report. `facts`: what figures depend on, by name; `command`: as typed; `missing`:
    steps that have not ended, `why`: the reason."""

    def __init__(self, experiment, scale, command, facts, findings, steps, missing=(), why=""):
        self._experiment, self._scale = experiment, scale
        self._command, self._facts = command, facts
        self._findings, self._steps = findings, steps
        self._claims = claims_table(findings.claims)
        self._missing = [step.work.name for step in missing]
        self._notice = notice_of(self._missing, len(steps), why) if missing else ""
        self._about = f"After {experiment.source}. {experiment.scale(scale)['about']}"

    def files(self):
        """Returns {name: content}, with the page last."""
        files = {f"{table.key}.csv": csv_table(table.columns, table.rows)
                 for table in [*self._findings.tables, self._claims]}
        files["results.json"] = self._results()
        files["commands.txt"] = self._commands()
        images = {}
        for picture in self._findings.pictures:
            images[picture.key] = figures.render(drawing_of(picture))
            files.update((f"{picture.key}.{kind}", image)
                         for kind, image in images[picture.key].items())
        files["report.md"] = self._markdown()
        files["report.pdf"] = self._paper()
        files[REPORT] = self._page(images, [*files])
        return files

    def _title(self):
        return f"{self._experiment.title}, scale {self._scale}"

    def _results(self):
        tables = {table.key: [{column.field: json_value(row.get(column.field))
                               for column in table.columns}
                              for row in table.rows] for table in self._findings.tables}
        claims = [{"key": claim.key, "claim": claim.text, "verdict": VERDICTS[claim.verdict],
                   "evidence": claim.numbers,
                   **({"condition": claim.condition} if claim.condition else {})}
                  for claim in self._findings.claims]
        missing = {"missing_runs": self._missing} if self._missing else {}
        return json.dumps({"experiment": self._experiment.name, "scale": self._scale,
                           "command": self._command, "environment": self._facts,
                           "head": [*self._findings.head], "tables": tables, "claims": claims,
                           **missing}, indent=1,
                          ensure_ascii=False, allow_nan=False) + "\n"

    def _commands(self):
        lines = []
        for step in self._steps:
            lines.append(f"# {step.work.name}: {step.work.title}\n")
            if step.run.coordinator:
                options = ["--world-size", str(len(step.run.ranks)), *step.run.coordinator_options]
                lines.append(f"gradwire-coordinator {shlex.join(options)}\n")
            lines += [f"{shlex.join(argv)}\n" for argv in step.run.ranks]
        return "".join(lines)

    def _markdown(self):
        found = self._findings
        facts = "".join(f"- {name}: {value}\n" for name, value in self._facts.items())
        parts = [f"{self._notice}\n"] if self._notice else []
        parts.append(f"# {self._title()}\n")
        parts += [f"**{sentence}**\n" for sentence in found.head]
        parts += [f"    {self._command}\n\n{self._about}\n\n{facts}",
                  f"## Claims\n\n{markdown_table(self._claims.columns, self._claims.rows)}"]
        parts += [f"## {heading(table)}\n\n{markdown_table(table.columns, table.rows)}" +
                  (f"\n{table.note}\n" if table.note else "") for table in found.tables]
        parts += [f"## {title}\n\n![{picture.title}]({picture.key}.png)\n\n{picture.caption}\n"
                  for title, picture in numbered(found.pictures)]
        if found.notes:
            parts.append("## Notes\n\n" + "".join(f"- {note}\n" for note in found.notes))
        return "\n".join(parts)

    def _paper(self):
        found, paper = self._findings, Paper()
        paper.paragraph(self._notice, weight="bold")
        paper.heading(self._title(), TITLE)
        for sentence in found.head:
            paper.paragraph(sentence, weight="bold")
        paper.paragraph(self._command, style="italic")
        paper.paragraph(self._about)
        paper.items(f"{name}: {value}" for name, value in self._facts.items())
        paper.heading("Claims")
        add_table(paper, self._claims)
        for table in found.tables:
            paper.heading(heading(table))
            add_table(paper, table)
            paper.paragraph(table.note)
        for title, picture in numbered(found.pictures):
            paper.figure(title, drawing_of(picture))
            paper.paragraph(picture.caption)
        if found.notes:
            paper.heading("Notes")
            paper.items(found.notes)
        return paper.done()

    def _page(self, images, names):
        found = self._findings
        facts = document.items(f"{name}: {value}" for name, value in self._facts.items())
        notes = document.items(found.notes)
        body = [*(f"<p><strong>{html.escape(sentence)}</strong></p>\n" for sentence in found.head),
                f"<pre>{html.escape(self._command)}</pre>\n", paragraphs_html(self._about),
                f"<ul>\n{facts}</ul>\n<h2>Claims</h2>\n",
                table_html(self._claims, "text")]
        for table in found.tables:
            body += [f"<h2>{html.escape(heading(table))}</h2>\n",
                     table_html(table, "text" if table.is_prose else ""),
                     paragraphs_html(table.note)]
        body += [document.figure(title, picture.caption, images[picture.key]["svg"])
                 for title, picture in numbered(found.pictures)]
        body.append(f"<h2>Notes</h2>\n<ul>\n{notes}</ul>\n" if notes else "")
        body.append(f"<h2>Commands</h2>\n<pre>{html.escape(self._commands())}</pre>\n")
        body.append(paragraphs_html(f"Beside this page: {', '.join(names)}."))
        return document.page(self._title(), "".join(body), self._notice)


def write(folder, files):
    """Failure if one cannot be written."""
    for name, content in files.items():
        if isinstance(content, str):
            content = content.encode(errors="replace")
        replace_file(str(folder.path / name), content)
