"""The ways between hosts: whether ports are reachable, and how fast each pair is."""
import dataclasses
import json
import pathlib
import time

from cli.doctor.checks import mtu_of, slow_ways
from cli.hosts.ask import Asked, await_all, python_there
from cli.runs.process import Command, text_of

PROBE = pathlib.Path(__file__).with_name("pair_probe.py")
SECONDS_TO_SERVE = 10
SECONDS_TO_TRY = 30
SECONDS_TO_MEASURE = 40
TIMES_AGAIN = 3


@dataclasses.dataclass(frozen=True)
class Way:
    """From one host to another: places in the list of hosts."""
    start: int
    end: int


@dataclasses.dataclass
class Ways:
    """Results by Way."""
    ports: dict  # {port: "" or why it is not reachable}
    small: dict  # whether small datagrams return
    large: dict  # ... and those that fill a packet
    seconds: dict  # latency
    speed: dict  # bytes a second
    problems: dict  # why there is no speed


def rounds_of(count):
    """Yields all pairs, in rounds in which each host has at most one partner."""
    places = [*range(count), *([None] if count % 2 else [])]
    for _ in range(len(places) - 1):
        half = len(places) // 2
        pairs = zip(places[:half], reversed(places[half:]))
        yield [pair for pair in pairs if None not in pair]
        places = [places[0], places[-1], *places[1:-1]]


def served(processes, links, port, wait, seconds):
    """Starts the servers, and returns the ports of each."""
    argv = python_there(PROBE, "serve", json.dumps({"ports": [port]}))
    servers = [processes.add(Command(argv, {}, link=link)) for link in links]
    wait(lambda: all(b"\n" in server.out or server.ended for server in servers),
         time.monotonic() + seconds)
    return [json.loads(text_of(server.out)) if b"\n" in server.out else {"ports": [], "udp": 0}
            for server in servers]


def peers_of(place, hosts, listening):
    """Returns the peers that a host must try, by place."""
    return {other: {"address": hosts[other].address, "ports": listening[other]["ports"],
                    "udp": listening[other]["udp"],
                    "bytes": min(mtu_of(hosts[place]), mtu_of(hosts[other]))}
            for other in range(len(hosts)) if other != place}


def explore(processes, links, hosts, port, wait):
    """Returns the Ways. `wait` as ask.py needs it. Failure if a host does not answer."""
    found = Ways({}, {}, {}, {}, {}, {})
    listening = served(processes, links, port, wait, SECONDS_TO_SERVE)
    peers = [peers_of(place, hosts, listening) for place in range(len(hosts))]
    asked = [Asked(processes, link, python_there(PROBE, "try", json.dumps([*mine.values()])))
             for link, mine in zip(links, peers)]
    for place, answers in enumerate(await_all(asked, wait, SECONDS_TO_TRY)):
        for other, answer in zip(peers[place], answers):
            way = Way(place, other)
            found.ports[way] = {int(number): why for number, why in answer["ports"].items()}
            found.small[way], found.large[way] = answer["small"], answer["large"]
    for pairs in rounds_of(len(hosts)):
        measure(processes, links, hosts, listening, pairs, found, wait)
    # A short load may look like a slow link, so slow pairs are measured again, each alone.
    for _ in range(TIMES_AGAIN):
        for pair in sorted({tuple(sorted((way.start, way.end)))
                            for way in slow_ways(found, len(hosts))[0]}):
            measure(processes, links, hosts, listening, [pair], found, wait)
    return found


def measure(processes, links, hosts, listening, pairs, found, wait):
    """Measures pairs at once, each both ways, over a connection in the direction that allows one."""
    measured, asked = [], []
    for pair in pairs:
        way = next((way for way in (Way(*pair), Way(*reversed(pair)))
                    if open_port(found, way, listening)), None)
        if way:
            order = {"address": hosts[way.end].address, "port": open_port(found, way, listening)}
            measured.append(way)
            asked.append(Asked(processes, links[way.start],
                               python_there(PROBE, "measure", json.dumps(order))))
    for way, answer in zip(measured, await_all(asked, wait, SECONDS_TO_MEASURE)):
        back = Way(way.end, way.start)
        # A second measurement that fails leaves what the first one found.
        seconds = found.seconds.get(way) if answer["seconds"] is None else answer["seconds"]
        found.seconds[way] = found.seconds[back] = seconds
        for direction, speed in ((way, answer["out"]), (back, answer["in"])):
            found.speed[direction] = max(found.speed.get(direction) or 0, speed or 0)
        if answer["problem"]:
            found.problems[way] = answer["problem"]


def open_port(found, way, listening):
    return next((port for port in listening[way.end]["ports"] if not found.ports[way].get(port)),
                None)
