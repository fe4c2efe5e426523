#!/usr/bin/python3
"""`gradwire doctor`, once its options are read: see cli/doctor/doctor_command.cc."""
import dataclasses
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from cli.doctor import checks as more
from cli.doctor.ways import Ways, explore
from cli.hosts import checks, probe
from cli.hosts.ask import ask_all
from cli.hosts.link import Link
from cli.hosts.places import network_of, read_places
from cli.runs.failure import EXIT_FAILED, Failure
from cli.runs.hosts import address_of, find_ssh
from cli.runs.jobs import Jobs
from cli.terminal.command import drive

PROGRAM = "gradwire doctor"
SECONDS_TO_CONNECT = 35
SECONDS_TO_ANSWER = 600  # it reads all data
SECONDS_TO_LOOK = 0.05
SECONDS_OF_SILENCE = 10
BEATS = 5
SHOWN_PAIRS = 28
HERE = "127.0.0.1"


@dataclasses.dataclass
class Case:
    """The subject of the checks; `ways` is None on one machine alone."""
    request: dict
    expected_version: str
    hosts: list
    workers: list  # how many on each
    ahead: list  # seconds, of the clock of each
    ways: Ways | None = None


def of_all(values, unit):
    """Returns "2 cores" or "2 to 8 cores"."""
    least, most = (f"{value:.0f}" if value >= 1000 else f"{value:.3g}"
                   for value in (min(values), max(values)))
    return f"{least if least == most else f'{least} to {most}'} {unit}"


def say_addresses(case):
    return ", ".join(f"{host.address} ({found[0]})" if (found := checks.interface_with(
        host, host.address)) else host.address for host in case.hosts)


def say_ports(case):
    tried = sum(map(len, case.ways.ports.values()))
    return f"{tried} connections between {len(case.hosts)} hosts"


def say_links(case):
    speeds = [speed * 8 / 1e9 for speed in case.ways.speed.values() if speed]
    delays = [seconds * 1e3 for seconds in case.ways.seconds.values() if seconds]
    if not speeds or not delays:
        return "not measured"
    return f"{of_all(speeds, 'Gbit/s')}, {of_all(delays, 'ms')} one way"


def say_data(case):
    data = case.hosts[0].facts.get("data")
    if not data:
        return "not looked at (--data-dir)"
    return f"{data['count']} files, {data['bytes']} bytes, checksum {data['sum'][:16]}"


def say_sharing(case):
    """Says for each kind of host how workers on one host exchange."""
    hosts_with = {}
    for host in case.hosts:
        hosts_with.setdefault(host.facts["sharing"], []).append(host.name)
    said = [(f"{', '.join(names)}: " if len(hosts_with) > 1 else "") + sharing
            for sharing, names in hosts_with.items()]
    # One machine alone says nothing about the ranks of a run.
    ranks = [say_ranks(case)] if case.ways else []
    return f"of memory, by the workers of one host: {'; '.join(said + ranks)}"


def say_ranks(case):
    """Says which ranks of a run on these hosts exchange in memory: those of one host."""
    groups, first = [], 0
    for host, count in zip(case.hosts, case.workers):
        if count > 1 and not host.facts["sharing"].startswith(("off", "not known")):
            groups.append(f"ranks {first}-{first + count - 1} on {host.name}")
        first += count
    return f"in memory: {', '.join(groups) or 'no two ranks'}"


