"""cli/experiment/lab.py, ddp_paper.py and collectives.py: their numbers and verdicts."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fakes import request_of
from cli.experiment import collectives, ddp_paper, lab
from cli.experiment.results import Averaged, Trained
from cli.experiment.study import CONFIRMED, NOT_CONFIRMED, NOT_MEASURABLE, Setting

MEMORY = 1 << 40


def setting_of(scale, memory=MEMORY, **more):
    return Setting(request_of("out", **more), scale, 2, memory)


def trained(*seconds, ranks=1, sent=0, buffers=None, sha256="a", epochs=None):
    """`buffers`: a hash for each rank; the first iteration takes 100 s."""
    records = [{"iteration_seconds": value, "epoch": epochs[step] if epochs else 0,
                "phase_seconds": {"data": 0.25, "communication": 0.5}}
               for step, value in enumerate((100.0, *seconds))]
    return Trained([{"records": records,
                     "summary": {"parameters_sha256": sha256, "bytes_sent": sent * len(records),
                                 "buffers_sha256": (buffers or "a" * ranks)[rank]}}
                    for rank in range(ranks)])


class Lab(unittest.TestCase):
    def measured(self, **changed):
        setting = setting_of({"batches": (32, 128), "devices": (1, 4), "iterations": 2})
        results = {"1-devices-batch-32": trained(1.0), "1-devices-batch-128": trained(3.0),
                   "4-devices-batch-32": trained(1.5, ranks=4),
                   "4-devices-batch-128": trained(3.5, ranks=4), **changed}
        return lab.Measured(setting, results)

    def test_epoch_without_loading(self):
        self.assertEqual(self.measured().computation[32], 0.75 * 1563)

    def test_second_epoch_is_what_counts(self):
        two = trained(2.0, 4.0, 6.0, epochs=[0, 0, 1, 1])
        self.assertEqual(lab.epoch_seconds(two, 1, 50000), 5.0)

    def test_strong_scaling_is_a_pair_of_equal_total_batch(self):
        self.assertIn("total batch of 128 took 1173.00 s on 1 device and 586.50 s on 4 of 32 each",
                      lab.strong_point(self.measured()))

    def test_bandwidth_is_the_ring_formula(self):
        row = lab.bandwidth_rows(self.measured())[0]
        self.assertEqual(row["bytes"], 36924456 * 3 // 2)
        self.assertAlmostEqual(row["gb_per_s"], 1.5 * 36924456 / 0.5 / 1e9)

    def test_sweep_ends_where_memory_does(self):
        setting = setting_of(lab.SCALES["full"], memory=600 * lab.BYTES_PER_SAMPLE)
        self.assertEqual(lab.batches(setting), [32, 128, 512])
        self.assertNotIn((2, 512), lab.pairs(setting))
        self.assertIn((2, 512), lab.pairs(setting_of(lab.SCALES["full"])))

    def test_bytes_must_be_those_of_the_plan(self):
        results = {"buffers-false": trained(1.0, ranks=2, sent=36924456),
                   "buffers-true": trained(1.0, ranks=2, sent=36924456 + 22080 // 2)}
        self.assertEqual(lab.bytes_claim(results).verdict, CONFIRMED)
        results["buffers-true"] = results["buffers-false"]
        self.assertEqual(lab.bytes_claim(results).verdict, NOT_CONFIRMED)

    def test_statistics_must_drift_without_broadcast_alone(self):
        results = {"buffers-true": trained(1.0, ranks=2, buffers="aa"),
                   "buffers-false": trained(1.0, ranks=2, buffers="ab")}
        self.assertEqual(lab.drift_claim(results).verdict, CONFIRMED)
        results["buffers-false"] = results["buffers-true"]
        self.assertEqual(lab.drift_claim(results).verdict, NOT_CONFIRMED)


class DdpPaper(unittest.TestCase):
    SCALE = {**ddp_paper.SCALES["tiny"], "buckets": (0, 5, 50)}

    def claim(self, times, **more):
        results = {ddp_paper.bucket_name("ring", size): trained(seconds, seconds)
                   for size, seconds in zip(self.SCALE["buckets"], times)}
        return ddp_paper.buckets_claim(setting_of(self.SCALE, **more), results, "ring").verdict

    def test_best_bucket_lies_between_the_ends(self):
        self.assertEqual(self.claim((3.0, 1.0, 2.0), hosts="h"), CONFIRMED)
        self.assertEqual(self.claim((1.0, 2.0, 3.0), hosts="h"), NOT_CONFIRMED)
        self.assertEqual(self.claim((3.0, 1.0, 2.0)), NOT_MEASURABLE)

    def test_other_bits_with_another_bucket_are_seen(self):
        results = {ddp_paper.bucket_name(ddp_paper.EXACT, size): trained(1.0, sha256=sha256)
                   for size, sha256 in zip(self.SCALE["buckets"], "aab")}
        self.assertEqual(
            ddp_paper.same_parameters_claim(setting_of(self.SCALE), results).verdict,
            NOT_CONFIRMED)

    def test_more_than_one_exchange_is_seen(self):
        results = {"every-1": trained(1.0, sent=100), "every-2": trained(1.0, sent=200)}
        self.assertEqual(ddp_paper.passes_claim(setting_of(self.SCALE), results).verdict,
                         NOT_CONFIRMED)
        results["every-2"] = results["every-1"]
        self.assertEqual(ddp_paper.passes_claim(setting_of(self.SCALE), results).verdict,
                         CONFIRMED)


class Collectives(unittest.TestCase):
    def test_fit_finds_latency_and_bandwidth(self):
        points = [(size, 0.002 + size / 1e9) for size in (4, 4000, 4000000, 40000000)]
        latency, slope = collectives.fit(points)
        self.assertAlmostEqual(latency, 0.002)
        self.assertAlmostEqual(slope * 1e9, 1.0)

    def test_fit_is_of_relative_errors(self):
        latency, _ = collectives.fit([(4, 0.001), (4000, 0.001), (4000000, 1.0), (8000000, 9.0)])
        self.assertAlmostEqual(latency, 0.001, delta=0.0005)

    def test_time_is_the_longest_of_all_ranks(self):
        result = Averaged([{"seconds": [1, 5], "wrong": 0}, {"seconds": [2, 3], "wrong": 1}])
        self.assertEqual((result.seconds, result.wrong), ([2, 5], 1))

    def test_pieces_take_their_number_times_one(self):
        scale = {"sizes": (4, 4000, 240000000)}
        results = {collectives.name_of("ring", size): Averaged([{"seconds": [0.5], "wrong": 0}])
                   for size in scale["sizes"]}
        self.assertEqual(collectives.pieces(setting_of(scale), results, "ring"),
                         [(1000, 30000.0), (60000000, 0.5)])


if __name__ == "__main__":
    unittest.main()
