"""bench/recovery.py: what it says of a kill and of a stop."""
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench" / "recovery.py"
TABLE = re.compile(r"\n +p50 +p99 +max\nnew view +([\d.]+) s.*\ncomputing +([\d.]+) s.*\n"
                   r"done again +([\d.]+) s.*\niterations +([\d.]+) .*\n$")


def measure(*options):
    bin_dir = os.environ["GRADWIRE_BIN_DIR"]
    return subprocess.run([sys.executable, "-B", BENCH, "--workers", "3", *options],
                          env={**os.environ, "BIN_DIR": bin_dir}, text=True, timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)


class TimesTest(unittest.TestCase):
    def test_times_are_those_of_the_slowest_survivor(self):
        spec = importlib.util.spec_from_file_location("recovery_bench", BENCH)
        bench = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(bench)
        survivors = [{"first_step": 7, "heard": heard, "gone_on": gone_on,
                      "seconds_lost_by_phase": {"computing": computing}}
                     for heard, gone_on, computing in
                     ((100.2, 100.4, 0.1), (100.3, 100.5, 0.2), (100.1, 100.9, 0.3),
                      (100.2, 100.3, 0.1))]
        found = bench.times_of(survivors, 100.0, 0.15)
        self.assertEqual(found.pop("step"), 7)
        for name, expected in (("new view", 0.3), ("computing", 0.9), ("done again", 0.3),
                               ("iterations", 2.0)):
            self.assertAlmostEqual(found.pop(name), expected, msg=name)
        self.assertEqual(found, {})


class BenchTest(unittest.TestCase):
    def times(self, result):
        """The medians of the table."""
        self.assertEqual(result.returncode, 0, result.stdout)
        found = TABLE.search(result.stdout)
        self.assertTrue(found, result.stdout)
        return [float(text) for text in found.groups()]

    def test_one_killed_a_line_and_a_table(self):
        result = measure("--kills", "1")
        new_view, computing, _, _ = self.times(result)
        self.assertLessEqual(new_view, computing)
        self.assertRegex(result.stdout, r"^1: rank [012], step \d+: new view [\d.]+ s, computing ")

    def test_one_stopped_is_lost_after_its_lease(self):
        new_view, _, _, _ = self.times(measure("--kills", "1", "--by", "stop", "--lease-seconds", "1",
                                               "--", "--backend", "sharded"))
        self.assertGreaterEqual(new_view, 0.9)

    def test_run_that_does_not_go_on_fails(self):
        result = measure("--kills", "1", "--", "--backend", "gloo")
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertRegex(result.stdout, r"(?s)^bench/recovery\.py: rank \d ended:\n.*was lost in step")

    def test_too_few_workers_are_refused(self):
        result = measure("--workers", "2")
        self.assertEqual(result.returncode, 2, result.stdout)
        self.assertIn("got 10 kills of 2 workers, expected 1 or more of 3 or more", result.stdout)


if __name__ == "__main__":
    unittest.main()
