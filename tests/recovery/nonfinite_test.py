"""Gradients that are not finite in runs of several workers: all do the same."""
import json
import unittest

from kill_test import Run

# The loss is infinite or NaN within some steps.
DIVERGES = ["--sync", "ddp", "--lr", "1e18", "--momentum", "0", "--weight-decay", "0"]


class NonfiniteTest(unittest.TestCase):
    def test_stop_ends_the_run_and_nobody_goes_on(self):
        run = Run(*DIVERGES, "--on-nonfinite", "stop", workers=2, world_size=2)
        self.assertEqual(run.end(), 1, run.text)
        self.assertRegex(run.text, r"rank [01] ends the run: step [0-9]+: the mean gradient of "
                                   r"[a-z0-9.]+ is not finite")
        self.assertNotIn("is carried on by others", run.text)

    def test_skip_counts_what_it_leaves_out(self):
        run = Run(*DIVERGES, "--on-nonfinite", "skip", workers=2, world_size=2)
        self.assertEqual(run.end(), 0, run.text)
        ranks = json.loads(run.summary.read_text())["ranks"]
        skipped = [rank["failures"]["skipped_steps"] for rank in ranks]
        self.assertGreater(skipped[0], 0)
        self.assertEqual(skipped[0], skipped[1])
        self.assertEqual(run.hashes()[0], run.hashes()[1])

    def test_what_has_no_common_mean_refuses_it(self):
        for words in (["--sync", "local-sgd:2", "--on-nonfinite", "stop"],
                      ["--compress", "int8", "--on-nonfinite", "skip"]):
            run = Run(*words, workers=2, world_size=2)
            self.assertEqual(run.end(), 2, run.text)
            self.assertIn("--on-nonfinite: got ", run.text)


if __name__ == "__main__":
    unittest.main()
