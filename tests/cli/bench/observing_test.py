"""bench/observing.py: what it says of several rounds."""
import contextlib
import importlib.util
import io
import pathlib
import unittest
from unittest import mock

BENCH = pathlib.Path(__file__).resolve().parents[3] / "bench" / "observing.py"


class Observing(unittest.TestCase):
    def test_last_line_has_the_medians_of_all_rounds(self):
        spec = importlib.util.spec_from_file_location("observing", BENCH)
        observing = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(observing)
        taken = {False: iter(([1.0, 1.0], [2.0, 2.0], [6.0, 6.0])),
                 True: iter(([3.0, 3.0], [4.0, 4.0], [9.0, 9.0]))}
        with mock.patch.object(observing, "train", lambda _, everything: next(taken[everything])), \
                mock.patch("sys.argv", ["observing.py", "--rounds", "3"]), \
                contextlib.redirect_stdout(io.StringIO()) as printed:
            observing.main()
        lines = printed.getvalue().splitlines()
        self.assertEqual(lines[-1], "median: off 2.0000 s, on 4.0000 s, ratio 2.0000")
        self.assertEqual(lines[0], "round 1, everything on : 3.0000 s")
        self.assertEqual(len(lines), 7)


if __name__ == "__main__":
    unittest.main()
