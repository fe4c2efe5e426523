"""cli/experiment/time_to_accuracy.py: when an accuracy is reached, and what is said of it."""
import dataclasses
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fakes import option, request_of
from cli.experiment import time_to_accuracy as tta
from cli.experiment.results import Trained
from cli.experiment.study import CONFIRMED, NOT_CONFIRMED, NOT_MEASURABLE, Setting
from cli.experiment.time_to_accuracy import Outcome, Point
from cli.runs.tables import values_of

RATES = [{"rate": "1gbit", "gbit": 1.0}, {"rate": "100mbit", "gbit": 0.1}]
TASK = dataclasses.replace(tta.SMALL, target_epochs=1)
SCALE = {"ranks": 4, "seeds": (1, 2), "tasks": (TASK,)}


def row_of(study, one):
    return values_of(tta.columns_of(study), one)


def setting_of(scale=SCALE, **more):
    return Setting(request_of("out", "time-to-accuracy", **more), scale, 2, 1 << 40)


def trained(accuracies, seconds=(1.0, 2.0), sent=1000, hashes="aa"):
    """Two ranks that take `seconds` an epoch, in which each sends `sent` bytes in two steps."""
    epochs = range(len(accuracies))
    records = [{"iteration_seconds": 1, "epoch": epoch, "bytes_sent": sent / 2}
               for epoch in epochs for _ in range(2)]
    return Trained([{"records": records,
                     "summary": {"parameters_sha256": hashes[rank], "epochs": [
                         {"epoch": epoch, "seconds": seconds[rank],
                          "test": {"accuracy": accuracies[epoch]}} for epoch in epochs]}}
                    for rank in range(2)])


def results_of(setting, **by_method):
    """What `by_method` says, with _ for -, else one that goes from 0.5 to 0.8; of all seeds."""
    return {tta.name_of(task, method, link, seed):
            by_method.get(method.name.replace("-", "_"), trained((0.5, 0.8)))
            for task in tta.tasks(setting) for method in tta.methods(setting)
            for link in tta.links(setting) for seed in setting.scale["seeds"]}


def study_of(setting, **by_method):
    link = tta.links(setting)[0]
    return tta.Study(setting, results_of(setting, **by_method), tta.tasks(setting)[0], link)


def outcome(study, name):
    return next(one for one in study.outcomes if one.method.name == name)


class Curves(unittest.TestCase):
    def test_time_is_of_the_rank_that_takes_longest_and_bytes_are_the_mean(self):
        self.assertEqual(tta.curve(trained((0.5, 0.8))),
                         [Point(2.0, 1000.0, 0.5), Point(4.0, 2000.0, 0.8)])

    def test_time_of_several_epochs_is_that_of_one_rank_and_bytes_are_those_of_all(self):
        def rank(seconds, sent):
            return {"records": [{"epoch": epoch, "bytes_sent": sent} for epoch in (0, 0, 1)],
                    "summary": {"epochs": [{"epoch": epoch, "seconds": of_epoch,
                                            "test": {"accuracy": 0.5}}
                                           for epoch, of_epoch in enumerate(seconds)]}}
        points = tta.curve(Trained([rank((3.0, 1.0), 100), rank((1.0, 2.0), 300)]))
        self.assertEqual([(point.seconds, point.sent) for point in points],
                         [(3.0, 400.0), (4.0, 600.0)])

    def test_accuracy_is_reached_on_the_line_between_two_tests(self):
        points = [Point(2.0, 1000, 0.5), Point(4.0, 3000, 0.9), Point(6.0, 4000, 0.95)]
        crossed = tta.reached(points, 0.7)
        self.assertAlmostEqual(crossed.seconds, 3.0)
        self.assertAlmostEqual(crossed.sent, 2000)

    def test_accuracy_of_a_test_is_reached_there(self):
        points = [Point(2.0, 1000, 0.5), Point(4.0, 3000, 0.9)]
        self.assertEqual(tta.reached(points, 0.4), points[0])
        self.assertEqual(tta.reached(points, 0.9), points[1])

    def test_accuracy_that_is_lost_again_was_reached(self):
        points = [Point(1.0, 1, 0.5), Point(2.0, 2, 0.9), Point(3.0, 3, 0.2)]
        self.assertEqual(tta.reached(points, 0.9), points[1])

    def test_accuracy_above_all_is_never_reached(self):
        self.assertIsNone(tta.reached([Point(2.0, 1000, 0.5)], 0.6))

    def test_median_counts_what_is_not_reached_as_never(self):
        self.assertEqual(tta.middle([3.0, 1.0, None]), 3.0)
        self.assertIsNone(tta.middle([1.0, None, None]))


