"""The programs of a launch: the arguments and environment of each."""
import dataclasses
import os
import pathlib
import re

from cli.launch.supervisor import Loss, Member
from cli.launch.run_token import VARIABLE as TOKEN_FILE
from cli.runs.failure import EXIT_USAGE, Failure
from cli.runs.mpirun import mpirun_of
from cli.runs.output_file import own_descriptor
from cli.runs.process import Command

CONFIG = "GRADWIRE_CONFIG"
PROGRESS = "GRADWIRE_PROGRESS"
THREADS = "OMP_NUM_THREADS"  # of libtorch in a program of one's own
LAST_PORT = 65535
# The address at which a listener on all addresses is reached on this machine.
REACHED_AT = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
RECOVER = "recover"
# Texts of the coordinator's log.
BEGUN = b"the run begins with generation"
OVER = b"all ranks finished"
FAILED = b"the run failed: "
LOSS = re.compile(rb"ranks? (?P<ranks>[\d, ]+) \(\S+\) (?:was|were) lost "
                  rb"(?:in step \d+|(?P<after>after the last step)): (?P<cause>.*?)"
                  rb"(?:; ranks? [\d, ]+ (?:is|are) carried on by others|; all ranks finished|$)")
# mpirun prints "[1,RANK]<stderr>:" before each line.
TAGGED = ["--tag-output"]
TAG = re.compile(rb"\[\d+,(?P<rank>\d+)\]<std(?:out|err)>:")
# Seconds in which it ends its ranks by itself. A signal meanwhile makes it crash.
MPIRUN_LINGERS = 3
# Options for the security of calls: given to the launcher, valid for all programs.
TLS = ("tls-cert", "tls-key", "tls-ca", "plain-http", "insecure")
# A program may join at any time, or never: the launcher sees when it ends.
WITHOUT_END = {"rendezvous-timeout-seconds": "1e9"}


def ranks_of(worker, workers, world_size):
    """Returns the ranks of a worker: contiguous, and shared out evenly."""
    each, more = divmod(world_size, workers)
    first = worker * each + min(worker, more)
    return range(first, first + each + (worker < more))


def name_of(ranks):
    """ "rank 2" or "ranks 0-3"."""
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranks[0]}-{ranks[-1]}"


def losses_in(line):
    """Returns the Losses that a line of the coordinator's log reports."""
    return [Loss(frozenset(map(int, found["ranks"].split(b","))),
                 found["cause"].decode(errors="replace"), bool(found["after"]),
                 ends_run=FAILED in line)
            for found in LOSS.finditer(line)]


def takes_all(path):
    """Returns whether all ranks may write there at once: /dev/null, a terminal, a pipe."""
    return own_descriptor(path) is not None or (
        os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path))


def path_for_rank(path, rank, world_size):
    """Returns a rank's path: with {rank} replaced, or with the rank inserted before the extension
    ("run.rank1.jsonl"). A single rank keeps a plain path, and all keep that of a device or pipe."""
    if "{rank}" in path or world_size == 1 or takes_all(path):
        return path.replace("{rank}", rank)
    stem, extension = os.path.splitext(path)
    return f"{stem}.rank{rank}{extension}"


def address_for_rank(address, rank):
    """Returns HOST:PORT+rank; port 0, and what is no address, stays. Failure beyond port 65535."""
    host, _, port = address.rpartition(":")
    if not host or int(port) == 0:
        return address
    if int(port) + rank > LAST_PORT:
        raise Failure(f"no port {int(port) + rank} for rank {rank} ({address})", EXIT_USAGE)
    return f"{host}:{int(port) + rank}"


def reachable(address, host_address=""):
    """Returns where workers reach a listener on this machine, or on the host of an address."""
    host, _, port = address.rpartition(":")
    if host in REACHED_AT:
        host = host_address or REACHED_AT[host]
    return f"{host}:{port}"


def label_of_tag(line):
    """Returns the member that printed a line of mpirun --tag-output, and the line; "" and the line
    if mpirun printed it itself."""
    found = TAG.match(line)
    return (b"rank " + found["rank"], line[found.end():]) if found else (b"", line)


def with_variables(argv, variables):
    return ["/usr/bin/env", *(f"{name}={text}" for name, text in sorted(variables)), *argv]


def flags(options):
    return [word for name, text in options.items() for word in (f"--{name}", text)]


