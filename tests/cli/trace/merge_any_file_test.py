"""cli/trace/merge: whatever a file holds, it is merged to what the format asks for, or refused with
a sentence."""
import json
import pathlib
import sys
import tempfile
import unittest

SOURCES = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(SOURCES), str(SOURCES / "tests/support")]
from cli.runs.failure import Failure
from cli.trace.merge import merge
from random_changes import changes

EVENT = b'{"name":"forward","ph":"X","pid":0,"tid":1,"ts":1000,"dur":5,"args":{"step":1}}'
OFFSET = b'{"name":"clock_offset","ph":"M","pid":0,"tid":0,"args":{"microseconds":-3.5}}'
GOOD = b"[\n" + EVENT + b",\n" + OFFSET + b"\n]\n"

SEEDS = [
    b"", b"[", b"[\n]\n", GOOD, GOOD[:-2], GOOD[:60], b"\n" + GOOD,
    GOOD.replace(b"1000", b"1e999"), GOOD.replace(b"1000", b"NaN"), GOOD.replace(b"1000", b"-1e308"),
    GOOD.replace(b'"dur":5', b'"dur":-Infinity'), GOOD.replace(b"1000", b"9" * 400),
    GOOD.replace(b"1000", b"9" * 5000), GOOD.replace(b"-3.5", b"1e400"),
    GOOD.replace(b"-3.5", b"1e308"), GOOD.replace(b"-3.5", b'"3"'), GOOD.replace(b"-3.5", b"true"),
    GOOD.replace(b"forward", b"\\ud800"), GOOD.replace(b"forward", b"\\u0000\\n"),
    GOOD.replace(b"forward", "ä".encode()), GOOD.replace(b"forward", b"\xff\xfe"),
    GOOD.replace(b'{"step":1}', b"null"), GOOD.replace(b'{"step":1}', b"[" * 990 + b"]" * 990),
    GOOD.replace(b'{"step":1}', b"[" * 100000), GOOD.replace(b'"ts":1000', b'"ts":null'),
]


def not_json(text):
    raise ValueError(f"{text} is not JSON")


class AnyFile(unittest.TestCase):
    def check(self, files):
        try:
            text = merge(files)
        except Failure as failure:
            self.assertTrue(str(failure))
            return
        text.encode()
        trace = json.loads(text, parse_constant=not_json)
        for event in trace["traceEvents"]:
            self.assertGreaterEqual(event.get("ts", 0), 0)
            self.assertNotEqual(event["name"], "clock_offset")

    def test_any_changes_of_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            good, other = pathlib.Path(folder, "good"), pathlib.Path(folder, "other")
            good.write_bytes(GOOD)
            for data in changes(SEEDS, 4000):
                other.write_bytes(data)
                with self.subTest(data=data[:200]):
                    self.check([str(good), str(other)])


if __name__ == "__main__":
    unittest.main()
