"""The programs of a launch: arguments and environment of each."""
import dataclasses
import os
import pathlib
import re

from cli.launch.supervisor import Loss, Member
from cli.launch.run_token import VARIABLE as TOKEN_FILE
from cli.runs.failure import EXIT_USAGE, Failure
from cli.runs.process import Command

CONFIG = "GRADWIRE_CONFIG"
PROGRESS = "GRADWIRE_PROGRESS"
LAST_PORT = 65535
# Where one that listens on all addresses is reached on this machine.
REACHED_AT = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
RECOVER = "recover"
# Of the coordinator's log.
BEGUN = b"the run begins with generation"
OVER = b"all ranks finished"
FAILED = b"the run failed: "
LOSS = re.compile(rb"ranks? (?P<ranks>[\d, ]+) \(\S+\) (?:was|were) lost "
                  rb"(?:in step \d+|(?P<after>after the last step)): (?P<cause>.*?)"
                  rb"(?:; ranks? [\d, ]+ (?:is|are) carried on by others|; all ranks finished|$)")
# How calls are guarded: told to the launcher, meant for all.
TLS = ("tls-cert", "tls-key", "tls-ca", "plain-http", "insecure")
# A program may join as late as it likes, or never: that it ends is seen here.
WITHOUT_END = {"rendezvous-timeout-seconds": "1e9"}


def ranks_of(worker, workers, world_size):
    """An even, contiguous deal."""
    each, more = divmod(world_size, workers)
    first = worker * each + min(worker, more)
    return range(first, first + each + (worker < more))


def name_of(ranks):
    """ "rank 2" or "ranks 0-3"."""
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranks[0]}-{ranks[-1]}"


def losses_in(line):
    """The Losses that a line of the coordinator's log tells of."""
    return [Loss(frozenset(map(int, found["ranks"].split(b","))),
                 found["cause"].decode(errors="replace"), bool(found["after"]),
                 ends_run=FAILED in line)
            for found in LOSS.finditer(line)]


def path_for_rank(path, rank, world_size):
    """`path` of one of several ranks: {rank} replaced, or else the rank put in front of the
    extension ("run.rank1.jsonl"). One rank alone keeps a plain path."""
    if "{rank}" in path or world_size == 1:
        return path.replace("{rank}", rank)
    stem, extension = os.path.splitext(path)
    return f"{stem}.rank{rank}{extension}"


def address_for_rank(address, rank):
    """HOST:PORT+rank; port 0 stays 0, and what is no address as it is. Failure beyond 65535."""
    host, _, port = address.rpartition(":")
    if not host or int(port) == 0:
        return address
    if int(port) + rank > LAST_PORT:
        raise Failure(f"no port {int(port) + rank} for rank {rank} ({address})", EXIT_USAGE)
    return f"{host}:{int(port) + rank}"


def reachable(address, host_address=""):
    """Where workers connect to what listens at `address`: on this machine, or on the host with that
    address."""
    host, _, port = address.rpartition(":")
    if host in REACHED_AT:
        host = host_address or REACHED_AT[host]
    return f"{host}:{port}"


def variable_of(option):
    return f"GRADWIRE_{option.replace('-', '_').upper()}"


def flags(options):
    return [word for name, text in options.items() for word in (f"--{name}", text)]


@dataclasses.dataclass(frozen=True)
class Site:
    """Where some of the workers run, and perhaps the coordinator."""
    scratch: str  # a folder there, for this launch alone
    workers: range  # their numbers
    link: object = None  # to the host; None: this machine
    address: str = ""  # of the host

    def file(self, name):
        return str(pathlib.Path(self.scratch, name))

    @property
    def token_file(self):
        return self.file("token")

    def summary_file(self, rank):
        return self.file(f"summary-{rank}.json")

    @property
    def aggregation_file(self):
        return self.file("aggregation.json")

    def trace_file(self, process):
        """Of a worker, or of the coordinator, whose number is that of the workers."""
        return self.file(f"trace-{process}.json")

    def log_file(self, rank):
        return self.file(f"log-{rank}.jsonl")


