"""The results of a measurement, as Markdown, JSON and CSV."""
import dataclasses
import json
import os
import sys

from cli.runs.failure import Failure
from cli.runs.output_file import replace_file
from cli.runs.tables import csv_table, markdown_table


@dataclasses.dataclass
class Part:
    """A table of a report."""
    key: str  # in JSON
    title: str  # in Markdown; "" for none
    columns: list
    rows: list


@dataclasses.dataclass
class Report:
    title: str
    command: str  # as typed
    environment: dict
    parts: list = dataclasses.field(default_factory=list)  # CSV holds the first one
    notes: list = dataclasses.field(default_factory=list)  # sentences

    def markdown(self):
        facts = "".join(f"- {name}: {value}\n" for name, value in self.environment.items())
        text = f"## {self.title}\n\n    {self.command}\n\n{facts}"
        for part in self.parts:
            title = f"\n{part.title}:\n" if part.title else ""
            text += f"{title}\n{markdown_table(part.columns, part.rows)}"
        notes = "".join(f"{note}\n" for note in self.notes)
        return f"{text}\n{notes}" if notes else text

    def json(self):
        fields = {"title": self.title, "command": self.command, "environment": self.environment,
                  "notes": self.notes, **{part.key: part.rows for part in self.parts}}
        return json.dumps(fields, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def csv(self):
        return csv_table(self.parts[0].columns, self.parts[0].rows)


def print_all(text):
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError:
        with open(os.devnull, "wb") as nowhere:  # takes what is left in the buffer
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        raise Failure("cannot write to stdout") from None


def write_report(report, files):
    """Writes to `files`, names by "json", "csv" and "markdown". An empty name means nowhere, except
    that Markdown goes to stdout. Tries all three, then raises the first Failure."""
    texts = {"json": report.json, "csv": report.csv, "markdown": report.markdown}
    failures = []
    for kind, text in texts.items():
        try:
            if files[kind]:
                replace_file(files[kind], text())
            elif kind == "markdown":
                print_all(text())
        except Failure as failure:
            failures.append(failure)
    if failures:
        raise failures[0]
