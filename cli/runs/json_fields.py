"""JSON from elsewhere, in which any field may be missing."""
import json
import pathlib
import re
import sys

CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")


def field_at(value, *keys):
    """Returns the value at `keys`, one within the other; None if it is missing."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def text_at(value, *keys):
    """Returns a text, "" if there is none, with control characters shown as \\x1b."""
    text = field_at(value, *keys)
    if not isinstance(text, str):
        return ""
    return CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def is_number(value):
    """Whether it is a finite number, and neither true nor false."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def number_at(value, *keys):
    """Returns a float; None if there is no number."""
    number = field_at(value, *keys)
    return float(number) if is_number(number) else None


def list_at(value, *keys):
    """Returns a list; empty if there is none."""
    found = field_at(value, *keys)
    return found if isinstance(found, list) else []


def ranks_text(ranks):
    """ "rank 2" or "ranks 0, 1" of a list of numbers. Leaves out what is no whole number."""
    known = [str(rank) for rank in ranks if type(rank) is int]
    return f"{'rank' if len(known) == 1 else 'ranks'} {', '.join(known) or '-'}"


def ranks_at(value, *keys):
    return ranks_text(list_at(value, *keys))


def no_number(text):
    """Refuses NaN and the like, which JSON does not have; for json.loads."""
    raise ValueError(f"{text} is not JSON")


def json_or_none(text):
    try:
        return json.loads(text)
    except ValueError:
        return None


def object_in(file):
    """Returns the JSON object in a file; None if the file is missing or holds something else."""
    try:
        value = json_or_none(pathlib.Path(file).read_bytes())
    except OSError:
        return None
    return value if isinstance(value, dict) else None