@dataclasses.dataclass(frozen=True)
class Site:
    """A machine on which some workers run, and perhaps the coordinator."""
    scratch: str  # a folder there, for this launch alone
    workers: range  # their numbers
    link: object = None  # to the host; None: this machine
    address: str = ""  # of the host
    cores: int = 1  # that programs may use there

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
        """Returns the file of a worker, or of the coordinator, whose number is after theirs."""
        return self.file(f"trace-{process}.json")

    def log_file(self, rank):
        return self.file(f"log-{rank}.jsonl")


class Members:
    """Makes the members. `request`: as launch.py gets it; `arguments`: of workers, or of --program;
    `scratch`: a folder for this launch alone; `environment`: of all; `sites`: where they run, the
    coordinator on the first (none: this machine)."""

    def __init__(self, request, arguments, scratch, environment, sites=()):
        self._request = request
        self._arguments = arguments
        self.here = Site(str(scratch), range(request["workers"]),  # files on this machine
                         cores=len(os.sched_getaffinity(0)))
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
        """Returns the file, on this machine, with the coordinator's part of an iteration."""
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
        # All its options are on the command line.
        environment = {name: value for name, value in self._environment.items() if name != CONFIG}
        environment[TOKEN_FILE] = site.token_file
        argv = [self._request["programs"]["coordinator"], *flags(options)]
        return Member("coordinator", Command(argv, environment, link=site.link), serves=True,
                      linger=self._request["linger_seconds"], begun_by=BEGUN, over_by=OVER,
                      losses_in=losses_in)

    def worker(self, number, coordinator, bar_columns):
        """Returns a worker. `coordinator`: its address; "" without one. `bar_columns`: worker 0 draws
        a bar for a terminal of this width, the others are quiet; 0: none draws. GRADWIRE_PROGRESS
        takes precedence. Failure without a port for it."""
        ranks, site = self.ranks(number), self._site(number)
        own = self._place(ranks, site)
        own["GRADWIRE_SUMMARY"] = site.summary_file("{rank}")  # it may take over ranks
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

    def workers_of_mpirun(self, coordinator):
        """Returns all workers, on this machine, as one member. No worker draws a bar."""
        workers = [self.worker(number, coordinator, 0).command
                   for number in range(self._request["workers"])]
        ranks = [with_variables(command.argv, set(command.environment.items()) -
                                set(self._environment.items())) for command in workers]
        argv = mpirun_of(ranks, TAGGED)
        return Member("mpirun", Command(argv, self._environment), label_of=label_of_tag,
                      linger=MPIRUN_LINGERS,
                      ranks=frozenset(range(self._request["world_size"])), ends_with_run=True)

    def program(self, rank, coordinator):
        """Returns a worker of --program, whose arguments are passed on unchanged. The programs of a
        machine share its cores, unless the environment sets their threads."""
        host, _, port = coordinator.rpartition(":")
        site = self._site(rank)
        own = self._place([rank], site)
        own |= {"GRADWIRE_LOCAL_RANK": str(rank - site.workers[0]), "GRADWIRE_COORDINATOR": coordinator,
                "MASTER_ADDR": host.strip("[]"), "MASTER_PORT": port}
        own |= {name: own[f"GRADWIRE_{name}"]
                for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")}
        own[THREADS] = self._environment.get(THREADS, str(max(1, site.cores // len(site.workers))))
        argv = [self._request["program"], *self._arguments, *self._further([rank])]
        return Member(name_of([rank]), Command(argv, self._environment | own, link=site.link),
                      ranks=frozenset([rank]))

    def log_file(self, rank):
        """Returns a rank's --log-jsonl on this machine."""
        return path_for_rank(self._request["log_jsonl"], rank, self._request["world_size"])

    def _site(self, number):
        return next(site for site in self._sites if number in site.workers)

    def _place(self, ranks, site):
        """Returns the variables that tell a worker which `ranks` of the run it carries."""
        ranks_there = sum(len(self.ranks(number)) for number in site.workers)
        own = {"GRADWIRE_RANK": ",".join(map(str, ranks)),
               "GRADWIRE_WORLD_SIZE": str(self._request["world_size"]),
               "GRADWIRE_LOCAL_WORLD_SIZE": str(ranks_there)}
        if self._request["coordinator"] is not None:
            own[TOKEN_FILE] = site.token_file
            own |= {f"GRADWIRE_{name.replace('-', '_').upper()}": text
                    for name, text in self._request["coordinator"].items() if name in TLS}
        return own | {CONFIG: site.file("config")} if site.link and CONFIG in self._environment \
            else own

    def _options_by_rank(self, ranks, site):
        """Returns the options that differ by rank. They come last, so they win."""
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
