#!/usr/bin/python3
"""Measures the cost of watching a run: an iteration with all tools on, against all off.

    bench/observing.py [--rounds N] [--workers N] [--iterations N] [--batch-size N]

Off: no metrics, no logs. On: metrics of the coordinator and all workers, Debian's Prometheus
scraping them each second (deploy/observe), the live page's requests each second, --trace and
--log-jsonl. Runs of both kinds take turns on this machine; the order changes with each round. Prints
the median iteration of each, over all runs and ranks, and their ratio. BIN_DIR names another folder
of programs.
"""
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "deploy")]
import arguments  # noqa: E402 (they are found only now)
from cli.runs.runner import free_port  # noqa: E402

BIN_DIR = pathlib.Path(os.environ.get("BIN_DIR") or ROOT / "build" / "bin")
PAGES = ("status.json", "history.json?points=600")


def viewer(address, over):
    """Requests pages as often as the live page does."""
    while not over.wait(1):
        for page in PAGES:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://{address}/{page}", timeout=5).read()


@contextlib.contextmanager
def watched(address, folder):
    """Runs Prometheus and a viewer of the live page."""
    prometheus = subprocess.Popen(
        [ROOT / "deploy" / "observe", "--coordinator", address, "--port", str(free_port()),
         "--data-dir", folder / "prometheus", "--scrape-interval", "1s"],
        stdout=subprocess.DEVNULL)
    over = threading.Event()
    page = threading.Thread(target=viewer, args=(address, over))
    page.start()
    try:
        yield
    finally:
        over.set()
        page.join()
        prometheus.terminate()
        prometheus.wait()


def train(options, everything):
    """Trains, and returns each rank's median seconds of an iteration."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as watching:
        folder = pathlib.Path(name)
        address = f"127.0.0.1:{free_port()}"
        own, workers = ["--metrics", "off"], []
        if everything:
            own = ["--metrics", address, "--trace", folder / "trace.json"]
            workers = ["--metrics", "127.0.0.1:0", "--log-jsonl", folder / "log.jsonl"]
            watching.enter_context(watched(address, folder))
        command = [BIN_DIR / "gradwire", "launch", "--workers", str(options.workers),
                   "--summary", folder / "summary.json", *own, "--", *workers,
                   "--dataset", "synthetic", "--batch-size", str(options.batch_size),
                   "--iterations", str(options.iterations), "--threads", "1",
                   "--lr", "0.01", "--print-every", "0"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ranks = json.loads((folder / "summary.json").read_text())["ranks"]
        return [rank["iteration_seconds"]["p50"] for rank in ranks]


def main():
    parser = arguments.Parser(__doc__)
    parser.add_numbers(rounds=6, workers=2, iterations=60, batch_size=16)
    options = parser.parse_args()
    seconds = {False: [], True: []}
    for turn in range(options.rounds):
        for everything in (turn % 2 == 0, turn % 2 == 1):
            taken = train(options, everything)
            seconds[everything] += taken
            print(f"round {turn + 1}, everything {'on ' if everything else 'off'}: "
                  f"{statistics.mean(taken):.4f} s", flush=True)
    off, on = (statistics.median(seconds[everything]) for everything in (False, True))
    print(f"median: off {off:.4f} s, on {on:.4f} s, ratio {on / off:.4f}")


if __name__ == "__main__":
    main()
