"""cli/experiment/data_parallel.py and inference.py: their plans, numbers and verdicts."""
import dataclasses
import pathlib
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fakes import option, request_of
from cli.experiment import data_parallel, devices, factors, inference, thresholds
from cli.experiment.factors import BY_BATCH, BY_DEVICES, BY_MODEL, BY_WIDTH, Point
from cli.experiment.results import Trained
from cli.experiment.study import CONFIRMED, NOT_CONFIRMED, NOT_MEASURABLE, Setting
from cli.experiment.work import SECONDS_TO_START
from cli.runs.failure import EXIT_USAGE, Failure

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
        start = factors.base(self.setting)
        for factor in factors.FACTORS[1:]:
            for point in factors.points(self.setting, factor):
                changed = [key for key in ("model", "width", "batch", "devices", "replication")
                           if getattr(point, key) != getattr(start, key)]
                self.assertLessEqual(set(changed), {factor.key})

    def test_threads_that_are_given_are_those_of_a_device(self):
        for cores, given, expected in ((8, 0, 2), (8, 3, 3), (2, 0, 1)):
            setting = setting_of({"most_devices": 4}, cores, threads=given)
            self.assertEqual(devices.threads(setting), expected)

    def test_memory_of_an_image_grows_with_its_area(self):
        self.assertEqual([devices.bytes_of_image(setting_of({"image": side})) for side in (224, 112)],
                         [30 << 20, (30 << 20) / 4])

    def test_run_is_expected_to_copy_its_parameters_before_and_in_each_iteration(self):
        work = devices.OnDevices("a", "", 1, 10, 6, (), model="alexnet", devices=2, parameters=10**9)
        setting = setting_of({"image": 224, "most_devices": 2}, cores=2)
        forward, moved = 10 * 0.71 / 20 / 2, 10**9 * 2 * 3e-9
        self.assertAlmostEqual(work.seconds(setting), SECONDS_TO_START + 2 * moved + 6 * (forward + moved))

    def test_a_point_of_several_factors_runs_once(self):
        names = [run.name for run in factors.runs(self.setting)]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(len(names), 7 + 4 + 3 + 2 + 1 + 2)

    def test_classifiers_have_the_published_sizes_at_every_scale(self):
        for scale in data_parallel.SCALES.values():
            points = factors.all_points(setting_of(scale))
            sizes = {(point.model, point.width): point.trained for point in points}
            for key, published in data_parallel.PUBLISHED.items():
                self.assertEqual(sizes[key], published, key)

    def argv(self, point, setting=None):
        setting = setting or self.setting
        (argv,) = factors.run_of(setting, point).run(setting).ranks
        return argv

    def test_command_names_devices_and_classifier(self):
        argv = self.argv(Point("vgg16", 2048, 64, 3))
        for name, value in (("--sync", "data-parallel"), ("--devices", "3"), ("--threads", "2"),
                            ("--batch-size", "64"), ("--epochs", "4"), ("--hidden", "2048")):
            self.assertEqual(option(argv, name), value)
        self.assertNotIn("--weights", argv)
        self.assertNotIn("--replication", argv)

    def test_vanilla_is_named(self):
        self.assertEqual(option(self.argv(Point("vgg16", 2048, 64, 3, "vanilla")), "--replication"),
                         "vanilla")

    def test_own_classifier_of_one_layer_needs_no_hidden(self):
        self.assertNotIn("--hidden", self.argv(Point("resnet18", factors.ONE_LAYER, 64, 1)))

    def test_all_runs_of_a_part_of_an_epoch_see_the_same_samples(self):
        setting = setting_of({**data_parallel.SCALES["quick"], "samples": 640})
        self.assertEqual([factors.iterations_of(setting, batch) for batch in (4, 16, 64, 640)],
                         [(0, 160), (0, 40), (0, 10), (0, factors.LEAST_ITERATIONS)])

    def batches(self, memory):
        setting = setting_of(data_parallel.SCALES["full"], memory=memory)
        return [point.batch for point in factors.points(setting, BY_BATCH)]

    def test_batches_end_with_the_largest_that_fits(self):
        self.assertEqual(self.batches(10 << 30), [64, 128, 192])
        self.assertEqual(self.batches(MEMORY), [64, 128, 256, 512, 1024])

    def note(self, largest, memory):
        setting = setting_of(data_parallel.SCALES["full"], memory=memory)
        results = {point.name: trained() for point in factors.points(setting, BY_BATCH)
                   if point.batch <= largest}
        return data_parallel.batches_note(setting, results)

    def test_base_that_does_not_fit_is_refused(self):
        for gigabytes, fits in ((6.2, False), (6.4, True)):
            setting = setting_of(data_parallel.SCALES["full"], memory=int(gigabytes * 1e9))
            if fits:
                self.assertIn(factors.base(setting).name, [run.name for run in factors.runs(setting)])
                continue
            with self.assertRaisesRegex(Failure, "^vgg16 with batch 64 on 4 devices, .* needs about "
                                        "6.3 GB of memory; 6.2 GB are free$") as raised:
                factors.runs(setting)
            self.assertEqual(raised.exception.exit_code, EXIT_USAGE)

    def test_largest_batch_is_said(self):
        self.assertIn("ends at 1024, the largest of this scale", self.note(1024, MEMORY))
        self.assertIn("ends at 192 in place of 1024: more would not fit", self.note(192, 10 << 30))
        self.assertIn("ends at 512 in place of 1024: more was tried", self.note(512, MEMORY))

    def test_only_larger_batches_may_be_left_out_by_memory(self):
        sweeps = {run.name: run.sweep for run in factors.runs(self.setting)}
        start = factors.base(self.setting)
        self.assertEqual(sweeps[start.name], "")
        self.assertEqual({name for name, sweep in sweeps.items() if sweep},
                         {point.name for point in factors.points(self.setting, BY_BATCH)
                          if point.batch > start.batch})

    def test_images_are_mnists_where_there_is_a_folder(self):
        setting = setting_of(data_parallel.SCALES["tiny"], data_dir="/d")
        self.assertEqual(devices.images(setting), ["--dataset", "mnist", "--data-dir", "/d"])
        self.assertNotEqual(devices.images(self.setting)[1], "mnist")


