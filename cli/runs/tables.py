"""Tables for people (Markdown) and for programs (CSV). Rows are dicts; a field may be missing or
None. Every table has a head, then a line for each row, and ends with a newline."""
import json
from typing import NamedTuple

LEAST_WIDTH = 3  # of a column in Markdown


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
