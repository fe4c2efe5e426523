"""cli/report/logs.py: what it takes for a log, and how it names what is none."""
import pathlib
import sys
import tempfile
import unittest

SOURCES = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(SOURCES), str(SOURCES / "tests" / "support")]
from cli.report.logs import parse_log, read_log
from cli.runs.failure import Failure
from logs import log_line, log_text
from phases import PHASES


def parse(text):
    return parse_log("a.jsonl", text.encode(), PHASES)


class ParseLog(unittest.TestCase):
    def error_of(self, text):
        """What is said of log "a.jsonl" with this text."""
        with self.assertRaises(Failure) as raised:
            parse_log("a.jsonl", text if isinstance(text, bytes) else text.encode(), PHASES)
        self.assertEqual(raised.exception.exit_code, 2)
        return str(raised.exception)

    def replaced(self, before, after):
        line = log_line(0, 0).replace(before, after)
        self.assertNotEqual(line, log_line(0, 0))
        return line

    def test_workers_lines_are_read(self):
        log = parse(log_text(3, 2))
        self.assertEqual((log.file, log.rank, len(log.records)), ("a.jsonl", 3, 2))
        self.assertEqual(log.records[1]["loss"], 1.9)

    def test_null_loss_is_kept(self):
        self.assertIsNone(parse(log_line(0, 0, loss=None)).records[0]["loss"])

    def test_unknown_field_is_allowed(self):
        parse(log_line(0, 0, new=1))

    def test_rows_about_epochs_are_passed_over(self):
        epoch = '{"kind":"epoch","rank":0,"epoch":0}\n'
        self.assertEqual(len(parse(log_line(0, 0) + epoch + log_line(0, 1) + epoch).records), 2)

    def test_lines_about_recoveries_are_passed_over(self):
        recovery = '{"kind":"recovery","rank":0,"generation":2}\n'
        self.assertEqual(len(parse(log_line(0, 0) + recovery + log_line(0, 1)).records), 2)

    def test_ranks_that_the_worker_took_over_are_those_of_all_recoveries(self):
        recoveries = ['{"kind":"recovery","rank":0,"adopted":%s}\n' % adopted
                      for adopted in ("[2,3]", "[]", "[1]", "null", '["x"]')]
        self.assertEqual(parse(log_line(0, 0) + "".join(recoveries)).adopted, (2, 3, 1))

    def test_rows_about_epochs_alone_are_no_log(self):
        self.assertEqual(self.error_of('{"kind":"epoch","rank":0,"epoch":0}\n'),
                         "a.jsonl: got no iteration, expected a line for each")

    def test_last_newline_missing_is_no_error(self):
        self.assertEqual(len(parse(log_text(0, 2)[:-1]).records), 2)

    def test_empty_text_says_so(self):
        self.assertEqual(self.error_of(""),
                         "a.jsonl: got an empty file, expected a line for each iteration")

    def test_other_text_is_quoted_with_its_line(self):
        self.assertEqual(
            self.error_of("<!DOCTYPE html>\n"),
            "a.jsonl:1: got '<!DOCTYPE html>', expected a JSON object as of --log-jsonl")

    def test_binary_text_is_quoted_harmlessly_and_shortly(self):
        self.assertIn(f"got '{'?' * 40}…', expected", self.error_of(b"\x1b\x80" * 50 + b"\n"))

    def test_number_is_no_log(self):
        self.assertIn("a.jsonl:1: got '17', expected a JSON object", self.error_of("17\n"))

    def test_what_python_alone_takes_for_json_is_no_log(self):
        self.assertIn("expected a JSON object", self.error_of(log_line(0, 0, loss=float("nan"))))

    def test_deep_nesting_is_no_log(self):
        self.assertIn("expected a JSON object", self.error_of("[" * 100000 + "\n"))

    def test_empty_line_is_named(self):
        self.assertIn("a.jsonl:2: got ''", self.error_of(log_line(0, 0) + "\n" + log_line(0, 1)))

    def test_last_line_cut_short_says_where_it_ends(self):
        self.assertEqual(
            self.error_of(log_text(0, 2) + '{"step":2,"epo'),
            "a.jsonl:3: got a last line that ends after 14 bytes: '{\"step\":2,\"epo', expected a "
            "whole one; the file was cut short; remove this line to show the rest")

    def test_only_line_cut_short_may_be_of_any_file(self):
        self.assertEqual(self.error_of('{"step":0,"epo'),
                         "a.jsonl:1: got '{\"step\":0,\"epo', expected a JSON object as of "
                         "--log-jsonl")

    def test_line_cut_in_the_middle_is_named(self):
        self.assertIn("a.jsonl:1: got '{\"step\":0'", self.error_of('{"step":0\n' + log_line(0, 1)))

    def test_missing_field_is_named_as_of_another_version(self):
        self.assertEqual(self.error_of(self.replaced('"samples"', '"images"')),
                         "a.jsonl:1: got no field 'samples', expected it in every line (a log of "
                         "another version?)")

    def test_lines_of_two_versions_name_the_first_that_differs(self):
        text = log_line(0, 0) + log_line(0, 1).replace("forward", "f")
        self.assertIn("a.jsonl:2: got no field 'phase_seconds/forward'", self.error_of(text))

    def test_field_of_another_type_shows_got_and_expected(self):
        self.assertEqual(self.error_of(log_line(0, 0, samples="8")),
                         "a.jsonl:1: field 'samples': got '\"8\"', expected a whole number (a log "
                         "of another version?)")
        self.assertIn("field 'loss': got 'true', expected a number",
                      self.error_of(log_line(0, 0, loss=True)))

    def test_phases_that_are_no_object_are_missing(self):
        self.assertIn("got no field 'phase_seconds/data'",
                      self.error_of(log_line(0, 0, phase_seconds=[1])))

    def test_negative_or_huge_numbers_are_refused(self):
        self.assertIn("field 'rank': got '-1', expected", self.error_of(log_line(-1, 0)))
        self.assertIn("field 'rank': got '65535'", self.error_of(log_line(65535, 0)))
        self.assertEqual(parse_log("a", log_line(65534, 0).encode(), PHASES).rank, 65534)
        self.assertIn("field 'step': got '9223372036854775808'", self.error_of(log_line(0, 2**63)))
        self.assertIn("field 'bytes_sent': got '1000",
                      self.error_of(log_line(0, 0, bytes_sent=10**400)))

    def test_two_ranks_are_refused(self):
        self.assertEqual(self.error_of(log_line(0, 0) + log_line(1, 1)),
                         "a.jsonl:2: got rank 1, expected rank 0 as in the lines before")

    def test_steps_that_a_resumed_run_does_again_count_once_by_their_last_lines(self):
        text = "".join(log_line(0, step, loss=loss)
                       for step, loss in ((0, 1), (1, 2), (2, 3), (3, 4), (1, 5), (2, 6)))
        records = parse_log("a.jsonl", text.encode(), PHASES).records
        self.assertEqual([(record["step"], record["loss"]) for record in records],
                         [(0, 1), (1, 5), (2, 6)])

    def test_log_that_begins_behind_the_checkpoint_of_a_resumed_run_begins_anew(self):
        text = "".join(log_line(0, step) for step in (4, 5, 2, 3))
        records = parse_log("a.jsonl", text.encode(), PHASES).records
        self.assertEqual([record["step"] for record in records], [2, 3])

    def test_second_run_in_a_log_is_refused(self):
        self.assertEqual(self.error_of(log_line(0, 0) + log_line(0, 1) + log_line(0, 0)),
                         "a.jsonl:3: got step 0, expected one after step 1, or one that a resumed "
                         "run does again; show each run's log by itself")


class ReadLog(unittest.TestCase):
    def test_file_is_read(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(log_text(0, 3))
            file.flush()
            log = read_log(file.name, PHASES)
        self.assertEqual((log.file, len(log.records)), (file.name, 3))

    def test_what_cannot_be_read_is_named(self):
        for path, why in (("/no/log", "No such file or directory"), ("/", "Is a directory")):
            with self.assertRaises(Failure) as raised:
                read_log(path, PHASES)
            self.assertEqual(str(raised.exception), f"cannot read the log '{path}': {why}")
            self.assertEqual(raised.exception.exit_code, 2)


if __name__ == "__main__":
    unittest.main()
