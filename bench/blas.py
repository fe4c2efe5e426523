#!/usr/bin/python3
"""Compares how fast PyTorch computes on several BLAS libraries.

    bench/blas.py [--rounds N] [--seconds S] [--nice N] NAME=DIR...

DIR holds a libblas.so.3, as /usr/lib/x86_64-linux-gnu/openblas-pthread does. Prints a Markdown
table: milliseconds of forward and backward of a Linear 4096x4096 at batch 64 and of VGG-11 at batch
1, for 1 to 4 processes at once with 1 and 2 threads each. A figure is the median over rounds of the
median over all passes. The libraries take turns, so that other work on the machine affects them
equally. Needs Debian's python3-torch.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "deploy"))
import arguments  # noqa: E402

SHAPES = [(1, 1), (1, 2), (2, 1), (2, 2), (4, 1)]  # processes, threads of each
WORKS = ["linear", "vgg11"]


def compute(work, threads, seconds, nice):
    """Runs in a child: prints "ready", waits for a line, and prints the seconds of its passes."""
    import torch
    sys.path.insert(0, str(pathlib.Path(__file__).parent / "peers"))
    from compute import use_threads
    from models import vgg11
    use_threads(threads)
    torch.manual_seed(744)
    if work == "linear":
        model, x = torch.nn.Linear(4096, 4096), torch.randn(64, 4096)
    else:
        model, x = vgg11(), torch.randn(1, 3, 32, 32)

    def one_pass():
        model.zero_grad(set_to_none=True)
        start = time.perf_counter()
        model(x).sum().backward()
        return time.perf_counter() - start

    one_pass()
    print("ready", flush=True)
    sys.stdin.readline()
    for thread in os.listdir("/proc/self/task"):
        os.setpriority(os.PRIO_PROCESS, int(thread), nice)
    end = time.perf_counter() + seconds
    passes = [one_pass()]
    while time.perf_counter() < end:
        passes.append(one_pass())
    print(json.dumps(passes))


def measure(a, folder, work, shape):
    """Returns the median seconds of a pass of `shape[0]` processes that compute at once."""
    processes, threads = shape
    command = [sys.executable, __file__, "--compute", work, str(threads), str(a.seconds),
               str(a.nice)]
    environment = dict(os.environ, LD_LIBRARY_PATH=folder)
    children = [subprocess.Popen(command, env=environment, text=True, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE) for _ in range(processes)]
    for child in children:
        if child.stdout.readline() != "ready\n":
            sys.exit(f"a process on {folder} failed")
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    passes = [json.loads(child.communicate()[0]) for child in children]
    return statistics.median([second for of_one in passes for second in of_one])


def check_libraries(parser, libraries):
    """Refuses a folder without libblas.so.3, because the usual library would be measured."""
    for library in libraries:
        _, found, folder = library.partition("=")
        if not found:
            parser.error(f"got '{library}', expected NAME=DIR")
        if not os.path.exists(os.path.join(folder, "libblas.so.3")):
            parser.error(f"got '{library}', expected a folder that holds libblas.so.3")


def main():
    if sys.argv[1:2] == ["--compute"]:
        return compute(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]))
    p = arguments.Parser(__doc__)
    p.add_numbers(rounds=3, seconds=2.0)
    p.add_argument("--nice", type=int, default=0, help="of the timed passes; below 0 needs root")
    p.add_argument("libraries", nargs="+", metavar="NAME=DIR")
    a = p.parse_args()
    check_libraries(p, a.libraries)
    folders = dict(library.split("=", 1) for library in a.libraries)
    cases = [(work, shape) for work in WORKS for shape in SHAPES]
    found = {(name, case): [] for name in folders for case in cases}
    for _ in range(a.rounds):
        for case in cases:
            for name, folder in folders.items():
                found[name, case].append(measure(a, folder, *case))
                print(name, *case, found[name, case][-1], file=sys.stderr, flush=True)
    print("| ms | processes × threads |", " | ".join(folders), "|")
    print("|---" * (2 + len(folders)) + "|")
    for work, shape in cases:
        figures = [f"{1e3 * statistics.median(found[name, (work, shape)]):.1f}" for name in folders]
        print(f"| {work} | {shape[0]} × {shape[1]} |", " | ".join(figures), "|")


main()
