"""JSON that came from elsewhere: any field may be missing."""
import json
import pathlib
import re
import sys

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


def no_number(text):
    """For json.loads: JSON knows no NaN."""
    raise ValueError(f"{text} is not JSON")


def json_or_none(text):
    try:
        return json.loads(text)
    except ValueError:
        return None


def object_in(file):
    """None if the file is missing, or no JSON object is in it."""
    try:
        value = json_or_none(pathlib.Path(file).read_bytes())
    except OSError:
        return None
    return value if isinstance(value, dict) else None