# Problems of these checks make a run slow, but do not prevent it.
WARNINGS = ("load",)
# Each check: name, functions that return what was found and the problems, and whether it is about
# several hosts.
CHECKS = (
    ("version", lambda case: case.hosts[0].facts["version"],
     lambda case: checks.version(case.hosts, case.expected_version), False),
    ("names", lambda case: ", ".join(host.facts["host"] for host in case.hosts),
     lambda case: more.names(case.hosts), True),
    ("addresses", say_addresses,
     lambda case: [*checks.holds_address(case.hosts), *checks.other_network(case.hosts),
                   *checks.control_network(case.hosts), *checks.route(case.hosts)], True),
    ("mtu", lambda case: of_all([more.mtu_of(host) for host in case.hosts], "bytes"),
     lambda case: [*more.mtu(case.hosts, case.ways), *more.stalled(case.hosts, case.ways)], True),
    ("ports", say_ports,
     lambda case: [*more.taken_port(case.hosts, case.request["port"]),
                   *more.ports(case.hosts, case.ways)], True),
    ("links", say_links,
     lambda case: [*more.slow_links(case.hosts, case.ways), *more.latency(case.hosts, case.ways)],
     True),
    ("clocks", lambda case: f"at most {max(map(abs, case.ahead)) * 1e3:.1f} ms off this one",
     lambda case: more.clocks(case.hosts, case.ahead), True),
    ("cpu", lambda case: case.hosts[0].facts["model"] or "model not known",
     lambda case: more.instruction_sets(case.hosts), False),
    ("threads", lambda case: of_all([host.facts["cores"] for host in case.hosts], "cores"),
     lambda case: more.threads(case.hosts, case.workers), False),
    ("load", lambda case: of_all([host.facts["load"] for host in case.hosts], "in the last minute"),
     lambda case: more.load(case.hosts), False),
    ("memory", lambda case: of_all([host.facts["memory"] / more.GIB for host in case.hosts],
                                   "GiB free"),
     lambda case: more.memory(case.hosts, case.workers, case.request["memory_gib"] * more.GIB),
     False),
    ("sharing", say_sharing, lambda case: (), False),
    ("disk", lambda case: of_all([host.facts["free"] / more.GIB for host in case.hosts],
                                 "GiB free for temporary files"),
     lambda case: checks.room_for_files(case.hosts), False),
    ("data", say_data, lambda case: checks.data(case.hosts, case.request["data_dir"]), False),
)


class Report:
    """Prints the results, check by check."""

    def __init__(self):
        self.failed = []

    def say(self, name, found, problems):
        problems = [*problems]
        if problems and name not in WARNINGS:
            self.failed.append(name)
        word = "WARNING" if name in WARNINGS else "FAILED"
        for line in problems:
            print(f"{word:<7} {name:<10} {line}", flush=True)
        if not problems:
            print(f"ok      {name:<10} {found}", flush=True)

    def end(self):
        """Raises Failure unless all is well."""
        if self.failed:
            raise Failure(f"{len(self.failed)} of the checks failed: {', '.join(self.failed)}",
                          EXIT_FAILED)
        print("A run would work.")


def say_pairs(case):
    speeds = {way: speed for way, speed in case.ways.speed.items() if speed}
    slowest = sorted(speeds, key=speeds.get)
    shown = slowest[:SHOWN_PAIRS]
    for way in sorted(shown, key=lambda way: (way.start, way.end)):
        print(f"        {'':<10} {more.arrow(case.hosts, way)}: {more.gbit(speeds[way])}, "
              f"{case.ways.seconds[way] * 1e3:.2f} ms")
    if len(shown) < len(slowest):
        print(f"        {'':<10} ... the other {len(slowest) - len(shown)} are faster")


def questions_of(request, lines=(), addresses=()):
    names = [] if request["network"] else [line.network_name for line in lines]
    return {"program": request["program"], "sharing": True, "names": names, "holds": list(addresses),
            "towards": list(addresses), "folder": request["data_dir"], "sums": True,
            **({"port": request["port"]} if lines else {})}


def say_all(case, report):
    for name, found, wrong, of_several in CHECKS:
        if of_several and case.ways is None:
            continue
        report.say(name, found(case), wrong(case))
        if name == "links":
            say_pairs(case)


def look_here(request, expected_version):
    host = checks.Host("this machine", HERE, probe.answer(questions_of(request)))
    return Case(request, expected_version, [host], [1], [0])


