"""Merges the --trace files of one launch into one time line."""
import json
import math

from cli.runs.failure import Failure
from cli.runs.json_fields import is_number, no_number

CLOCK_OFFSET = "clock_offset"
# The largest number in a trace, so that sums of a few are finite. Times are about 1e15.
MOST = 1e300


def is_event(event):
    """Whether a line has the fields of a trace log that are used here."""
    if not isinstance(event, dict) or "ph" not in event or "name" not in event:
        return False
    if event["name"] == CLOCK_OFFSET:
        args = event.get("args")
        if not isinstance(args, dict) or not is_number(args.get("microseconds")):
            return False
    return is_number(event.get("ts", 0))


def bounded(kind):
    """Returns a reader of a number that refuses those that could become infinite in sums."""
    def read(text):
        value = kind(text)
        return value if abs(value) <= MOST else no_number(text)
    return read


def parse_event(line):
    """Returns an event, without the comma after it; None if the line is none."""
    try:
        event = json.loads(line.removesuffix(b",").decode(), parse_constant=no_number,
                           parse_float=bounded(float), parse_int=bounded(int))
    except (ValueError, RecursionError):
        return None
    return event if is_event(event) else None


def lines_of(file):
    """Returns the lines after the opening bracket."""
    try:
        with open(file, "rb") as opened:
            lines = opened.read().split(b"\n")
    except OSError:
        lines = [b""]
    if lines[0].startswith(b'{"displayTimeUnit"'):
        raise Failure(f"'{file}' is merged already: open it in a viewer")
    if lines[0] != b"[":
        raise Failure(f"no trace in '{file}'")
    return lines[1:-1] if lines[-1] == b"" else lines[1:]


def read_trace(file):
    """Returns the events of one file, and its clock offset, which is an event, too."""
    events = []
    offset = 0
    lines = lines_of(file)
    for number, line in enumerate(lines, 1):
        event = parse_event(line)
        if line == b"]" or event is None and number == len(lines):
            break
        if event is None:
            raise Failure(f"'{file}', line {number + 1}: no event: "
                          f"{line.decode(errors='replace')}")
        if event["name"] == CLOCK_OFFSET:
            offset = event["args"]["microseconds"]
        else:
            events.append(event)
    return events, offset


def as_text(trace):
    """Writes a question mark for half a surrogate pair, which UTF-8 cannot hold."""
    try:
        text = json.dumps(trace, separators=(",", ":"), ensure_ascii=False) + "\n"
    except RecursionError:
        raise Failure("an event is nested too deeply to be written") from None
    return text.encode(errors="replace").decode()


def merge(files):
    """Returns an object in Chrome's Trace Event Format, as text. Times are microseconds of the
    coordinator's clock since the first event. A file may end within an event, as a killed worker
    leaves it; the events before that count. Failure names a missing file, or a line before the last
    that is no event."""
    merged = []
    first = math.inf
    for file in files:
        events, offset = read_trace(file)
        for event in events:
            if "ts" in event:
                event["ts"] += float(offset)
                first = min(first, event["ts"])
        merged += events
    for event in merged:
        if "ts" in event:
            event["ts"] -= first
    return as_text({"displayTimeUnit": "ms", "traceEvents": merged})
