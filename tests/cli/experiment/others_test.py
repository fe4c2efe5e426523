"""cli/experiment/lab.py, large_batch.py, ddp_paper.py and collectives.py: their numbers and
verdicts."""
import array
import base64
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fakes import option, request_of
from cli.experiment import collectives, ddp_paper, lab, lab_data, large_batch
from cli.experiment.results import Averaged, Ordered, Shown, Trained
from cli.experiment.study import CONFIRMED, NOT_CONFIRMED, NOT_MEASURABLE, Setting
from cli.experiment.work import COSTS

MEMORY = 1 << 40


def setting_of(scale, memory=MEMORY, **more):
    return Setting(request_of("out", **more), scale, 2, memory)


def trained(*seconds, ranks=1, sent=0, buffers=None, sha256="a", epochs=None, loss=2.0):
    """`buffers`: a hash for each rank; the first iteration takes 100 s."""
    records = [{"iteration_seconds": value, "loss": loss, "epoch": epochs[step] if epochs else 0,
                "bytes_sent": sent, "phase_seconds": {"data": 0.25, "communication": 0.5}}
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
        setting = setting_of(lab.SCALES["full"], memory=600 * COSTS["vgg11"].memory_per_sample)
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
        self.assertEqual(lab_data.drift_claim(results).verdict, CONFIRMED)
        results["buffers-false"] = results["buffers-true"]
        self.assertEqual(lab_data.drift_claim(results).verdict, NOT_CONFIRMED)

    def test_run_that_memory_ended_is_in_no_table(self):
        setting = setting_of({"batches": (32, 128), "devices": (1, 4), "iterations": 2})
        results = {name: trained(1.0) for name in ("1-devices-batch-32", "4-devices-batch-32",
                                                   "4-devices-batch-128")}
        measured = lab.Measured(setting, results)
        self.assertEqual(list(measured.seconds), [(1, 32), (4, 32)])
        self.assertIn("ends the sweep at 32", lab.first_table(measured).note)
        results = {name: trained(1.0) for name in ("1-devices-batch-32", "1-devices-batch-128",
                                                         "4-devices-batch-32")}
        self.assertEqual(list(lab.Measured(setting, results).seconds), [(1, 32), (1, 128), (4, 32)])

    def test_distance_of_statistics_is_relative(self):
        near, far = (array.array("f", values).tobytes() for values in ((3.0, 4.0), (3.0, 4.5)))
        summaries = [{"buffers_sha256": sha256, "buffers": base64.b64encode(floats).decode()}
                     for sha256, floats in (("a", near), ("b", far))]
        self.assertAlmostEqual(lab_data.distance(summaries[1], summaries[0]), 0.1)
        self.assertEqual(lab_data.distance({"buffers_sha256": "a"}, {"buffers_sha256": "a"}), 0)

    def test_order_must_change_with_set_epoch_alone(self):
        kept, changed = Ordered([[[1, 2]], [[1, 2]]]), Ordered([[[1, 2]], [[2, 1]]])
        for without, having, verdict in ((kept, changed, CONFIRMED), (kept, kept, NOT_CONFIRMED),
                                         (changed, changed, NOT_CONFIRMED)):
            results = {"set-epoch-false": without, "set-epoch-true": having}
            self.assertEqual(lab_data.order_claim(results).verdict, verdict)


class LargeBatch(unittest.TestCase):
    SCALE = {**large_batch.SCALES["quick"], "batches": (128, 512), "warmup": 1, "lr": 0.1}

    def setting(self, memory=MEMORY, **more):
        return setting_of(self.SCALE, memory, **more)

    def way(self, losses=(1.0,), rates=()):
        epochs = [{"loss": loss, "accuracy": 0.5} for loss in losses]
        return Trained([{"records": [{"lr": rate} for rate in rates],
                         "summary": {"epochs": epochs}}])

    def results(self, small=1.0, none=2.0, scaled=1.8, warm=1.5):
        return {way.name: self.way((3.0, loss))
                for way, loss in zip(large_batch.WAYS, (small, none, scaled, warm))}

    def test_largest_is_the_last_that_fits_on_all_devices(self):
        sample = COSTS["lenet"].memory_per_sample
        for memory, batch in ((MEMORY, 512), (2000 * sample, 128), (1, 128)):
            self.assertEqual(large_batch.largest(self.setting(memory), self.SCALE), batch)

    def test_runs_are_small_large_and_both_remedies(self):
        small, plain, scaled, warm = (run.run(self.setting()).ranks[0]
                                      for run in large_batch.runs(self.setting()))
        self.assertEqual(option(small, "--batch-size"), "128")
        self.assertEqual(option(plain, "--batch-size"), "512")
        self.assertNotIn("--scale-lr", plain)
        self.assertEqual((option(scaled, "--scale-lr"), option(scaled, "--base-batch")),
                         ("true", "128"))
        self.assertNotIn("--warmup-epochs", scaled)
        self.assertEqual(option(warm, "--warmup-epochs"), "1")

    def test_epoch_has_samples_over_total_batch_iterations(self):
        steps = [run.iterations for run in large_batch.runs(self.setting())]
        self.assertEqual(steps, [5 * 469, 5 * 30, 5 * 30, 5 * 30])

    def test_other_number_of_iterations_is_seen(self):
        setting = self.setting()
        counts = {run.name: run.iterations for run in large_batch.runs(setting)}
        for change, verdict in ((0, CONFIRMED), (1, NOT_CONFIRMED)):
            results = {name: self.way(rates=[0.1] * (count + change))
                       for name, count in counts.items()}
            self.assertEqual(large_batch.steps_claim(setting, results).verdict, verdict)

    def test_last_epoch_is_what_is_reported(self):
        table = large_batch.last_epoch_table(self.setting(), self.SCALE, self.results(),
                                             large_batch.WAYS)
        self.assertEqual([row["loss"] for row in table.rows], [1.0, 2.0, 1.8, 1.5])
        self.assertEqual([row["lr"] for row in table.rows], [0.1, 0.1, 1.6, 1.6])

    def test_verdicts_go_by_the_last_loss(self):
        for claim, better, worse in ((large_batch.worse_claim, {}, {"none": 0.5}),
                                     (large_batch.remedy_claim, {}, {"warm": 2.5})):
            self.assertEqual(claim(self.results(**better), self.SCALE).verdict, CONFIRMED)
            self.assertEqual(claim(self.results(**worse), self.SCALE).verdict, NOT_CONFIRMED)
            tiny = large_batch.SCALES["tiny"]
            self.assertEqual(claim(self.results(), tiny).verdict, NOT_MEASURABLE)

    def test_rates_must_be_those_of_the_rule(self):
        results = {way.name: self.way(rates=[rate] * 40)
                   for way, rate in zip(large_batch.WAYS, (0.1, 0.1, 1.6, 1.6))}
        ramp = [0.1 + 1.5 * step / 30 for step in range(30)] + [1.6] * 10
        results["warm-up"] = self.way(rates=ramp)
        self.assertEqual(large_batch.rate_claim(self.setting(), results).verdict, CONFIRMED)
        for wrong in ([1.6] * 40, ramp[:30] + [0.1] * 10, [0.1] * 30 + [1.6] * 10):
            self.assertEqual(large_batch.rate_claim(
                self.setting(), {**results, "warm-up": self.way(rates=wrong)}).verdict,
                NOT_CONFIRMED)
        results["scaled-lr"] = self.way(rates=[0.4] * 40)
        self.assertEqual(large_batch.rate_claim(self.setting(), results).verdict, NOT_CONFIRMED)


class DdpPaper(unittest.TestCase):
    SCALE = {**ddp_paper.SCALES["tiny"], "buckets": (0, 5, 50), "groups": (1, 3)}
    NETWORK = SCALE["networks"][0]

    def claim(self, times, **more):
        results = {ddp_paper.bucket_name(self.NETWORK, "ring", size): trained(seconds, seconds)
                   for size, seconds in zip(self.SCALE["buckets"], times)}
        return ddp_paper.buckets_claim(setting_of(self.SCALE, **more), results, self.NETWORK,
                                       "ring").verdict

    def test_best_bucket_lies_between_the_ends(self):
        self.assertEqual(self.claim((3.0, 1.0, 2.0), hosts="h"), CONFIRMED)
        self.assertEqual(self.claim((1.0, 2.0, 3.0), hosts="h"), NOT_CONFIRMED)
        self.assertEqual(self.claim((3.0, 1.0, 2.0)), NOT_MEASURABLE)

    def test_other_bits_with_another_bucket_are_seen(self):
        results = {ddp_paper.bucket_name(self.NETWORK, backend, size): trained(1.0, sha256=sha256)
                   for backend, sha256s in (("ring", "aaa"), ("sharded", "aab"))
                   for size, sha256 in zip(self.SCALE["buckets"], sha256s)}
        self.assertEqual(ddp_paper.same_parameters_claim(setting_of(self.SCALE), results,
                                                         self.NETWORK).verdict, NOT_CONFIRMED)

    def groups_verdict(self, of_three):
        results = {ddp_paper.groups_name(backend, groups):
                   trained(1.0, sha256=backend + (of_three if groups == 3 else ""))
                   for backend in ddp_paper.backends(setting_of(self.SCALE))
                   for groups in self.SCALE["groups"]}
        return ddp_paper.same_groups_claim(setting_of(self.SCALE), results).verdict

    def test_other_bits_with_more_groups_are_seen(self):
        self.assertEqual(self.groups_verdict(""), CONFIRMED)
        self.assertEqual(self.groups_verdict("x"), NOT_CONFIRMED)

    def test_tree_has_the_losses_of_the_fold(self):
        for loss, verdict in ((2.00001, CONFIRMED), (2.0001, NOT_CONFIRMED)):
            results = {"ring-1-groups": trained(1.0), "tree": trained(1.0, loss=loss)}
            self.assertEqual(ddp_paper.tree_claim(setting_of(self.SCALE), results).verdict,
                             verdict)

    def test_busiest_rank_is_not_the_first_of_necessity(self):
        result = Trained([{"records": [{}, {}], "summary": {"bytes_sent": sent}}
                          for sent in (10, 30)])
        self.assertEqual(ddp_paper.busiest_bytes(result), 15)

    def test_more_than_one_exchange_is_seen(self):
        results = {"every-1": trained(1.0, sent=100), "every-2": trained(1.0, sent=200)}
        self.assertEqual(ddp_paper.passes_claim(setting_of(self.SCALE), results).verdict,
                         NOT_CONFIRMED)
        results["every-2"] = results["every-1"]
        self.assertEqual(ddp_paper.passes_claim(setting_of(self.SCALE), results).verdict,
                         CONFIRMED)


def shown_of(op, backend, links):
    """What `op` has to give, with these links in place of the real ones."""
    inputs = [[10 * rank + i for i in range(4)] for rank in range(4)]
    outputs = collectives.expected_outputs(op, inputs)
    return Shown([{"input": inputs[rank], "output": outputs[rank],
                   "sent": {str(to): sent for (start, to), sent in links.items() if start == rank}}
                  for rank in range(4)])


RING_LINKS = {(0, 1): 24, (1, 2): 24, (2, 3): 24, (3, 0): 24}
TREE_LINKS = {(1, 0): 16, (2, 0): 16, (3, 2): 16, (0, 1): 16, (0, 2): 16, (2, 3): 16}


class Shows(unittest.TestCase):
    def results(self, **changed):
        return {**{collectives.shown_name(op, backend): shown_of(op, backend, links)
                   for op in collectives.OPS
                   for backend, links in (("ring", RING_LINKS), ("tree", TREE_LINKS))}, **changed}

    def test_outputs_are_those_of_the_definitions(self):
        inputs = [[0, 1], [10, 11]]
        for op, outputs in (("send-recv", [[None, None], [0, 1]]), ("broadcast", [[0, 1], [0, 1]]),
                            ("scatter", [[0, None], [None, 1]]),
                            ("gather", [[0, 11], [None, None]]),
                            ("reduce", [[5, 6], [None, None]]),
                            ("all-gather", [[0, 11], [0, 11]]),
                            ("reduce-scatter", [[5, None], [None, 6]]),
                            ("all-reduce", [[5, 6], [5, 6]])):
            self.assertEqual(collectives.expected_outputs(op, inputs), outputs, op)

    def test_a_wrong_output_is_named(self):
        self.assertEqual(collectives.outputs_claim(self.results()).verdict, CONFIRMED)
        wrong = shown_of("gather", "tree", TREE_LINKS)
        wrong.outputs[0][3] += 1
        claim = collectives.outputs_claim(self.results(**{"gather-tree": wrong}))
        self.assertEqual((claim.verdict, claim.numbers), (NOT_CONFIRMED, "wrong: gather-tree"))

    def verdicts(self, ring, tree):
        """Of both claims on bytes; what each of four ranks sends in two iterations."""
        setting = setting_of({"ranks": 4, "sizes": (4, 1 << 20)})
        results = {collectives.name_of(backend, 1 << 20): Averaged(
            [{"seconds": [1, 1], "wrong": 0, "bytes_sent": 2 * of_rank} for of_rank in sent])
                   for backend, sent in (("ring", ring), ("tree", tree))}
        return [claim(setting, results).verdict
                for claim in (collectives.ring_bytes_claim, collectives.tree_bytes_claim)]

    def test_bytes_are_those_of_the_plan(self):
        size = 1 << 20
        self.assertEqual(self.verdicts([size * 3 // 2] * 4, [2 * size, size, 2 * size, size]),
                         [CONFIRMED, CONFIRMED])
        self.assertEqual(self.verdicts([size * 3 // 2] * 3 + [2 * size], [size] * 4),
                         [NOT_CONFIRMED, NOT_CONFIRMED])

    def test_nothing_that_comes_out_is_a_dot(self):
        self.assertEqual(collectives.values_text([None, 1.5, 30.0]), "· 1.5 30")


class Collectives(unittest.TestCase):
    def test_fit_finds_latency_and_bandwidth(self):
        points = [(size, 0.002 + size / 1e9) for size in (4, 4000, 4000000, 40000000)]
        latency, slope = collectives.fit(points)
        self.assertAlmostEqual(latency, 0.002)
        self.assertAlmostEqual(slope * 1e9, 1.0)

    def test_fit_is_of_relative_errors(self):
        latency, _ = collectives.fit([(4, 0.001), (4000, 0.001), (4000000, 1.0), (8000000, 9.0)])
        self.assertAlmostEqual(latency, 0.001, delta=0.0005)

    def averaged(self, seconds, wrong=0, sizes=(4000, 240000000)):
        """Of every back end; `seconds` of each size."""
        setting = setting_of({"sizes": sizes}, hosts="h")
        return setting, {collectives.name_of(backend, size): Averaged(
            [{"seconds": [of_size], "wrong": wrong, "bytes_sent": 1}])
                         for backend in setting.backends() for size, of_size in zip(sizes, seconds)}

    def test_one_wrong_value_is_seen(self):
        self.assertEqual(collectives.values_claim(*self.averaged((1, 1))).verdict, CONFIRMED)
        setting, results = self.averaged((1, 1))
        results["tree-4000"] = Averaged([{"seconds": [1], "wrong": 1, "bytes_sent": 1}])
        claim = collectives.values_claim(setting, results)
        self.assertEqual((claim.verdict, claim.numbers),
                         (NOT_CONFIRMED, "1 wrong values in 10 runs"))

    def test_large_pieces_must_take_less_time_on_every_back_end(self):
        setting, results = self.averaged((0.001, 0.5))
        self.assertEqual(collectives.pieces_claim(setting, results).verdict, CONFIRMED)
        results["gloo-240000000"] = Averaged([{"seconds": [90], "wrong": 0, "bytes_sent": 1}])
        self.assertEqual(collectives.pieces_claim(setting, results).verdict, NOT_CONFIRMED)
        self.assertEqual(collectives.pieces_claim(setting_of(setting.scale), results).verdict,
                         NOT_MEASURABLE)

    def test_time_is_the_longest_of_all_ranks(self):
        result = Averaged([{"seconds": [1, 5], "wrong": 0, "bytes_sent": 8},
                           {"seconds": [2, 3], "wrong": 1, "bytes_sent": 6}])
        self.assertEqual((result.seconds, result.wrong, result.sent), ([2, 5], 1, [4, 3]))

    def test_pieces_take_their_number_times_one(self):
        scale = {"sizes": (4, 4000, 240000000)}
        results = {collectives.name_of("ring", size): Averaged([{"seconds": [0.5], "wrong": 0,
                                                                 "bytes_sent": 1}])
                   for size in scale["sizes"]}
        self.assertEqual(collectives.pieces(setting_of(scale), results, "ring"),
                         [(1000, 30000.0), (60000000, 0.5)])


if __name__ == "__main__":
    unittest.main()
