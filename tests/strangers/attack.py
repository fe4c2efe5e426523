#!/usr/bin/python3
"""A run beside a mixed attacker: it has to come to the same result, at about the same speed.

    tests/strangers/attack.py [--seconds N] [--workers W] [--batch-size B] [--alone A] [--tls]

Attackers (attackers.py) are at it and rest in turn for N seconds, while W workers train LeNet; one of
them reaches the coordinator through who records and replays it. Then the same run alone, by A workers if
that is said, which are sooner done and come to the same. Says how long a step took with, between and
without them, and what the coordinator needed at most.

Exit: 0 if the results are equal, all have ended well and the coordinator's threads and memory were
bounded; else 1.
"""
import contextlib
import json
import math
import pathlib
import ssl
import statistics
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "deploy"))
import arguments
import strangers
from attackers import Attackers, Recorder
from tls_test import HERE, make, options_of

MODEL = ["--model", "lenet", "--dataset", "synthetic", "--threads", "1", "--lr", "0.01",
         "--print-every", "0", "--sync", "ddp"]
# With this one the coordinator's port takes the gradients, too.
BACKEND = ["--backend", "coordinator"]
CALIBRATION = 30  # iterations
PATIENCE = 600  # seconds for a run of --seconds 0
SEGMENTS = 20  # with attackers and without, in turn
LONGEST_SEGMENT = 10  # seconds
SETTLES = 0.5  # seconds of a segment that are not counted
MOST_MEMORY = 256 << 10  # KiB more than at the beginning


class Watch(threading.Thread):
    """The most threads and memory (KiB) of a process, until it ends."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self._pid = pid
        self.threads = strangers.status_of(pid, "Threads")
        self.memory_at_first = self.memory = strangers.status_of(pid, "VmRSS")
        self.start()

    def run(self):
        with contextlib.suppress(OSError, TypeError):  # it is gone, or going
            while True:
                self.threads = max(self.threads, strangers.status_of(self._pid, "Threads"))
                self.memory = max(self.memory, strangers.status_of(self._pid, "VmRSS"))
                time.sleep(0.2)


class Run:
    """Coordinator and workers of `ranks` ranks in a folder; the last worker goes through a
    Recorder."""

    def __init__(self, folder, ranks, workers, options, security, context):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir()
        self._ranks, self._options = ranks, options
        self.coordinator = strangers.Coordinator(self.folder, ranks, "--workers", workers, *security,
                                                 context=context)
        self.recorder = Recorder(self.coordinator.address)
        self.workers = [self._worker(number, number == workers - 1, security)
                        for number in range(workers)]

    def _worker(self, number, recorded, security):
        address = self.recorder.address if recorded else self.coordinator.address
        return strangers.Process(
            [strangers.BIN / "gradwire-worker", "--coordinator", address, *MODEL, *BACKEND,
             *security, *self._options, "--metrics", "127.0.0.1:0", "--summary",
             self.folder / "summary-{rank}",
             *(["--log-jsonl", self.folder / "log-{rank}"] if number == 0 else [])],
            self.folder / f"worker-{number}")

    def going(self):
        return all(worker.running() for worker in self.workers)

    def end(self):
        self.recorder.close()
        for process in [*self.workers, self.coordinator]:
            process.end()

    def wait(self, seconds):
        """The results of all ranks. AssertionError if one ended otherwise."""
        for process in [*self.workers, self.coordinator]:
            code = process.wait(seconds)
            assert code == 0, f"{process.output} ended with {code}:\n{process.text()[-3000:]}"
        return {json.loads((self.folder / f"summary-{rank}").read_text())["parameters_sha256"]
                for rank in range(self._ranks)}

    def steps(self):
        """Of each of the first worker's: when it ended, and how long it took."""
        with open(min(self.folder.glob("log-*"))) as lines:
            rows = (json.loads(line) for line in lines)
            return [(row["time"], row["iteration_seconds"]) for row in rows
                    if row.get("step") and "iteration_seconds" in row]