class Members:
    """Makes them. `request`: as launch.py gets it; `arguments`: of workers, or of --program;
    `scratch`: a folder for this launch alone; `environment`: what all get; `sites`: where they run,
    the coordinator on the first (this machine, if there are none)."""

    def __init__(self, request, arguments, scratch, environment, sites=()):
        self._request = request
        self._arguments = arguments
        self.here = Site(str(scratch), range(request["workers"]))  # what there is on this machine
        self._sites = sites or [self.here]
        self._environment = environment
        self._rank_options = dict(request["rank_options"])
        self._recovers = (request["coordinator"] or {}).get("on-loss", RECOVER) == RECOVER

    @property
    def port_file(self):
        if self._sites[0].link:
            return self._sites[0].file("ports")
        return self._request["coordinator"].get("port-file") or self.here.file("ports")

    @property
    def aggregation_file(self):
        """What the coordinator did in an iteration, on this machine."""
        return self.here.aggregation_file

    def ranks(self, number):
        return ranks_of(number, self._request["workers"], self._request["world_size"])

    def coordinator(self):
        site = self._sites[0]
        options = {**self._request["coordinator"], "port-file": self.port_file}
        if site.link:
            options = {"listen": f"{site.address}:0", "metrics": f"{site.address}:0", **options}
        if self._request["program"]:
            options = {**WITHOUT_END, **options}
        else:
            options["aggregation-summary"] = site.aggregation_file
        if self._request["trace"]:
            options["trace"] = site.trace_file(self._request["workers"])
        # Its options are all here.
        environment = {name: value for name, value in self._environment.items() if name != CONFIG}
        environment[TOKEN_FILE] = site.token_file
        argv = [self._request["programs"]["coordinator"], *flags(options)]
        return Member("coordinator", Command(argv, environment, link=site.link), serves=True,
                      linger=self._request["linger_seconds"], begun_by=BEGUN, over_by=OVER,
                      losses_in=losses_in)

    def worker(self, number, coordinator, bar_columns):
        """`coordinator`: where it is reached; "" without one. `bar_columns`: worker 0 draws a bar
        for a terminal of this width, the others are quiet; 0: none draws. GRADWIRE_PROGRESS goes
        before. Failure without a port for it."""
        ranks, site = self.ranks(number), self._site(number)
        own = self._place(ranks, site)
        own["GRADWIRE_SUMMARY"] = site.summary_file("{rank}")  # it may get those of others
        if self._request["trace"]:
            own["GRADWIRE_TRACE"] = site.trace_file(number)
        if coordinator:
            own["GRADWIRE_COORDINATOR"] = coordinator
        if bar_columns > 0 and not self._environment.get(PROGRESS):
            own |= {PROGRESS: "none" if number else "bar", "COLUMNS": str(bar_columns)}
        argv = [self._request["programs"]["worker"], *self._arguments,
                *flags(self._options_by_rank(ranks, site)), *self._further(ranks)]
        return Member(name_of(ranks), Command(argv, self._environment | own, link=site.link),
                      has_bar=bar_columns > 0 and number == 0, dispensable=self._recovers,
                      ranks=frozenset(ranks), ends_with_run=True)

    def program(self, rank, coordinator):
        """Likewise, of --program: its arguments are passed on as they stand."""
        host, _, port = coordinator.rpartition(":")
        site = self._site(rank)
        own = self._place([rank], site)
        own |= {"GRADWIRE_LOCAL_RANK": str(rank - site.workers[0]), "GRADWIRE_COORDINATOR": coordinator,
                "MASTER_ADDR": host.strip("[]"), "MASTER_PORT": port}
        own |= {name: own[f"GRADWIRE_{name}"]
                for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")}
        argv = [self._request["program"], *self._arguments, *self._further([rank])]
        return Member(name_of([rank]), Command(argv, self._environment | own, link=site.link),
                      ranks=frozenset([rank]))

    def log_file(self, rank):
        """Where --log-jsonl puts that of a rank, on this machine."""
        return path_for_rank(self._request["log_jsonl"], rank, self._request["world_size"])

    def _site(self, number):
        return next(site for site in self._sites if number in site.workers)

    def _place(self, ranks, site):
        """Of a worker that carries `ranks`, in the run."""
        ranks_there = sum(len(self.ranks(number)) for number in site.workers)
        own = {"GRADWIRE_RANK": ",".join(map(str, ranks)),
               "GRADWIRE_WORLD_SIZE": str(self._request["world_size"]),
               "GRADWIRE_LOCAL_WORLD_SIZE": str(ranks_there)}
        if self._request["coordinator"] is not None:
            own[TOKEN_FILE] = site.token_file
            own |= {variable_of(name): text for name, text in self._request["coordinator"].items()
                    if name in TLS}
        return own | {CONFIG: site.file("config")} if site.link and CONFIG in self._environment \
            else own

    def _options_by_rank(self, ranks, site):
        """What differs; behind the workers' other options it wins."""
        request, options = self._request, {}
        if request["log_jsonl"]:
            options["log-jsonl"] = site.log_file("{rank}") if site.link else self.log_file("{rank}")
        for name in ("metrics", "listen"):
            address = address_for_rank(request[name], ranks[0])
            if address != request[name]:
                options[name] = address
        return options

    def _further(self, ranks):
        return [word for rank in ranks for word in self._rank_options.get(rank, [])]