class Outcomes(unittest.TestCase):
    def outcome(self, method=tta.FLOAT32, target=0.8):
        return Outcome(method, [[Point(1.0, 25e6, 0.8)], [Point(3.0, 25e6, 0.7)]], target)

    def test_seeds_that_do_not_reach_it_are_counted(self):
        self.assertEqual(self.outcome().count, 1)
        self.assertIsNone(self.outcome().seconds)
        self.assertEqual(self.outcome(target=0.7).seconds, 3.0)

    def test_slow_link_takes_as_long_as_the_bytes(self):
        self.assertEqual(self.outcome(target=0.7).least_seconds(0.01, 4), 20.0)
        self.assertEqual(self.outcome(target=0.7).least_seconds(10, 4), 3.0)
        self.assertIsNone(self.outcome().least_seconds(0.01, 4))

    def test_link_of_the_parameter_server_carries_all_ranks_bytes(self):
        server = next(method for method in tta.OWN if method.through_one)
        self.assertEqual(self.outcome(server, 0.7).least_seconds(0.01, 4), 80.0)


class Plan(unittest.TestCase):
    def test_each_method_has_each_seed(self):
        runs = tta.runs(setting_of())
        self.assertEqual(len(runs), 2 * len(tta.OWN))
        self.assertEqual(len({run.name for run in runs}), len(runs))
        argv = runs[0].run(setting_of()).ranks[0]
        self.assertEqual([option(argv, name) for name in ("--seed", "--sampler-seed", "--epochs",
                                                          "--evaluate-every", "--sync")],
                         ["1", "1", "3", "1", "ddp"])

    def test_each_method_has_its_options(self):
        setting = setting_of(peers=True)
        argv = {run.name: run.run(setting).ranks[0] for run in tta.runs(setting)}
        names = ("--sync", "--wire", "--compress", "--compress-warmup", "--staleness", "--augment")
        for name, expected in {
                "fp32": ("ddp", "", "", "", "", "false"), "bf16": ("ddp", "bf16", "", "", "", "false"),
                "int8": ("ddp", "", "int8", "", "", "false"),
                "top-k": ("ddp", "", "top-k:0.01", "100", "", "false"),
                "powersgd": ("ddp", "", "powersgd:2", "2", "", "false"),
                "local-sgd": ("local-sgd:10", "", "", "", "", "false"),
                "diloco": ("diloco:10", "", "", "", "", "false"),
                "parameter-server": ("parameter-server", "", "", "", "2", "false"),
                "gloo-ddp": ("",) * 6}.items():
            self.assertEqual(tuple(option(argv[f"fashion-mnist-{name}-2"], one) for one in names),
                             expected, name)
        self.assertEqual(option(argv["fashion-mnist-gloo-ddp-2"], "--mode"), "ddp")

    def test_calculated_bytes_of_peers_are_noted(self):
        for peers in (True, False):
            said = " ".join(tta.notes(setting_of(peers=peers)))
            self.assertEqual("PyTorch's bytes are calculated for a ring" in said, peers)

    def test_hosts_are_shaped_and_this_machine_is_not(self):
        rates = {run.run(setting_of(hosts="p", link=RATES)).rate
                 for run in tta.runs(setting_of(hosts="p", link=RATES))}
        self.assertEqual(rates, {"1gbit", "100mbit"})
        self.assertEqual({run.rate for run in tta.runs(setting_of(link=RATES))}, {""})

    def test_slower_links_are_expected_to_take_longer(self):
        setting = setting_of(hosts="p", link=RATES, threads=1)
        fast, slow = (next(run for run in tta.runs(setting) if run.rate == link["rate"])
                      for link in RATES)
        self.assertGreater(slow.seconds(setting), 2 * fast.seconds(setting))

    def test_vgg_trains_on_cifar10_and_the_mlp_on_fashion_mnist(self):
        setting = setting_of(tta.SCALES["full"], data_dir="/d")
        words = {(option(argv, "--model"), option(argv, "--dataset"), option(argv, "--data-dir"))
                 for run in tta.runs(setting) for argv in run.run(setting).ranks}
        self.assertEqual(words, {("vgg11", "cifar10", "/d"), ("mlp", "fashion-mnist", "")})

    def test_peers_get_what_their_script_takes(self):
        setting = setting_of(peers=True)
        peer = next(run for run in tta.runs(setting) if "gloo-powersgd" in run.name)
        argv = peer.run(setting).ranks[0]
        self.assertEqual([option(argv, name) for name in ("--mode", "--hook", "--lr")],
                         ["ddp", "powersgd:2", "0.05"])
        self.assertNotIn("--augment", argv)

    def test_vgg_needs_cifar10(self):
        full = tta.SCALES["full"]
        self.assertEqual([task.model for task in tta.tasks(setting_of(full))], ["mlp"])
        self.assertIn("VGG-11 was left out", " ".join(tta.notes(setting_of(full))))
        self.assertEqual([task.model for task in tta.tasks(setting_of(full, data_dir="/d"))],
                         ["vgg11", "mlp"])

    def test_scales_have_the_epochs_and_targets_that_they_are_said_to_have(self):
        tasks = {(name, task.key): (task.batch, task.epochs, task.target_epochs)
                 for name, scale in tta.SCALES.items() for task in scale["tasks"]}
        self.assertEqual({key: tasks[key] for key in tasks if key[0] != "tiny"}, {
            ("quick", "fashion-mnist"): (64, 3, 2), ("full", "cifar10"): (64, 5, 3),
            ("full", "fashion-mnist"): (64, 10, 5)})
        self.assertEqual([(scale["ranks"], len(set(scale["seeds"]))) for scale in
                          (tta.SCALES["quick"], tta.SCALES["full"])], [(4, 1), (4, 3)])

    def test_epoch_is_each_ranks_share(self):
        self.assertEqual(tta.iterations(setting_of(), TASK), 3 * 235)
        self.assertEqual(tta.iterations(setting_of(tta.SCALES["tiny"]),
                                        tta.SCALES["tiny"]["tasks"][0]), 3)


