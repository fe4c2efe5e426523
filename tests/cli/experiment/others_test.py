"""cli/experiment/large_batch.py and collectives.py: their numbers and verdicts."""
import math
import pathlib
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fakes import EXPERIMENTS, option, request_of, results_of_plan
from cli.experiment import collectives, large_batch
from cli.experiment.experiment import with_hosts
from cli.experiment.results import Averaged, Shown, Trained, largest_difference
from cli.experiment.study import CONFIRMED, NOT_CONFIRMED, NOT_MEASURABLE, Setting, sizes_with
from cli.experiment.work import COSTS, LOSSES
from cli.runs.tables import markdown_cell

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


class LossesTest(unittest.TestCase):
    def test_loss_that_is_not_finite_equals_none(self):
        finite, other = trained(1.0), trained(1.0, loss=None)
        self.assertEqual(largest_difference(finite, finite, 2), 0)
        for pair in ((finite, other), (other, finite), (other, other)):
            self.assertEqual(largest_difference(*pair, 2), math.inf)

    def test_loss_of_zero_equals_zero_alone(self):
        zero, other = trained(1.0, loss=0.0), trained(1.0, loss=0.5)
        for first, second, expected in ((zero, zero, 0), (zero, other, math.inf), (other, zero, 1)):
            self.assertEqual(largest_difference(first, second, 2), expected)


class BackendsTest(unittest.TestCase):
    def test_those_that_need_mpirun_only_where_it_can_start_ranks(self):
        for why, listed in (("", True), ("no mpirun", False)):
            with mock.patch("cli.experiment.study.why_not", return_value=why):
                setting = setting_of({})
                self.assertEqual("mpi" in setting.backends(), listed)
                self.assertEqual("mpi" in setting.backends("loads_workers_alike"), listed)


FACTORS = ("model", "batch", "devices", "width", "replication")
# The keys of each experiment's tables and figures.
TABLES = {
    "course": "answers times by-parameter losses nodes sent parameters small phases bytes nodes-costs memory",
    "collectives": "values links times fit",
    "lab": "q1 table-1 table-2 table-3 last-epoch q5 q6 q7",
    "large-batch": "last-epoch epochs",
    "ddp-paper": "breakdown tensors buckets no-sync groups scaling shuffles late",
    "data-parallel": " ".join([*(f"by-{factor}" for factor in FACTORS), "threshold", "transfer"]),
    "inference": "times", "time-to-accuracy": "fashion-mnist"}
FIGURES = {
    "course": "times by-parameter losses nodes phases",
    "collectives": "send-recv broadcast scatter gather reduce all-gather reduce-scatter all-reduce times "
                   "pieces",
    "lab": "speed-up-data-parallel speed-up-ranks split-data-parallel split-ranks",
    "large-batch": "epochs accuracy",
    "ddp-paper": "breakdown buckets-resnet50-ring buckets-resnet50-gloo buckets-bert-ring "
                 "buckets-bert-gloo groups scaling",
    "data-parallel": " ".join([*(f"times-by-{factor}" for factor in FACTORS), "barrier-by-batch",
                               "barrier-by-devices", *(f"losses-by-{factor}" for factor in FACTORS),
                               "transfer", *(f"threshold-by-{factor}" for factor in FACTORS)]),
    "inference": "times computation communication",
    "time-to-accuracy": "fashion-mnist-seconds fashion-mnist-bytes"}


