"""cli/experiment/course.py: its numbers and verdicts, from made-up runs."""
import math
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fakes import option, request_of
from cli.experiment import collectives, course, course_costs, course_parts, course_trials
from cli.experiment.course_setups import DDP, GATHER, REDUCE, SETUPS, nodes_name
from cli.experiment.noise import EQUAL, Compared, condition_of, noise_of
from cli.experiment.results import Shown, Trained
from cli.experiment.study import CONFIRMED, NOT_CONFIRMED, NOT_MEASURABLE, Setting
from cli.experiment.work import Showing

FULL = course.SCALES["full"]


def setting_of(scale=FULL, **more):
    return Setting(request_of("out", **more), scale, 2, 1 << 30)


ACTIVITY = {"iteration_seconds": {"mean": 1.0}, "phase_seconds": {
    "wait": 0.25, "receive": 0.5, "fold": 0.2, "send": 0.05, "hidden_send": 0.1}}


def trained(ranks=4, seconds=1.0, losses=(2.0,) * 196, test=None, sha256="a", exposed=0.1,
            sent=100, peak=1000, coordinator=None):
    """Each iteration computes for 0.5 s; `exposed`: communication, in seconds."""
    times = {"data": 0.01, "forward": 0.2, "backward": 0.25, "optimizer": 0.05,
             "communication": 2 * exposed, "exposed_communication": exposed}
    records = [{"loss": loss, "iteration_seconds": seconds if step else 100.0,
                "phase_seconds": times, "bytes_sent": sent, "bytes_received": sent}
               for step, loss in enumerate(losses)]
    summary = {"parameters_sha256": sha256, "peak_memory_bytes": peak,
               **({"test": test} if test else {})}
    return Trained([{"records": records, "summary": summary}] * ranks, coordinator)


def shown_of(run):
    """Returns what a small program has to give."""
    inputs = [[10 * rank + i for i in range(4)] for rank in range(run.ranks)]
    outputs = collectives.expected_outputs(run.op, inputs)
    return Shown([{"input": inputs[rank], "output": outputs[rank], "sent": {}}
                  for rank in range(run.ranks)])


def results_of(data_dir="", **changed):
    runs = course.runs(setting_of(data_dir=data_dir))
    results = {run.name: shown_of(run) if isinstance(run, Showing) else
               trained(run.ranks, test={"loss": 2.2, "accuracy": 0.18}) for run in runs}
    return {**results, **{name.replace("_", "-"): run for name, run in changed.items()}}


def verdicts(results, **more):
    findings = course.find(setting_of(**more), results)
    return {claim.text: claim.verdict for claim in findings.claims}


def verdict_on(start, results, **more):
    (verdict,) = (verdict for text, verdict in verdicts(results, **more).items()
                  if text.startswith(start))
    return verdict


