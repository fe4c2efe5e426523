"""Runs of several ranks, one run after the other, on the hosts of a measurement."""
import contextlib
import dataclasses
import os
import pathlib
import random
import socket
import time

from cli.runs.coordinator import SECONDS_TO_LISTEN, bound_addresses
from cli.runs.cpu_sampler import CpuSampler
from cli.runs.failure import EXIT_USAGE, Failure
from cli.runs.hosts import THIS_MACHINE, UNSHAPED, Hosts, SshHosts, own_environment
from cli.runs.jobs import Jobs, run_job
from cli.runs.made_hosts import MADE, MadeHosts
from cli.runs.mpirun import into_file, mpirun_of
from cli.runs.output_file import scratch_folder
from cli.runs.process import Command, text_of

PYTHON = "/usr/bin/python3"  # Debian's
SECONDS_TO_SAY_VERSION = 60
SECONDS_TO_TRY_OUT = 120
FIRST_FREE_PORT = 10000
PORTS_TO_TRY = 100

# Arguments of a rank whose value is known only after the run starts.
COORDINATOR = "{coordinator}"  # "HOST:PORT" of the run's coordinator
MASTER = "{master}"  # "HOST:PORT" of host 0, on which no program listens


@dataclasses.dataclass(frozen=True)
class Run:
    """Ranks that start and end together, rank I on host I; a coordinator is on the last host."""
    ranks: list  # program and arguments of each
    coordinator: bool = True
    environment: dict = dataclasses.field(default_factory=dict)  # beyond own_environment()
    coordinator_options: tuple = ()
    rate: str = ""  # of the links of --hosts; "": as they are
    here: bool = False  # all ranks run on this machine, outside of its hosts; no coordinator
    mpirun: bool = False  # starts all ranks, on this machine
    inputs: tuple = ()  # digests of the files that it reads, and the version of the peers' PyTorch


@dataclasses.dataclass(frozen=True)
class Outputs:
    """The output of a run."""
    ranks: list  # what each printed to stdout
    # From before the ranks joined until they ended; None without a coordinator on this machine.
    coordinator_cpu_seconds: float | None = None
    coordinator: str = ""  # what the coordinator printed to stdout


def first_ephemeral_port():
    """Returns the first port that the kernel may give to any program."""
    try:
        return int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError):
        return 32768


def free_port():
    """Returns a port of this machine on which no program listens. The kernel does not give it to
    other programs, because the one that will listen there takes seconds to start."""
    ports = range(FIRST_FREE_PORT, max(first_ephemeral_port(), FIRST_FREE_PORT + 1))
    for port in random.sample(ports, min(len(ports), PORTS_TO_TRY)):
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind((THIS_MACHINE, port))
            return port
    raise Failure(f"none of {PORTS_TO_TRY} ports from {ports.start} to {ports.stop - 1} is free")


def hosts_of(request, check):
    """Returns the hosts of the ranks and of a coordinator. Failure as of SshHosts and MadeHosts."""
    if request["hosts"] in MADE:
        return MadeHosts(request)
    if request["hostfile"]:
        return SshHosts(request["hostfile"], request["workers"])
    return Hosts(request["hosts"], request["workers"] + 1, request["rate"], check)