class Training(unittest.TestCase):
    SCALE = {**data_parallel.SCALES["tiny"], "image": 8, "batches": (2, 5), "window": 1,
             "devices": (1, 2, 3), "most_devices": 3}

    def setUp(self):
        self.setting = setting_of(self.SCALE)
        self.results = {}
        for point in factors.all_points(self.setting):
            self.change(point)

    def claim(self, key):
        claims = data_parallel.find(self.setting, self.results).claims
        (claim,) = (claim for claim in claims if claim.key == key)
        return claim

    def verdict(self, key):
        return self.claim(key).verdict

    def change(self, point, **changed):
        self.results[point.name] = trained(**{
            "sent": factors.planned_bytes(self.setting, point, 5), "barrier_seconds": 0.1,
            "trained_parameters": point.trained,
            "frozen_sha256": {"first": "a", "last": "a"}, **changed})

    def test_each_statement_is_decided_once_and_in_order(self):
        claims = data_parallel.find(self.setting, self.results).claims
        self.assertEqual([claim.key for claim in claims],
                         [statement.key for statement in data_parallel.EXPERIMENT.statements])

    def test_times_by_devices_need_a_core_for_each_of_the_most_devices(self):
        for cores, measurable in ((2, False), (3, True)):
            self.setting = setting_of(self.SCALE, cores=cores)
            self.assertEqual(self.verdict("barrier-devices") != NOT_MEASURABLE, measurable)
            self.assertNotEqual(self.verdict("computation-width"), NOT_MEASURABLE)

    def test_bytes_of_a_batch(self):
        point = Point("resnet18", factors.ONE_LAYER, 5, 4)  # shares of 2, 2 and 1
        self.assertEqual(factors.planned_bytes(self.setting, point, 5),
                         4 * (3 * (3 * 64 + 20) + 2 * 5130))
        self.assertEqual(factors.planned_bytes(
            self.setting, Point("resnet18", factors.ONE_LAYER, 5, 1), 5), 0)

    def test_formula_of_the_report(self):
        self.assertEqual(factors.formula(Point("vgg16", 4096, 64, 4)), 60000 / 256 * 119586826)

    def test_right_runs_confirm_what_is_exact(self):
        for key in ("parameters", "frozen", "devices-equal", "replication-equal", "bytes"):
            self.assertEqual(self.verdict(key), CONFIRMED, key)

    def test_other_number_of_parameters_is_seen(self):
        self.change(Point("alexnet", 4096, 5, 2), trained_parameters=54575115)
        self.assertEqual(self.verdict("parameters"), NOT_CONFIRMED)

    def test_changed_frozen_weights_are_seen(self):
        self.change(Point("alexnet", 1024, 5, 1), frozen_sha256={"first": "a", "last": "b"})
        self.assertEqual(self.verdict("frozen"), NOT_CONFIRMED)

    def test_bytes_beside_the_plan_are_seen_except_vanillas(self):
        self.change(Point("alexnet", 1024, 5, 2, "vanilla"), sent=1)
        self.assertEqual(self.verdict("bytes"), CONFIRMED)
        self.change(Point("vgg16", 2048, 5, 2), sent=1)
        self.assertEqual(self.verdict("bytes"), NOT_CONFIRMED)

    def test_other_losses_on_several_devices_are_seen(self):
        _, several, vanilla = factors.exact_points(self.setting)
        self.change(vanilla, losses=(2.0, 1.501))
        self.assertEqual((self.verdict("devices-equal"), self.verdict("replication-equal")),
                         (CONFIRMED, NOT_CONFIRMED))
        self.change(several, losses=(2.0, 1.501))
        self.assertEqual((self.verdict("devices-equal"), self.verdict("replication-equal")),
                         (NOT_CONFIRMED, CONFIRMED))

    def set_times(self, factor, field, times):
        points = sorted(factors.points(self.setting, factor), key=lambda point: point.trained)
        for point, seconds in zip(points, times):
            self.change(point, **{field: seconds})

    def test_orders_of_times_are_those_of_the_statement(self):
        rising = [0.01 * place for place in range(1, 9)]
        falling = rising[::-1]
        for key, factor, field, confirming in (
                ("communication-batch", BY_BATCH, "communication", rising),
                ("barrier-batch", BY_BATCH, "barrier_seconds", rising),
                ("communication-devices", BY_DEVICES, "communication", falling),
                ("barrier-devices", BY_DEVICES, "barrier_seconds", falling),
                ("computation-width", BY_WIDTH, "forward", rising),
                ("communication-width", BY_WIDTH, "communication", rising)):
            with self.subTest(key):
                self.setUp()
                self.assertEqual(self.verdict(key), NOT_CONFIRMED)  # all are equal
                self.set_times(factor, field, confirming)
                self.assertEqual(self.verdict(key), CONFIRMED)
                self.set_times(factor, field, confirming[::-1])
                self.assertEqual(self.verdict(key), NOT_CONFIRMED)
                self.setting = setting_of(self.SCALE, cores=1)
                # One thread makes all transfers.
                self.assertEqual(self.verdict(key), NOT_CONFIRMED if field == "communication"
                                 else NOT_MEASURABLE)

    def set_communication(self, model, width, seconds, **changed):
        """`seconds`: of each iteration but the first."""
        point = Point(model, width, 5, 2)
        self.change(point, losses=(2.0,) * (1 + len(seconds)), **changed)
        for record, of_one in zip(self.results[point.name].ranks[0].records[1:], seconds):
            record["phase_seconds"]["communication"] = of_one

    def grow(self):
        """Lets the communication of each model follow its trained parameters."""
        for point in factors.points(self.setting, BY_MODEL):
            base = point.trained / 1e9
            self.set_communication(point.model, point.width,
                                   [base * part for part in (0.9, 0.95, 1, 1.05, 1.1)])

    def test_communication_grows_if_bytes_and_times_do(self):
        self.assertEqual(self.verdict("communication-model"), NOT_CONFIRMED)  # equal times
        self.grow()
        self.assertEqual(self.verdict("communication-model"), CONFIRMED)
        self.set_communication("vgg16", 4096, [0.001] * 5)
        self.assertEqual(self.verdict("communication-model"), NOT_CONFIRMED)

    def test_models_of_about_one_size_do_not_decide_by_noise_whether_communication_grows(self):
        for narrow in (0.7, 0.98, 1.02, 1.3):  # VGG-16 of 55.6 M parameters, AlexNet of 54.6 M
            self.grow()
            seconds = [0.0546 * narrow * part for part in (0.98, 0.99, 1, 1.01, 1.02)]
            self.set_communication("vgg16", 2048, seconds)
            self.assertEqual(self.verdict("communication-model"), CONFIRMED, narrow)

    def test_slow_iterations_do_not_decide_whether_communication_grows(self):
        for width, seconds in ((1024, [0.02] * 5 + [0.2] * 5), (4096, [0.12] * 5 + [0.6] * 5)):
            self.grow()
            self.set_communication("vgg16", width, seconds)
            self.assertEqual(self.verdict("communication-model"), CONFIRMED, width)

    def test_a_smaller_model_that_takes_longer_is_seen(self):
        self.grow()
        self.set_communication("squeezenet1_0", factors.ONE_LAYER, [0.1] * 5)
        self.assertEqual(self.verdict("communication-model"), NOT_CONFIRMED)

    def test_a_model_that_sends_too_little_is_seen_whatever_the_times(self):
        self.grow()
        self.set_communication("vgg16", 4096, [0.12] * 5, sent=1)
        self.assertEqual(self.verdict("communication-model"), NOT_CONFIRMED)

    def test_one_device_is_in_no_order_of_communication(self):
        for count, seconds in ((1, 0.0), (2, 0.2), (3, 0.1)):
            self.change(Point("alexnet", 1024, 5, count), communication=seconds)
        self.assertEqual(self.verdict("communication-devices"), CONFIRMED)

    def test_hosts_made_here_have_no_more_cores(self):
        for hosts, needs in (("auto", devices.NEEDS_CORES), ("p", "")):
            setting = setting_of(self.SCALE, cores=1, hosts=hosts)
            self.assertEqual(devices.lacks_cores(setting, 2), needs)

    def test_one_time_is_no_order(self):
        self.setting = setting_of({**self.SCALE, "devices": (1, 2)})
        self.assertEqual(self.verdict("communication-devices"), NOT_MEASURABLE)

    def test_extractor_that_communicates_most_is_said(self):
        self.change(Point("alexnet", 4096, 5, 2), communication=7.0)
        table = data_parallel.factor_table(self.setting, self.results, BY_MODEL)
        self.assertIn("Most communication: alexnet, 4096, with 7.0000 s", table.note)
        self.assertIn("vgg16 25,088", table.note)
        self.assertNotIn("Most", data_parallel.factor_table(self.setting, self.results, BY_BATCH).note)

    def test_losses_far_apart_have_a_logarithmic_axis(self):
        def is_logarithmic():
            return "y_log" in data_parallel.losses_picture(
                self.setting, self.results, BY_BATCH).drawing
        self.assertFalse(is_logarithmic())
        self.change(Point("alexnet", 1024, 2, 2), losses=(500.0, 1.0))
        self.assertTrue(is_logarithmic())

    def test_bytes_of_an_epoch_are_those_of_an_iteration_times_its_iterations(self):
        point = Point("alexnet", 1024, 2, 2)
        self.change(point, sent=7)
        table, picture = data_parallel.transfer(self.setting, self.results)
        (row,) = (row for row in table.rows if (row["model"], row["classifier"], row["batch"],
                                                row["devices"]) == ("alexnet", "1024", 2, 2))
        self.assertEqual((row["sent"], row["formula"]), (7 * 30000, round(factors.formula(point))))
        place = picture.drawing["categories"].index("batch: 2")
        self.assertEqual([one["values"][place] for one in picture.drawing["series"]],
                         [factors.formula(point) / 1e9, 7 * 30000 / 1e9])

    def test_row_of_a_point_has_its_times_and_losses(self):
        self.change(Point("alexnet", 1024, 2, 2), losses=(2.0, 1.0, 0.5, 0.1), communication=0.2,
                    barrier_seconds=0.3)
        (row,) = (row for row in data_parallel.factor_table(self.setting, self.results, BY_BATCH).rows
                  if row["value"] == "2")
        self.assertEqual([round(row[name], 6) for name in ("computation", "communication", "barrier",
                                                           "loss", "last")], [1.0, 0.2, 0.3, 0.9, 0.1])
        self.assertEqual(row["trained"], Point("alexnet", 1024, 2, 2).trained)

    def test_losses_are_drawn_by_images(self):
        self.setting = setting_of({**self.SCALE, "window": 4})
        self.change(Point("alexnet", 1024, 2, 2), losses=(4.0, 2.0, 3.0))
        picture = data_parallel.losses_picture(self.setting, self.results, BY_BATCH)
        (found,) = (one for one in picture.drawing["series"] if one["name"] == "2")
        self.assertEqual((found["x"], found["y"]), ([4, 6], [3.0, 2.5]))

    def test_densenet_must_compute_longest(self):
        self.assertEqual(self.verdict("densenet"), NOT_CONFIRMED)
        self.change(Point("densenet121", 4096, 5, 2), forward=9.0)
        self.assertEqual(self.verdict("densenet"), CONFIRMED)
        self.change(Point("vgg16", 4096, 5, 2), forward=10.0)
        self.assertEqual(self.verdict("densenet"), NOT_CONFIRMED)

    def reach(self, factor, iterations):
        """The points of a factor reach the threshold after so many; None: they do not."""
        threshold = self.SCALE["threshold"]
        for point, count in zip(factors.points(self.setting, factor), iterations):
            losses = [2 * threshold] * (40 if count is None else count - 1)
            self.change(point, losses=losses + ([threshold / 2] if count else []))

    def test_epochs_to_the_threshold_are_in_the_order_of_the_statement(self):
        for key, factor, confirming, refuting, open_ in (
                ("threshold-devices", BY_DEVICES, (None, 5, 2), (2, 5, None), (None, None, 2)),
                ("threshold-batch", BY_BATCH, (2, 2), (20, 2), (None, None)),
                ("threshold-width", BY_WIDTH, (9, 5, 2), (2, 2, 2), (None, None, None)),
                ("threshold-replication", factors.BY_REPLICATION, (20, 21), (20, 30),
                 (None, None))):
            for iterations, verdict in ((confirming, CONFIRMED), (refuting, NOT_CONFIRMED),
                                        (open_, NOT_MEASURABLE)):
                with self.subTest(key, iterations=iterations):
                    self.setUp()
                    self.reach(factor, iterations)
                    self.assertEqual(self.verdict(key), verdict)

    def test_one_of_two_that_reaches_it_is_not_the_same_time(self):
        self.reach(factors.BY_REPLICATION, (20, None))
        self.assertEqual(self.verdict("threshold-replication"), NOT_CONFIRMED)

    def test_small_models_must_reach_the_threshold_last(self):
        # squeezenet1_0, alexnet, resnet18, densenet121, vgg16; two narrower ones as they are
        for iterations, verdict in (((3, 2, 3, 1, 2), CONFIRMED), ((None, 2, None, 1, 2), CONFIRMED),
                                    ((2, 2, 3, 1, 1), NOT_CONFIRMED),
                                    ((2, 1, 3, 1, None), NOT_CONFIRMED),
                                    ((None, 2, None, 1, None), NOT_MEASURABLE)):
            self.reach(BY_MODEL, iterations)
            self.assertEqual(self.verdict("threshold-model"), verdict, iterations)

    def test_what_would_decide_it_is_said(self):
        self.reach(BY_WIDTH, (None, None, None))
        self.assertIn("--weights, --pretrain or --scale full", self.claim("threshold-width").numbers)

    def test_one_step_against_the_order_refutes_it(self):
        for epochs, expected in (((2, 9, 5), False), ((2, 5, 9), True), ((5, 5, None), False),
                                 ((2, None, 5), False), ((5,), None), ((2, 5, None), True)):
            self.assertIs(thresholds.rises(epochs), expected, epochs)

    def test_epochs_to_the_threshold_are_said_and_drawn(self):
        self.reach(BY_WIDTH, (20, 10, None))
        with mock.patch.object(devices.os.path, "isdir", lambda path: True):
            said = [one.said for one in thresholds.reached(self.setting, self.results, BY_WIDTH)]
            picture = thresholds.picture(self.setting, self.results, BY_WIDTH)
        batch = factors.base(self.setting).batch
        self.assertEqual(said, [f"width 1024: {20 * batch / 60000:.4g} epochs",
                                f"width 2048: {10 * batch / 60000:.4g} epochs",
                                f"width 4096: not within {40 * batch / 60000:.4g} epochs"])
        self.assertEqual(picture.drawing["categories"], ["1024", "2048", "4096"])
        self.assertEqual(picture.drawing["series"], [
            {"name": "epochs", "values": [20 * batch / 60000, 10 * batch / 60000, None]}])

    def test_models_are_not_compared_without_one_of_each_size(self):
        for missing in (thresholds.EARLY, thresholds.LATE):
            self.setUp()
            self.reach(BY_MODEL, (3, 2, 3, 1, 2))
            for point in factors.points(self.setting, BY_MODEL):
                if point.model in missing:
                    del self.results[point.name]
            claim = thresholds.models_claim(self.setting, self.results)
            self.assertEqual(claim.verdict, NOT_MEASURABLE, missing)

    def test_threshold_counts_iterations_from_one(self):
        self.assertEqual(thresholds.first_below([3.0, 2.0, 1.0], 2.0), 2)
        self.assertIsNone(thresholds.first_below([3.0], 2.0))

    def test_threshold_is_of_a_mean(self):
        self.assertEqual(thresholds.first_below([3.0, 1.0, 3.0, 1.0, 1.0], 1.5, over=2), 5)
        self.assertIsNone(thresholds.first_below([1.0], 2.0, over=2))

    def test_losses_are_means_over_as_many_samples_for_each_batch(self):
        self.setting = setting_of({**self.SCALE, "window": 5})
        low, high = self.SCALE["threshold"] / 2, 3 * self.SCALE["threshold"]
        small = Point("alexnet", 1024, 2, 2)
        self.change(small, losses=[high, low, high, low, low, low, low])
        for has_fashion_mnist, samples in ((True, 60000), (False, 50000)):
            with mock.patch.object(devices.os.path, "isdir", lambda path: has_fashion_mnist):
                (found,) = (one for one in thresholds.reached(self.setting, self.results, BY_BATCH)
                            if one.point == small)
            self.assertEqual((found.iterations, found.epochs, found.seconds), (6, 12 / samples, 6.0))

    def test_the_reports_words_stand_beside(self):
        rows = thresholds.table(self.setting, self.results).rows
        words = {(row["factor"], row["value"]): row["report"] for row in rows}
        self.assertEqual(words["model", "resnet18, 1 layer"], "500 epochs after VGG-16 and AlexNet")
        self.assertEqual(words["model", "vgg16, 4096"], "")
        self.assertEqual(words["batch", "5"], "a larger batch later")

    def test_batch_that_memory_left_out_is_in_no_table(self):
        left_out = Point("alexnet", 1024, 2, 2)
        del self.results[left_out.name]
        findings = data_parallel.find(self.setting, self.results)
        for table in findings.tables:
            self.assertNotIn("2", [row.get("value") for row in table.rows
                                   if table.key == "by-batch"])