def attack(run, segment, context):
    """Until the run ends. Gives the segments (begin, end, whether they were at it), and what was
    done."""
    status = run.coordinator.status()
    calls = [run.coordinator.address, status["ranks"][0]["address"]]
    pages = [run.coordinator.metrics, status["ranks"][0]["metrics"]]
    attackers = Attackers(calls, pages, run.recorder, context)
    segments = []
    try:
        while run.going():
            at_it = len(segments) % 2 == 1
            (attackers.wake if at_it else attackers.rest)()
            begin = time.time()
            while run.going() and time.time() < begin + segment:
                time.sleep(0.1)
            segments.append((begin + SETTLES, time.time(), at_it))
    finally:
        attackers.end()
    return segments, attackers.done


def medians(steps, segments):
    """Milliseconds of a step between the attacks, and in them."""
    times = {True: [], False: []}
    for ended, seconds in steps:
        for begin, end, at_it in segments:
            if begin <= ended - seconds and ended <= end:
                times[at_it].append(seconds * 1e3)
    return [statistics.median(times[at_it]) if times[at_it] else math.nan for at_it in (False, True)]


def say(figures):
    print(json.dumps({name: round(value, 2) if isinstance(value, float) else value
                      for name, value in figures.items()}), flush=True)


class Trial:
    """All that main does with its arguments, in a folder."""

    def __init__(self, arguments, folder):
        self._arguments = arguments
        self._folder = pathlib.Path(folder)
        self._patience = PATIENCE + 4 * arguments.seconds
        self._security, self._context, self._strange = [], None, None
        if arguments.tls:
            make(self._folder / "ours", HERE, "elsewhere")
            make(self._folder / "others", HERE)
            self._security = options_of(self._folder / "ours")
            self._context = context_of(self._folder / "ours", "127.0.0.1")
            # One of this run, but of another host: it may speak for nobody.
            self._strange = context_of(self._folder / "ours", "elsewhere")

    @contextlib.contextmanager
    def _run(self, name, iterations, workers=0):
        ranks = self._arguments.workers
        options = ["--batch-size", self._arguments.batch_size, "--iterations", iterations]
        run = Run(self._folder / name, ranks, workers or ranks, options, self._security,
                  self._context)
        try:
            yield run
        finally:
            run.end()

    def _iterations(self):
        with self._run("calibration", CALIBRATION) as run:
            run.wait(self._patience)
            step = statistics.median(seconds for _, seconds in run.steps())
        return max(CALIBRATION, math.ceil(self._arguments.seconds / step))

    def main(self):
        iterations = self._iterations()
        with self._run("attacked", iterations) as run:
            run.coordinator.wait_for_step(1)
            watch = Watch(run.coordinator.pid)
            longest = min(LONGEST_SEGMENT, self._arguments.seconds / SEGMENTS)
            segments, done = attack(run, max(3, longest), self._strange)
            attacked, steps = run.wait(self._patience), run.steps()
        between, within = medians(steps, segments)
        say(done)
        say({"iterations": iterations, "tls": self._arguments.tls, "attempts": sum(done.values()),
             "ms_within": within, "ms_between": between,
             "slower_percent": (within / between - 1) * 100, "threads": watch.threads,
             "memory_mib": watch.memory / 1024, "memory_mib_at_first": watch.memory_at_first / 1024,
             "results": sorted(attacked)})
        with self._run("alone", iterations, self._arguments.alone) as run:
            alone, alone_steps = run.wait(self._patience), run.steps()
        say({"ms_alone": statistics.median(seconds * 1e3 for _, seconds in alone_steps),
             "same_result": attacked == alone and len(attacked) == 1})
        assert attacked == alone and len(attacked) == 1, f"got {attacked}, expected {alone}"
        assert len(done) == 11 and all(done.values()), done
        assert watch.threads < 64 + 132 * self._arguments.workers, watch.threads
        assert watch.memory < watch.memory_at_first + MOST_MEMORY, watch.memory


def context_of(folder, host):
    """Of a client with a certificate of `folder`."""
    context = ssl.create_default_context(cafile=folder / "ca.pem")
    context.load_cert_chain(folder / f"{host}.pem", folder / f"{host}.key")
    context.set_alpn_protocols(["h2"])
    return context


def main():
    parser = arguments.Parser(__doc__)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--alone", type=int, default=0, help="as many as --workers")
    parser.add_argument("--tls", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gradwire-attack-") as folder:
        Trial(options, folder).main()


if __name__ == "__main__":
    main()
