#!/usr/bin/python3
"""Measures how soon the others go on when a worker dies, and how much of their work is lost.

    bench/recovery.py [--kills N] [--workers N] [--by kill|stop] [--lease-seconds S] [--seed N]
                      [--train-seconds S] [--hosts auto|PROGRAM --rate RATE] [-- WORKER OPTIONS]

Runs a coordinator and workers on this machine, or with --hosts on its network namespaces
(docs/measuring.md), a worker on each. Ends workers of a run one after the other at random moments, by
SIGKILL or SIGSTOP, each after at least --train-seconds, until two are left; then starts another run,
until there were N kills. Times start at the signal and are those of the slowest survivor, from the
survivors' --log-jsonl:

  new view     all survivors have received the view in which they carry the lost ranks
  computing    all of them compute again
  done again   the longest computation that any survivor repeats; iterations: relative to the median
               of the previous ones

Prints each kill, and the median, the 99th percentile and the maximum of all. Exit code 1 if a run
does not go on. BIN_DIR names another folder of programs.
"""
import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "deploy")]
import arguments  # noqa: E402 (they are found only now)
from cli.runs.made_hosts import MadeHosts  # noqa: E402
from cli.runs.process import last_lines, text_of  # noqa: E402
from cli.runs.process_set import ProcessSet  # noqa: E402
from cli.runs.quantiles import median, quantile  # noqa: E402

BIN_DIR = pathlib.Path(os.environ.get("BIN_DIR") or ROOT / "build" / "bin")
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
SURVIVORS = 2  # of a run
STEPS_BETWEEN = 4  # of all survivors, between two kills
PATIENCE = 30  # seconds for what should take less, beyond a lease
LOOK_AGAIN = 0.01
TRAINING = ["--model", "lenet", "--dataset", "synthetic", "--batch-size", "4", "--threads", "1",
            "--lr", "0.01", "--print-every", "0", "--iterations", "1000000"]
COLUMNS = {"new view": ("s", 3), "computing": ("s", 3), "done again": ("s", 3),
           "iterations": ("", 2)}


class Stuck(Exception):
    """Says what a run did not do."""


class Worker:
    """A process that starts with one rank, and its log."""

    def __init__(self, rank, host, hosts, folder, words, processes):
        self.rank, self._host, self._hosts = rank, host, hosts
        self._log = folder / f"rank{rank}.jsonl"
        self._pid = folder / f"rank{rank}.pid"
        self._read = 0
        self.steps, self.recoveries = [], []
        script = f'echo $$ > {self._pid}; exec "$@"'
        self._process = processes.add(hosts.command(host, [
            "/bin/sh", "-c", script, "worker", str(BIN_DIR / "gradwire-worker"), "--rank", str(rank),
            "--log-jsonl", str(self._log), *words]))

    def look(self):
        """Reads new whole lines of the log."""
        if not self._log.exists():
            return
        with open(self._log, "rb") as log:
            log.seek(self._read)
            text, whole, _ = log.read().rpartition(b"\n")
        self._read += len(text + whole)
        for line in map(json.loads, text.split(b"\n") if text else []):
            kind = line.get("kind", "step")
            if kind in ("step", "recovery"):
                (self.steps if kind == "step" else self.recoveries).append(line)

    def send(self, number):
        """Sends a signal. Returns the time of day just before."""
        argv = ["/bin/sh", "-c", f"date +%s.%N; kill -{int(number)} $(cat {self._pid})"]
        command = self._hosts.command(self._host, argv)
        return float(subprocess.run(command.argv, env=command.environment, check=True,
                                    stdout=subprocess.PIPE, text=True).stdout)

    @property
    def ended(self):
        return self._process.ended

    def end(self):
        if not self.ended:
            with contextlib.suppress(subprocess.CalledProcessError):
                self.send(signal.SIGKILL)

    def last_words(self):
        return "\n".join(last_lines(text_of(self._process.err), 5))


