"""Reads and checks files of --log-jsonl."""
import dataclasses
import json
import os

from cli.runs.failure import EXIT_USAGE, Failure
from cli.runs.json_fields import is_number, list_at, no_number

MOST_RANK = 65534  # the coordinator takes no higher one
MOST_WHOLE = 2**63 - 1
OTHER_LINES = ("epoch", "recovery")  # kinds; iterations have none
QUOTED = 40  # bytes of a wrong text, in messages


@dataclasses.dataclass
class Log:
    """A rank's iterations in order, at least one. Records are as in the file."""
    file: str
    rank: int
    records: list
    adopted: tuple = ()  # ranks of lost workers that its worker took over, as this file says


class Wrong(Exception):
    """Says what was got, and what was expected."""


def quoted(data):
    """Returns the beginning, with ? for control characters and what is not ASCII."""
    shown = "".join(chr(byte) if 0x20 <= byte < 0x7f else "?" for byte in data[:QUOTED])
    return f"'{shown}…'" if len(data) > QUOTED else f"'{shown}'"


def as_json(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(errors="replace")


def field(record, path):
    """Returns the value at a path such as "phase_seconds/data"."""
    value = record
    for key in path.split("/"):
        if not isinstance(value, dict) or key not in value:
            raise Wrong(f"got no field '{path}', expected it in every line "
                        "(a log of another version?)")
        value = value[key]
    return value


def check_type(record, path, fits, expected):
    value = field(record, path)
    if not fits(value):
        raise Wrong(f"field '{path}': got {quoted(as_json(value))}, expected {expected} "
                    "(a log of another version?)")


def check_whole(record, path, most=MOST_WHOLE):
    check_type(record, path, lambda value: type(value) is int and 0 <= value <= most,
               "a whole number")


def check_number(record, path):
    """Accepts null, which a worker writes for a time or loss that is not finite."""
    check_type(record, path, lambda value: value is None or is_number(value), "a number")


def check_fields(record, phases):
    for path in ("step", "epoch", "samples"):
        check_whole(record, path)
    check_whole(record, "rank", MOST_RANK)
    for path in ("loss", "iteration_seconds", *(f"phase_seconds/{phase['name']}"
                                                for phase in phases), "bytes_sent", "bytes_received"):
        check_number(record, path)


def parse_record(line, phases):
    """Returns an iteration, or an unchecked line of OTHER_LINES."""
    try:
        record = json.loads(line.decode(), parse_constant=no_number)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise Wrong(f"got {quoted(line)}, expected a JSON object as of --log-jsonl")
    if record.get("kind") not in OTHER_LINES:
        check_fields(record, phases)
    return record


def append_to(records, record):
    """A run that is resumed does the steps after its checkpoint again, and appends their lines: the
    last line of a step counts. Wrong if the record is of another rank or run: no run is resumed
    before step 0."""
    if records:
        last = records[-1]
        if record["rank"] != last["rank"]:
            raise Wrong(f"got rank {record['rank']}, expected rank {last['rank']} as in the lines "
                        "before")
        if record["step"] == 0:
            raise Wrong(f"got step 0, expected one after step {last['step']}, or one that a resumed "
                        "run does again; show each run's log by itself")
        while records and records[-1]["step"] >= record["step"]:
            records.pop()
    records.append(record)


def parse_log(file, text, phases):
    """Returns a Log of the text, as bytes. Failure names the file and the wrong line."""
    lines = text.split(b"\n")
    last_is_whole = lines[-1] == b""
    if last_is_whole:
        lines.pop()
    if not lines:
        raise Failure(f"{file}: got an empty file, expected a line for each iteration", EXIT_USAGE)
    records, adopted = [], []
    for number, line in enumerate(lines, 1):
        try:
            record = parse_record(line, phases)
            if record.get("kind") in OTHER_LINES:
                adopted += (rank for rank in list_at(record, "adopted") if type(rank) is int)
            else:
                append_to(records, record)
        except Wrong as wrong:
            if 1 < number == len(lines) and not last_is_whole:  # by a full disk, or in a copy
                wrong = (f"got a last line that ends after {len(line)} bytes: {quoted(line)}, "
                         "expected a whole one; the file was cut short; remove this line to show "
                         "the rest")
            raise Failure(f"{file}:{number}: {wrong}", EXIT_USAGE) from None
    if not records:
        raise Failure(f"{file}: got no iteration, expected a line for each", EXIT_USAGE)
    return Log(file, records[0]["rank"], records, tuple(adopted))


def read_log(file, phases):
    try:
        with open(file, "rb") as opened:
            text = opened.read()
    except OSError as error:
        raise Failure(f"cannot read the log '{file}': {os.strerror(error.errno)}",
                      EXIT_USAGE) from None
    return parse_log(file, text, phases)
