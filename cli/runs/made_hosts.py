"""Hosts that the command makes on this machine and removes at its end: `--hosts auto|podman`."""
import contextlib
import os

from cli.hosts.containers import ContainerHosts, why_no_containers
from cli.hosts.namespaces import NamespaceHosts, why_not
from cli.hosts.probe import machine
from cli.runs.failure import EXIT_USAGE, Failure, within
from cli.runs.hosts import Hosts, own_environment
from cli.runs.process import Command

AUTO, PODMAN = "auto", "podman"
MADE = {AUTO: "network namespaces", PODMAN: "containers"}
WAYS_OUT = "run it as root on Linux, name existing hosts with --hostfile, or leave out --hosts"


def cores_of_host(hosts, cores=None):
    """Returns the cores that each of `hosts` on this machine counts as its own, at least one."""
    return max(1, (cores or len(os.sched_getaffinity(0))) // hosts)


def folders_of(request):
    """Returns the folders whose files a host must find."""
    files = [*request["programs"].values(), request.get("data_dir"), os.getcwd()]
    return sorted({os.path.abspath(file if os.path.isdir(file) else os.path.dirname(file))
                   for file in filter(None, files)})


def hosts_like(request):
    """Returns the hosts of a request, and why they cannot be made; "" if they can."""
    count = request["workers"]
    if request["hosts"] == AUTO:
        return NamespaceHosts(count), why_not()
    # As those of which a report speaks.
    cores = request.get("threads") or cores_of_host(count, request.get("cores"))
    memory, left = machine()["memory"], request.get("memory_left")
    memory = memory if left is None else min(memory, left)
    return ContainerHosts(count, cores, memory // count,
                          folders_of(request)), why_no_containers()


def check_made(request):
    """Failure if hosts are to be made but cannot be: why, and what to do."""
    if request["hosts"] in MADE:
        MadeHosts(request)


class MadeHosts(Hosts):
    """A host for each rank. The coordinator counts as the last host, and runs on the first.

    The constructor raises Failure if they cannot be made here: why, and what to do.
    """
    local = False

    def __init__(self, request):
        self.program = f"--hosts {request['hosts']}"
        self._made, problem = hosts_like(request)
        if problem:
            raise Failure(f"{self.program}: {problem}; {WAYS_OUT}", EXIT_USAGE)
        self.count = request["workers"] + 1
        self._rate = request["rate"]
        self._addresses = [*self._made.addresses, self._made.addresses[0]]

    @classmethod
    def alike(cls, name, count, rate, check):
        """Returns `count` hosts made of namespaces (auto) or driven by a program, none for the
        coordinator. Failure as of this class and of Hosts."""
        if name != AUTO:
            return Hosts(name, count, rate, check)
        hosts = cls({"hosts": name, "workers": count, "rate": rate})
        hosts.count = count
        return hosts

    @property
    def machines(self):
        return {self._made.names[0]: 0}  # all see this machine's files

    def shape(self, rate):
        if rate != self._rate:
            self._made.shape(rate)
            self._rate = rate

    def command(self, host, argv, environment=None):
        place = host % len(self._made.names)
        return Command(self._made.command(place, argv),
                       {**own_environment(), **(environment or {})},
                       memory_group=self._made.memory_group(place))

    def _up(self):
        with within(self.program):
            self._made.up()
            self._made.shape(self._rate)

    def _down(self):
        with contextlib.suppress(OSError):
            self._made.down()
