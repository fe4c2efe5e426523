"""Assigns workers to the hosts of a --hostfile."""
import ipaddress

from cli.runs.failure import EXIT_USAGE, Failure, within
from cli.runs.hostfile import read_hostfile


def filled(lines, per_host, workers):
    """Returns the hosts in their order, each with the numbers of its workers, until all `workers`
    have a place (None: as many as there is room for). Failure if there is too little room."""
    places, first = [], 0
    for line in lines:
        room = per_host or line.slots or 1
        count = room if workers is None else min(room, workers - first)
        if count > 0:
            places.append((line, range(first, first + count)))
            first += count
    if workers is not None and first < workers:
        raise Failure(f"got room for {first} workers, expected it for {workers}; write slots=N "
                      "after a host, or use --per-host", EXIT_USAGE)
    return places


def read_places(path, per_host, workers):
    """Reads a hostfile and fills it. Failure as of read_hostfile and filled, with the file's name."""
    lines = read_hostfile(path)
    with within(f"--hostfile: {path}"):
        return filled(lines, per_host, workers)


def network_of(text):
    """Returns the network of --network; None if it is not given. Failure if it is invalid."""
    if not text:
        return None
    try:
        return ipaddress.IPv4Network(text, strict=False)
    except ValueError:
        raise Failure(f"--network: got '{text}', expected a network such as 10.10.1.0/24",
                      EXIT_USAGE) from None
