#!/usr/bin/python3
"""A program on the library beside its twin on PyTorch's DistributedDataParallel over Gloo.

    bench/library/compare.py [--build DIR] [--rounds N] [--steps N] [--width N] [--ranks N]
                             [--hosts PROGRAM --rate RATE] [--tuned] [--modes MODE...]

Installs what was built in DIR (default: build) to a temporary folder, builds bench/library
against it as a project of its own, and runs train.cc and train.py in turn, in rounds whose
order changes, in each mode: plain, no-sync (every third pass averages), unused (ranks differ in
what they leave out), uneven (ranks differ in their batches). Prints for each mode the median
step of both, the ratio, and the greatest relative difference of any loss of any rank, and of
rank 0's loss with the final weights and buffers. Exit code 1 if one is above 1e-4. With --hosts rank I
runs on host I of that program (docs/measuring.md), else all on this machine. Needs Debian's
python3-torch.
"""
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[1] / "deploy")]
import arguments  # noqa: E402 (they are found only now)
from cli.runs.hosts import Hosts  # noqa: E402
from cli.runs.runner import free_port  # noqa: E402

MODES = ("plain", "no-sync", "unused", "uneven")
TOLERANCE = 1e-4


def run(*command):
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} exited {done.returncode}:\n{done.stdout}")
    return done.stdout


def build(tree, folder):
    """The path of train.cc's program, linked with the library as it is installed."""
    run("cmake", "--install", tree, "--prefix", folder / "prefix")
    run("cmake", "-S", HERE, "-B", folder / "train", f"-DCMAKE_PREFIX_PATH={folder / 'prefix'}",
        "-DCMAKE_BUILD_TYPE=Release")
    run("cmake", "--build", folder / "train")
    return folder / "train" / "train"


def started(hosts, rank, command, port):
    """A rank on its host."""
    command = hosts.command(rank, [str(word) for word in command], {
        "RANK": str(rank), "WORLD_SIZE": str(hosts.count), "LOCAL_RANK": str(rank),
        "MASTER_ADDR": hosts.address(0), "MASTER_PORT": port, "OMP_NUM_THREADS": "1",
        "GRADWIRE_COORDINATOR_METRICS": "off"})
    return subprocess.Popen(command.argv, env=command.environment, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def output(command, process):
    out, err = process.communicate(timeout=600)
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} exited {process.returncode}:\n{err}")
    return [tuple(map(float, line.split())) for line in out.splitlines()]


def run_ranks(hosts, command):
    """For each rank, what it printed: a list of (loss, seconds)."""
    port, ranks = str(free_port()), []
    try:
        for rank in range(hosts.count):
            ranks.append(started(hosts, rank, command, port))
        return [output(command, rank) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()


def difference(ours, theirs):
    """The greatest relative difference of two runs' losses."""
    if [len(rank) for rank in ours] != [len(rank) for rank in theirs]:
        sys.exit("the two programs did not make the same number of passes")
    return max(abs(a - b) / abs(b) for one, other in zip(ours, theirs)
               for (a, _), (b, _) in zip(one, other))


def median_step(runs):
    """Seconds; a rank's first pass does not count, nor the line of the final loss."""
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
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=30)
    p.add_argument("--width", type=int, default=32)
    p.add_argument("--ranks", type=int, default=4)
    p.add_argument("--hosts", default="")
    p.add_argument("--rate", default="none")
    p.add_argument("--tuned", action="store_true", help="PyTorch with 1 MB buckets as views")
    p.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    return p.parse_args()


def main():
    a = parse()
    with (tempfile.TemporaryDirectory(prefix="gradwire-library-") as folder,
          Hosts(a.hosts, a.ranks, a.rate, lambda: None) as hosts):
        program = build(a.build, pathlib.Path(folder))
        print("| mode | libgradwire, ms | PyTorch, ms | ratio | losses differ by |\n"
              "|---|---|---|---|---|", flush=True)
        return int(max(compare(mode, a, hosts, program) for mode in a.modes) > TOLERANCE)


sys.exit(main())
