"""A worker is killed after the last step, while the results are written, and all files are those of the
undisturbed run."""
import functools
import hashlib
import pathlib
import signal
import tempfile
import unittest

from local_run import WORLD_SIZE, Death, LocalRun

ITERATIONS = 3
WORDS = ["--dataset", "synthetic", "--seed", "744", "--batch-size", "2", "--threads", "1",
         "--print-every", "0", "--model", "mlp", "--sync", "ddp", "--backend", "sharded",
         "--iterations", str(ITERATIONS)]


def results_of(deaths=()):
    """SHA-256 of the weights' file, and hashes of all ranks from their summaries."""
    with tempfile.TemporaryDirectory() as folder:
        weights = pathlib.Path(folder, "weights.safetensors")
        with LocalRun([*WORDS, "--save-weights", str(weights)], pathlib.Path(folder),
                      deaths=deaths) as run:
            summaries = run.summaries()
            if not weights.exists():
                raise AssertionError(f"no weights\n{run.text()}")
        names = ("parameters_sha256", "buffers_sha256")
        return (hashlib.sha256(weights.read_bytes()).hexdigest(),
                [[summary[name] for name in names] for summary in summaries])


@functools.lru_cache(maxsize=None)
def undisturbed():
    return results_of()


class ResultsTest(unittest.TestCase):
    def test_stopped_before_it_saves_and_saves_after_the_others(self):
        death = Death(0, "save", ITERATIONS, signal.SIGSTOP)
        self.assertEqual(results_of([death]), undisturbed())

    def check_kills(self, *places):
        for rank, point in places:
            with self.subTest(point=point, rank=rank):
                death = Death(rank, point, ITERATIONS, signal.SIGKILL)
                self.assertEqual(results_of([death]), undisturbed())

    def test_behind_the_last_step_none_is_computed_again(self):
        death = Death(0, "saved", ITERATIONS, signal.SIGKILL)
        with tempfile.TemporaryDirectory() as folder:
            words = [*WORDS, "--save-weights", str(pathlib.Path(folder, "weights.safetensors"))]
            with LocalRun(words, pathlib.Path(folder), deaths=[death]) as run:
                failures = [summary["failures"] for summary in run.summaries()]
        self.assertEqual({(one["losses"], one["retries"]) for one in failures}, {(1, 0)})

    def test_killed_behind_the_last_step(self):
        self.check_kills((0, "saved"), (WORLD_SIZE - 1, "before-sealed"))


class EvaluationTest(unittest.TestCase):
    """A worker is lost when all steps are done, and the others evaluate without it."""
    WORDS = [*WORDS, "--model", "lenet", "--evaluate"]

    def qualities_of(self, deaths=()):
        """Returns the ranks' results on the test data."""
        with tempfile.TemporaryDirectory() as folder:
            with LocalRun(self.WORDS, pathlib.Path(folder), deaths=deaths) as run:
                return [summary.get("test") for summary in run.summaries()]

    def test_killed_before_the_evaluation(self):
        death = Death(2, "before-sealed", ITERATIONS - 1, signal.SIGKILL)
        self.assertEqual(self.qualities_of([death]), self.qualities_of())


class LongResultsTest(ResultsTest):
    def test_killed_at_the_other_points(self):
        self.check_kills((0, "save"), (0, "ready"), (WORLD_SIZE - 1, "ready"), (0, "before-sealed"))


if __name__ == "__main__":
    unittest.main()
