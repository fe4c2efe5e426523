"""cli/experiment/data_parallel.py and inference.py: their plans, numbers and verdicts."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fakes import request_of
from cli.experiment import data_parallel, devices, inference
from cli.experiment.data_parallel import Point
from cli.experiment.results import Trained
from cli.experiment.study import CONFIRMED, NOT_CONFIRMED, NOT_MEASURABLE, Setting

MEMORY = 1 << 40


def setting_of(scale, cores=8, memory=MEMORY, **more):
    return Setting(request_of("out", **more), scale, cores, memory)


def trained(losses=(2.0, 1.5), communication=0.1, forward=0.5, sent=0, samples=5, **summary):
    records = [{"loss": loss, "iteration_seconds": 1.0, "bytes_sent": sent, "samples": samples,
                "phase_seconds": {"forward": forward, "backward": 0.25, "optimizer": 0.25,
                                  "communication": communication}} for loss in losses]
    return Trained([{"records": records, "summary": summary}])


class Plan(unittest.TestCase):
    def setUp(self):
        self.setting = setting_of(data_parallel.SCALES["full"])

    def test_one_factor_is_changed_at_a_time(self):
        start = data_parallel.base(self.setting)
        for factor in (data_parallel.BY_BATCH, data_parallel.BY_DEVICES, data_parallel.BY_WIDTH):
            for point in data_parallel.points(self.setting, factor):
                changed = [key for key in ("model", "width", "batch", "devices")
                           if getattr(point, key) != getattr(start, key)]
                self.assertLessEqual(set(changed), {factor.key})

    def test_a_point_of_several_factors_runs_once(self):
        names = [run.name for run in data_parallel.runs(self.setting)]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(len(names), 7 + 4 + 3 + 2 + 1)

    def test_classifiers_have_the_published_sizes_at_every_scale(self):
        for scale in data_parallel.SCALES.values():
            points = data_parallel.all_points(setting_of(scale))
            sizes = {(point.model, point.width): point.trained for point in points}
            for key, published in data_parallel.PUBLISHED.items():
                self.assertEqual(sizes[key], published, key)

    def test_command_names_devices_and_classifier(self):
        point = Point("vgg16", 2048, 64, 3)
        (argv,) = data_parallel.run_of(self.setting, point).run(self.setting).ranks
        for name, value in (("--sync", "data-parallel"), ("--devices", "3"), ("--threads", "2"),
                            ("--batch-size", "64"), ("--epochs", "1"), ("--hidden", "2048")):
            self.assertEqual(argv[argv.index(name) + 1], value)

    def test_own_classifier_of_one_layer_needs_no_hidden(self):
        point = Point("resnet18", data_parallel.ONE_LAYER, 64, 1)
        (argv,) = data_parallel.run_of(self.setting, point).run(self.setting).ranks
        self.assertNotIn("--hidden", argv)

    def test_batches_end_where_memory_does(self):
        setting = setting_of(data_parallel.SCALES["full"], memory=10 << 30)
        batches = [point.batch
                   for point in data_parallel.points(setting, data_parallel.BY_BATCH)]
        self.assertEqual(batches, [64, 128])
        self.assertIn("ends at 128: 256 would need", data_parallel.left_out(setting)[0])
        self.assertEqual(data_parallel.left_out(self.setting), [])

    def test_images_are_mnists_where_there_is_a_folder(self):
        setting = setting_of(data_parallel.SCALES["tiny"], data_dir="/d")
        self.assertEqual(devices.images(setting), ["--dataset", "mnist", "--data-dir", "/d"])
        self.assertNotEqual(devices.images(self.setting)[1], "mnist")


class Training(unittest.TestCase):
    SCALE = {**data_parallel.SCALES["tiny"], "image": 8}

    def setUp(self):
        self.setting = setting_of(self.SCALE)
        self.results = {}
        for point in data_parallel.all_points(self.setting):
            planned = data_parallel.planned_bytes(self.setting, point, 5)
            self.results[point.name] = trained(
                sent=planned, trained_parameters=point.trained,
                frozen_sha256={"first": "a", "last": "a"})

    def verdict(self, start):
        claims = data_parallel.find(self.setting, self.results).claims
        (verdict,) = (claim.verdict for claim in claims if claim.text.startswith(start))
        return verdict

    def change(self, point, **changed):
        self.results[point.name] = trained(**{
            "sent": data_parallel.planned_bytes(self.setting, point, 5),
            "trained_parameters": point.trained,
            "frozen_sha256": {"first": "a", "last": "a"}, **changed})

    def test_bytes_of_a_batch(self):
        point = Point("resnet18", data_parallel.ONE_LAYER, 5, 4)  # shares of 2, 2 and 1
        self.assertEqual(data_parallel.planned_bytes(self.setting, point, 5),
                         4 * (3 * (3 * 64 + 20) + 2 * 5130))
        self.assertEqual(data_parallel.planned_bytes(
            self.setting, Point("resnet18", data_parallel.ONE_LAYER, 5, 1), 5), 0)

    def test_formula_of_the_report(self):
        self.assertEqual(data_parallel.formula(Point("vgg16", 4096, 64, 4)),
                         60000 / 256 * 119586826)

    def test_right_runs_confirm_what_is_exact(self):
        for start in ("The numbers of trained", "Training leaves", "2 devices compute",
                      "Between devices go"):
            self.assertEqual(self.verdict(start), CONFIRMED, start)

    def test_other_number_of_parameters_is_seen(self):
        self.change(Point("alexnet", 4096, 5, 2), trained_parameters=54575115)
        self.assertEqual(self.verdict("The numbers of trained"), NOT_CONFIRMED)

    def test_changed_frozen_weights_are_seen(self):
        self.change(Point("vgg16", 1024, 5, 1), frozen_sha256={"first": "a", "last": "b"})
        self.assertEqual(self.verdict("Training leaves"), NOT_CONFIRMED)

    def test_bytes_beside_the_plan_are_seen(self):
        self.change(Point("vgg16", 2048, 5, 2), sent=1)
        self.assertEqual(self.verdict("Between devices go"), NOT_CONFIRMED)

    def test_other_losses_on_several_devices_are_seen(self):
        self.change(data_parallel.exact_points(self.setting)[1], losses=(2.0, 1.501))
        self.assertEqual(self.verdict("2 devices compute"), NOT_CONFIRMED)

    def test_order_of_times_is_seen_where_there_are_cores(self):
        claim = "Communication grows with the batch."
        self.change(Point("vgg16", 1024, 5, 2), communication=0.2)
        self.assertEqual(self.verdict(claim), CONFIRMED)
        self.change(Point("vgg16", 1024, 5, 2), communication=0.05)
        self.assertEqual(self.verdict(claim), NOT_CONFIRMED)
        self.setting = setting_of(self.SCALE, cores=1)
        self.assertEqual(self.verdict(claim), NOT_MEASURABLE)

    def test_threshold_is_decided_where_the_large_ones_reach_it(self):
        claim = "SqueezeNet and ResNet-18 reach"
        below = self.SCALE["threshold"] / 2
        above = self.SCALE["threshold"] * 2
        models = [point.model for point in data_parallel.points(self.setting, data_parallel.BY_MODEL)]

        def reaching(late):
            for point in data_parallel.points(self.setting, data_parallel.BY_MODEL):
                small = point.model in ("squeezenet1_0", "resnet18")
                self.change(point, losses=late if small else (above, below))

        self.assertGreaterEqual(set(models), {"squeezenet1_0", "resnet18", "vgg16", "alexnet"})
        reaching(late=(above, above, below))
        self.assertEqual(self.verdict(claim), CONFIRMED)
        reaching(late=(above, above, above))
        self.assertEqual(self.verdict(claim), CONFIRMED)
        reaching(late=(below, below))
        self.assertEqual(self.verdict(claim), NOT_CONFIRMED)
        for point in data_parallel.points(self.setting, data_parallel.BY_MODEL):
            self.change(point, losses=(above, above))
        self.assertEqual(self.verdict(claim), NOT_MEASURABLE)

    def test_threshold_is_compared_with_the_last_of_the_large_ones(self):
        below, above = (self.SCALE["threshold"] * factor for factor in (0.5, 2))
        losses = {"vgg16": (below,), "alexnet": (above, above, below)}
        for point in data_parallel.points(self.setting, data_parallel.BY_MODEL):
            self.change(point, losses=losses.get(point.model, (above, below)))
        self.assertEqual(self.verdict("SqueezeNet and ResNet-18 reach"), NOT_CONFIRMED)

    def test_threshold_counts_iterations_from_one(self):
        self.assertEqual(data_parallel.first_below([3.0, 2.0, 1.0], 2.0), 2)
        self.assertIsNone(data_parallel.first_below([3.0], 2.0))


class Inference(unittest.TestCase):
    SCALE = {**inference.SCALES["tiny"], "batches": (3, 8)}

    def findings(self, cores=2, **changed):
        results = {inference.name_of(kind, batch): trained(outputs_sha256="a")
                   for kind in inference.KINDS for batch in self.SCALE["batches"]}
        results.update((name.replace("_", "-"), result) for name, result in changed.items())
        return inference.find(setting_of(self.SCALE, cores), results)

    def verdict(self, start, **changed):
        (verdict,) = (claim.verdict for claim in self.findings(**changed).claims
                      if claim.text.startswith(start))
        return verdict

    def test_other_scores_are_seen(self):
        start = "Native and vanilla give the same"
        self.assertEqual(self.verdict(start), CONFIRMED)
        other = trained(outputs_sha256="b")
        self.assertEqual(self.verdict(start, vanilla_batch_8=other), NOT_CONFIRMED)
        self.assertEqual(self.verdict(start, single_batch_8=other), CONFIRMED)

    def test_other_losses_than_one_devices_are_seen(self):
        start = "They are those of one device"
        self.assertEqual(self.verdict(start), CONFIRMED)
        other = trained(losses=(2.0, 1.501), outputs_sha256="a")
        self.assertEqual(self.verdict(start, single_batch_3=other), NOT_CONFIRMED)

    def test_spike_is_vanillas_computation_at_the_smallest_batch(self):
        start = "Vanilla's computation has a spike at batch 3"
        spike = trained(forward=5.0, outputs_sha256="a")
        self.assertEqual(self.verdict(start, vanilla_batch_3=spike), CONFIRMED)
        self.assertEqual(self.verdict(start, vanilla_batch_8=spike), NOT_CONFIRMED)
        self.assertEqual(self.verdict(start, cores=1, vanilla_batch_3=spike), NOT_MEASURABLE)
        sends = trained(communication=9, outputs_sha256="a")
        self.assertEqual(self.verdict(start, vanilla_batch_3=spike, vanilla_batch_8=sends), CONFIRMED)

    def test_faster_is_the_mean_over_batches_of_each_part(self):
        for part, phase in (("computation", "forward"), ("communication", "communication")):
            start = f"Vanilla's {part} takes less time"
            slow = trained(**{phase: 1.0}, outputs_sha256="a")
            self.assertEqual(self.verdict(start, native_batch_8=slow), CONFIRMED)
            self.assertEqual(self.verdict(start, vanilla_batch_8=slow), NOT_CONFIRMED)
            other = "communication" if phase == "forward" else "forward"
            slow_elsewhere = trained(**{other: 1.0}, outputs_sha256="a")
            self.assertEqual(self.verdict(start, native_batch_8=slow_elsewhere), NOT_CONFIRMED)

    def test_alike_is_within_a_quarter(self):
        start = "Native's computation is alike"
        self.assertEqual(self.verdict(start), CONFIRMED)
        slow = trained(forward=1.0, outputs_sha256="a")
        self.assertEqual(self.verdict(start, native_batch_8=slow), NOT_CONFIRMED)
        self.assertEqual(self.verdict(start, vanilla_batch_8=slow), CONFIRMED)

    def test_difference_of_communication_must_shrink_at_each_step(self):
        start = "The difference of their communication"
        slow = trained(communication=1.0, outputs_sha256="a")
        self.assertEqual(self.verdict(start, native_batch_3=slow), CONFIRMED)
        self.assertEqual(self.verdict(start, native_batch_8=slow), NOT_CONFIRMED)
        self.assertEqual(self.verdict(start, vanilla_batch_3=slow), CONFIRMED)


if __name__ == "__main__":
    unittest.main()
