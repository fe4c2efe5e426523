"""Trainers hang while their workers' heartbeats go on: the others say that a step is late, that worker is
lost for it, and the result is that of the undisturbed run, to the bit."""
import tempfile
import pathlib
import unittest

from local_run import HANG, Death, LocalRun
from matrix_test import ITERATIONS, STEP, Cell, CellTest, hashes_of, summaries_of, undisturbed

TIMEOUT = 5  # seconds; of a step of some milliseconds


class HangTest(CellTest):
    def check_hang(self, point, backend, sync="ddp", expected=None, number=STEP):
        words = [*Cell("", HANG, "", "").words(), "--sync", sync, "--backend", backend,
                 "--step-timeout-seconds", str(TIMEOUT)]
        with (tempfile.TemporaryDirectory() as folder,
              LocalRun(words, pathlib.Path(folder), deaths=[Death(2, point, number, HANG)]) as run):
            summaries = run.summaries()
            said = run.text()
        self.assertEqual(hashes_of(summaries),
                         expected or undisturbed(Cell("", HANG, "", "").words()), said)
        self.assertEqual({summary["failures"]["losses"] for summary in summaries}, {1}, said)
        self.assertIn("waited in vain for its part of step", said)
        return said

    def test_in_a_forward_pass_over_each_back_end(self):
        for backend in ("coordinator", "sharded", "ring"):
            with self.subTest(backend=backend):
                self.check_hang("next-forward", backend)

    def test_in_a_forward_pass_over_the_tree(self):
        words = Cell("", HANG, "", "").words()
        expected = hashes_of(summaries_of([*words, "--backend", "tree"]))
        self.check_hang("next-forward", "tree", expected=expected)

    def test_while_it_applies_a_mean(self):
        self.check_hang("applied", "ring", sync="gather-scatter")

    def test_while_it_applies_a_late_mean_the_log_says_where_it_is(self):
        said = self.check_hang("applied", "ring")
        self.assertRegex(said, rf"rank 2 \(\S+\) holds up step {STEP + 1}: .*; rank 2 has been in "
                               rf"optimizer of step {STEP} for ")

    def test_while_it_applies_a_mean_of_the_last_step(self):
        self.check_hang("applied", "sharded", number=ITERATIONS[HANG] - 1)

    def test_before_it_takes_a_mean(self):
        self.check_hang("sealed", "coordinator")


if __name__ == "__main__":
    unittest.main()
