"""cli/launch/summaries.py: what is made of the ranks' summaries."""
import pathlib
import sys
import tempfile
import unittest

SOURCES = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(SOURCES), str(SOURCES / "tests" / "support")]
from cli.launch import summaries
from cli.runs.json_fields import object_in
from phases import PHASES

PER_BYTE = 8 / 1e9 / (1448 / 1514)  # of a link of 1 Gbit/s, in seconds


def rank(backend, world_size=2):
    """An iteration sends 10^8 bytes in 0.8 s: 1 Gbit/s."""
    return {"rank": 0, "world_size": world_size, "backend": backend, "iterations": 10,
            "iteration_seconds": {"mean": 1.0, "p50": 0.9}, "bytes_sent": 1000000000,
            "bytes_received": 900000000,
            "phase_seconds": {"communication": 0.8, "exposed_communication": 0.6}}


def row_of(summary, per_byte=None):
    return summaries.with_shares(summary, ["coordinator"], per_byte)


class Summaries(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)

    def file(self, name, text):
        (self.dir / name).write_text(text)
        return str(self.dir / name)

    def test_all_there_are_in_order(self):
        files = [self.file("0", '{"rank": 0}'), self.file("1", '{"rank": 1}')]
        self.assertEqual(summaries.collect(files), {"ranks": [{"rank": 0}, {"rank": 1}]})

    def test_one_that_is_missing_or_no_json_is_named(self):
        there = self.file("there", '{"rank": 1}')
        for file in ("/no/file", self.file("0", "{"), self.file("1", "[]")):
            self.assertEqual(summaries.collect([file, there]),
                             {"ranks": [{"rank": 1}], "missing_ranks": [0]})

    def test_end_of_a_run_that_failed_is_told(self):
        ended = {"code": 1, "reason": "rank 0 was lost"}
        self.assertEqual(summaries.collect([], ended), {"ranks": [], "ended": ended})

    def test_whole_is_one_that_did_not_end_early(self):
        for text, whole in (('{"rank": 0}', True), ('{"ended": {"code": 1}}', False), ("{", False)):
            self.assertEqual(summaries.is_whole(self.file("0", text)), whole)
        self.assertFalse(summaries.is_whole("/no/file"))

    def test_values_are_shown_in_their_units(self):
        row = row_of({
            "rank": 0, "iteration_seconds": {"p50": 0.6831, "mean": 0.7},
            "phase_seconds": {"data": 0.0012, "forward": 0.2, "backward": 0.4,
                              "communication": 0.3, "exposed_communication": 0.05,
                              "optimizer": 0.01},
            "peak_memory_bytes": 412345678,
            "loss": {"first": 2.67, "last": None}, "test": None})
        self.assertEqual(summaries.table([row], PHASES, with_links=False), [
            "    rank  iteration ms    data  forward  backward  exposed  optimizer   other  (hidden)  "
            "exposed %  p50 ms  busbw Gbit/s  peak MB  first loss  last loss  accuracy %",
            "       0         700.0     1.2    200.0     400.0     50.0       10.0    38.8     250.0  "
            "        7   683.1             -      412      2.6700          -           -",
            "Means in ms without the first iteration: iteration = data + forward + backward + exposed "
            "+ optimizer + other. (hidden) is communication beside these; communication = exposed + "
            "hidden."])

    # Each is rounded down alone, and the five would be 0.2 ms short.
    def test_parts_as_they_are_shown_add_up_to_the_iteration_as_it_is_shown(self):
        times = dict.fromkeys(("data", "forward", "backward", "exposed_communication", "optimizer"),
                              0.01004)
        row = {"iteration_seconds": {"mean": 0.0552}, "phase_seconds": {**times, "communication": 0.02}}
        _, values, _ = summaries.table([row], PHASES, with_links=False)
        mean, *parts = [float(text) for text in values.split()[1:8]]
        self.assertEqual((mean, parts), (55.2, [10.0] * 5 + [5.2]))
        self.assertEqual(values.split()[8], "10.0")

    def test_time_that_was_not_measured_leaves_the_rest_unknown(self):
        row = {"rank": 0, "iteration_seconds": {"mean": 1}, "phase_seconds": {"data": None}}
        _, values, _ = summaries.table([row], PHASES, with_links=False)
        self.assertEqual(values.split()[1:9], ["1000.0"] + ["-"] * 7)

    def test_coordinator_has_a_line_that_adds_up(self):
        times = {"wait": 0.10004, "receive": 0.20004, "fold": 0.03004, "send": 0.05004,
                 "hidden_send": 0.012}
        lines = summaries.coordinator_table({"iterations": 9, "iteration_seconds": {"mean": 0.38016},
                                             "phase_seconds": times,
                                             "peak_memory_bytes": 123456789})
        self.assertEqual(lines[:3], [
            "",
            "               iteration ms   waits  receives   folds   sends  (hidden sends)  peak MB",
            "  coordinator         380.2   100.2     200.0    30.0    50.0            12.0      123"])
        self.assertIn("iteration = waits (", lines[3])

    def test_coordinator_that_averages_nothing_has_no_line(self):
        for nothing in (None, {}, {"iteration_seconds": {"mean": 1}, "phase_seconds": {}}):
            self.assertEqual(summaries.coordinator_table(nothing), [])

    def test_file_of_the_coordinator_is_read_if_it_is_there(self):
        self.assertEqual(object_in(self.file("a", '{"iterations": 2}')), {"iterations": 2})
        for file in ("/no/file", self.file("n", "null"), self.file("x", "{")):
            self.assertIsNone(object_in(file))

    def test_served_model_has_columns_of_how_far_ranks_were_apart(self):
        row = row_of({"rank": 0, "staleness": {"lag": {"mean": 1.25, "max": 3},
                                               "spread": {"mean": 2.5, "max": 4}}})
        head, values, _ = summaries.table([row], PHASES, with_links=False)
        self.assertIn("  lag  max lag  max spread  ", head)
        self.assertEqual(values[:head.index("first loss")].split()[-3:], ["1.2", "3", "4"])

    def test_compressed_gradients_have_columns_of_what_it_does(self):
        row = row_of({"rank": 0, "compression_ratio": 3.98, "residual_norm": 0.456})
        head, values, _ = summaries.table([row], PHASES, with_links=False)
        self.assertIn("  ratio  residual  ", head)
        self.assertEqual(values[:head.index("first loss")].split()[-2:], ["4.0", "0.46"])
        self.assertNotIn("  ratio  ", summaries.table([row_of({"rank": 0})], PHASES, False)[0])

    def test_accuracy_is_in_percent(self):
        lines = summaries.table([{"test": {"accuracy": 0.1834}}], PHASES, with_links=False)
        self.assertTrue(lines[1].endswith(" 18.34"), lines[1])

    def test_share_of_the_plan_has_a_column_where_links_are_known(self):
        for known in (True, False):
            self.assertEqual("of plan %" in summaries.table([], PHASES, known)[0], known)
        head, values, _ = summaries.table([{"busbw_gbit": 1.2345, "link_share": 0.5678}], PHASES, True)
        self.assertEqual(values[:head.index("first loss")].split()[-3:], ["1.23", "-", "57"])

    def test_bus_bandwidth_is_what_the_link_moved(self):
        for world_size in (2, 4):
            self.assertAlmostEqual(row_of(rank("ring", world_size))["busbw_gbit"], 1)

    def test_bus_bandwidth_is_of_the_direction_that_moved_more(self):
        row = row_of({**rank("ring"), "bytes_sent": 900000000, "bytes_received": 1000000000})
        self.assertAlmostEqual(row["busbw_gbit"], 1)

    def test_bus_bandwidth_of_the_coordinator_is_scaled_as_of_an_all_reduce(self):
        self.assertAlmostEqual(row_of(rank("coordinator", 4))["busbw_gbit"], 1.5)

    def test_link_carries_the_bytes_of_all_ranks_of_its_worker(self):
        half = {"bytes_sent": 500000000, "bytes_received": 450000000,
                "ranks_of_worker": {"mean": 2, "last": [0, 1]}}
        for backend in ("ring", "coordinator"):
            row = row_of({**rank(backend, 4), **half}, PER_BYTE)
            alone = row_of({**rank(backend, 4), "ranks_of_worker": {"mean": 1, "last": [0]}},
                           PER_BYTE)
            factor = 1 if backend == "ring" else 2  # each rank sends its own gradient
            for figure in ("busbw_gbit", "link_share"):
                self.assertAlmostEqual(factor * row[figure], alone[figure])

    def test_rank_that_only_sends_has_a_bus_bandwidth(self):
        self.assertAlmostEqual(row_of({**rank("ring"), "bytes_received": 0})["busbw_gbit"], 1)

    def test_columns_that_some_ranks_alone_have_are_shown(self):
        rows = [{"rank": 0}, {"rank": 1, "staleness": {"lag": {"max": 3}}, "compression_ratio": 4}]
        head = summaries.table(rows, PHASES, with_links=False)[0]
        self.assertIn("  max lag  max spread   ratio  residual  ", head)

    def test_memory_has_no_bus_bandwidth(self):
        row = row_of({**rank("memory"), "bytes_sent": 0, "bytes_received": 0})
        self.assertNotIn("busbw_gbit", row)

    def test_one_rank_has_no_bus_bandwidth(self):
        self.assertNotIn("busbw_gbit", row_of(rank("ring", 1)))

    def test_run_without_an_iteration_or_communication_has_none_and_one_with_one_iteration_has(self):
        none = rank("ring")
        none["phase_seconds"]["communication"] = 0
        for row in (none, {**rank("ring"), "iterations": 0}):
            self.assertNotIn("busbw_gbit", row_of(row, PER_BYTE))
        self.assertAlmostEqual(row_of({**rank("ring"), "iterations": 1})["busbw_gbit"], 10)

    def test_iteration_that_took_no_time_or_is_not_known_has_no_shares_and_no_rest(self):
        for mean in (0, None):
            row = row_of({**rank("ring"), "iteration_seconds": {"mean": mean}})
            self.assertNotIn("exposed_share", row)
        times = dict.fromkeys((phase["name"] for phase in PHASES), 0.1)
        self.assertNotIn("other", summaries.with_rest({"phase_seconds": times}, PHASES))
        aggregation = {"phase_seconds": {name: 0.1 for name, *_ in summaries.AGGREGATION}}
        self.assertEqual(summaries.coordinator_table(aggregation), [])

    def test_link_speed_known_compares_with_the_plan(self):
        # 0.8 Gbit of payload need 0.8364 s of a link of 1 Gbit/s, 0.4182 s of one of 2.
        self.assertAlmostEqual(row_of(rank("ring"), PER_BYTE / 2)["link_share"], 0.4182 / 0.8, 3)

    def test_link_speed_known_and_coordinator_takes_its_link(self):
        self.assertAlmostEqual(row_of(rank("coordinator"), PER_BYTE / 4)["link_share"],
                               0.4182 / 0.8, 3)

    def test_link_speed_unknown_has_no_share(self):
        self.assertNotIn("link_share", row_of(rank("ring")))

    def test_nothing_measured_has_no_shares(self):
        self.assertEqual(row_of({"rank": 0}, PER_BYTE), {"rank": 0})


if __name__ == "__main__":
    unittest.main()
