"""cli/trace: the time line that is made of the files of several processes."""
import json
import os
import pathlib
import sys
import tempfile
import unittest

SOURCES = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(SOURCES)]
from cli.runs.failure import Failure
from cli.terminal.command import WrongUsage
from cli.trace import trace
from cli.trace.merge import merge


def event(rank, microseconds):
    return json.dumps({"name": "forward", "ph": "X", "pid": rank, "tid": 1, "ts": microseconds,
                       "dur": 5}) + ",\n"


def offset(microseconds):
    return json.dumps({"name": "clock_offset", "ph": "M", "pid": 0, "tid": 0,
                       "args": {"microseconds": microseconds}})


class Traces(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)

    def file(self, name, text):
        (self.dir / name).write_text(text)
        return str(self.dir / name)


class Merge(Traces):
    def events(self, *texts):
        files = [self.file(str(number), text) for number, text in enumerate(texts)]
        return json.loads(merge(files))["traceEvents"]

    def error_of(self, text):
        with self.assertRaises(Failure) as raised:
            self.events(text)
        self.assertEqual(raised.exception.exit_code, 1)
        return str(raised.exception).replace(str(self.dir / "0"), "F")

    def test_two_ranks_are_on_the_coordinators_clock_from_the_first_event(self):
        events = self.events("[\n" + event(0, 1000) + offset(0) + "\n]\n",
                             "[\n" + event(1, 5000) + offset(-3900) + "\n]\n")
        self.assertEqual([(event["pid"], event["ts"]) for event in events], [(0, 0), (1, 100)])

    def test_last_offset_of_a_file_counts_for_all_its_events(self):
        events = self.events("[\n" + event(0, 1000) + offset(0) + "\n]\n",
                             "[\n" + offset(-100) + ",\n" + event(1, 5000) + offset(-3900) + "\n]\n")
        self.assertEqual([(event["pid"], event["ts"]) for event in events], [(0, 0), (1, 100)])

    def test_each_kind_of_event_is_on_the_coordinators_clock(self):
        fold = '{"name":"fold bucket 0","ph":"%s","cat":"aggregation","id":1,"ts":%d},\n'
        events = self.events("[\n" + event(0, 1000) + offset(0) + "\n]\n",
                             "[\n" + fold % ("b", 5000) + fold % ("e", 5010) + offset(-3900) + "\n]\n")
        self.assertEqual([(event["ph"], event["ts"]) for event in events],
                         [("X", 0), ("b", 100), ("e", 110)])

    def test_line_is_as_the_format_has_it(self):
        file = self.file("0", '[\n{"name":"ä","ph":"X","ts":7,"dur":5},\n' + offset(0) + "\n]\n")
        self.assertEqual(merge([file]), '{"displayTimeUnit":"ms","traceEvents":[{"name":"ä",'
                                        '"ph":"X","ts":0.0,"dur":5}]}\n')

    def test_event_without_a_time_is_kept(self):
        name = '{"name":"process_name","ph":"M","args":{"name":"rank 0"}}'
        self.assertEqual(self.events(f"[\n{name},\n{event(0, 5)}{offset(0)}\n]\n")[0],
                         json.loads(name))

    def test_of_what_is_cut_off_within_an_event_what_is_before_counts(self):
        for end in ("", "\n"):
            self.assertEqual(len(self.events("[\n" + event(0, 1) + '{"name":"forw' + end)), 1)

    def test_whole_event_at_the_end_of_a_file_without_a_line_end_counts(self):
        self.assertEqual(len(self.events("[\n" + event(0, 1) + event(0, 2).rstrip(",\n"))), 2)

    def test_file_without_an_offset_is_on_its_own_clock(self):
        events = self.events("[\n" + event(0, 1000), "[\n" + event(1, 1000) + offset(50) + "\n]\n")
        self.assertEqual([event["ts"] for event in events], [0, 50])

    def test_nothing_behind_the_bracket_is_read(self):
        self.assertEqual(len(self.events("[\n" + event(0, 1) + offset(0) + "\n]\nhello\n\n")), 1)

    def test_several_offsets_the_last_counts(self):
        early = offset(7) + ",\n"
        events = self.events("[\n" + early + event(0, 1000) + offset(0) + "\n]\n",
                             "[\n" + early + event(1, 1000) + offset(50) + "\n]\n")
        self.assertEqual(events[1]["ts"], 50)

    def test_bad_line_before_the_last_names_file_and_line(self):
        for line in ("hello", "", "[" * 100000, "3", '{"name":"x"}', '{"ph":"X"}',
                     '{"name":"x","ph":"X","ts":"1"},', '{"name":"x","ph":"X","ts":true},',
                     '{"name":"x","ph":"X","ts":NaN},', '{"name":"x","ph":"X","ts":1e999},',
                     '{"name":"x","ph":"X","ts":1,"dur":Infinity},',
                     '{"name":"x","ph":"X","ts":1' + "0" * 400 + "},",
                     '{"name":"clock_offset","ph":"M","args":{"microseconds":-Infinity}},',
                     '{"name":"clock_offset","ph":"M"},',
                     '{"name":"clock_offset","ph":"M","args":{"microseconds":"1"}},'):
            self.assertEqual(self.error_of(f"[\n{line}\n{event(0, 1)}{offset(0)}\n]\n"),
                             f"'F', line 2: no event: {line}")

    def test_bad_line_before_the_bracket_is_named(self):
        self.assertEqual(self.error_of("[\n" + event(0, 1) + "hello\n]\n"),
                         "'F', line 3: no event: hello")

    def test_file_that_is_missing_or_no_trace_is_named(self):
        self.assertEqual(self.error_of("{}\n"), "no trace in 'F'")
        self.assertEqual(self.error_of(merge([])), "'F' is merged already: open it in a viewer")
        with self.assertRaisesRegex(Failure, "^no trace in '/no/such'$"):
            merge(["/no/such"])


class Trace(Traces):
    def test_parts_are_merged(self):
        out = str(self.dir / "out")
        self.assertEqual(trace.main({}, [out, self.file("0", "[\n" + event(0, 1))]), 0)
        self.assertEqual(len(json.loads(pathlib.Path(out).read_text())["traceEvents"]), 1)

    def test_wrong_usage_is_told(self):
        part = self.file("0", "[\n" + event(0, 1))
        for operands, said in (
                ([""], "no FILE is named; workers write one with --trace"),
                (["", part], "--out FILE is missing"),
                ([part, part], f"--out: '{part}' is one of the files, and would be overwritten"),
                (["/no/folder/out", part],
                 "--out: cannot write /no/folder/out: no such file or directory")):
            with self.assertRaises(WrongUsage) as raised:
                trace.main({}, operands)
            self.assertEqual(str(raised.exception), said)
        self.assertEqual(pathlib.Path(part).read_text(), "[\n" + event(0, 1))

    def test_part_under_another_name_is_not_overwritten(self):
        part = self.file("0", "[\n" + event(0, 1))
        link = str(self.dir / "link")
        os.symlink(part, link)
        for out in (link, os.path.relpath(part), f"{self.dir}/./{os.path.basename(part)}"):
            with self.assertRaisesRegex(WrongUsage, "is one of the files, and would be overwritten"):
                trace.main({}, [out, part])
        self.assertEqual(pathlib.Path(part).read_text(), "[\n" + event(0, 1))


if __name__ == "__main__":
    unittest.main()
