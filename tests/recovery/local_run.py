"""A run of real processes on this machine, some of whose workers die at named points of it."""
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import time

BIN = pathlib.Path(os.environ["GRADWIRE_BIN_DIR"])
WORLD_SIZE = 4
AGGREGATORS = 2  # where they are separate
LEASE_SECONDS = 1.5  # where somebody is stopped; heartbeats come each second
STOPPED_SECONDS = 3 * LEASE_SECONDS
PATIENCE = 180
LOOK_AGAIN = 0.01
HANG = 0  # in place of a signal
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("GRADWIRE_")}


@dataclasses.dataclass(frozen=True)
class Death:
    """A worker ends, or stops, itself, or its thread hangs: see dying_worker.cc."""
    rank: int
    point: str
    number: int
    by: signal.Signals  # or HANG


class Member:
    """A process, and what it writes."""

    def __init__(self, name, argv, folder, death=None, host=None):
        self.name, self.death = name, death
        self._log = folder / f"{name}.log"
        self._stopped_at = None
        self._continued = False
        environment = dict(ENVIRONMENT)
        if host is not None:
            environment["ON_HOST"] = host
        if death is not None:
            environment["DIES_AT"] = f"{death.point} {death.number} {int(death.by)}"
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(argv, env=environment, stdin=subprocess.DEVNULL,
                                             stdout=log, stderr=log)

    @property
    def text(self):
        return self._log.read_text(errors="replace")

    @property
    def exit_code(self):
        """None: it has not ended."""
        return self._process.poll()

    def look(self):
        """Continues it some leases after it has stopped itself."""
        if self.death is None or self._continued or self.exit_code is not None:
            return
        now = time.monotonic()
        if self._stopped_at is None:
            # With WEXITED one that has just ended is no error; WNOWAIT leaves it to poll().
            seen = os.waitid(os.P_PID, self._process.pid,
                             os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if seen is not None and seen.si_code == os.CLD_STOPPED:
                self._stopped_at = now
        elif now - self._stopped_at >= STOPPED_SECONDS:
            self._process.send_signal(signal.SIGCONT)
            self._continued = True

    def fault(self):
        """What is wrong with how it has ended; None if nothing is."""
        if self.death is None:
            return None if self.exit_code == 0 else f"got exit code {self.exit_code}, expected 0"
        if f"reached {self.death.point} {self.death.number}\n" not in self.text:
            return f"never reached {self.death.point} {self.death.number}"
        if self.death.by == signal.SIGSTOP:
            went_on = self._continued and self.exit_code > 0
            return None if went_on else f"got exit code {self.exit_code} of one that was stopped"
        if self.death.by == HANG:
            ended_itself = self.exit_code > 0
            return None if ended_itself else f"got exit code {self.exit_code} of one that hung"
        was_killed = self.exit_code == -self.death.by
        return None if was_killed else f"got exit code {self.exit_code} of one that was killed"

    def end(self):
        if self.exit_code is None:
            self._process.kill()
        self._process.wait()


class LocalRun:
    """A coordinator, aggregators if there are any, and a worker for each rank, in `folder`. All have
    ended with its block. Ranks in a row share one of `hosts`, addresses of this machine, and only they
    share memory; none: all share one. `run_dir`: the coordinator keeps a ledger there."""

    def __init__(self, words, folder, deaths=(), aggregators=0, hosts=(), run_dir=None):
        self._folder = folder
        self._members = []
        try:
            self._start(words, {death.rank: death for death in deaths}, aggregators, hosts,
                        ["--run-dir", run_dir] if run_dir else [])
        except BaseException:
            self.__exit__()
            raise

    def _start(self, words, deaths, aggregators, hosts, keeps):
        port_file = self._folder / "ports"
        stops = any(death.by == signal.SIGSTOP for death in deaths.values())
        lease = ["--lease-seconds", str(LEASE_SECONDS)] if stops else []
        listen = ["--listen", "127.0.0.1:0", "--metrics", "off"]
        coordinator = self._add("coordinator", [
            "gradwire-coordinator", *listen, "--world-size", str(WORLD_SIZE), "--aggregators",
            str(aggregators), *lease, *keeps, "--chunk-kib", "16", "--port-file", str(port_file)])
        self._wait(lambda: port_file.exists() or coordinator.exit_code is not None)
        address = ["--coordinator", port_file.read_text().partition("grpc=")[2].split()[0]]
        for number in range(aggregators):
            self._add(f"aggregator{number}", [
                "gradwire-coordinator", "--aggregate-only", "true", *listen, *address])
        for rank in range(WORLD_SIZE):
            death = deaths.get(rank)
            program = "gradwire-worker" if death is None and not hosts else "dying-worker"
            host = hosts[rank * len(hosts) // WORLD_SIZE] if hosts else None
            at = host or "127.0.0.1"
            self._add(f"rank{rank}", [program, "--rank", str(rank), *address, "--listen",
                                      f"{at}:0", "--advertise", at, "--summary",
                                      str(self._folder / "summary{rank}.json"), *words], death, host)

    def _add(self, name, argv, death=None, host=None):
        self._members.append(Member(name, [BIN / argv[0], *argv[1:]], self._folder, death, host))
        return self._members[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for member in self._members:
            member.end()

    def _wait(self, condition):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {PATIENCE} s\n{self.text()}")
            time.sleep(LOOK_AGAIN)
            for member in self._members:
                member.look()

    def text(self):
        return "\n".join(f"--- {member.name}\n{member.text}" for member in self._members)

    def summaries(self):
        """Of all ranks, once all have ended as they should. AssertionError says what is wrong."""
        self._wait(lambda: all(member.exit_code is not None for member in self._members))
        faults = [f"{member.name}: {member.fault()}" for member in self._members if member.fault()]
        if faults:
            raise AssertionError("\n".join([*faults, self.text()]))
        return [json.loads((self._folder / f"summary{rank}.json").read_text())
                for rank in range(WORLD_SIZE)]
