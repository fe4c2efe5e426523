"""`gradwire experiment` for real, as small as it goes: the page is written, and claims hold that
depend on no time.

GRADWIRE_BIN_DIR has the programs.
"""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

GRADWIRE = pathlib.Path(os.environ["GRADWIRE_BIN_DIR"], "gradwire")
# Of all claims, those that need neither hosts, nor data, nor whole epochs.
HOLD_ANYWHERE = {
    "course": ["All setups of 4 nodes have the same first loss",
               "All-reduce gives the losses of gather and scatter: within 1e-05",
               "DDP gives exactly what gather and scatter gives",
               "Parameter by parameter gives exactly the losses",
               "All-reduce communicates less between nodes", "Communication rises with the nodes"],
    "collectives": ["Each collective gives every rank what its definition says",
                    "On the ring every rank sends 2(N−1)/N of the tensor",
                    "On the tree the root sends the tensor to each of its log2(N) children",
                    "Every rank gets the mean of all ranks' tensors"],
    "lab": ["Bytes sent are those of the plan", "Without set_epoch two epochs come in one order",
            "Without broadcast the ranks' BatchNorm statistics differ"],
    "large-batch": ["lr is that of the linear rule"],
    "ddp-paper": ["The size of buckets changes no bit", "The number of groups changes no bit",
                  "The tree gives the losses of the fold",
                  "Under no_sync there is one exchange",
                  "Parameters go to buckets in the reverse order of layers",
                  "If one rank is late, all ranks of a ring wait for it"],
    "data-parallel": ["The numbers of trained parameters are the report's",
                      "Training leaves frozen weights and statistics as they are",
                      "Several devices compute what one does", "Native and vanilla training compute",
                      "Between devices go the others' images"],
    "inference": ["Native and vanilla give the same scores, to the bit",
                  "Native and vanilla give the scores of one device"],
    "time-to-accuracy": ["Each method that is to send fewer bytes", "All ranks of a run end with"]}
COMPARES_TIMES = {"lab", "data-parallel", "inference"}  # even here, where all devices are threads of one process


def run(*words):
    return subprocess.run([GRADWIRE, "experiment", *words], capture_output=True, text=True,
                          check=False)


class RealExperiments(unittest.TestCase):
    """Has besides, of each experiment, a test_NAME whose claims that need no time hold."""
    def test_listed_are_all_that_run_here(self):
        listed = {line.split()[0] for line in run("list").stdout.splitlines()}
        self.assertEqual(listed, set(HOLD_ANYWHERE))
        self.assertEqual(listed, set(os.environ["GRADWIRE_EXPERIMENTS"].split()))

    def check(self, name, starts, out):
        ran = run(name, "--scale", "tiny", "--out", out)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(ran.stdout, f"{out}/report.html\n")
        claims = json.loads((out / "results.json").read_text())["claims"]
        for start in starts:
            (claim,) = (claim for claim in claims if claim["claim"].startswith(start))
            self.assertEqual(claim["verdict"], "confirmed", claim)
        if name == "course":
            self.check_coordinator(out)
        if name not in COMPARES_TIMES:
            self.assertEqual([claim for claim in claims if claim["verdict"] == "not-confirmed"], [])

    def check_coordinator(self, out):
        rows = json.loads((out / "results.json").read_text())["tables"]["coordinator"]
        self.assertEqual([row["run"] for row in rows],
                         ["gather and scatter", "gather and scatter by parameter"])
        for row in rows:
            self.assertAlmostEqual(sum(row[part] for part in ("wait", "receive", "fold", "send")),
                                   row["total"])
            self.assertGreater(row["receive"], 0)

    def test_no_data_ends_it_before_anything_starts(self):
        with tempfile.TemporaryDirectory() as folder:
            ran = run("course", "--scale", "tiny", "--data-dir", folder, "--out", f"{folder}/out")
            self.assertEqual(ran.returncode, 2, ran.stderr)
            self.assertIn(f"--data-dir: got '{folder}', which holds none of its files, expected "
                          "CIFAR-10 (data_batch_1.bin); fetch it with deploy/fetch-cifar10 DIR",
                          ran.stderr)
            self.assertNotIn("run 1 of", ran.stderr)


def add_test(name, starts):
    def test(self):
        with tempfile.TemporaryDirectory() as folder:
            self.check(name, starts, pathlib.Path(folder, "out"))
    setattr(RealExperiments, f"test_{name.replace('-', '_')}", test)


for experiment, claims_of_it in HOLD_ANYWHERE.items():
    add_test(experiment, claims_of_it)


if __name__ == "__main__":
    unittest.main()
