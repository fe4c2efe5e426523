"""`--hosts podman`: hosts that the command makes itself, as containers; what is left of them."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from cli.hosts.containers import why_no_containers

GRADWIRE = pathlib.Path(os.environ["GRADWIRE_BIN_DIR"]) / "gradwire"


class ContainersTest(unittest.TestCase):
    def test_measures_and_leaves_nothing(self):
        if reason := why_no_containers():
            self.skipTest(reason)
        folder = self.enterContext(tempfile.TemporaryDirectory())
        done = subprocess.run(
            [GRADWIRE, "bench", "collectives", "--hosts", "podman", "--workers", "3", "--sizes",
             "4K", "--backends", "ring,coordinator", "--warmup", "1", "--iterations", "3"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "TMPDIR": folder}, timeout=200, check=False)
        if done.returncode and "--hosts podman: podman" in done.stdout:
            self.skipTest(done.stdout)  # it makes no containers here
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("3 containers on this machine (--hosts podman)", done.stdout)
        self.assertEqual(os.listdir(folder), [])


if __name__ == "__main__":
    unittest.main()
