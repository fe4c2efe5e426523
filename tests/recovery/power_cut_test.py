"""The power is cut before each operation on the disk of a run with checkpoints that is continued once.
The newest checkpoint is then whole, and the ledger opens and is sound."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ["GRADWIRE_BIN_DIR"])
RECORDER = BIN.parent / "tests/libdisk_recorder.so"
STEPS = (120, 240)  # the run ends there, and goes on


class PowerCutTest(unittest.TestCase):
    def test_run_directory_is_sound_wherever_a_run_is_cut(self):
        with tempfile.TemporaryDirectory(prefix="gradwire-cut-") as folder:
            place = pathlib.Path(folder).resolve()
            run_dir, log = place / "run", place / "log"
            for steps in STEPS:
                self.record(run_dir, log, steps)
            cut = subprocess.run([BIN / "power-cut", log, run_dir], capture_output=True, text=True,
                                 timeout=800)
            self.assertEqual(cut.returncode, 0, cut.stdout + cut.stderr)
            found = re.fullmatch(r"(\d+) operations, last checkpoint (\d+), (\d+) runs, (\d+) cuts\n",
                                 cut.stdout)
            self.assertIsNotNone(found, cut.stdout)
            self.assertGreater(int(found[1]), 50, cut.stdout)
            self.assertEqual((int(found[2]), int(found[3])), (STEPS[-1], len(STEPS)))
            print(cut.stdout.strip())

    def record(self, run_dir, log, steps):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("GRADWIRE_")}
        environment |= {"LD_PRELOAD": str(RECORDER), "DISK_ROOT": str(run_dir), "DISK_LOG": str(log)}
        run = subprocess.run(
            [BIN / "gradwire", "launch", "--workers", "2", "--metrics", "off", "--run-dir", run_dir,
             "--checkpoint-every", "40", "--keep-checkpoints", "2", "--", "--model", "lenet",
             "--dataset", "synthetic", "--batch-size", "4", "--threads", "1", "--iterations",
             str(steps)],
            env=environment, capture_output=True, text=True, timeout=300)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)


if __name__ == "__main__":
    unittest.main()
