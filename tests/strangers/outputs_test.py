"""Disks that are full, and files that others have put where this run writes."""
import json
import os
import subprocess
import unittest

import strangers


class OutputsTest(strangers.StrangersTest):
    def test_log_and_summary_on_a_full_disk_cost_the_others_nothing(self):
        coordinator = self.coordinator(2)
        full = ["--log-jsonl", "/dev/full", "--summary", "/dev/full"]
        unlucky = self.worker(coordinator, 0, "--iterations", "20", *full)
        summary = self.folder / "summary"
        other = self.worker(coordinator, 1, "--iterations", "20", "--summary", summary)
        self.assert_done([other, coordinator])
        self.assertEqual(json.loads(summary.read_text())["iterations"], 20)
        self.assertEqual(unlucky.wait(20), 1)
        self.assertIn("cannot write /dev/full: no space left on device", unlucky.text())

    def test_weights_on_a_full_disk_cost_the_others_nothing_and_leave_the_summaries(self):
        coordinator = self.coordinator(2)
        summaries = [self.folder / "summary0", self.folder / "summary1"]
        (self.folder / "full.pt").symlink_to("/dev/full")
        save = ["--save-weights", self.folder / "full.pt"]
        unlucky, other = (self.worker(coordinator, rank, "--iterations", "20", *save, "--summary",
                                      summaries[rank]) for rank in range(2))
        self.assert_done([other, coordinator])
        self.assertEqual(unlucky.wait(20), 1)
        self.assertIn(f"cannot write {save[1]}: no space left on device", unlucky.text())
        for summary in summaries:
            self.assertEqual(json.loads(summary.read_text())["iterations"], 20)

    def output_lost(self, *command):
        """Returns the exit code and stderr of a command whose stdout is full."""
        with open("/dev/full", "wb") as full:
            done = subprocess.run([strangers.BIN / command[0], *command[1:]], stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        return done.returncode, done.stderr

    def test_output_that_is_lost_is_a_failure_of_every_command(self):
        run = self.folder / "run"
        launch = ("gradwire", "launch", "--workers", "1", "--run-dir", run, "--", "--iterations",
                  "2", "--model", "lenet", "--dataset", "synthetic", "--batch-size", "2")
        code, said = self.output_lost(*launch)
        self.assertEqual(code, 1)
        self.assertIn("finished after 2 steps; all ranks finished", said)
        self.assertTrue(said.endswith("gradwire launch: cannot write to stdout: no space left on "
                                      "device; some lines are missing\n"), said)
        for command in (["--help"], ["--version"], ["env"], ["models", "--model", "lenet"],
                        ["plan", "--model", "lenet"], ["experiment", "claims"],
                        ["launch", "--help"], ["checkpoint", "list", run],
                        ["checkpoint", "verify", "--json", run], ["ledger", "show", run]):
            with self.subTest(command=command):
                code, said = self.output_lost("gradwire", *command)
                self.assertEqual(code, 1)
                self.assertRegex(said, r"(?m)^gradwire[a-z ]*: cannot write to stdout\n\Z")

    def test_links_where_temporary_files_were_are_not_followed(self):
        victim = self.folder / "victim"
        victim.write_text("precious")
        (self.folder / "ports.tmp").symlink_to(victim)
        coordinator = self.coordinator(1)
        self.assertTrue(coordinator.address)
        self.assertEqual(victim.read_text(), "precious")
        self.assertEqual(os.listdir(self.folder).count("ports"), 1)

    def test_sparse_data_file_is_refused(self):
        data = self.folder / "data"
        data.mkdir()
        for name in [f"data_batch_{batch}.bin" for batch in range(1, 6)] + ["test_batch.bin"]:
            with open(data / name, "wb") as file:
                file.truncate(3073 << 30)  # three terabytes that take no room
        worker = strangers.Process(
            [strangers.BIN / "gradwire-worker", "--sync", "none", "--iterations", "1", "--threads",
             "1", "--model", "lenet", "--dataset", "cifar10", "--data-dir", data],
            self.folder / "worker")
        self.assertEqual(worker.wait(60), 2, worker.text())
        self.assertIn("expected at most", worker.text())


if __name__ == "__main__":
    unittest.main()