class PartsTest(unittest.TestCase):
    def findings(self, one):
        request = with_hosts(one, request_of("out", one.name, hosts="h"))
        setting = Setting(request, one.scales["tiny"], 8, MEMORY)
        return one.find(setting, results_of_plan(one, setting))

    def test_every_experiment_has_all_its_tables_and_figures_in_their_order(self):
        for one in EXPERIMENTS:
            found = self.findings(one)
            self.assertEqual(" ".join(table.key for table in found.tables), TABLES[one.name])
            self.assertEqual(" ".join(picture.key for picture in found.pictures), FIGURES[one.name])

    def test_every_table_has_a_column_for_each_value_of_its_rows(self):
        for one in EXPERIMENTS:
            for table in self.findings(one).tables:
                for row in table.rows:
                    self.assertEqual({column.field for column in table.columns}, set(row),
                                     (one.name, table.key))


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
        self.assertEqual([option(argv, "--lr") for argv in (small, plain, scaled, warm)], ["0.1"] * 4)
        self.assertEqual([(option(argv, "--sync"), option(argv, "--backend"))
                          for argv in (small, plain, scaled, warm)],
                         [("none", ""), *[("ddp", "ring")] * 3])

    def test_runs_train_the_scales_model_for_its_epochs_and_give_no_times(self):
        for run in large_batch.runs(self.setting()):
            self.assertEqual((run.epochs, run.model, run.images, run.only),
                             (5, "lenet", ("--dataset", "fashion-mnist"), LOSSES))

    def test_token_sequences_are_noted_as_made_up(self):
        for dataset, noted in (("synthetic-tokens", True), ("synthetic", True), ("mnist", False)):
            said = large_batch.notes(self.setting(chosen={"dataset": dataset}))
            self.assertEqual(any("made up" in note and dataset in note for note in said), noted,
                             dataset)

    def test_chosen_lr_is_what_the_rule_scales(self):
        setting = setting_of(sizes_with(self.SCALE, {"lr": "0.5"}), chosen={"lr": "0.5"})
        self.assertEqual([large_batch.lr_of(setting, setting.scale, way)
                          for way in large_batch.WAYS], [0.5, 0.5, 8.0, 8.0])

    def test_epoch_has_samples_over_total_batch_iterations(self):
        steps = [run.iterations for run in large_batch.runs(self.setting())]
        self.assertEqual(steps, [5 * 469, 5 * 30, 5 * 30, 5 * 30])
        cifar10 = [run.iterations for run in large_batch.runs(self.setting(data_dir="/d"))]
        self.assertEqual(cifar10, [5 * 391, 5 * 25, 5 * 25, 5 * 25])

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
        self.assertEqual([(row["devices"], row["batch"], row["steps"], row["accuracy"])
                          for row in table.rows], [(1, 128, 469, 50.0), *[(4, 2048, 30, 50.0)] * 3])

    def test_small_lr_is_shown_with_all_its_digits(self):
        for lr, shown in ((0.1, ["0.100", "1.600"]), (0.0004, ["0.0004", "0.0064"]),
                          (0.00001, ["0.00001", "0.00016"])):
            sizes = {**self.SCALE, "lr": lr}
            table = large_batch.last_epoch_table(self.setting(), sizes, self.results(),
                                                 (large_batch.PLAIN, large_batch.SCALED))
            (column,) = (column for column in table.columns if column.field == "lr")
            self.assertEqual([markdown_cell(row["lr"], column) for row in table.rows], shown)

    def test_losses_of_an_epoch_are_means_over_the_ranks(self):
        run = Trained([{"records": [], "summary": {"epochs": [
            {"loss": loss, "accuracy": accuracy}, {"loss": loss / 2, "accuracy": accuracy}]}}
                       for loss, accuracy in ((1.0, 0.25), (3.0, 0.75))])
        table, _ = large_batch.by_epoch({way.name: run for way in large_batch.WAYS})
        self.assertEqual([(row["epoch"], row["warm-up"]) for row in table.rows], [(1, 2.0), (2, 1.0)])
        self.assertEqual(large_batch.last_accuracy({"small": run}, large_batch.SMALL), 50.0)

    def test_verdicts_go_by_the_last_loss(self):
        for claim, better, worse in ((large_batch.worse_claim, {}, {"none": 0.5}),
                                     (large_batch.remedy_claim, {}, {"warm": 2.5})):
            self.assertEqual(claim(self.results(**better), self.SCALE).verdict, CONFIRMED)
            self.assertEqual(claim(self.results(**worse), self.SCALE).verdict, NOT_CONFIRMED)
            tiny = large_batch.SCALES["tiny"]
            self.assertEqual(claim(self.results(), tiny).verdict, NOT_MEASURABLE)

    def test_loss_that_is_not_finite_is_higher_than_all_others(self):
        for name, statement in (("no-remedy", CONFIRMED), ("warm-up", NOT_CONFIRMED)):
            results = {**self.results(), name: self.way((2.0, None))}
            claim = large_batch.remedy_claim(results, self.SCALE)
            self.assertEqual(claim.verdict, statement, name)
            self.assertIn(" inf", claim.numbers)

    def test_rates_must_be_those_of_the_rule(self):
        results = {way.name: self.way(rates=[rate] * 40)
                   for way, rate in zip(large_batch.WAYS, (0.1, 0.1, 1.6, 1.6))}
        ramp = [0.1 + 1.5 * step / 30 for step in range(30)] + [1.6] * 10
        results["warm-up"] = self.way(rates=ramp)
        self.assertEqual(large_batch.rate_claim(self.setting(), results).verdict, CONFIRMED)
        for wrong in ([1.6] * 40, ramp[:30] + [0.1] * 10, [0.1] * 30 + [1.6] * 10, [0.05] + ramp[1:],
                      ramp[:29] + [1.7] + ramp[30:]):
            self.assertEqual(large_batch.rate_claim(
                self.setting(), {**results, "warm-up": self.way(rates=wrong)}).verdict,
                NOT_CONFIRMED)
        for way in large_batch.WAYS:
            other = {**results, way.name: self.way(rates=[0.4] * 40)}
            self.assertEqual(large_batch.rate_claim(self.setting(), other).verdict, NOT_CONFIRMED)


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

    def test_links_are_listed_from_sender_to_receiver(self):
        rows = [row for row in collectives.links_table(self.results()).rows
                if (row["op"], row["backend"]) == ("reduce", "tree")]
        self.assertEqual([(row["link"], row["bytes"]) for row in rows][:3],
                         [("0 → 1", 16), ("0 → 2", 16), ("1 → 0", 16)])
        self.assertEqual(len(rows), len(TREE_LINKS))

    def test_link_is_of_the_rank_that_sends(self):
        shown = Shown([{"input": [1], "output": [1], "sent": {"2": 8}},
                       {"input": [2], "output": [2], "sent": {}},
                       {"input": [3], "output": [3], "sent": {"1": 4, "0": 2}}])
        self.assertEqual(shown.links, {(0, 2): 8, (2, 1): 4, (2, 0): 2})

    def test_table_and_figure_have_each_ranks_own_values_and_links(self):
        results = self.results()
        rows = [row for row in collectives.values_table(results).rows
                if (row["op"], row["backend"]) == ("scatter", "ring")]
        self.assertEqual([(row["rank"], row["input"], row["output"]) for row in rows][:2],
                         [(0, "0 1 2 3", "0 · · ·"), (1, "10 11 12 13", "· 1 · ·")])
        ring, _ = collectives.op_picture(results, "scatter").drawing["panels"]
        self.assertEqual(ring["links"], [{"from": start, "to": to, "label": "24 B"}
                                         for start, to in sorted(RING_LINKS)])
        self.assertEqual(ring["ranks"][1], {"input": "10 11 12 13", "output": "· 1 · ·"})

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

    def test_times_are_medians_in_milliseconds(self):
        setting, results = self.averaged((0.001, 0.5))
        results["ring-4000"] = Averaged([{"seconds": [0.002, 0.003, 0.1], "wrong": 0, "bytes_sent": 1}])
        table, picture = collectives.times(setting, results)
        self.assertEqual([(row["bytes"], row["ring"], row["tree"]) for row in table.rows],
                         [(4000, 3.0, 1.0), (240000000, 500.0, 500.0)])
        (ring,) = (one for one in picture.drawing["series"] if one["name"] == "ring")
        self.assertEqual((ring["x"], ring["y"]), ([4000, 240000000], [3.0, 500.0]))

    def test_fitted_latency_is_in_milliseconds_and_bandwidth_in_gigabytes_a_second(self):
        sizes = (4, 4000, 4000000, 40000000)
        setting, results = self.averaged([0.002 + size / 2e9 for size in sizes], sizes=sizes)
        for row in collectives.fit_table(setting, results).rows:
            self.assertAlmostEqual(row["latency"], 2.0)
            self.assertAlmostEqual(row["bandwidth"], 2.0)

    def test_pieces_take_their_number_times_one(self):
        scale = {"sizes": (4, 4000, 240000000)}
        results = {collectives.name_of("ring", size): Averaged([{"seconds": [0.5], "wrong": 0,
                                                                 "bytes_sent": 1}])
                   for size in scale["sizes"]}
        self.assertEqual(collectives.pieces(setting_of(scale), results, "ring"),
                         [(1000, 30000.0), (60000000, 0.5)])


if __name__ == "__main__":
    unittest.main()