class Claims(unittest.TestCase):
    def test_equal_runs_confirm_what_is_equal(self):
        results = results_of()
        for start in ("All setups of 4", "All-reduce gives", "DDP gives", "An epoch is"):
            self.assertEqual(verdict_on(start, results), CONFIRMED, start)

    def test_other_first_loss_is_seen(self):
        results = results_of(all_reduce=trained(losses=[2.5] + [2.0] * 195))
        self.assertEqual(verdict_on("All setups of 4", results), NOT_CONFIRMED)

    def test_difference_within_five_steps_counts_and_later_does_not(self):
        late = results_of(all_reduce=trained(losses=[2.0] * 5 + [3.0] * 191))
        early = results_of(all_reduce=trained(losses=[2.0] * 4 + [2.001] * 192))
        self.assertEqual(verdict_on("All-reduce gives", late), CONFIRMED)
        self.assertEqual(verdict_on("All-reduce gives", early), NOT_CONFIRMED)

    def test_ddp_with_other_parameters_is_seen(self):
        self.assertEqual(verdict_on("DDP gives", results_of(ddp=trained(sha256="b"))),
                         NOT_CONFIRMED)

    def test_losses_of_the_last_rank_count_too(self):
        def last_is_other(step):
            return Trained([{"records": [{**record, "loss": 2.5} if place == step and rank == 3 else
                                         record for place, record in enumerate(of_rank.records)],
                             "summary": of_rank.summary}
                            for rank, of_rank in enumerate(trained().ranks)])
        for start, name, step in (("All setups of 4", "all_reduce", 0),
                                  ("All-reduce gives", "all_reduce", 4),
                                  ("DDP gives", "ddp", 195),
                                  ("Parameter by parameter gives", "all_reduce", 39)):
            results = results_of(**{name: last_is_other(step)})
            self.assertEqual(verdict_on(start, results), NOT_CONFIRMED, start)

    def test_one_rank_that_ends_apart_is_not_the_same(self):
        start = "DDP gives exactly"
        for name in ("gather_scatter", "ddp"):
            apart = trained()
            apart.ranks[2].summary = {**apart.ranks[2].summary, "parameters_sha256": "b"}
            results = results_of(**{name: apart})
            self.assertEqual(verdict_on(start, results), NOT_CONFIRMED, name)
        self.assertEqual(verdict_on(start, results_of()), CONFIRMED)

    def test_parameter_by_parameter_must_give_the_same(self):
        start = "Parameter by parameter gives"
        short = {"all_reduce_by_parameter": trained(losses=[2.0] * 40)}
        self.assertEqual(verdict_on(start, results_of(**short)), CONFIRMED)
        for name in ("gather_scatter_by_parameter", "all_reduce_by_parameter"):
            results = results_of(**{name: trained(losses=[2.0] * 39 + [2.000001])})
            self.assertEqual(verdict_on(start, results), NOT_CONFIRMED)

    def test_buckets_must_gain(self):
        results = results_of(all_reduce=trained(seconds=0.5))
        start = "All-reduce takes less time in buckets"
        self.assertEqual(verdict_on(start, results), NOT_MEASURABLE)
        self.assertEqual(verdict_on(start, results, hosts="h"), CONFIRMED)
        results = results_of(all_reduce_by_parameter=trained(seconds=0.5))
        self.assertEqual(verdict_on(start, results, hostfile="h"), NOT_CONFIRMED)

    def test_times_that_differ_by_no_more_than_the_noise_are_equal(self):
        def alternating(seconds):
            run = trained(seconds=seconds)
            for record in run.ranks[0].records[1::2]:  # which all ranks share
                record["iteration_seconds"] += 0.2
            return run
        for ddp, verdict, condition in ((1.01, NOT_CONFIRMED, "equal within the noise"),
                                        (0.99, NOT_CONFIRMED, "equal within the noise"),
                                        (0.9, CONFIRMED, ""), (1.1, NOT_CONFIRMED, "")):
            results = results_of(all_reduce_by_parameter=alternating(1.0), ddp=alternating(ddp))
            (claim,) = (claim for claim in course.find(setting_of(hosts="h"), results).claims
                        if claim.key == "ddp-faster")
            self.assertEqual((claim.verdict, claim.condition), (verdict, condition), ddp)
            self.assertEqual("equal within the noise of 0.0459 s" in claim.numbers, bool(condition))

    def test_epoch_is_counted_at_quick_scale(self):
        setting = setting_of(course.SCALES["quick"])
        for iterations, verdict in ((196, CONFIRMED), (195, NOT_CONFIRMED)):
            results = {"epoch-1-nodes": trained(1),
                       "epoch-4-nodes": trained(losses=[2.0] * iterations)}
            self.assertEqual(course_trials.length_claim(setting, results).verdict, verdict)

    def test_short_epoch_is_seen(self):
        results = results_of(one_node=trained(1, losses=[2.0] * 195))
        self.assertEqual(verdict_on("An epoch is", results), NOT_CONFIRMED)

    def test_times_need_hosts(self):
        results = results_of(all_reduce_by_parameter=trained(seconds=0.5))
        start = "All-reduce takes less time than gather and scatter"
        self.assertEqual(verdict_on(start, results), NOT_MEASURABLE)
        self.assertEqual(verdict_on(start, results, hosts="hosts"), CONFIRMED)
        self.assertEqual(verdict_on("DDP takes less", results, hosts="hosts"), NOT_CONFIRMED)

    def test_time_by_nodes_must_fall_at_each_step(self):
        times = {f"ddp_{nodes}_nodes": trained(nodes, seconds) for nodes, seconds in
                 ((2, 3.0), (3, 2.0), (4, 2.5))}
        start = "Time falls with nodes, DDP"
        self.assertEqual(verdict_on(start, results_of(**times), hosts="h"), NOT_CONFIRMED)
        times["ddp_4_nodes"] = trained(4, 1.0)
        self.assertEqual(verdict_on(start, results_of(**times), hosts="h"), CONFIRMED)

    def test_time_by_nodes_is_decided_for_each_set_up(self):
        for name, start in (("gather_scatter", "Time falls with nodes, gather"),
                            ("all_reduce", "Time falls with nodes, all-reduce")):
            times = {f"{name}_{nodes}_nodes": trained(nodes, 4 - nodes / 2) for nodes in (2, 3, 4)}
            self.assertEqual(verdict_on(start, results_of(**times), hosts="h"), CONFIRMED)
            times[f"{name}_4_nodes"] = trained(4, 9.0)
            self.assertEqual(verdict_on(start, results_of(**times), hosts="h"), NOT_CONFIRMED)

    def test_each_set_up_must_beat_the_one_before(self):
        for name, start in (("gather_scatter_by_parameter",
                             "Gather and scatter takes less time than one"),
                            ("ddp", "DDP takes less"),
                            ("gather_scatter", "Gather and scatter takes less time in buckets")):
            results = results_of(**{name: trained(seconds=0.5)})
            self.assertEqual(verdict_on(start, results, hosts="h"), CONFIRMED)
            results = results_of(**{name: trained(seconds=2)})
            self.assertEqual(verdict_on(start, results, hosts="h"), NOT_CONFIRMED)

    def test_losses_must_be_near_those_of_one_node(self):
        start = "Losses are close"
        for at, verdict in ((180, NOT_CONFIRMED), (181, CONFIRMED)):
            losses = [2.0] * 196
            losses[at] = 2.5
            results = results_of(ddp=trained(losses=losses, test={"loss": 2, "accuracy": 0.18}))
            self.assertEqual(verdict_on(start, results, data_dir="d"), verdict)
            results = results_of(trial_ddp_4_nodes=trained(losses=losses, test={"accuracy": 0.18}))
            self.assertEqual(verdict_on(start, results), verdict)

    def test_losses_that_all_diverge_are_not_close(self):
        diverged = trained(losses=[2.0] * 20 + [None] * 176, test={"loss": None, "accuracy": 0.1})
        results = {**results_of(), **{setup.name: diverged for setup in SETUPS}}
        self.assertEqual(verdict_on("Losses are close", results, data_dir="d"), NOT_CONFIRMED)

    def test_losses_of_a_shorter_epoch_are_compared_as_far_as_they_go(self):
        short = trained(losses=[2.0] * 167, test={"accuracy": 0.18})
        results = {**results_of(), **{course_trials.trial_name(setup, setup.nodes): short
                                      for setup in SETUPS}}
        for of_runs, numbers in (
                (results_of(), "at most 0.00"),
                (results, "at most 0.00 (up to iteration 160, because the runs end before 180)")):
            self.assertEqual(course_trials.close_claim(setting_of(), of_runs).numbers, numbers)

    def test_losses_of_every_set_up_must_be_near_those_of_one_node(self):
        far = trained(losses=[2.0] * 180 + [2.5] * 16, test={"loss": 2, "accuracy": 0.18})
        for setup in (GATHER, REDUCE, DDP):
            results = {**results_of(), setup.name: far}
            self.assertEqual(verdict_on("Losses are close", results, data_dir="d"), NOT_CONFIRMED)

    def test_workload_is_compute_bound_if_every_set_up_computes_longer_than_it_waits(self):
        start = "The workload is more compute-bound"
        self.assertEqual(verdict_on(start, results_of()), NOT_MEASURABLE)
        self.assertEqual(verdict_on(start, results_of(), hosts="h"), CONFIRMED)
        results = results_of(gather_scatter=trained(exposed=0.6))
        self.assertEqual(verdict_on(start, results, hosts="h"), NOT_CONFIRMED)

    def test_bytes_of_gather_and_scatter_are_those_of_all_ranks(self):
        start = "All-reduce communicates less"
        self.assertEqual(verdict_on(start, results_of(all_reduce=trained(sent=399))), CONFIRMED)
        self.assertEqual(verdict_on(start, results_of(all_reduce=trained(sent=400))),
                         NOT_CONFIRMED)

    def test_bytes_and_exposed_communication_must_rise_at_each_step(self):
        for start, field in (("Communication rises", "sent"), ("Time spent in", "exposed")):
            runs = {f"{name}_{nodes}_nodes": trained(nodes, **{field: nodes})
                    for name in ("gather_scatter", "all_reduce", "ddp") for nodes in (2, 3, 4)}
            self.assertEqual(verdict_on(start, results_of(**runs), hosts="h"), CONFIRMED)
            runs["ddp_3_nodes"] = trained(3, **{field: 2})
            self.assertEqual(verdict_on(start, results_of(**runs), hosts="h"), NOT_CONFIRMED)

    def test_buckets_must_cost_memory_and_gain_time(self):
        start = "Buckets trade memory"
        for ddp, verdict in (({"seconds": 0.5, "peak": 2000}, CONFIRMED),
                             ({"seconds": 0.5, "peak": 1000}, NOT_CONFIRMED),
                             ({"seconds": 2.0, "peak": 2000}, NOT_CONFIRMED),
                             ({"seconds": 0.5, "peak": 0}, NOT_MEASURABLE)):
            self.assertEqual(verdict_on(start, results_of(ddp=trained(**ddp)), hosts="h"), verdict)

    def accuracies(self, name_of, values):
        return {name_of(setup): trained(setup.nodes, test={"loss": 2.2, "accuracy": accuracy})
                for setup, accuracy in zip(SETUPS, values)}

    def of_seeds(self, values, apart=0.0):
        """Of the small net: the seeds lie `apart` around each value."""
        return {name: run for place, seed in enumerate(course_trials.SEEDS)
                for name, run in self.accuracies(
                    lambda setup, seed=seed: course_trials.trial_name(setup, setup.nodes, seed),
                    [value + (place - 1) * apart for value in values]).items()}

    def test_accuracies_of_the_set_ups_count_with_cifar10_at_full_scale(self):
        start = "Test accuracies"
        for values, verdict in (((0.17, 0.19, 0.18, 0.18), CONFIRMED),
                                ((0.17, 0.19, 0.18, 0.25), NOT_CONFIRMED)):
            results = dict(results_of(data_dir="d"))
            results.update(self.accuracies(lambda setup: setup.name, values))
            self.assertEqual(verdict_on(start, results, data_dir="d"), verdict)

    def test_a_small_net_stands_for_them_otherwise_and_the_verdict_says_so(self):
        for scale in ("quick", "full"):
            setting = setting_of(course.SCALES[scale])
            for values, verdict in (((0.8, 0.82, 0.82, 0.82), CONFIRMED),
                                    ((0.8, 0.82, 0.84, 0.82), NOT_CONFIRMED)):
                found = self.of_seeds(values)
                claim = course_trials.accuracy_claim(setting, found)
                self.assertEqual((claim.verdict, claim.condition), (
                    verdict, "an MLP on Fashion-MNIST in place of VGG-11 on CIFAR-10"))

    def test_mean_over_the_seeds_of_the_small_net_counts(self):
        setting = setting_of(course.SCALES["quick"])
        claim = course_trials.accuracy_claim(setting, {
            **self.of_seeds((0.8, 0.8, 0.8, 0.8), 0.05),
            course_trials.trial_name(DDP, 4, 745): trained(test={"accuracy": 0.88})})
        self.assertEqual(claim.verdict, CONFIRMED)  # 2.67 points, though one seed has 8
        self.assertIn("one node 80.00 % (75.00 to 85.00 %)", claim.numbers)
        self.assertIn("DDP 82.67 % (75.00 to 88.00 %)", claim.numbers)

    def test_accuracies_of_the_small_net_are_a_table_that_says_so(self):
        setting = setting_of(course.SCALES["quick"])
        found = self.of_seeds((0.8, 0.82, 0.81, 0.82))
        untested = {setup.name: trained(setup.nodes, test=None) for setup in SETUPS}
        table, picture = course.accuracies(setting, {**untested, **found})
        self.assertEqual([round(row["accuracy"], 6) for row in table.rows], [80, 82, 81, 82])
        one = {course_trials.trial_name(DDP, 4): trained(test={"accuracy": 0.7, "loss": 1.5})}
        row = course.accuracies(setting, {**untested, **found, **one})[0].rows[-1]
        self.assertEqual([round(row[name], 6) for name in ("loss", "least", "most",
                                                           "published_accuracy")],
                         [1.5, 70, 82, 18.2])
        self.assertEqual(picture.drawing["series"][1]["values"],
                         [row["published_accuracy"] for row in table.rows])
        self.assertEqual([series["name"] for series in picture.drawing["series"]],
                         ["measured, an MLP on Fashion-MNIST", "published, VGG-11 on CIFAR-10"])
        for note in (table.note, picture.caption):
            self.assertTrue(note.startswith("An MLP on Fashion-MNIST in place of VGG-11"), note)

    def test_small_net_trains_only_where_the_set_ups_do_not_tell(self):
        names = {kind: {run.name for run in course_trials.runs(setting_of(*more[:1], **more[1]))}
                 for kind, more in (("quick", (course.SCALES["quick"], {})),
                                    ("full", (FULL, {})), ("real", (FULL, {"data_dir": "d"})),
                                    ("tiny", (course.SCALES["tiny"], {})))}
        trials = {f"trial-{setup}-nodes{seed}" for setup in (
            "one-node-1", "gather-scatter-4", "all-reduce-4", "ddp-4", "ddp-2", "ddp-3")
                  for seed in ("", "-seed-745", "-seed-746")}
        self.assertEqual(names, {"quick": trials | {"epoch-1-nodes", "epoch-4-nodes"},
                                 "full": trials, "real": set(), "tiny": set()})
        setting = setting_of(course.SCALES["tiny"])
        results = {run.name: trained(run.ranks) for run in course.runs(setting)}
        self.assertEqual([claim.verdict for claim in course_trials.claims(setting, results)],
                         [NOT_MEASURABLE] * 4)

    def test_accuracies_by_nodes_must_be_near(self):
        setting = setting_of(course.SCALES["quick"])
        for last, verdict in ((0.84, CONFIRMED), (0.86, NOT_CONFIRMED)):
            found = {course_trials.trial_name(DDP, nodes, seed):
                     trained(nodes, test={"accuracy": 0.82 if nodes < 4 else last})
                     for nodes in (2, 3, 4) for seed in course_trials.SEEDS}
            self.assertEqual(course_trials.nodes_claim(setting, found).verdict, verdict)
        tests = {nodes_name(setup, nodes): trained(nodes, test={"accuracy": 0.2})
                 for setup in (GATHER, REDUCE, DDP) for nodes in (2, 3, 4)}
        real = setting_of(data_dir="d")
        self.assertEqual(course_trials.nodes_claim(real, tests).verdict, CONFIRMED)
        tests["all-reduce-3-nodes"] = trained(3, test={"accuracy": 0.3})
        self.assertEqual(course_trials.nodes_claim(real, tests).verdict, NOT_CONFIRMED)

    def test_nodes_are_tested_where_they_decide(self):
        for data_dir, tested in (("", False), ("/d", True)):
            run = next(run for run in course.runs(setting_of(data_dir=data_dir))
                       if run.name == "ddp-3-nodes")
            self.assertEqual((run.tests, run.only), (tested, "" if tested else "times"))