class Run:
    """A coordinator and its workers, which end with `processes`."""

    def __init__(self, options, hosts, folder, processes):
        self._options, self._processes = options, processes
        self._folder = folder
        self._port_file = folder / "ports"
        self._patience = PATIENCE + options.lease_seconds + options.train_seconds
        processes.add(hosts.command(0, [
            str(BIN_DIR / "gradwire-coordinator"), "--listen", f"{hosts.address(0)}:0", "--metrics",
            "off", "--world-size", str(options.workers), "--port-file", str(self._port_file),
            "--lease-seconds", str(options.lease_seconds)]))
        self.workers = []  # that are not lost
        self._start_workers(hosts)

    def _start_workers(self, hosts):
        self.wait(lambda: self._port_file.exists(), "the coordinator to listen")
        address = self._port_file.read_text().partition("grpc=")[2].split()[0]
        words = ["--coordinator", address, *TRAINING, *self._options.words]
        for rank in range(self._options.workers):
            host = 0 if hosts.local else rank
            self.workers.append(Worker(rank, host, hosts, self._folder, words, self._processes))

    def wait(self, condition, what):
        deadline = time.monotonic() + self._patience
        while not condition():
            for worker in self.workers:
                worker.look()
                if worker.ended:
                    raise Stuck(f"rank {worker.rank} ended:\n{worker.last_words()}")
            if time.monotonic() > deadline:
                raise Stuck(f"waited {self._patience:g} s for {what}")
            self._processes.wait(LOOK_AGAIN)

    def lose(self, rng):
        """Ends a worker at a random moment of a step. Returns the results."""
        seen = [len(worker.steps) for worker in self.workers]
        self.wait(lambda: all(len(worker.steps) >= before + STEPS_BETWEEN
                              for worker, before in zip(self.workers, seen)), "steps")
        trained = time.monotonic() + self._options.train_seconds
        self.wait(lambda: time.monotonic() >= trained, "the next one's turn")
        iteration = median([step["iteration_seconds"] for worker in self.workers
                            for step in worker.steps[-STEPS_BETWEEN:]])
        time.sleep(rng.random() * iteration)
        victim = self.workers.pop(rng.randrange(len(self.workers)))
        known = [len(worker.recoveries) for worker in self.workers]
        lost_at = victim.send(SIGNALS[self._options.by])
        self.wait(lambda: all(len(worker.recoveries) > before
                              for worker, before in zip(self.workers, known)), "a further view")
        victim.end()
        return {"rank": victim.rank, **times_of(
            [worker.recoveries[-1] for worker in self.workers], lost_at, iteration)}


def times_of(recoveries, lost_at, iteration):
    """Returns the results of a loss from what each survivor says of it; `iteration`: usual seconds."""
    again = max(recovery["seconds_lost_by_phase"]["computing"] for recovery in recoveries)
    return {"step": recoveries[0]["first_step"],
            "new view": max(recovery["heard"] for recovery in recoveries) - lost_at,
            "computing": max(recovery["gone_on"] for recovery in recoveries) - lost_at,
            "done again": again, "iterations": again / iteration}


def shown(name, value):
    unit, digits = COLUMNS[name]
    return f"{value:.{digits}f} {unit}".rstrip()


def table(losses):
    rows = [f"{'':12}{'p50':>10}{'p99':>10}{'max':>10}"]
    for name in COLUMNS:
        values = [loss[name] for loss in losses]
        cells = (median(values), quantile(values, 0.99), max(values))
        rows.append(f"{name:12}" + "".join(f"{shown(name, value):>10}" for value in cells))
    return rows


def measure(options, hosts):
    rng = random.Random(options.seed)
    losses = []
    while len(losses) < options.kills:
        with (tempfile.TemporaryDirectory() as folder,
              ProcessSet() as processes):
            run = Run(options, hosts, pathlib.Path(folder), processes)
            while len(run.workers) > SURVIVORS and len(losses) < options.kills:
                loss = run.lose(rng)
                losses.append(loss)
                times = ", ".join(f"{name} {shown(name, loss[name])}" for name in COLUMNS)
                print(f"{len(losses)}: rank {loss['rank']}, step {loss['step']}: {times}", flush=True)
    return losses


def parse():
    parser = arguments.Parser(__doc__)
    parser.add_numbers(kills=10, workers=4, lease_seconds=10.0, train_seconds=0.0, seed=744)
    parser.add_argument("--by", choices=SIGNALS, default="kill")
    parser.add_argument("--hosts", default="", metavar="auto|PROGRAM")
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("words", nargs="*", metavar="WORKER OPTIONS")
    options = parser.parse_args()
    if options.kills < 1 or options.workers <= SURVIVORS:
        parser.error(f"got {options.kills} kills of {options.workers} workers, expected 1 or more "
                     f"of {SURVIVORS + 1} or more")
    return options


def main():
    options = parse()
    try:
        with MadeHosts.alike(options.hosts, options.workers, options.rate,
                             lambda: None) as hosts:
            losses = measure(options, hosts)
    except Stuck as why:
        sys.exit(f"bench/recovery.py: {why}")
    print("\n".join(table(losses)))


if __name__ == "__main__":
    main()
