"""The programs of a launch: arguments and environment of each."""
import os
import pathlib

from cli.launch.supervisor import Member
from cli.runs.failure import EXIT_USAGE, Failure
from cli.runs.process import Command

CONFIG = "GRADWIRE_CONFIG"
PROGRESS = "GRADWIRE_PROGRESS"
LAST_PORT = 65535
# Where one that listens on all addresses is reached on this machine.
REACHED_AT = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
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


def rank_in_names(ranks):
    """What stands for the rank in a file's name: of several, the worker puts each."""
    return str(ranks[0]) if len(ranks) == 1 else "{rank}"


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


def reachable(address):
    """Where workers on this machine connect to what listens at `address`."""
    host, _, port = address.rpartition(":")
    return f"{REACHED_AT.get(host, host)}:{port}"


def flags(options):
    return [word for name, text in options.items() for word in (f"--{name}", text)]


class Members:
    """Makes them. `request`: as launch.py gets it; `arguments`: of workers, or of --program;
    `scratch`: a folder for this launch alone; `environment`: what all get."""

    def __init__(self, request, arguments, scratch, environment):
        self._request = request
        self._arguments = arguments
        self._scratch = pathlib.Path(scratch)
        self._environment = environment
        self._rank_options = dict(request["rank_options"])

    @property
    def port_file(self):
        return self._request["coordinator"].get("port-file") or str(self._scratch / "ports")

    def summary_file(self, rank):
        return str(self._scratch / f"summary-{rank}.json")

    def trace_file(self, process):
        """Of a worker, or of the coordinator, whose number is that of the workers."""
        return str(self._scratch / f"trace-{process}.json")

    def coordinator(self):
        options = {**self._request["coordinator"], "port-file": self.port_file}
        if self._request["program"]:
            options = {**WITHOUT_END, **options}
        if self._request["trace"]:
            options["trace"] = self.trace_file(self._request["workers"])
        # Its options are all here.
        environment = {name: value for name, value in self._environment.items() if name != CONFIG}
        argv = [self._request["programs"]["coordinator"], *flags(options)]
        return Member("coordinator", Command(argv, environment), serves=True,
                      linger=self._request["linger_seconds"])

    def worker(self, number, coordinator, bar_columns):
        """`coordinator`: where it is reached; "" without one. `bar_columns`: worker 0 draws a bar
        for a terminal of this width, the others are quiet; 0: none draws. GRADWIRE_PROGRESS goes
        before. Failure without a port for it."""
        ranks = ranks_of(number, self._request["workers"], self._request["world_size"])
        own = self._place(ranks)
        own["GRADWIRE_SUMMARY"] = self.summary_file(rank_in_names(ranks))
        if self._request["trace"]:
            own["GRADWIRE_TRACE"] = self.trace_file(number)
        if coordinator:
            own["GRADWIRE_COORDINATOR"] = coordinator
        if bar_columns > 0 and not self._environment.get(PROGRESS):
            own |= {PROGRESS: "none" if number else "bar", "COLUMNS": str(bar_columns)}
        argv = [self._request["programs"]["worker"], *self._arguments,
                *flags(self._options_by_rank(ranks)), *self._further(ranks)]
        return Member(name_of(ranks), Command(argv, self._environment | own),
                      has_bar=bar_columns > 0 and number == 0)

    def program(self, rank, coordinator):
        """Likewise, of --program: its arguments are passed on as they stand."""
        host, _, port = coordinator.rpartition(":")
        own = self._place([rank])
        own |= {"GRADWIRE_LOCAL_RANK": str(rank), "GRADWIRE_COORDINATOR": coordinator,
                "MASTER_ADDR": host.strip("[]"), "MASTER_PORT": port}
        own |= {name: own[f"GRADWIRE_{name}"]
                for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")}
        argv = [self._request["program"], *self._arguments, *self._further([rank])]
        return Member(name_of([rank]), Command(argv, self._environment | own))

    def _place(self, ranks):
        """Of a worker that carries `ranks`, in the run."""
        world_size = str(self._request["world_size"])
        return {"GRADWIRE_RANK": ",".join(map(str, ranks)), "GRADWIRE_WORLD_SIZE": world_size,
                "GRADWIRE_LOCAL_WORLD_SIZE": world_size}

    def _options_by_rank(self, ranks):
        """What differs; behind the workers' other options it wins."""
        request, options = self._request, {}
        if request["log_jsonl"]:
            options["log-jsonl"] = path_for_rank(request["log_jsonl"], rank_in_names(ranks),
                                                 request["world_size"])
        for name in ("metrics", "listen"):
            address = address_for_rank(request[name], ranks[0])
            if address != request[name]:
                options[name] = address
        return options

    def _further(self, ranks):
        return [word for rank in ranks for word in self._rank_options.get(rank, [])]
