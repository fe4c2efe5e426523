"""Runs that strangers disturb, on 127.0.0.1."""
import contextlib
import ctypes
import ctypes.util
import json
import pathlib
import re
import resource
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "observe"))
from support import BIN, Process, get, wait_for  # noqa: E402

from http2 import field, fixed64  # noqa: E402

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROTOCOL = int(re.search(r"kProtocolVersion = (\d+)",
                         (SOURCE / "common" / "wire" / "protocol.h").read_text())[1])
# A run of a second or so; the data is made up.
TINY = ["--dataset", "synthetic", "--model", "mlp", "--batch-size", "4", "--threads", "1",
        "--lr", "0.01", "--print-every", "0"]


_XXHASH = ctypes.CDLL(ctypes.util.find_library("xxhash"))
_XXHASH.XXH3_64bits.restype = ctypes.c_uint64
_XXHASH.XXH3_64bits.argtypes = ctypes.c_char_p, ctypes.c_size_t


def checked(message, number):
    """A message of a session with its checksum, as the one that is sent as this number of its stream,
    from 0; its fields, and theirs, are in the order of their numbers."""
    data = message + struct.pack("<Q", number)
    return message + fixed64(15, _XXHASH.XXH3_64bits(data, len(data)))


def heartbeat(number):
    """One that wants an Echo."""
    return checked(field(2, b"\x09" + struct.pack("<d", 1)), number)


def hello(incarnation, address="127.0.0.1:1", fields=(), message=0):
    """A WorkerMessage with a Hello, the first of its stream or that `message`, and more `fields` of
    it: their numbers and values."""
    own = [(4, address), (9, PROTOCOL), *fields]
    rest = b"".join(field(number, value) for number, value in sorted(own, key=lambda each: each[0]))
    return checked(field(1, fixed64(1, incarnation) + rest), message)


def status_of(pid, name):
    """A number of /proc/PID/status: "Threads", or "VmRSS" in KiB."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"^{name}:\s+(\d+)", text, re.MULTILINE)[1])


class Coordinator(Process):
    """Serves on free ports; `descriptors`: how many files and sockets it may have open; `context`:
    of who asks it, if it has TLS."""

    def __init__(self, folder, world_size, *options, descriptors=None, context=None):
        ports = pathlib.Path(folder) / "ports"
        ports.unlink(missing_ok=True)  # of an earlier one

        def limit():
            if descriptors:
                resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

        super().__init__([BIN / "gradwire-coordinator", "--world-size", world_size, "--listen",
                          "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--port-file", ports,
                          *options], pathlib.Path(folder) / "coordinator", preexec_fn=limit)
        text = wait_for("the port file", lambda: ports.exists() and ports.read_text(), 30)
        self.address = re.search("^grpc=(.*)", text, re.MULTILINE)[1]
        self.metrics = re.search("^metrics=(.*)", text, re.MULTILINE)[1]
        self._context = context

    def get(self, path, timeout=5):
        scheme = "https" if self._context else "http"
        return get(f"{scheme}://{self.metrics}{path}", timeout, self._context)

    def status(self):
        return json.loads(self.get("/status.json"))

    def wait_for_step(self, step):
        return wait_for(f"step {step}", lambda: self.status()["step"] >= step, 60)


class StrangersTest(unittest.TestCase):
    """Has a folder, and ends the processes that a test starts."""

    def setUp(self):
        self._left = contextlib.ExitStack()
        self.addCleanup(self._left.close)
        self.folder = pathlib.Path(self._left.enter_context(tempfile.TemporaryDirectory()))

    def keep(self, context):
        """Enters a context until the end of the test."""
        return self._left.enter_context(context)

    def coordinator(self, world_size, *options, **more):
        coordinator = Coordinator(self.folder, world_size, *options, **more)
        self._left.callback(coordinator.end)
        return coordinator

    def worker(self, coordinator, rank, *options):
        worker = Process([BIN / "gradwire-worker", "--coordinator", coordinator.address, "--rank",
                          rank, *TINY, *options], self.folder / f"rank-{rank}")
        self._left.callback(worker.end)
        return worker

    def keep_process(self, command, name):
        process = Process(command, self.folder / name)
        self._left.callback(process.end)
        return process

    def assert_done(self, processes, seconds=60):
        """All end, with exit code 0. Gives how long that took."""
        begin = time.monotonic()
        for process in processes:
            try:
                code = process.wait(max(0.1, begin + seconds - time.monotonic()))
            except subprocess.TimeoutExpired:
                code = f"none within {seconds} s"
            self.assertEqual(code, 0, process.text()[-3000:])
        return time.monotonic() - begin

    def assert_run_goes_well(self, coordinator, world_size):
        """A whole run, beside whatever is going on."""
        workers = [self.worker(coordinator, rank, "--iterations", "3")
                   for rank in range(world_size)]
        return self.assert_done([*workers, coordinator])
