"""Tables for people (Markdown, or text on a terminal) and for programs (CSV). Rows are dicts; a
field may be missing or None. Every table has a head, then a line for each row."""
import json
from typing import NamedTuple

from cli.runs.json_fields import field_at, number_at, text_at

LEAST_WIDTH = 3  # of a column in Markdown
LEAST_TEXT_WIDTH = 8  # of one on a terminal
GAP = 2


class Column(NamedTuple):
    """Which field of a row, its title, and how a number is shown to people."""
    field: str
    title: str
    digits: int = 0  # behind the point


def markdown_cell(value, column):
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.{column.digits}f}" if isinstance(value, float) else value or ""


def markdown_lines(column, rows):
    """A column: title, rule, cells."""
    values = [row.get(column.field) for row in rows]
    left = any(isinstance(value, str) for value in values)
    cells = [column.title, "", *(markdown_cell(value, column) for value in values)]
    width = max(LEAST_WIDTH, *map(len, cells))
    lines = [cell.ljust(width) if left else cell.rjust(width) for cell in cells]
    lines[1] = "-" * (width - 1) + ("-" if left else ":")
    return lines


def markdown_table(columns, rows):
    """Numbers stand to the right, whole ones with commas; what is missing is empty."""
    lines = zip(*(markdown_lines(column, rows) for column in columns))
    return "".join("|" + "".join(f" {cell} |" for cell in line) + "\n" for line in lines)


def csv_cell(value):
    if value is None:
        return ""
    if not isinstance(value, str):
        return json.dumps(value)
    quoted = any(character in value for character in ',"\r\n')
    return '"' + value.replace('"', '""') + '"' if quoted else value


def csv_table(columns, rows):
    """Fields' names in the first line; numbers as they are, texts quoted where they must be; what
    is missing is empty."""
    lines = [[column.field for column in columns]]
    lines += [[csv_cell(row.get(column.field)) for column in columns] for row in rows]
    return "".join(",".join(line) + "\n" for line in lines)


class TextColumn(NamedTuple):
    """Which field of a row, its title, and how a number is shown."""
    keys: tuple  # ("phase_seconds", "data"): one within the other
    title: str
    digits: int = 0  # behind the point
    scale: float = 1  # a number is multiplied by it


def phase_columns(phases):
    """Milliseconds of each phase, as PhaseListJson lists them."""
    return [TextColumn(("phase_seconds", str(field_at(phase, "name"))), text_at(phase, "title"),
                       1, 1000) for phase in phases]


def cell(row, column):
    if isinstance(field_at(row, *column.keys), str):
        return text_at(row, *column.keys)
    number = number_at(row, *column.keys)
    return "-" if number is None else f"{number * column.scale:.{column.digits}f}"


def text_table(columns, rows):
    """Its lines: a head, then one for each row. All stands to the right; what is missing is
    "-"."""
    drawn = []
    for column in columns:
        cells = [column.title, *(cell(row, column) for row in rows)]
        width = max(LEAST_TEXT_WIDTH, GAP + max(map(len, cells)))
        drawn.append([text.rjust(width) for text in cells])
    return ["".join(line) for line in zip(*drawn)]
