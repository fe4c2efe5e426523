"""A small HTTP server that serves the live page beside made-up answers.

It stands for a coordinator in tests of what a short real run cannot show: ten
thousand iterations, odd values, the end of the coordinator.
"""

import http.server
import json
import math
import pathlib
import sys
import threading
import time
import urllib.parse

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(SOURCE / "tests" / "support"))
from phases import PHASES  # noqa: E402 (it is found only now)

WEB = SOURCE / "coordinator" / "web"
DYGRAPHS = pathlib.Path("/usr/share/javascript/dygraphs")
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript",
         ".svg": "image/svg+xml"}
SETTINGS = {"sync": "ddp", "backend": "sharded", "wire": "fp32", "model": "vgg11",
            "dataset": "synthetic", "batch-size": "64"}
NOON = 1_795_003_200  # Unix seconds


def phases(**changes):
    """Seconds of each phase; of one that is not among these, none."""
    seconds = {"data": 0.001, "forward": 0.12, "backward": 0.22, "communication": 0.2,
               "exposed_communication": 0.08, "optimizer": 0.01, **changes}
    return {phase["name"]: seconds.get(phase["name"], 0) for phase in PHASES}


def rank(number, steps, work=0.35, **changes):
    """One entry of "ranks" in /status.json."""
    return {"rank": number, "address": f"10.10.1.{number + 1}:29401", "metrics": "",
            "state": "running", "steps_done": steps, "loss": 2.1 if steps else None,
            "iteration_seconds": 0.431 if steps else 0, "work_seconds": work if steps else 0,
            "phase_seconds": phases() if steps else dict.fromkeys(phases(), 0),
            "samples": 64, "bytes_sent": 55_000_000, "bytes_received": 55_000_000,
            "peak_memory_bytes": 412_345_678 if steps else 0, "heard_seconds": 0.2, **changes}


def status(step=17, total_steps=196, ranks=4, **changes):
    """/status.json of a run in good health."""
    now = time.time()
    return {"program": "gradwire-coordinator", "version": "0.1.0", "run": "5f0c9a1be2d34711",
            "state": "running", "reason": "", "epoch": 1, "generation": 1, "world_size": ranks,
            "settings": SETTINGS, "step": step, "total_steps": total_steps, "now": now,
            "started": now - 0.43 * step, "slowest_rank": ranks - 1 if step else None,
            "phases": PHASES,
            "ranks": [rank(number, step) for number in range(ranks)],
            "failures": {"views": 1, "losses": 0, "recomputed_ranks": 0, "seconds_lost": 0,
                         "last": []},
            "events": [{"time": now - 0.43 * step, "step": 0, "kind": "started",
                        "text": f"view 1 of {ranks} ranks was formed"}], **changes}


def with_loss(status, lost=2, by=1, step=7):
    """That status, after the worker of rank `lost` was lost and the one of `by` carries it too."""
    carrier = status["ranks"][by]
    status["ranks"][lost].update(address=carrier["address"])
    loss = {"time": status["now"] - 1, "step": step, "ranks": [lost],
            "cause": "its session stream broke", "seconds_lost": 0.412, "generation": 2,
            "first_step": step, "carriers": [
                {"address": carrier["address"], "ranks": sorted([by, lost]), "adopted": [lost]}]}
    failures = {"views": 2, "losses": 1, "recomputed_ranks": 1, "seconds_lost": 0.412}
    return {**status, "generation": 2, "failures": {**failures, "last": [loss]}}


def point(step, steps=1, **changes):
    """One entry of "points" in /history.json."""
    wave = 1 + 0.05 * math.sin(step / 7) + 0.02 * math.sin(step * 1.7)
    measured = {name: seconds * wave for name, seconds in phases().items()}
    return {"step": step, "steps": steps, "time": NOON + 0.43 * (step + steps),
            "iteration_seconds": 0.431 * wave, "longest_seconds": 0.46 * wave,
            "phase_seconds": measured, "loss": 0.4 + 1.9 * math.exp(-step / 900),
            "samples_per_second": 256 / (0.431 * wave), "bytes_sent": 220_000_000, **changes}


def history(steps, points=600):
    """/history.json of a run of `steps` steps, merged until at most `points` are left."""
    resolution = 1
    while math.ceil(steps / resolution) > points:
        resolution *= 2
    firsts = range(0, steps, resolution)
    return {"run": "5f0c9a1be2d34711", "resolution": resolution,
            "points": [point(first, min(resolution, steps - first)) for first in firsts]}


class FakeCoordinator:
    """Serves until stop(). `status` is a dict; `history` a function of the points wanted, which
    returns None where an answer is to fail."""

    def __init__(self, status, history, port=0):
        self.status = status
        self.history = history
        self.requests = []
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                owner.answer(self)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def stop(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, request):
        url = urllib.parse.urlsplit(request.path)
        self.requests.append(request.path)
        if url.path == "/status.json":
            self._send(request, "application/json", json.dumps(self.status).encode())
        elif url.path == "/history.json":
            wanted = int(urllib.parse.parse_qs(url.query).get("points", ["600"])[0])
            history = self.history(min(wanted, 2000))
            if history is None:
                request.send_error(503)
                return
            self._send(request, "application/json", json.dumps(history).encode())
        else:
            self._send_file(request, url.path)

    def _send_file(self, request, path):
        name = "index.html" if path == "/" else path.removeprefix("/assets/")
        if name == "dygraphs-licence.txt":
            self._send(request, "text/plain", b"MIT")
            return
        folder = DYGRAPHS if name.startswith("dygraph.") else WEB
        file = folder / name
        if "/" in name or not file.is_file():
            request.send_error(404)
            return
        self._send(request, TYPES[file.suffix], file.read_bytes())

    @staticmethod
    def _send(request, content_type, body):
        request.send_response(200)
        request.send_header("Content-Type", content_type + "; charset=utf-8")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)