class Inference(unittest.TestCase):
    SCALE = {**inference.SCALES["tiny"], "batches": (3, 8)}

    def findings(self, cores=2, **changed):
        results = {inference.name_of(kind, batch): trained(outputs_sha256="a")
                   for kind in inference.KINDS for batch in self.SCALE["batches"]}
        results.update((name.replace("_", "-"), result) for name, result in changed.items())
        return inference.find(setting_of(self.SCALE, cores), results)

    def verdict(self, key, **changed):
        (verdict,) = (claim.verdict for claim in self.findings(**changed).claims
                      if claim.key == key)
        return verdict

    def test_each_statement_is_decided_once_and_in_order(self):
        self.assertEqual([claim.key for claim in self.findings().claims],
                         [statement.key for statement in inference.EXPERIMENT.statements])

    def test_single_runs_have_one_device_and_all_the_epochs_of_the_scale(self):
        setting = setting_of(inference.SCALES["full"])
        for kind, words in (("single", ("1", "native")), ("native", ("4", "native")),
                            ("vanilla", ("4", "vanilla"))):
            work = inference.run_of(setting, kind, 32)
            argv = work.run(setting).ranks[0]
            self.assertEqual((option(argv, "--devices"), option(argv, "--inference")), words)
            self.assertEqual((option(argv, "--epochs"), work.iterations), ("1", 313))
            self.assertEqual(work.parameters, inference.PARAMETERS["vgg16"])

    def test_difference_is_said_relative_to_the_longer_of_each_batch(self):
        slow, fast = (trained(forward=seconds, outputs_sha256="a") for seconds in (1.5, 3.5))
        (claim,) = (claim for claim in self.findings(native_batch_3=slow, native_batch_8=fast).claims
                    if claim.key == "faster-computation")  # 1 of 2, and 3 of 4 seconds
        self.assertTrue(claim.numbers.startswith("in the median +62 % of the longer; "), claim.numbers)

    def test_one_device_is_in_the_figure_of_computation_only(self):
        lines = {picture.key: len(picture.drawing["series"])
                 for picture in self.findings().pictures if picture.key != "times"}
        self.assertEqual(lines, {"computation": 3, "communication": 2})

    def test_bytes_of_a_batch_are_the_mean_without_the_first(self):
        result = trained(losses=(2.0, 1.5, 1.5), outputs_sha256="a")
        for record, sent in zip(result.ranks[0].records, (1000, 10, 20)):
            record["bytes_sent"] = sent
        (table,) = (one for one in self.findings(vanilla_batch_8=result).tables if one.key == "times")
        (row,) = (row for row in table.rows if (row["batch"], row["kind"]) == (8, "vanilla"))
        self.assertEqual((row["bytes"], row["computation"]), (15, 1.0))
        self.assertAlmostEqual(row["communication"], 0.1)

    def test_other_scores_are_seen(self):
        key = "same-scores"
        self.assertEqual(self.verdict(key), CONFIRMED)
        other = trained(outputs_sha256="b")
        self.assertEqual(self.verdict(key, vanilla_batch_8=other), NOT_CONFIRMED)
        self.assertEqual(self.verdict(key, single_batch_8=other), CONFIRMED)

    def test_other_losses_than_one_devices_are_seen(self):
        key = "single"
        self.assertEqual(self.verdict(key), CONFIRMED)
        other = trained(losses=(2.0, 1.501), outputs_sha256="a")
        self.assertEqual(self.verdict(key, single_batch_3=other), NOT_CONFIRMED)

    def test_spike_is_vanillas_computation_at_the_smallest_batch(self):
        key = "spike"
        spike = trained(forward=5.0, outputs_sha256="a")
        self.assertEqual(self.verdict(key, vanilla_batch_3=spike), CONFIRMED)
        self.assertEqual(self.verdict(key, vanilla_batch_8=spike), NOT_CONFIRMED)
        self.assertEqual(self.verdict(key, cores=1, vanilla_batch_3=spike), NOT_MEASURABLE)
        sends = trained(communication=9, outputs_sha256="a")
        self.assertEqual(self.verdict(key, vanilla_batch_3=spike, vanilla_batch_8=sends), CONFIRMED)

    def test_faster_is_not_decided_by_one_slow_batch(self):
        self.SCALE = {**self.SCALE, "batches": (3, 8, 16)}
        slow, fast = (trained(forward=seconds, outputs_sha256="a") for seconds in (9.0, 0.1))
        self.assertEqual(self.verdict("faster-computation", native_batch_3=slow,
                                      native_batch_8=fast, native_batch_16=fast), NOT_CONFIRMED)

    def test_axes_are_logarithmic_so_that_short_times_are_seen(self):
        axes = {picture.key: picture.drawing.get("y_log") for picture in self.findings().pictures
                if picture.key != "times"}
        self.assertEqual(axes, {"computation": 10, "communication": 10})

    def test_disturbed_times_are_signs(self):
        setting = setting_of(self.SCALE, 2)
        results = {work.name: trained(outputs_sha256="a") for work in inference.runs(setting)}
        self.assertEqual(inference.signs(setting, inference.runs(setting), results), [])
        for record in results["single-batch-8"].ranks[0].records[1:]:
            record["iteration_seconds"] *= 3
        self.assertEqual(len(inference.signs(setting, inference.runs(setting), results)), 2)
        claim = inference.spike_claim(dataclasses.replace(setting, disturbed="others"), results)
        self.assertEqual(claim.verdict, NOT_MEASURABLE)

    def test_faster_is_the_median_over_batches_of_each_part(self):
        for part, phase in (("computation", "forward"), ("communication", "communication")):
            key = f"faster-{part}"
            slow = trained(**{phase: 1.0}, outputs_sha256="a")
            self.assertEqual(self.verdict(key, native_batch_8=slow), CONFIRMED)
            self.assertEqual(self.verdict(key, vanilla_batch_8=slow), NOT_CONFIRMED)
            other = "communication" if phase == "forward" else "forward"
            slow_elsewhere = trained(**{other: 1.0}, outputs_sha256="a")
            self.assertEqual(self.verdict(key, native_batch_8=slow_elsewhere), NOT_CONFIRMED)

    def test_alike_is_within_a_quarter(self):
        key = "alike"
        self.assertEqual(self.verdict(key), CONFIRMED)
        slow = trained(forward=1.0, outputs_sha256="a")
        self.assertEqual(self.verdict(key, native_batch_8=slow), NOT_CONFIRMED)
        self.assertEqual(self.verdict(key, vanilla_batch_8=slow), CONFIRMED)
        self.assertEqual(self.verdict(key, native_batch_8=trained(forward=0.75, outputs_sha256="a")),
                         CONFIRMED)  # 1.25 s beside 1 s

    def test_difference_of_communication_must_shrink_at_each_step(self):
        key = "gap"
        slow = trained(communication=1.0, outputs_sha256="a")
        self.assertEqual(self.verdict(key, native_batch_3=slow), CONFIRMED)
        self.assertEqual(self.verdict(key, native_batch_8=slow), NOT_CONFIRMED)
        self.assertEqual(self.verdict(key, vanilla_batch_3=slow), CONFIRMED)
        self.assertEqual(self.verdict(key), NOT_CONFIRMED)  # it is the same


if __name__ == "__main__":
    unittest.main()
