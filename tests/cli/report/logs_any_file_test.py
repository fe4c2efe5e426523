"""cli/report/logs: whatever a log holds, it is read as iterations of one rank in order, or refused
with a sentence that names the line."""
import json
import math
import pathlib
import sys
import unittest

SOURCES = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(SOURCES), str(SOURCES / "tests/support")]
from cli.report.logs import MOST_RANK, MOST_WHOLE, parse_log
from cli.runs.failure import EXIT_USAGE, Failure
from random_changes import changes

PHASES = [{"name": "data"}, {"name": "communication"}]


def line(number, **other):
    record = {"step": number, "epoch": 0, "rank": 2, "loss": 0.5, "samples": 64,
              "iteration_seconds": 0.1, "phase_seconds": {"data": 0.01, "communication": None},
              "bytes_sent": 100, "bytes_received": 100, **other}
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


EPOCH = b'{"kind":"epoch","epoch":0,"loss":0.1}\n'
GOOD = line(0) + line(1) + EPOCH + line(5, loss=None)
SEEDS = [
    b"", b"\n", GOOD, GOOD[:-1], GOOD[:-20], EPOCH, line(3) + line(2), line(0) + line(1, rank=3),
    line(0, loss=10**400), line(0, step=-1), line(0, rank=1e3), line(0, samples=True),
    line(MOST_WHOLE, rank=MOST_RANK), line(0).replace(b"0.5", b"NaN"),
    line(0).replace(b"0.5", b"1e999"), line(0).replace(b"0.5", b"9" * 5000),
    line(0, name="ä\ud800"), line(0).replace(b"0.5", b"[" * 100000), line(0, phase_seconds=[1]),
    line(0).replace(b"\n", b"\r\n"), line(0).replace(b"0.5", b"\xff"), b"\x00" + line(0),
]


class AnyFile(unittest.TestCase):
    def check_number(self, value):
        self.assertTrue(value is None or math.isfinite(value), value)

    def check_log(self, log):
        steps = [record["step"] for record in log.records]
        self.assertTrue(steps)
        self.assertEqual(steps, sorted(set(steps)))
        self.assertTrue(0 <= log.rank <= MOST_RANK)
        for record in log.records:
            self.assertEqual(record["rank"], log.rank)
            for value in (record["loss"], record["iteration_seconds"], record["bytes_sent"],
                          *(record["phase_seconds"][phase["name"]] for phase in PHASES)):
                self.check_number(value)

    def check(self, data):
        try:
            log = parse_log("F", data, PHASES)
        except Failure as failure:
            self.assertEqual(failure.exit_code, EXIT_USAGE)
            self.assertRegex(str(failure), r"\AF:[0-9]*:? ?got|\AF:[0-9]+: ")
            str(failure).encode()
            return
        self.check_log(log)

    def test_any_changes_of_a_log(self):
        for data in changes(SEEDS, 5000):
            with self.subTest(data=data[:200]):
                self.check(data)


if __name__ == "__main__":
    unittest.main()