class Hosts:
    """The hosts of a --hostfile."""

    def __init__(self, request, jobs, check):
        self._request, self._jobs, self._check = request, jobs, check
        self._network = network_of(request["network"])
        self._places = read_places(request["hostfile"], request["per_host"], None)
        ssh = find_ssh()
        self._links = [Link(line.name, ssh, jobs, SECONDS_OF_SILENCE) for line, _ in self._places]

    def reach(self, report):
        """Waits for the hosts and keeps those that answer."""
        self._wait(lambda: all(link.ready or link.lost for link in self._links),
                   time.monotonic() + SECONDS_TO_CONNECT)
        problems = [link.lost or (link.problem and f"host {link.name}: {link.problem}")
                    for link in self._links]
        problems = [f"{problem}, expected an answer; try: ssh {link.name} true"
                    for link, problem in zip(self._links, problems) if problem]
        there = [place for place, link in enumerate(self._links) if link.ready and not link.problem]
        report.say("ssh", f"{len(there)} hosts answer", problems)
        self._keep(there)

    def look(self, report, expected_version):
        """Returns a Case of the hosts that answer and whose addresses are known; None without any."""
        self.reach(report)
        addresses = self._addresses([line for line, _ in self._places], report)
        self._keep([place for place, address in enumerate(addresses) if address])
        if not self._links:
            return None
        lines, addresses = [line for line, _ in self._places], [*filter(None, addresses)]
        facts = self._ask(questions_of(self._request, lines, addresses))
        hosts = [checks.Host(line.network_name, address, fact) for line, address, fact
                 in zip(lines, addresses, facts)]
        case = Case(self._request, expected_version, hosts,
                    [len(workers) for _, workers in self._places], self._clocks())
        case.ways = explore(self._jobs, self._links, hosts, self._request["port"], self._wait)
        return case

    def _keep(self, there):
        self._places = [self._places[place] for place in there]
        self._links = [self._links[place] for place in there]

    def _addresses(self, lines, report):
        """Returns the address of each host; "" if its name has none here."""
        if not lines:
            return []
        if not self._network:
            return self._addresses_of_names(lines, report)
        found = [checks.address_in(checks.Host(line.network_name, "", fact), self._network)
                 for line, fact in zip(lines, self._ask({}))]
        report.say("network", str(self._network), [
            f"host {line.network_name}: no address in {self._network}, expected one; look at "
            "'ip address' there" for line, address in zip(lines, found) if not address])
        if not all(found):
            report.end()
        return found

    def _addresses_of_names(self, lines, report):
        found, problems = [], []
        for line in lines:
            try:
                found.append(address_of(line))
            except Failure as failure:
                found.append("")
                problems.append(f"--hostfile: {self._request['hostfile']}: {failure}, expected one; look "
                                "at /etc/hosts here, or use --network")
        if problems:
            report.say("lookup", "", problems)
        return found

    def _ask(self, questions):
        return ask_all(self._jobs, self._links, questions, self._wait, SECONDS_TO_ANSWER)

    def _clocks(self):
        for _ in range(BEATS):
            for link in self._links:
                link.beat()
            self._wait(lambda: not any(link.awaits_time for link in self._links),
                       time.monotonic() + SECONDS_OF_SILENCE)
        return [link.clock_ahead or 0 for link in self._links]

    def _wait(self, ready, deadline):
        while not ready() and time.monotonic() < deadline:
            self._check()
            self._jobs.wait(SECONDS_TO_LOOK)


def main(request, check):
    report = Report()
    expected_version, _ = probe.version_of(request["program"])
    if not request["hostfile"]:
        say_all(look_here(request, expected_version), report)
    else:
        with Jobs(check) as jobs:
            case = Hosts(request, jobs, check).look(report, expected_version)
            if case:
                say_all(case, report)
    report.end()


if __name__ == "__main__":
    sys.exit(drive(PROGRAM, main))
