"""On a machine with far too few cores for its workers, no worker counts as lost."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(os.environ["GRADWIRE_BIN_DIR"])
WORKERS = 8
CORES = sorted(os.sched_getaffinity(0))[:2]
BUSY_LOOPS = 1
# Some minutes of VGG-11: much longer than the leases need to adapt.
RUN = ["--dataset", "synthetic", "--batch-size", "16", "--iterations", "40", "--threads", "1",
       "--lr", "0.01", "--print-every", "0"]


class FullLoadTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gradwire-load-")
        self.addCleanup(folder.cleanup)
        self.summary = pathlib.Path(folder.name, "summary.json")
        for _ in range(BUSY_LOOPS):
            loop = subprocess.Popen([sys.executable, "-c", "while True: pass"],
                                    preexec_fn=lambda: os.sched_setaffinity(0, CORES))
            self.addCleanup(loop.wait)
            self.addCleanup(loop.kill)

    def test_eight_workers_and_a_busy_loop_on_two_cores(self):
        command = [BIN / "gradwire", "launch", "--workers", WORKERS, "--listen", "127.0.0.1:0",
                   "--metrics", "off", "--summary", self.summary, "--", "--sync", "ddp", *RUN]
        done = subprocess.run([str(word) for word in command], text=True, timeout=1800,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              preexec_fn=lambda: os.sched_setaffinity(0, CORES))
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("was lost", done.stdout)
        ranks = json.loads(self.summary.read_text())["ranks"]
        self.assertEqual([rank["failures"]["views"] for rank in ranks], [1] * WORKERS)
        self.assertEqual(len({rank["parameters_sha256"] for rank in ranks}), 1)


if __name__ == "__main__":
    unittest.main()
