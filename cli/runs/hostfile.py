"""Files that name hosts, in OpenMPI's format:

    # the nodes of the experiment
    node0 slots=4
    node1

Each line names a host and how many processes it has room for. A comment starts with #.
"""
import dataclasses
import pathlib
import re

from cli.runs.failure import EXIT_USAGE, Failure, failing, within

NAME = re.compile(r"[A-Za-z0-9_][\w.@-]*")
SLOTS = re.compile(r"slots=([1-9][0-9]*)")
MOST_SLOTS = re.compile(r"max[-_]slots=[1-9][0-9]*")  # OpenMPI takes these, too


@dataclasses.dataclass(frozen=True)
class HostLine:
    name: str  # as ssh takes it: "node1", "10.10.1.2", "me@node1"
    slots: int | None  # None if the file does not say
    line: int  # its number, from 1

    @property
    def network_name(self):
        return self.name.rpartition("@")[2]


def parse_line(words, line):
    """Returns a HostLine. Failure names the wrong word."""
    name, *rest = words
    if not NAME.fullmatch(name):
        raise Failure(f"got '{name}', expected a host's name or address", EXIT_USAGE)
    slots = None
    for word in rest:
        found = SLOTS.fullmatch(word)
        if not found and not MOST_SLOTS.fullmatch(word):
            raise Failure(f"got '{word}' after '{name}', expected slots=N", EXIT_USAGE)
        slots = int(found[1]) if found else slots
    return HostLine(name, slots, line)


def parse_hosts(text):
    hosts = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        with within(f"line {number}"):
            host = parse_line(words, number)
        first = hosts.setdefault(host.network_name, host)
        if first is not host:
            raise Failure(f"line {number}: '{host.network_name}' again, after line {first.line}",
                          EXIT_USAGE)
    if not hosts:
        raise Failure("got no host, expected one a line", EXIT_USAGE)
    return list(hosts.values())


def read_hostfile(path):
    """Returns all hosts of a file. Failure names the file and the wrong line."""
    with failing(f"--hostfile: cannot read '{path}'", EXIT_USAGE):
        text = pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
    with within(f"--hostfile: {path}"):
        return parse_hosts(text)