class Plans(unittest.TestCase):
    def planned(self, scale, *names, **more):
        """Returns by name, of each run that trains, its ranks and its values of options."""
        setting = setting_of(course.SCALES[scale], **more)
        found = {}
        for work in course.runs(setting):
            if not isinstance(work, Showing):
                ranks = work.run(setting).ranks
                found[work.name] = (len(ranks), *(option(ranks[-1], name) for name in names))
        return found

    def test_setups_exchange_as_they_are_called_and_share_the_batch(self):
        planned = self.planned("full", "--sync", "--backend", "--batch-size", "--epochs",
                               "--iterations")
        gather = ("gather-scatter", "coordinator")
        for name, expected in {
                "one-node": (1, "none", "", "256", "1", ""), "gather-scatter": (4, *gather, "64", "1", ""),
                "all-reduce": (4, "all-reduce", "", "64", "1", ""), "ddp": (4, "ddp", "", "64", "1", ""),
                "gather-scatter-by-parameter": (4, "per-layer", "coordinator", "64", "", "40"),
                "all-reduce-by-parameter": (4, "per-layer", "", "64", "", "40"),
                "gather-scatter-2-nodes": (2, *gather, "150", "", "40"),
                "all-reduce-3-nodes": (3, "all-reduce", "", "100", "", "40"),
                "ddp-4-nodes": (4, "ddp", "", "75", "", "40")}.items():
            self.assertEqual(planned[name], expected, name)

    def test_epochs_that_are_counted_have_the_batch_of_the_assignment(self):
        planned = self.planned("quick", "--batch-size", "--epochs", "--model")
        self.assertEqual([planned[f"epoch-{nodes}-nodes"] for nodes in (1, 4)],
                         [(1, "256", "1", "mlp"), (4, "64", "1", "mlp")])

    def test_each_seed_of_the_small_net_has_its_samples_and_parameters(self):
        planned = self.planned("quick", "--sync", "--batch-size", "--seed", "--sampler-seed", "--lr",
                               "--epochs")
        for name, expected in {
                "trial-one-node-1-nodes": (1, "none", "300", "744", "744", "0.05", "1"),
                "trial-ddp-2-nodes-seed-745": (2, "ddp", "150", "745", "745", "0.05", "1"),
                "trial-all-reduce-4-nodes-seed-746": (4, "all-reduce", "75", "746", "746", "0.05", "1")
                }.items():
            self.assertEqual(planned[name], expected, name)

    def test_small_net_sees_an_epoch_of_its_images(self):
        for data_dir, dataset, iterations in (("", "fashion-mnist", 200), ("/d", "cifar10", 167)):
            setting = setting_of(course.SCALES["quick"], data_dir=data_dir)
            run = course_trials.trial(setting, DDP, 4, 744)
            self.assertEqual((run.images[1], run.iterations), (dataset, iterations))

    def test_peers_train_for_as_many_iterations_as_count_at_most(self):
        for scale, iterations in (("full", 40), ("tiny", 5)):
            setting = Setting(request_of("out", peers=True), course.SCALES[scale], 2, 1 << 40)
            peers = [work for work in course.runs(setting) if getattr(work, "peer_mode", "")]
            self.assertEqual({work.iterations for work in peers}, {iterations})
            self.assertEqual({work.only for work in peers}, {"times"})
            self.assertEqual([work.name for work in peers],
                             ["gloo-gather-scatter", "gloo-all-reduce", "gloo-ddp"])


    def test_notes_say_which_images_and_cores_the_numbers_are_of(self):
        for more, made_up, shared in (({}, True, True), ({"data_dir": "d", "hosts": "h"}, False, False)):
            said = " ".join(course.notes(setting_of(**more)))
            self.assertEqual(("were made up" in said, "shared the cores of this machine" in said),
                             (made_up, shared))


