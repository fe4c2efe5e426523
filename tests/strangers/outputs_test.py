"""Disks that are full, and files that others have put where this run writes."""
import json
import os
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
