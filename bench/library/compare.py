#!/usr/bin/python3
"""Compares a program on the library with its twin on PyTorch's DistributedDataParallel over Gloo.

    bench/library/compare.py [--build DIR] [--rounds N] [--steps N] [--width N] [--ranks N]
                             [--hosts auto|PROGRAM --rate RATE] [--tuned] [--modes MODE...]

Installs the build in DIR (default: build) to a temporary folder, builds bench/library against it
as a project of its own, and runs train.cc and train.py in turn, in rounds whose order changes, in
each mode: plain, no-sync (every third pass averages), unused (ranks leave out different branches),
uneven (ranks have different numbers of batches). Prints for each mode the median step of both,
their ratio, and the largest relative difference between losses of any rank, including rank 0's loss
with the final weights and buffers. Exit code 1 if one is above 1e-4. With --hosts rank I runs on
host I of those made here (auto) or of that program (docs/measuring.md), otherwise all run on this
machine. Needs Debian's python3-torch.
"""
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[1] / "deploy")]
import arguments  # noqa: E402 (they are found only now)
from cli.runs.failure import Failure  # noqa: E402
from cli.runs.jobs import Jobs  # noqa: E402
from cli.runs.made_hosts import MadeHosts  # noqa: E402
from cli.runs.runner import free_port  # noqa: E402

MODES = ("plain", "no-sync", "unused", "uneven")
TOLERANCE = 1e-4
SECONDS_TO_TRAIN = 600


def run(*command):
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} exited {done.returncode}:\n{done.stdout}")
    return done.stdout


def build(tree, folder):
    """Returns the path of train.cc's program, linked with the installed library."""
    run("cmake", "--install", tree, "--prefix", folder / "prefix")
    run("cmake", "-S", HERE, "-B", folder / "train", f"-DCMAKE_PREFIX_PATH={folder / 'prefix'}",
        "-DCMAKE_BUILD_TYPE=Release")
    run("cmake", "--build", folder / "train")
    return folder / "train" / "train"


def run_ranks(hosts, command):
    """Returns what each rank printed: a list of (loss, seconds)."""
    port, argv = str(free_port()), [str(word) for word in command]
    with Jobs(lambda: None) as jobs:
        for rank in range(hosts.count):
            jobs.start(f"rank {rank}", hosts.command(rank, argv, {
                "RANK": str(rank), "WORLD_SIZE": str(hosts.count), "LOCAL_RANK": str(rank),
                "MASTER_ADDR": hosts.address(0), "MASTER_PORT": port, "OMP_NUM_THREADS": "1",
                "GRADWIRE_COORDINATOR_METRICS": "off"}))
        texts = jobs.finish(time.monotonic() + SECONDS_TO_TRAIN)
    return [[tuple(map(float, line.split())) for line in text.splitlines()] for text in texts]


def difference(ours, theirs):
    """Returns the largest relative difference of two runs' losses; infinity if a loss is not finite."""
    if [len(rank) for rank in ours] != [len(rank) for rank in theirs]:
        sys.exit("the two programs did not make the same number of passes")
    pairs = [(a, b) for one, other in zip(ours, theirs) for (a, _), (b, _) in zip(one, other)]
    if not all(math.isfinite(loss) for pair in pairs for loss in pair):
        return math.inf
    return max(abs(a - b) / abs(b) for a, b in pairs)


def median_step(runs):
    """Returns seconds, without each rank's first pass and the line of the final loss."""
    return statistics.median(seconds for ranks in runs for rank in ranks
                             for _, seconds in rank[1:] if seconds > 0)


def compare(mode, a, hosts, program):
    size = [mode, a.steps, a.width]
    commands = [[program, *size],
                ["/usr/bin/python3", HERE / "train.py", *size] + ["--tuned"] * a.tuned]
    runs = [[], []]
    for turn in range(a.rounds):
        for which in (0, 1) if turn % 2 == 0 else (1, 0):
            runs[which].append(run_ranks(hosts, commands[which]))
    worst = max(difference(ours, theirs) for ours, theirs in zip(*runs))
    ours, theirs = map(median_step, runs)
    print(f"| {mode} | {1e3 * ours:.1f} | {1e3 * theirs:.1f} | {ours / theirs:.2f} | {worst:.1e} |",
          flush=True)
    return worst


def parse():
    p = arguments.Parser(__doc__)
    p.add_argument("--build", type=pathlib.Path, default=HERE.parents[1] / "build")
    p.add_numbers(rounds=3, steps=30, width=32, ranks=4)
    p.add_argument("--hosts", default="")
    p.add_argument("--rate", default="none")
    p.add_argument("--tuned", action="store_true", help="PyTorch with 1 MB buckets as views")
    p.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    a = p.parse_args()
    if a.rounds < 1 or a.steps < 2 or a.ranks < 1:  # the first step does not count
        p.error(f"got {a.rounds} rounds of {a.steps} steps on {a.ranks} ranks, expected 1 or more of 2 "
                "or more on 1 or more")
    return a


def main():
    a = parse()
    with (tempfile.TemporaryDirectory(prefix="gradwire-library-") as folder,
          MadeHosts.alike(a.hosts, a.ranks, a.rate, lambda: None) as hosts):
        program = build(a.build, pathlib.Path(folder))
        print("| mode | libgradwire, ms | PyTorch, ms | ratio | losses differ by |\n"
              "|---|---|---|---|---|", flush=True)
        return int(max(compare(mode, a, hosts, program) for mode in a.modes) > TOLERANCE)


try:
    sys.exit(main())
except Failure as failure:
    sys.exit(str(failure))
