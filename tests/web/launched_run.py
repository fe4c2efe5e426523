"""A small real run of `gradwire launch`, for tests and screenshots of its live page."""

import contextlib
import os
import pathlib
import signal
import subprocess
import tempfile
import time

BIN_DIR = pathlib.Path(os.environ.get("BIN_DIR") or
                       pathlib.Path(__file__).resolve().parents[2] / "build" / "bin")


def _rank_of(pid):
    with contextlib.suppress(OSError):
        for entry in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if entry.startswith(b"GRADWIRE_RANK="):
                return int(entry.partition(b"=")[2])
    return None


class LaunchedRun:
    """Workers on made-up data. Used as `with LaunchedRun(...) as run`; ends with the block."""

    def __init__(self, workers, iterations, batch_size=2, on_loss="stop"):
        self._folder = tempfile.TemporaryDirectory()
        self._ports = pathlib.Path(self._folder.name) / "ports"
        self._log = open(pathlib.Path(self._folder.name) / "log", "w+")
        command = [BIN_DIR / "gradwire", "launch", "--workers", str(workers),
                   "--port-file", self._ports, "--metrics", "127.0.0.1:0", "--on-loss", on_loss, "--",
                   "--dataset", "synthetic", "--batch-size", str(batch_size),
                   "--iterations", str(iterations), "--threads", "1", "--print-every", "0"]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)

    def __enter__(self):
        try:
            self.url = self._wait_for_url()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        self._process.wait(timeout=30)
        self._log.close()
        self._folder.cleanup()

    def _wait_for_url(self):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(OSError):
                for line in self._ports.read_text().splitlines():
                    if line.startswith("metrics="):
                        return f"http://{line.removeprefix('metrics=')}/"
            time.sleep(0.05)
        raise RuntimeError(f"the run did not start:\n{self.log()}")

    def log(self):
        self._log.flush()
        self._log.seek(0)
        return self._log.read()

    def worker(self, rank):
        """The process of a rank."""
        for children in pathlib.Path(f"/proc/{self._process.pid}/task").glob("*/children"):
            for pid in map(int, children.read_text().split()):
                if _rank_of(pid) == rank:
                    return pid
        raise RuntimeError(f"no process of rank {rank}")

    def kill(self, rank):
        os.kill(self.worker(rank), signal.SIGKILL)

    def slow_down(self, rank, seconds):
        """Stops a rank for that long and lets it go on. To be called again and again."""
        pid = self.worker(rank)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)
