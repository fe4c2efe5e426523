"""`gradwire experiment course` as a whole, with the real programs.

At scale "tiny", which --help does not name: a few iterations of a few images, whose times say
nothing. What does not depend on time must hold there too. GRADWIRE_BIN_DIR names the programs.
"""
import csv
import os
import pathlib
import subprocess
import tempfile
import unittest

GRADWIRE = pathlib.Path(os.environ["GRADWIRE_BIN_DIR"], "gradwire")
# Of all claims, those that need neither hosts, nor CIFAR-10, nor an epoch.
HOLD_ANYWHERE = ("All set-ups of 4 nodes have the same first loss",
                 "All-reduce gives the losses of gather and scatter: within 1e-05",
                 "DDP gives exactly what gather and scatter gives")


class Course(unittest.TestCase):
    def test_claims_that_need_no_time_hold(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder, "out")
            ran = subprocess.run([GRADWIRE, "experiment", "course", "--scale", "tiny",
                                  "--out", out], capture_output=True, text=True, check=False)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertEqual(ran.stdout, f"{out}/report.html\n")
            with open(out / "claims.csv", encoding="utf-8") as file:
                claims = list(csv.DictReader(file))
        for start in HOLD_ANYWHERE:
            (claim,) = (claim for claim in claims if claim["claim"].startswith(start))
            self.assertEqual(claim["verdict"], "confirmed", claim)
        self.assertNotIn("not confirmed", [claim["verdict"] for claim in claims])


if __name__ == "__main__":
    unittest.main()
