"""Tables on a terminal, of JSON that came from elsewhere: any field may be missing."""
import re
import sys
from typing import NamedTuple

LEAST_WIDTH = 8  # of a column
GAP = 2
CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")


def field_at(value, *keys):
    """None if it is missing."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def text_at(value, *keys):
    """"" if there is no text. A control character is shown as \\x1b, so that a terminal does not
    obey it."""
    text = field_at(value, *keys)
    if not isinstance(text, str):
        return ""
    return CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def number_at(value, *keys):
    """None if there is no number."""
    number = field_at(value, *keys)
    known = type(number) in (int, float) and abs(number) <= sys.float_info.max
    return float(number) if known else None


def list_at(value, *keys):
    """An empty list if there is none."""
    found = field_at(value, *keys)
    return found if isinstance(found, list) else []


def ranks_text(ranks):
    """ "rank 2", "ranks 0, 1", of a list of numbers; what is no whole number is left out."""
    known = [str(rank) for rank in ranks if type(rank) is int]
    return f"{'rank' if len(known) == 1 else 'ranks'} {', '.join(known) or '-'}"


def ranks_at(value, *keys):
    return ranks_text(list_at(value, *keys))


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
        width = max(LEAST_WIDTH, GAP + max(map(len, cells)))
        drawn.append([text.rjust(width) for text in cells])
    return ["".join(line) for line in zip(*drawn)]