class Runner:
    """Runs ranks on hosts that exist within `with`.

    `request`: see cli/bench/bench_request.h; `check`: see Jobs. Failure from the constructor as of
    SshHosts; from `with` as of Hosts, or if there is no folder for temporary files.
    """

    def __init__(self, request, check):
        self._request = request
        self._check = check
        self._hosts = hosts_of(request, check)
        self._closing = contextlib.ExitStack()
        self._scratch = None

    def __enter__(self):
        with contextlib.ExitStack() as opened:
            self._scratch = pathlib.Path(opened.enter_context(scratch_folder()))
            opened.enter_context(self._hosts)
            self._closing = opened.pop_all()
        return self

    def __exit__(self, *error):
        self._closing.__exit__(*error)

    def run(self, run, watch=lambda printed: None):
        """Runs it to its end and returns its Outputs. Failure as of Jobs; the request has the time
        limit. About 20 times a second `watch` gets the bytes that rank 0 has printed so far."""
        if run.rate:
            self._hosts.shape(run.rate)
        with Jobs(self._check) as jobs:
            if run.coordinator:
                return self._run_with_coordinator(run, watch, jobs)
            printed = self._start_ranks(run, {MASTER: self._master()}, jobs)
            return Outputs(self._finish(run, jobs, lambda: watch(printed())))

    def run_here(self, name, argv):
        """Runs a program here, with the hosts' environment but not their network. Returns
        stdout."""
        return run_job(name, Command(argv, own_environment()), SECONDS_TO_SAY_VERSION, self._check)

    def try_out(self, argv):
        """Runs a program on every machine at once, before any run, and returns what it printed on the
        first. Failure names each host that is dead or on which it fails, and says why."""
        program = os.path.basename(argv[0])
        with Jobs(self._check) as jobs:
            for name, host in self._hosts.machines.items():
                where = "" if self._hosts.local else f" on host {name}"
                jobs.start(f"{program}{where}", self._hosts.command(host, argv))
            try:
                return jobs.finish(time.monotonic() + SECONDS_TO_TRY_OUT)[0]
            except Failure as failure:
                failure.exit_code = EXIT_USAGE
                raise

    def _run_with_coordinator(self, run, watch, jobs):
        program = self._request["programs"]["coordinator"]
        coordinator, address = self._start_coordinator(program, run, jobs)
        cpu = CpuSampler(os.path.basename(program))
        cpu.sample(coordinator.pid)
        printed = self._start_ranks(run, {COORDINATOR: address, MASTER: self._master()}, jobs)

        def tick():
            cpu.sample(coordinator.pid)
            watch(printed())
        return Outputs(self._finish(run, jobs, tick), cpu.seconds, text_of(coordinator.out))

    def _start_coordinator(self, program, run, jobs):
        """Returns the coordinator's process and address."""
        host = self._hosts.count - 1
        listen = f"{self._hosts.address(host)}:{0 if self._hosts.local else self._request['port']}"
        argv = [program, "--listen", listen, "--world-size", str(len(run.ranks)), "--metrics", "off",
                *run.coordinator_options]
        port_file = self._scratch / "ports"
        if self._hosts.local:
            port_file.unlink(missing_ok=True)  # of the previous run
            argv += ["--port-file", str(port_file)]
        process = jobs.start("coordinator", self._hosts.command(host, argv), serves=True)
        if not self._hosts.local:
            return process, listen  # ranks on other hosts retry until it listens
        jobs.run_until(lambda: "grpc" in bound_addresses(port_file),
                       time.monotonic() + SECONDS_TO_LISTEN)
        return process, bound_addresses(port_file)["grpc"]

    def _start_ranks(self, run, addresses, jobs):
        """Returns a function that returns the bytes that rank 0 has printed so far."""
        ranks = [[addresses.get(argument, argument) for argument in argv] for argv in run.ranks]
        if run.mpirun:
            files = self._files(run)
            for file in files:
                file.unlink(missing_ok=True)  # of the previous run
            argv = mpirun_of([into_file(argv, file) for argv, file in zip(ranks, files)])
            jobs.start("mpirun", self._hosts.command(0, argv, run.environment))
            return lambda: files[0].read_bytes() if files[0].exists() else b""
        hosts = Hosts("", len(run.ranks), UNSHAPED, self._check) if run.here else self._hosts
        processes = [jobs.start(f"rank {rank}", hosts.command(rank, argv, run.environment))
                     for rank, argv in enumerate(ranks)]
        return lambda: processes[0].out

    def _finish(self, run, jobs, tick):
        """Waits until the ranks have ended, and returns what each printed."""
        printed = jobs.finish(self._deadline(), tick)
        return [text_of(file.read_bytes()) for file in self._files(run)] if run.mpirun else printed

    def _files(self, run):
        """Returns the files for what ranks print under mpirun."""
        return [self._scratch / f"rank{rank}" for rank in range(len(run.ranks))]

    def _master(self):
        port = free_port() if self._hosts.local else self._request["port"] + 1
        return f"{self._hosts.address(0)}:{port}"

    def _deadline(self):
        return time.monotonic() + self._request["timeout_seconds"]


def torch_version(runner):
    """Returns the version of the peers' PyTorch. Failure if it is missing says what to install."""
    try:
        return runner.run_here("python3", [
            PYTHON, "-c", "import torch.distributed, numpy; print(torch.__version__)"]).strip()
    except Failure as failure:
        if type(failure) is not Failure:
            raise
        raise Failure("--peers needs PyTorch; run: apt-get install python3-torch\n"
                      f"  {failure}") from None
