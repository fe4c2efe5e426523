"""Tables for people (Markdown, or text on a terminal) and for programs (CSV). Rows are dicts in
which a field may be missing or None. Each table has a head, then one line a row."""
import json
import math
from typing import NamedTuple

from cli.runs.json_fields import field_at, number_at, text_at

LEAST_WIDTH = 3  # of a column in Markdown
LEAST_TEXT_WIDTH = 8  # of one on a terminal
GAP = 2


class Column(NamedTuple):
    """A field of a row, its title, and how people see a number."""
    field: str
    title: str
    digits: int = 0  # after the point


def as_columns(fields):
    """Returns the Columns of `fields`: of each a name, a title, a function that gives the value of a
    thing, and optionally digits."""
    return [Column(field, title, *digits) for field, title, _, *digits in fields]


def values_of(fields, thing):
    """Returns the row of a thing. The functions of `fields` get a tuple's parts one by one."""
    parts = thing if isinstance(thing, tuple) else (thing,)
    return {field: value(*parts) for field, _, value, *_ in fields}


def is_infinite(value):
    return isinstance(value, float) and not math.isfinite(value)


def markdown_cell(value, column):
    if is_infinite(value):
        return "not finite"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.{column.digits}f}" if isinstance(value, float) else value or ""


def markdown_lines(column, rows):
    """Returns the column's title, rule and cells, all equally wide."""
    values = [row.get(column.field) for row in rows]
    left = any(isinstance(value, str) for value in values)
    cells = [column.title, "", *(markdown_cell(value, column) for value in values)]
    width = max(LEAST_WIDTH, *map(len, cells))
    lines = [cell.ljust(width) if left else cell.rjust(width) for cell in cells]
    lines[1] = "-" * (width - 1) + ("-" if left else ":")
    return lines


def markdown_table(columns, rows):
    """Aligns numbers to the right and puts commas into whole ones. A missing field is empty."""
    lines = zip(*(markdown_lines(column, rows) for column in columns))
    return "".join("|" + "".join(f" {cell} |" for cell in line) + "\n" for line in lines)


def csv_cell(value):
    if value is None or is_infinite(value):
        return ""
    if not isinstance(value, str):
        return json.dumps(value)
    quoted = any(character in value for character in ',"\r\n')
    return '"' + value.replace('"', '""') + '"' if quoted else value


def csv_table(columns, rows):
    """Writes field names, then rows: exact numbers, quoted texts, nothing for fields that are
    missing or not finite."""
    lines = [[column.field for column in columns]]
    lines += [[csv_cell(row.get(column.field)) for column in columns] for row in rows]
    return "".join(",".join(line) + "\n" for line in lines)


class TextColumn(NamedTuple):
    """A field of a row, its title, and how a number is shown."""
    keys: tuple  # ("phase_seconds", "data"): one within the other
    title: str
    digits: int = 0  # after the point
    scale: float = 1  # a factor


def phase_columns(phases):
    """Returns a column of milliseconds for each phase, as PhaseListJson lists them."""
    return [TextColumn(("phase_seconds", str(field_at(phase, "name"))), text_at(phase, "title"),
                       1, 1000) for phase in phases]


def cell(row, column):
    if isinstance(field_at(row, *column.keys), str):
        return text_at(row, *column.keys)
    number = number_at(row, *column.keys)
    return "-" if number is None else f"{number * column.scale:.{column.digits}f}"


def text_table(columns, rows):
    """Returns the lines of a table, aligned to the right. A missing field is "-"."""
    drawn = []
    for column in columns:
        cells = [column.title, *(cell(row, column) for row in rows)]
        width = max(LEAST_TEXT_WIDTH, GAP + max(map(len, cells)))
        drawn.append([text.rjust(width) for text in cells])
    return ["".join(line) for line in zip(*drawn)]