class Said(unittest.TestCase):
    def test_target_is_what_float32_had_after_some_epochs(self):
        self.assertEqual(study_of(setting_of()).target, 0.5)
        self.assertEqual(study_of(setting_of(target=0.6)).target, 0.6)

    def test_target_of_all_links_is_that_of_the_first(self):
        setting = setting_of(hosts="p", link=RATES)
        results = results_of(setting)
        for seed in SCALE["seeds"]:
            results[tta.name_of(TASK, tta.FLOAT32, RATES[1], seed)] = trained((0.7, 0.8))
        self.assertEqual([tta.Study(setting, results, TASK, link).target for link in RATES],
                         [0.5, 0.5])

    def test_all_seeds_count_in_the_target_and_in_the_verdicts(self):
        setting = setting_of()
        results = results_of(setting)
        name = tta.name_of(TASK, tta.FLOAT32, tta.links(setting)[0], SCALE["seeds"][-1])
        results[name] = trained((0.6, 0.7), hashes="ab")
        study = tta.Study(setting, results, TASK, tta.links(setting)[0])
        self.assertAlmostEqual(study.target, 0.55)
        self.assertAlmostEqual(row_of(study, study.float32)["accuracy"], 75.0)
        claim = tta.models_claim(setting, results)
        self.assertEqual((claim.verdict, claim.numbers), (NOT_CONFIRMED, f"not so: {name}"))

    def test_row_has_medians_and_ends_of_all_seeds_in_their_units(self):
        curves = [[Point(seconds, sent, accuracy)] for seconds, sent, accuracy in (
            (1.0, 25e6, 0.8), (9.0, 35e6, 0.7), (2.0, 90e6, 0.9))]
        row = row_of(study_of(setting_of(target=0.7)), Outcome(tta.OWN[1], curves, 0.7))
        self.assertEqual((row["reached"], row["seconds"], row["megabytes"], row["run_seconds"],
                          row["run_megabytes"]), ("3 of 3", 2.0, 35.0, 2.0, 50.0))
        self.assertEqual([round(row[name], 6) for name in ("accuracy", "lowest", "highest")],
                         [80, 70, 90])

    def test_figures_are_of_seconds_and_of_megabytes(self):
        setting = setting_of()
        findings = tta.find(setting, results_of(setting, fp32=trained((0.5, 0.8), sent=3e6)))
        for picture, x in zip(findings.pictures, ([2.0, 4.0], [3.0, 6.0])):
            first = picture.drawing["series"][0]
            self.assertEqual((first["name"], first["x"], first["y"]), ("float32", x, [50.0, 80.0]))

    def test_figures_are_means_over_the_seeds(self):
        setting = setting_of()
        results = results_of(setting)
        name = tta.name_of(TASK, tta.FLOAT32, tta.links(setting)[0], SCALE["seeds"][-1])
        results[name] = trained((0.7, 0.6), seconds=(3.0, 4.0), sent=3000)
        for picture, x in zip(tta.find(setting, results).pictures, ([3.0, 6.0], [0.002, 0.004])):
            first = picture.drawing["series"][0]
            self.assertEqual((first["x"], [round(y, 6) for y in first["y"]]), (x, [60, 70]))

    def test_bytes_of_every_seed_count(self):
        setting = setting_of()
        lean = {method.name.replace("-", "_"): trained((0.5, 0.8), sent=10)
                for method in tta.OWN if method.is_leaner}
        for seed in SCALE["seeds"]:
            results = results_of(setting, **lean)
            results[tta.name_of(TASK, tta.OWN[1], tta.links(setting)[0], seed)] = trained((0.5, 0.8))
            study = tta.Study(setting, results, TASK, tta.links(setting)[0])
            self.assertEqual(tta.bytes_claim([study]).verdict, NOT_CONFIRMED, seed)

    def test_links_that_were_shaped_are_not_worked_out(self):
        for more, announced, columns in (({"link": RATES}, 1, {"1gbit", "100mbit"}),
                                         ({"link": RATES, "hosts": "p"}, 0, set()), ({}, 0, set())):
            setting = setting_of(**more)
            study = study_of(setting)
            self.assertEqual(len(tta.announce(setting)), announced, more)
            self.assertEqual(row_of(study, study.float32).keys() & {"1gbit", "100mbit"}, columns)
            self.assertEqual("calculated, not measured" in tta.table_of(study).note, bool(columns))
            self.assertEqual("that needs --hosts" in " ".join(tta.notes(setting)),
                             "hosts" not in more)

    def test_method_that_ends_lower_is_shown_lower(self):
        study = study_of(setting_of(target=0.75), int8=trained((0.5, 0.7), sent=250))
        row = row_of(study, outcome(study, "int8"))
        self.assertEqual((row["reached"], row["seconds"], row["megabytes"]), ("0 of 2", None, None))
        self.assertAlmostEqual(row["accuracy"], 70.0)
        self.assertAlmostEqual(row["run_megabytes"], 500 / 1e6)

    def test_ratio_is_to_float32(self):
        study = study_of(setting_of(target=0.8), diloco=trained((0.5, 0.8), (0.5, 0.25)))
        self.assertAlmostEqual(row_of(study, outcome(study, "diloco"))["ratio"], 0.25)

    def test_links_that_were_not_shaped_are_worked_out(self):
        study = study_of(setting_of(target=0.8, link=RATES), fp32=trained((0.5, 0.8), sent=1e9))
        row = row_of(study, study.float32)
        self.assertEqual((row["1gbit"], row["100mbit"]), (16.0, 160.0))

    def test_method_that_sends_more_is_named(self):
        setting = setting_of()
        lean = {method.name.replace("-", "_"): trained((0.5, 0.8), sent=10)
                for method in tta.OWN if method.is_leaner}
        self.assertEqual(tta.bytes_claim([study_of(setting, **lean)]).verdict, CONFIRMED)
        claim = tta.bytes_claim([study_of(setting, **{**lean, "int8": trained((0.5, 0.8))})])
        self.assertEqual((claim.verdict, claim.numbers),
                         (NOT_CONFIRMED, "not so: int8 (an MLP on Fashion-MNIST)"))

    def test_ranks_that_part_are_named(self):
        setting = setting_of()
        self.assertEqual(tta.models_claim(setting, results_of(setting)).verdict, CONFIRMED)
        claim = tta.models_claim(setting, results_of(setting, diloco=trained((0.5,), hashes="ab")))
        self.assertEqual(claim.verdict, NOT_CONFIRMED)
        self.assertIn("fashion-mnist-diloco-1", claim.numbers)

    def test_method_that_does_not_reach_it_is_named(self):
        setting = setting_of(target=0.75)
        self.assertEqual(tta.reach_claim([study_of(setting)]).verdict, CONFIRMED)
        claim = tta.reach_claim([study_of(setting, top_k=trained((0.1, 0.2)))])
        self.assertEqual((claim.verdict, claim.numbers),
                         (NOT_CONFIRMED, "75.00 %: top-k 0.01 0 of 2, ends at 20.00 %"))

    def test_quickest_is_judged_on_hosts_alone(self):
        quick = {"diloco": trained((0.5, 0.8), (0.1, 0.1))}
        self.assertEqual(tta.best_claim([study_of(setting_of(hosts="p"), **quick)]).verdict,
                         CONFIRMED)
        quick = {"fp32": trained((0.5, 0.8), (0.1, 0.1))}
        self.assertEqual(tta.best_claim([study_of(setting_of(hosts="p"), **quick)]).verdict,
                         NOT_CONFIRMED)
        self.assertEqual(tta.best_claim([study_of(setting_of(), **quick)]).verdict, NOT_MEASURABLE)

    def test_quickest_that_sends_all_bytes_is_no_leaner_one(self):
        leaner = [method.name for method in tta.OWN + tta.PEERS if method.is_leaner]
        self.assertEqual(leaner, ["bf16", "int8", "top-k", "powersgd", "local-sgd", "diloco",
                                  "gloo-powersgd"])
        study = study_of(setting_of(hosts="p"), parameter_server=trained((0.5, 0.8), (0.1, 0.1)))
        self.assertEqual(tta.best_claim([study]).verdict, NOT_CONFIRMED)

    def test_quickest_is_one_of_ours_even_if_a_peer_is_quicker(self):
        study = study_of(setting_of(hosts="p", peers=True),
                         gloo_ddp=trained((0.5, 0.8), (0.1, 0.1)),
                         diloco=trained((0.5, 0.8), (0.2, 0.2)))
        claim = tta.best_claim([study])
        self.assertEqual(claim.verdict, CONFIRMED)
        self.assertNotIn("PyTorch", claim.numbers)

    def test_every_task_and_link_counts_in_the_verdicts(self):
        setting = setting_of(hosts="p", peers=True, threads=1, target=0.75, link=RATES)
        good = results_of(setting, **{method.name.replace("-", "_"): trained(
            (0.5, 0.8), (0.5, 0.5), sent=10) for method in tta.methods(setting) if method.is_leaner})
        bad = results_of(setting, fp32=trained((0.5, 0.8), (0.1, 0.1), sent=10),
                         top_k=trained((0.1, 0.2)), gloo_ddp=trained((0.5, 0.9)))
        for results, verdict in (((good, good), CONFIRMED), ((good, bad), NOT_CONFIRMED),
                                 ((bad, good), NOT_CONFIRMED)):
            studies = [tta.Study(setting, of_link, TASK, link) for of_link, link in zip(results, RATES)]
            for claim in (tta.bytes_claim, tta.reach_claim, tta.best_claim, tta.peer_claim):
                self.assertEqual(claim(studies).verdict, verdict, claim)

    def test_peers_end_must_be_near(self):
        setting = setting_of(peers=True)
        self.assertEqual(tta.peer_claim([study_of(setting)]).verdict, CONFIRMED)
        for end, near in ((0.78, False), (0.788, False), (0.792, True), (0.808, True), (0.812, False)):
            claim = tta.peer_claim([study_of(setting, gloo_ddp=trained((0.5, end)))])
            self.assertEqual(claim.verdict == CONFIRMED, near, end)  # float32 ends at 0.8

    def test_end_of_a_method_is_the_mean_over_its_seeds(self):
        setting = setting_of(peers=True)
        for ends, verdict in (((0.75, 0.85), CONFIRMED), ((0.8, 0.85), NOT_CONFIRMED)):
            results = results_of(setting)
            for seed, end in zip(SCALE["seeds"], ends):
                name = tta.name_of(TASK, tta.PEER, tta.links(setting)[0], seed)
                results[name] = trained((0.5, end))
            claim = tta.peer_claim([tta.Study(setting, results, TASK, tta.links(setting)[0])])
            self.assertEqual(claim.verdict, verdict)
        self.assertEqual(claim.numbers, "80.00 % and 82.50 %")

    def test_whole_run_is_up_to_its_last_epoch(self):
        row = row_of(study_of(setting_of()), Outcome(tta.FLOAT32, [
            [Point(1.0, 1e6, 0.5), Point(5.0, 3e6, 0.8)]], 0.5))
        self.assertEqual((row["seconds"], row["run_seconds"], row["run_megabytes"]), (1.0, 5.0, 3.0))

    def test_task_without_epochs_leaves_accuracies_of_all_undecided(self):
        setting = setting_of()
        with_epochs = study_of(setting)
        without = study_of(setting_of({**SCALE, "tasks": (dataclasses.replace(TASK, epochs=0),)}))
        self.assertEqual(tta.reach_claim([with_epochs, without]).verdict, NOT_MEASURABLE)

    def test_run_without_an_epoch_judges_no_accuracy(self):
        study = study_of(setting_of({**SCALE, "tasks": (dataclasses.replace(TASK, epochs=0),)}))
        for claim in (tta.reach_claim, tta.best_claim):
            self.assertEqual(claim([study]).verdict, NOT_MEASURABLE)


if __name__ == "__main__":
    unittest.main()
