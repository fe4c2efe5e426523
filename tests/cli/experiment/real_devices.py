"""`gradwire experiment data-parallel` and `inference` as a whole, with the real programs.

At scale "tiny", which --help does not name. GRADWIRE_BIN_DIR names the programs.
"""
import csv
import os
import pathlib
import subprocess
import tempfile
import unittest

GRADWIRE = pathlib.Path(os.environ["GRADWIRE_BIN_DIR"], "gradwire")
HOLD_ANYWHERE = {
    "data-parallel": ("The numbers of trained parameters are the report's",
                      "Training leaves frozen weights and statistics as they are",
                      "2 devices compute what one does", "Between devices go the others' images"),
    "inference": ("Native and vanilla give the same scores, to the bit",
                  "They are those of one device")}


class Devices(unittest.TestCase):
    def test_claims_that_need_no_time_hold(self):
        for name, starts in HOLD_ANYWHERE.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                verdicts = self.verdicts(name, pathlib.Path(folder, "out"))
                for start in starts:
                    (verdict,) = (verdict for claim, verdict in verdicts if claim.startswith(start))
                    self.assertEqual(verdict, "confirmed", start)

    def verdicts(self, name, out):
        ran = subprocess.run([GRADWIRE, "experiment", name, "--scale", "tiny", "--out", out],
                             capture_output=True, text=True, check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        with open(out / "claims.csv", encoding="utf-8") as file:
            return [(claim["claim"], claim["verdict"]) for claim in csv.DictReader(file)]


if __name__ == "__main__":
    unittest.main()