class Noise(unittest.TestCase):
    def test_noise_is_the_condition_if_no_pair_is_against_the_statement_but_by_noise(self):
        less, equal, more = (Compared(1.0, after, 0.1) for after in (0.5, 0.95, 1.5))
        for pairs, condition in (((less,), ""), ((less, less), ""), ((less, equal), EQUAL),
                                 ((equal, less), EQUAL), ((equal, equal), EQUAL),
                                 ((equal, more), ""), ((more, less), "")):
            self.assertEqual(condition_of(pairs), condition, pairs)

    def test_noise_is_two_standard_errors_of_the_difference_of_two_means(self):
        self.assertAlmostEqual(noise_of([1, 3], [5, 5]), 2)  # sqrt(2) of deviation, by sqrt(2)
        self.assertAlmostEqual(noise_of([1, 2, 3], [4, 6]), 2 * math.sqrt(1 / 3 + 1))
        self.assertEqual(noise_of([7], []), 0)

    def test_difference_of_just_the_noise_is_no_difference(self):
        for after, is_less, is_equal in ((0.75, False, True), (0.5, True, False), (1.25, False, True),
                                         (1.5, False, False)):
            pair = Compared(1.0, after, 0.25)
            self.assertEqual((pair.is_less, pair.is_equal), (is_less, is_equal), after)


class Signs(unittest.TestCase):
    def signs(self, **changed):
        setting = setting_of()
        return course.signs(setting, course.runs(setting), results_of(**changed))

    def test_speed_up_beyond_the_nodes_is_a_sign(self):
        self.assertEqual(self.signs(one_node=trained(1, seconds=5.0)), [])  # of 4 nodes, and a quarter
        self.assertEqual(self.signs(one_node=trained(1, seconds=5.1)), [
            f"{setup.title} after one node: a speed-up of 5.10, of which 4 is possible"
            for setup in (GATHER, REDUCE, DDP)])

    def test_speed_up_beyond_the_further_nodes_is_a_sign(self):
        self.assertEqual(self.signs(ddp_3_nodes=trained(3, seconds=0.5), ddp_4_nodes=trained(seconds=0.5)),
                         ["DDP, 3 nodes after 2: a speed-up of 2.00, of which 1.5 is possible"])


class Numbers(unittest.TestCase):
    def test_mean_iteration_is_of_iterations_2_to_40(self):
        run = trained(seconds=1.0)
        for rank in run.ranks:
            for record in rank.records[40:]:
                record["iteration_seconds"] = 9.0
        self.assertEqual((run.mean_iteration(), run.counted_iterations()), (1.0, 39))

    def test_mean_iteration_is_of_all_ranks(self):
        run = Trained([{"records": [{"iteration_seconds": value} for value in (9.0, *of_rank)],
                        "summary": {}} for of_rank in ((1.0, 2.0), (3.0, 6.0))])
        self.assertEqual((run.mean_iteration(), run.counted_seconds()), (3.0, [2.0, 4.0]))

    def test_note_says_which_iterations_the_means_are_of(self):
        whole = ("Mean of iterations 2 to 40, that is of 39 values (the assignment's 40 iterations "
                 "without the first give 39), over the ranks. ")
        fewer = ("On 4 nodes, whose computation is emulated, it is the mean of iterations 2 to 15, that "
                 "is of 14 values. ")
        for iterations, said in ((196, whole), (15, f"{whole}{fewer}")):
            table, _ = course.times(results_of(ddp=trained(losses=[2.0] * iterations)))
            self.assertTrue(table.note.startswith(f"{said}The first four rows"), table.note)

    def test_improvement_is_on_the_line_above(self):
        table, _ = course.times(results_of(gather_scatter_by_parameter=trained(seconds=0.75),
                                           all_reduce_by_parameter=trained(seconds=0.375)))
        self.assertEqual([row["improvement"] for row in table.rows[:3]], [None, 25.0, 50.0])

    def test_published_values_stand_beside_the_sheets_own_exchange(self):
        table, picture = course.times(results_of(gather_scatter_by_parameter=trained(seconds=0.75),
                                                 gather_scatter=trained(seconds=0.6)))
        rows = {row["setup"]: (row["mean"], row["published"]) for row in table.rows}
        self.assertEqual(rows["gather and scatter, parameter by parameter"], (0.75, 0.916541))
        self.assertEqual(rows["gather and scatter, in buckets of 25 MiB"], (0.6, None))
        self.assertEqual(rows["DDP"], (1.0, 0.679717))
        self.assertAlmostEqual(table.rows[4]["improvement"], 20.0)
        self.assertEqual(picture.drawing["categories"], [*rows])

    def test_peers_stand_beside_their_own_setup(self):
        peers = {f"gloo_{name}": trained(seconds=seconds) for name, seconds in
                 (("gather_scatter", 0.25), ("all_reduce", 0.5), ("ddp", 0.75))}
        table, picture = course.times(results_of(**peers))
        self.assertEqual([row["gloo"] for row in table.rows], [None, 0.25, 0.5, 0.75, None, None])
        self.assertEqual(picture.drawing["series"][2]["values"], [None, 0.25, 0.5, 0.75, None, None])

    def test_gain_of_buckets_is_over_the_same_setup_by_parameter(self):
        table, picture = course.by_parameter(results_of(
            gather_scatter_by_parameter=trained(seconds=2.0, exposed=0.5),
            gather_scatter=trained(seconds=1.5, exposed=0.25), all_reduce=trained(seconds=0.5)))
        self.assertEqual([(row["setup"], row["layers"], row["buckets"], row["gain"])
                          for row in table.rows],
                         [("gather and scatter", 2.0, 1.5, 25.0), ("all-reduce", 1.0, 0.5, 50.0)])
        self.assertEqual((table.rows[0]["layers_exposed"], table.rows[0]["exposed"]), (0.5, 0.25))
        self.assertEqual({one["name"]: one["values"] for one in picture.drawing["series"]},
                         {"parameter by parameter": [2.0, 1.0], "in buckets": [1.5, 0.5]})

    def test_losses_in_the_table_are_those_of_every_20th_iteration(self):
        losses = [float(step) for step in range(50)]
        table, picture = course.losses(setting_of(), results_of(ddp=trained(losses=losses)))
        self.assertEqual([row["ddp"] for row in table.rows], [0.0, 20.0, 40.0, *[None] * 7])
        self.assertEqual(table.rows[1]["ddp_published"], DDP.losses[1])
        self.assertEqual(picture.drawing["series"][-1]["y"], losses)

    def of_ranks(self, values, sha256="aaaa"):
        """Of 4 ranks; `values`: what each sends, receives and has as peak memory."""
        return Trained([{"records": [{"loss": 2.0, "bytes_sent": sent, "bytes_received": received,
                                      "iteration_seconds": 0.5, "phase_seconds": {}}] * 2,
                         "summary": {"parameters_sha256": of_rank, "peak_memory_bytes": peak}}
                        for (sent, received, peak), of_rank in zip(values, sha256)])

    def test_ranks_whose_bytes_and_peaks_differ(self):
        uneven = self.of_ranks([(10, 1, 5 * 10**6), (20, 2, 2 * 10**6), (30, 3, 10**6), (5, 9, 0)])
        self.assertEqual((course_costs.busiest_bytes(REDUCE, uneven),
                          course_costs.busiest_bytes(GATHER, uneven)), (33, 80))
        self.assertEqual(course_parts.bytes_of_processes(GATHER, uneven), [
            ("rank 0", 10, 1), ("rank 1", 20, 2), ("rank 2", 30, 3), ("rank 3", 5, 9),
            ("coordinator", 15, 65)])
        self.assertEqual(course_parts.bytes_of_processes(REDUCE, uneven)[-1], ("coordinator", 0, 0))
        rows = {row["setup"]: row for row in course_costs.memory_table(results_of(ddp=uneven)).rows}
        self.assertEqual([rows["DDP"][f"rank_{rank}"] for rank in range(4)], [5.0, 2.0, 1.0, None])

    def test_memory_is_the_mean_over_the_ranks(self):
        def claim(*peaks):
            runs = results_of(ddp=self.of_ranks([(1, 1, peak) for peak in peaks]))
            return course_costs.memory_claim(setting_of(hosts="h"), runs).verdict
        self.assertEqual([claim(900, 1200, 1000, 1000), claim(1200, 900, 900, 900),
                          claim(1200, 1200, 1200, 0)], [CONFIRMED, NOT_CONFIRMED, NOT_MEASURABLE])

    def test_phase_is_the_mean_over_the_ranks_without_the_first_iteration(self):
        run = Trained([{"records": [{"phase_seconds": {"forward": seconds}} for seconds in of_rank],
                        "summary": {}} for of_rank in ((9.0, 1.0, 2.0), (9.0, 3.0, 6.0))])
        self.assertEqual((run.phase("forward"), run.phase("backward")), (3.0, None))

    def test_ranks_of_a_part_that_end_apart_are_counted(self):
        table = course_parts.hashes_table(results_of(ddp=self.of_ranks([(1, 1, 1)] * 4, "aaba")))
        self.assertEqual([(row["part"], row["ranks"], row["sha256"]) for row in table.rows],
                         [("2a", 4, "a"), ("2b", 4, "a"), ("3", 3, "a"), ("3", 1, "b")])

    def test_planned_bytes_are_those_of_a_gather_and_of_a_ring(self):
        size = 36924456
        self.assertEqual([course_costs.planned_bytes(GATHER, nodes) for nodes in (2, 3, 4)],
                         [4 * size, 6 * size, 8 * size])
        self.assertEqual([course_costs.planned_bytes(REDUCE, nodes) for nodes in (2, 3, 4)],
                         [2 * size, 8 * size // 3, 3 * size])

    def test_planned_bytes_of_the_scaling_task_are_those_of_its_nodes(self):
        setting = setting_of()
        table = course_costs.nodes_table(setting, {**results_of(), **{
            course_costs.nodes_name(setup, nodes): trained(nodes)
            for setup in (GATHER, REDUCE, DDP) for nodes in setting.scale["nodes"]}})
        self.assertEqual([row["planned"] for row in table.rows],
                         [course_costs.planned_bytes(setup, nodes) / 1e6
                          for setup in (GATHER, REDUCE, DDP) for nodes in (2, 3, 4)])
        self.assertLess(table.rows[0]["planned"], table.rows[1]["planned"])

    def test_bytes_of_each_process_and_part_are_listed(self):
        table = course_parts.bytes_table(results_of(gather_scatter=trained(sent=70),
                                                    all_reduce=trained(sent=30)))
        rows = {(row["part"], row["process"]): row for row in table.rows}
        self.assertEqual([(rows[part, process]["sent"], rows[part, process]["received"])
                          for part, process in (("2a", "rank 0"), ("2a", "coordinator"),
                                                ("2b", "rank 3"), ("2b", "coordinator"))],
                         [(70, 70), (280, 280), (30, 30), (0, 0)])
        size = 36924456
        self.assertEqual([rows[part, process]["planned"] for part, process in (
            ("2a", "rank 1"), ("2a", "coordinator"), ("3", "rank 1"), ("3", "coordinator"))],
                         [size, 4 * size, size * 3 // 2, 0])

    def test_costs_are_in_megabytes_of_the_busiest_process_and_of_each_rank(self):
        runs = {f"ddp_{nodes}_nodes": trained(nodes, seconds=nodes, sent=nodes * 10**6, exposed=nodes)
                for nodes in (2, 3, 4)}
        results = results_of(gather_scatter=trained(sent=10**6, peak=400 * 10**6), **runs)
        row = course_costs.bytes_table(results).rows[0]
        self.assertEqual((row["process"], row["measured"]), ("coordinator", 8.0))
        self.assertAlmostEqual(row["planned"], 8 * 36.924456)
        peaks = {row["setup"]: row for row in course_costs.memory_table(results).rows}
        self.assertEqual([peaks["gather and scatter"][f"rank_{rank}"] for rank in range(4)], [400.0] * 4)
        self.assertEqual([peaks["one node"].get(f"rank_{rank}") for rank in range(2)], [0.001, None])
        rows = [row for row in course_costs.nodes_table(setting_of(), results).rows
                if row["setup"] == "DDP"]
        self.assertEqual([(row["nodes"], row["measured"], row["mean"]) for row in rows],
                         [(2, 4.0, 2.0), (3, 6.0, 3.0), (4, 8.0, 4.0)])
        for row in rows:
            self.assertAlmostEqual(row["exposed"], row["nodes"])

    def test_hash_of_each_part_is_printed(self):
        table = course_parts.hashes_table(results_of(ddp=trained(sha256="b" * 64)))
        self.assertEqual([(row["part"], row["ranks"], row["sha256"]) for row in table.rows],
                         [("2a", 4, "a"), ("2b", 4, "a"), ("3", 4, "b" * 64)])
        self.assertIn("not equal", table.note)

    def test_equal_losses_have_one_line(self):
        one = trained(1, losses=[3.0] * 196)
        for more, names in (({}, ["one node", "gather and scatter, all-reduce and DDP (equal)"]),
                            ({"ddp": one}, ["one node", "gather and scatter", "all-reduce", "DDP"])):
            _, picture = course.losses(setting_of(), results_of(one_node=one, **more))
            self.assertEqual([line["name"] for line in picture.drawing["series"]], names)
            self.assertEqual(picture.drawing["y_log"], 10)

    def test_losses_that_decide_are_those_that_are_shown(self):
        table, _ = course.losses(setting_of(), results_of())
        self.assertIn("VGG-11's losses do not decide", table.note)
        (trial,) = course.trial_losses(setting_of(), results_of())
        self.assertIn("an MLP on Fashion-MNIST", trial.title)
        real = setting_of(data_dir="d")
        table, _ = course.losses(real, results_of("d"))
        self.assertNotIn("do not decide", table.note)
        self.assertEqual(course.trial_losses(real, results_of("d")), [])

    def test_accuracies_on_made_up_images_are_not_shown_as_the_set_ups(self):
        results = results_of(one_node=trained(1, test={"loss": 9.0, "accuracy": 0.99}))
        table, _ = course.accuracies(setting_of(), results)
        self.assertNotIn(99, [row["accuracy"] for row in table.rows])

    def test_phases_of_all_set_ups_stand_side_by_side(self):
        table, picture = course_costs.phases_of_setups(results_of(ddp=trained(exposed=0.3)))
        self.assertEqual([row["run"] for row in table.rows],
                         ["one node", "gather and scatter", "all-reduce", "DDP"])
        exposed = [row["exposed_communication"] for row in table.rows]
        for got, expected in zip(exposed, (0.1, 0.1, 0.1, 0.3)):
            self.assertAlmostEqual(got, expected)
        self.assertAlmostEqual(table.rows[3]["hidden"], 0.3)
        self.assertEqual(picture.drawing["kind"], "stacked")

    def test_coordinator_has_its_own_row_and_bar(self):
        results = results_of(gather_scatter=trained(coordinator=ACTIVITY))
        _, picture, table, *_ = course_costs.shown(setting_of(), results)
        self.assertEqual((table.key, [row["run"] for row in table.rows]),
                         ("coordinator", ["gather and scatter"]))
        (row,) = table.rows
        self.assertEqual(row, {"run": "gather and scatter", "wait": 0.25, "receive": 0.5, "fold": 0.2,
                               "send": 0.05, "hidden": 0.1, "total": 1.0})
        self.assertEqual(picture.drawing["categories"],
                         ["one node", "gather and scatter", "all-reduce", "DDP",
                          "coordinator of gather and scatter"])
        bars = {one["name"]: one["values"][-1] for one in picture.drawing["series"]}
        self.assertEqual({name: value for name, value in bars.items() if value is not None},
                         {"waits": 0.25, "receives": 0.5,
                          "folds": 0.2, "sends": 0.05})
        self.assertEqual({len(one["values"]) for one in picture.drawing["series"]}, {5})

    def test_run_without_the_coordinators_times_shows_none(self):
        tables = [one.key for one in course_costs.shown(setting_of(), results_of())]
        self.assertNotIn("coordinator", tables)
        _, picture = course_costs.phases_of_setups(results_of())
        self.assertEqual(len(picture.drawing["categories"]), 4)

    def test_epoch_is_asked_for_at_full_scale(self):
        gather = next(run for run in course.runs(setting_of()) if run.name == "gather-scatter")
        argv = gather.run(setting_of(data_dir="/d")).ranks[0]
        self.assertEqual(argv[1:11], ["--model", "vgg11", "--dataset", "cifar10", "--data-dir",
                                      "/d", "--batch-size", "64", "--epochs", "1"])

    def test_all_ranks_evaluate(self):
        gather = next(run for run in course.runs(setting_of()) if run.name == "gather-scatter")
        self.assertEqual(["--evaluate" in argv for argv in gather.run(setting_of()).ranks],
                         [True] * 4)


if __name__ == "__main__":
    unittest.main()
