"""cli/experiment/lab.py and the files beside it: runs, numbers, verdicts and sentences."""
import array
import base64
import dataclasses
import json
import pathlib
import sys
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fakes import option, request_of, text_of
from cli.experiment import lab, lab_answers, lab_data, lab_sweep, lab_tables, large_batch
from cli.experiment.lab_sweep import DEVICES, RANKS
from cli.experiment.results import Averaged, Ordered, Sized, Trained, result_of
from cli.experiment.study import (CONFIRMED, NOT_CONFIRMED, NOT_MEASURABLE, EndedRuns, Setting,
                                  sizes_with)
from cli.experiment.work import (COSTS, LOCAL_BYTES_PER_SECOND, LOSSES, SECONDS_TO_START, Averages,
                                 Sizes, Training)

MEMORY = 1 << 40
SIZES = Sized({"samples": 50000, "gradient": 36924456, "buffers": 22080})
SCALE = {"model": "vgg11", "batches": (32, 128), "devices": (1, 4), "iterations": 2,
         "batch-size": 32, "large": large_batch.SCALES["quick"]}


def setting_of(scale=None, cores=4, memory=MEMORY, **more):
    return Setting(request_of("out", **more), scale or SCALE, cores, memory)


def trained(*seconds, ranks=1, sent=0, buffers=None, epochs=None, **phases):
    """`buffers`: a hash for each rank; the first iteration takes 100 s."""
    phases = {"data": 0.25, "forward": 0.2, "backward": 0.3, "communication": 0.5, **phases}
    records = [{"iteration_seconds": value, "loss": 2.0, "epoch": epochs[step] if epochs else 0,
                "bytes_sent": sent, "phase_seconds": phases}
               for step, value in enumerate((100.0, *seconds))]
    return Trained([{"records": records, "summary": {
        "buffers_sha256": (buffers or "a" * ranks)[rank]}} for rank in range(ranks)])


def ended(loss, accuracy=0.5):
    return Trained([{"records": [], "summary": {"epochs": [{"loss": loss, "accuracy": accuracy}]}}])


def averaged(*seconds):
    return Averaged([{"seconds": seconds, "wrong": 0, "bytes_sent": 8}])


def results_of(way, times, **changed):
    """`times`: seconds of an iteration by (devices, batch); `changed`: by name, other results."""
    ranks_of = {True: lambda _: 1, False: lambda devices: devices}[way.together]
    exchanges = {lab_sweep.exchange_name(devices): averaged(0.7, 0.45, 0.25) for devices, _ in times}
    return {lab_sweep.SIZES: SIZES, **exchanges,
            **{lab_sweep.name_of(way, *pair): trained(seconds, ranks=ranks_of(pair[0]))
               for pair, seconds in times.items()}, **changed}


TIMES = {(1, 32): 1.0, (1, 128): 3.0, (4, 32): 1.5, (4, 128): 3.5}


def measured(way=RANKS, times=None, setting=None, **changed):
    return lab_sweep.Measured(setting or setting_of(hostfile="hosts"),
                              results_of(way, {**TIMES, **(times or {})}, **changed), way)


class Runs(unittest.TestCase):
    def words(self, name, setting=None):
        setting = setting or setting_of()
        (run,) = (work.run(setting) for work in lab.runs(setting) if work.name == name)
        return run.ranks

    def test_both_ways_run_each_pair(self):
        names = [work.name for work in lab_sweep.runs(setting_of())]
        for way in ("data-parallel", "ranks"):
            for devices in (1, 4):
                for batch in (32, 128):
                    self.assertIn(f"{way}-{devices}-devices-batch-{batch}", names)

    def test_devices_of_a_process_share_its_batch(self):
        (argv,) = self.words("data-parallel-4-devices-batch-32")
        for name, value in (("--sync", "data-parallel"), ("--devices", "4"), ("--threads", "1"),
                            ("--batch-size", "128")):
            self.assertEqual(option(argv, name), value)

    def test_both_ways_have_one_baseline_without_hosts(self):
        for cores, given, expected in ((2, 0, "1"), (8, 0, "2"), (2, 3, "3")):
            setting = setting_of(cores=cores, threads=given)
            threads = {option(argv, "--threads") for work in lab_sweep.runs(setting)[1:]
                       for argv in work.run(setting).ranks}
            self.assertEqual(threads, {expected}, cores)
        self.assertIn("has 2 compute threads, also if it is alone. So the speed-ups of both ways refer "
                      "to the same one device", lab.baselines(setting_of(cores=8)))

    def test_baselines_on_hosts_are_told_apart(self):
        for more, rank in (({"hostfile": "h"}, "as many as its host has cores"),
                           ({"hostfile": "h", "threads": 3}, "3 compute threads"),
                           ({"hosts": "auto", "workers": 4}, "1 compute thread")):
            self.assertIn(f"each rank has {rank}, also if it is alone. The speed-ups of each way "
                          "refer to its own row of 1 device", lab.baselines(setting_of(**more)))

    def test_a_device_has_as_many_threads_alone_as_beside_others(self):
        setting = setting_of(cores=8)
        threads = {option(self.words(f"data-parallel-{devices}-devices-batch-32", setting)[0],
                          "--threads") for devices in (1, 4)}
        self.assertEqual(threads, {"2"})

    def test_ranks_on_other_hosts_have_all_threads_of_their_host(self):
        for given, expected in ((0, ""), (3, "3")):
            setting = setting_of(hostfile="hosts", threads=given)
            self.assertEqual({option(argv, "--threads") for devices in (1, 4)
                              for argv in self.words(f"ranks-{devices}-devices-batch-32", setting)},
                             {expected})

    def test_ranks_keep_their_batch(self):
        ranks = self.words("ranks-4-devices-batch-32")
        self.assertEqual([option(argv, "--batch-size") for argv in ranks], ["32"] * 4)

    def test_several_ranks_exchange_over_a_ring_and_one_with_nobody(self):
        for devices, words in ((1, ("none", "")), (4, ("ddp", "ring"))):
            for argv in self.words(f"ranks-{devices}-devices-batch-128"):
                self.assertEqual((option(argv, "--sync"), option(argv, "--backend")), words)
                self.assertEqual("--barrier" in argv, devices > 1)
        alone = {work.ranks: work.alone for work in lab_sweep.runs(setting_of())
                 if work.name.startswith("ranks-") and work.name.endswith("batch-128")}
        self.assertEqual(alone, {1: "", 4: "ranks-1-devices-batch-128"})

    def test_every_training_has_the_labs_two_loaders(self):
        setting = setting_of()
        for work in lab.runs(setting):
            argv = work.run(setting).ranks[0]
            if argv[0].endswith("worker"):
                self.assertEqual(option(argv, "--loaders"), "2", work.name)

    def test_one_process_is_outside_of_hosts_that_are_made(self):
        made = setting_of(hosts="auto", workers=4)
        here = {work.name: work.run(made).here for work in lab_sweep.runs(made)}
        self.assertTrue(here["data-parallel-4-devices-batch-32"])
        self.assertFalse(here["ranks-4-devices-batch-32"])
        for work in lab_sweep.runs(setting_of(hostfile="hosts")):
            self.assertFalse(getattr(work.run(setting_of(hostfile="hosts")), "here"))

    def test_quick_runs_have_few_iterations(self):
        quick = setting_of(lab.SCALES["quick"])
        self.assertEqual({work.iterations for work in lab.runs(quick)
                          if isinstance(work, Training) and not work.epochs}, {5})
        full = {work.name: work.iterations for work in lab.runs(setting_of(lab.SCALES["full"]))
                if isinstance(work, Training)}
        self.assertEqual((full["buffers-true"], full["ranks-2-devices-batch-32"]), (782, 2 * 782))

    def test_ranks_that_exchange_buffers_train_and_are_tested_for_an_epoch_at_full_scale_alone(self):
        for scale, epochs, tests in (("full", 1, True), ("quick", 0, False)):
            for broadcast in lab_data.SWITCHES:
                run = lab_data.exchange_run(setting_of(lab.SCALES[scale]), broadcast)
                self.assertEqual((run.epochs, run.tests, run.only), (epochs, tests, LOSSES))
                argv = run.run(setting_of(lab.SCALES[scale])).ranks[0]
                self.assertEqual(option(argv, "--broadcast-buffers"), broadcast)

    def test_one_process_trains_for_epochs_or_iterations_as_ranks_do(self):
        for scale, epochs, iterations in (("full", "2", ""), ("quick", "", "5")):
            setting = setting_of(lab.SCALES[scale])
            for name in ("data-parallel-2-devices-batch-32", "ranks-2-devices-batch-32"):
                argv = self.words(name, setting)[0]
                self.assertEqual((option(argv, "--epochs"), option(argv, "--iterations")),
                                 (epochs, iterations), name)

    def test_one_process_is_expected_to_compute_on_its_devices_cores_and_to_copy_to_each(self):
        cost, works = COSTS["vgg11"], {work.name: work for work in lab_sweep.runs(setting_of())}
        copy = 2 * cost.bytes / LOCAL_BYTES_PER_SECOND
        for cores, threads, devices, busy in ((8, 0, 4, 8), (8, 1, 4, 4), (2, 1, 4, 2), (8, 1, 1, 1)):
            work = works[f"data-parallel-{devices}-devices-batch-32"]
            computing = devices * 32 * cost.seconds_per_sample / busy
            self.assertAlmostEqual(work.seconds(setting_of(cores=cores, threads=threads)),
                                   SECONDS_TO_START + work.iterations * (computing + devices * copy))

    def test_cores_of_this_machine_say_nothing_about_devices_of_another_host(self):
        for more, counts in (({}, [1]), ({"hosts": "auto", "workers": 4}, [1]),
                             ({"hostfile": "hosts"}, [1, 4])):
            setting = setting_of(cores=2, **more)
            self.assertEqual((lab_sweep.counts_with_cores(setting), lab_sweep.most_with_cores(setting)),
                             (counts, counts[-1]))

    def test_sweep_ends_where_memory_does(self):
        setting = setting_of(lab.SCALES["full"], memory=600 * COSTS["vgg11"].memory_per_sample)
        self.assertEqual(lab_sweep.batches(setting), [32, 128, 512])
        for way in (DEVICES, RANKS):
            self.assertNotIn((2, 512), lab_sweep.pairs(setting, way))
            self.assertIn((2, 512), lab_sweep.pairs(setting_of(lab.SCALES["full"]), way))

    def test_devices_of_a_process_share_the_memory_of_its_host(self):
        setting = setting_of(lab.SCALES["full"], memory=600 * COSTS["vgg11"].memory_per_sample,
                             hostfile="hosts")
        self.assertIn((4, 512), lab_sweep.pairs(setting, RANKS))
        self.assertNotIn((4, 512), lab_sweep.pairs(setting, DEVICES))

    def test_options_that_the_source_leaves_open_reach_every_training(self):
        chosen = {"model": "mlp", "dataset": "mnist", "batch-size": "3", "lr": "0.5",
                  "momentum": "0.1", "weight-decay": "0"}
        request = request_of("out", chosen=chosen)
        setting = Setting(request, sizes_with(lab.SCALES["tiny"], chosen), 4, MEMORY)
        for work in lab.runs(setting):
            argv = work.run(setting).ranks[0]
            if isinstance(work, Averages):
                continue
            self.assertEqual(option(argv, "--dataset"), "mnist", work.name)
            if argv[0].endswith("worker"):
                for name in ("model", "lr", "momentum", "weight-decay"):
                    self.assertEqual(option(argv, f"--{name}"), chosen[name], work.name)
                    self.assertEqual(argv.count(f"--{name}"), 1, work.name)
        self.assertEqual(option(self.words("buffers-true", setting)[0], "--batch-size"), "3")


class Numbers(unittest.TestCase):
    def test_epoch_without_loading(self):
        self.assertEqual(measured().computation[32], 0.75 * 1563)

    def test_second_epoch_is_what_counts(self):
        two = trained(2.0, 4.0, 6.0, epochs=[0, 0, 1, 1])
        self.assertEqual(lab_sweep.iteration_of(two), 5.0)

    def test_iteration_is_of_all_ranks(self):
        def of_ranks(epochs, *ranks):
            return Trained([{"records": [
                {"iteration_seconds": seconds, "epoch": epoch, "phase_seconds": {"data": seconds / 2}}
                for epoch, seconds in zip(epochs, rank)], "summary": {}} for rank in ranks])
        both = of_ranks((0, 1, 1), (9.0, 1.0, 2.0), (9.0, 3.0, 10.0))
        self.assertEqual((lab_sweep.iteration_of(both), lab_sweep.phases_of(both, "data")), (4.0, 2.0))
        few = of_ranks((0, 0), (9.0, 1.0), (9.0, 3.0))
        self.assertEqual(lab_sweep.iteration_of(few), 2.0)

    def test_samples_are_those_of_the_data_set(self):
        sizes = Sized({"samples": 60000, "gradient": 8, "buffers": 0})
        self.assertEqual(measured(sizes=sizes).seconds[1, 32], 1875 * 1.0)

    def test_bandwidth_is_the_ring_formula(self):
        cell = lab_tables.cells([measured()], several=True)[0]
        self.assertEqual(cell.bytes, 36924456 * 3 // 2)
        self.assertAlmostEqual(cell.gb_per_s, 1.5 * 36924456 / 0.45 / 1e9)

    def test_exchange_between_ranks_is_an_all_reduce_alone(self):
        self.assertEqual([(work.ranks, work.bytes, work.backend) for work in
                          lab_sweep.exchange_runs(setting_of())], [(4, 36924456, "ring")])
        self.assertEqual(measured().exchange_seconds(4, 32), 0.45)  # not the 0.5 s of an iteration

    def test_exchange_in_a_process_is_that_of_the_iteration_with_the_least(self):
        several = trained(1.5, 1.5)
        several.ranks[0].records[2] = {**several.ranks[0].records[2],
                                       "phase_seconds": {"communication": 0.3, "data": 0}}
        found = measured(DEVICES, **{"data-parallel-4-devices-batch-32": several})
        self.assertEqual(found.exchange_seconds(4, 32), 0.3)

    def test_one_slow_iteration_of_a_few_does_not_count(self):
        self.assertEqual(lab_sweep.iteration_of(trained(1.0, 1.2, 60.0)), 1.2)

    def test_tables_have_both_ways(self):
        ways = [measured(way) for way in (DEVICES, RANKS)]
        for table, rows in ((lab_tables.speedup_table(ways, ""), 8),
                            (lab_tables.split_table(ways), 4),
                            (lab_tables.bandwidth_table(ways, None), 4)):
            self.assertEqual([row["way"] for row in table.rows],
                             ["DataParallel"] * (rows // 2) + ["DDP ranks"] * (rows // 2))

    def test_tables_1_and_q1_have_epochs_of_one_device_and_of_several(self):
        found = measured()
        self.assertEqual([(row["batch"], row["iterations"], row["seconds"])
                          for row in lab_tables.first_table(found).rows],
                         [(32, 1563, 0.75 * 1563), (128, 391, 2.75 * 391)])
        rows = {(row["devices"], row["batch"]): row for row in lab_tables.speedup_table([found], "").rows}
        self.assertEqual((rows[1, 32]["epoch"], rows[1, 32]["speedup"]), (1563.0, 1.0))
        self.assertEqual(rows[4, 32]["epoch"], 1.5 * 391)
        self.assertAlmostEqual(rows[4, 32]["speedup"], 1563 / (1.5 * 391))

    def test_rest_is_what_computation_leaves_of_the_epoch(self):
        row = lab_tables.split_table([measured()]).rows[0]
        self.assertAlmostEqual(row["computation"], 0.75 * 1563 / 4)
        self.assertAlmostEqual(row["rest"], 1.5 * 391 - row["computation"])
        self.assertAlmostEqual(row["transfers"], 0.5 * 391)

    def test_bars_of_table_2_end_at_the_measured_epoch(self):
        picture = lab_tables.split_picture(measured(times={(4, 32): 0.5}))
        ends = [sum(values) for values in zip(*(series["values"]
                                                for series in picture.drawing["series"]))]
        self.assertEqual(ends, [0.5 * 391, 3.5 * 98])
        self.assertIn("which is impossible, for 4 × 32.", picture.caption)

    def test_token_sequences_are_noted_as_made_up(self):
        setting = setting_of(chosen={"dataset": "synthetic-tokens"})
        (said,) = (note for note in lab.notes(setting) if "made up" in note)
        self.assertEqual(said, "The token sequences of all trainings were made up (--dataset "
                         "synthetic-tokens): their losses and accuracies say nothing about learning.")

    def test_note_on_made_up_images_leaves_out_those_of_q4(self):
        (said,) = (note for note in lab.notes(setting_of()) if "made up" in note)
        self.assertEqual(said, "The images of all questions but Q4 were made up (--dataset "
                               "synthetic): their losses and accuracies say nothing about learning. "
                               "Q4's are Fashion-MNIST's.")
        full = {**SCALE, "large": large_batch.SCALES["full"]}
        (said,) = (note for note in lab.notes(setting_of(full)) if "made up" in note)
        self.assertIn("of all trainings were made up", said)

    def test_notes_say_which_cores_devices_and_ranks_share(self):
        for cores, more, of_devices, of_ranks in (
                (4, {}, False, True), (2, {}, True, True), (2, {"hosts": "auto"}, True, False),
                (4, {"hosts": "auto"}, False, False)):
            said = " ".join(lab.notes(setting_of(cores=cores, **{"workers": 4, **more})))
            self.assertEqual(("devices wait for cores" in said,
                              "All ranks shared the cores of this machine" in said),
                             (of_devices, of_ranks), (cores, more))

    def test_table_of_q4_has_the_remedies_and_every_way_its_figures(self):
        large = {**SCALE["large"], "warmup": 1}
        setting = setting_of({**SCALE, "large": large}, hostfile="hosts")
        results = {**results_of(DEVICES, TIMES), **results_of(RANKS, TIMES),
                   "small": ended(0.7), "no-remedy": ended(2.3)}
        self.assertIn("\n\nQ4.2: ", lab.last_epoch_table(setting, results).note)
        absent = {name: result for name, result in results.items() if name not in ("small", "no-remedy")}
        shown = lab.find(setting, EndedRuns(absent, [
            "small", "no-remedy", *(lab_data.order_name(switch) for switch in lab_data.SWITCHES),
            *(lab_data.buffers_name(switch) for switch in lab_data.SWITCHES)])).pictures
        self.assertEqual([picture.key for picture in shown if picture], [
            f"{kind}-{way.name}" for kind in ("speed-up", "split") for way in lab_sweep.WAYS])

    def test_run_that_memory_ended_is_in_no_table(self):
        results = results_of(DEVICES, {pair: 1.0 for pair in TIMES if pair != (1, 128)})
        found = lab_sweep.Measured(setting_of(), results, DEVICES)
        self.assertEqual(list(found.seconds), [(1, 32), (4, 32)])
        self.assertIn("ends the sweep at 32", lab_tables.first_table(found).note)
        results = results_of(DEVICES, {pair: 1.0 for pair in TIMES if pair != (4, 128)})
        self.assertEqual(list(lab_sweep.Measured(setting_of(), results, DEVICES).seconds),
                         [(1, 32), (1, 128), (4, 32)])


class Answers(unittest.TestCase):
    def test_end_of_the_sweep_says_what_the_next_batch_needs(self):
        measured_batches = types.SimpleNamespace(
            batches=[32, 128], scale={"model": "vgg11", "batches": (32, 128, 512, 2048)})
        self.assertEqual(lab_answers.end_of_sweep(measured_batches),
                         "Memory ends the sweep at 128: a batch of 512 needs about 2 GB on each device.")
        measured_batches.batches += [512, 2048]
        self.assertEqual(lab_answers.end_of_sweep(measured_batches),
                         "Memory would have allowed more than 2048.")

    def test_q1_says_shorter_and_why(self):
        said = lab_answers.longer_or_shorter(measured())
        self.assertIn("shorter: 1075.2 s with a batch of 128, 1172.2 s with 32, because of the "
                      "forward and backward passes. An epoch has 391 iterations instead of 1,563. ",
                      said)
        self.assertIn("takes 879.8 s of the epoch instead of 390.8 s", said)
        self.assertIn("take 195.5 s instead of 781.5 s, or 3.91 ms per sample instead of 15.63 ms",
                      said)

    def test_q1_says_longer_where_it_is(self):
        said = lab_answers.longer_or_shorter(measured(times={(1, 128): 5.0}))
        self.assertIn("longer: 1857.2 s with a batch of 128, 1172.2 s with 32, because of the work "
                      "that is done once in each iteration.", said)

    def test_q1_says_longer_because_of_the_passes(self):
        costs = [types.SimpleNamespace(batch=batch, epoch=once + computing, once=once, steps=steps,
                                       computing=computing, ms_per_sample=1.0)
                 for batch, steps, once, computing in ((32, 8, 10.0, 30.0), (128, 2, 11.0, 60.0))]
        self.assertIn("longer: 71.0 s with a batch of 128, 40.0 s with 32, because of the forward and "
                      "backward passes.", lab_answers.because_of_batch(*costs))

    def test_q1_says_neither_where_the_claim_is_not_confirmed(self):
        three = setting_of({**SCALE, "batches": (32, 128, 256)})
        found = measured(DEVICES, {(1, 128): 2.0, (1, 256): 8.0}, three)
        self.assertEqual(lab.longer_claim(found).verdict, NOT_CONFIRMED)
        said = lab_answers.longer_or_shorter(found)
        self.assertIn("An epoch is neither shorter nor longer with each larger batch", said)
        self.assertIn("A batch of 128 takes the least time.", said)

    def test_q2_is_about_the_devices_of_the_claim(self):
        scale = {**SCALE, "devices": (1, 2, 4), "batches": (32, 64, 128)}
        times = {(1, 64): 2.0, (2, 32): 1.5, (2, 64): 2.2, (4, 32): 0.1, (4, 64): 0.2}
        setting = setting_of(scale, 2)
        found = measured(DEVICES, times, setting)
        self.assertEqual(lab.strong_devices_claim(setting, found).verdict, CONFIRMED)
        said = lab_answers.other_scaling(found)
        self.assertIn("strong scaling would be worse", said)
        self.assertIn("on 2 of 64 each", said)

    def test_no_batch_that_fits_is_said(self):
        found = [lab_sweep.Measured(setting_of(hostfile="hosts"), {lab_sweep.SIZES: SIZES}, way)
                 for way in (DEVICES, RANKS)]
        self.assertIn("No batch fitted into memory.", lab_tables.first_table(found[0]).note)
        claim = lab.faster_ranks_claim(setting_of(hostfile="hosts"), found[1])
        self.assertEqual((claim.verdict, claim.numbers),
                         (NOT_MEASURABLE, "needs memory for one batch"))

    def test_q1_needs_two_batches(self):
        setting = setting_of({**SCALE, "batches": (32,)})
        self.assertIn("needs two batches", lab_answers.longer_or_shorter(measured(setting=setting)))

    def test_answers_are_not_measurable_where_the_claims_are_not(self):
        disturbed = dataclasses.replace(setting_of(hostfile="hosts"), disturbed="others computed")
        self.assertIn("Q1 is not measurable here: others computed. An epoch took 1172.2 s with 32, "
                      "1075.2 s with 128.",
                      lab_answers.longer_or_shorter(measured(DEVICES, setting=disturbed)))
        for setting, why in ((disturbed, "others computed"),
                             (setting_of(), "needs a host for each worker")):
            self.assertIn("whether strong scaling would be worse is not measurable here: " + why,
                          lab_answers.other_scaling(measured(setting=setting)))

    def test_equal_speedups_are_not_worse(self):
        times = {(1, 32): 1.0, (1, 128): 4.0, (4, 32): 1.0, (4, 128): 4.0}
        even = Sized({"samples": 51200, "gradient": 8, "buffers": 0})
        found = measured(times=times, **{lab_sweep.SIZES: even})
        claim = lab.strong_ranks_claim(setting_of(hostfile="hosts"), found)
        point = lab_answers.strong_point(found)
        self.assertEqual(point.speedup, point.weak)
        self.assertEqual(claim.verdict, NOT_CONFIRMED)

    def test_q2_compares_strong_and_weak_scaling_from_one_batch(self):
        said = lab_answers.kind_of_scaling([measured()])
        self.assertIn("weak scaling", said)
        self.assertIn("DDP ranks: strong scaling would be worse, because an epoch on 4 devices then has "
                      "391 exchanges instead of 98, with less computation between them.", said)
        self.assertIn("a total batch of 128 took 1173.00 s on 1 device and 586.50 s on 4 of 32 "
                      "each, a speed-up of 2.00; weak scaling to 4 devices of 128 has 3.42", said)

    def test_q2_says_better_where_it_is(self):
        said = lab_answers.kind_of_scaling([measured(times={(4, 32): 0.5})])
        self.assertIn("strong scaling would be better, because the smaller batch of each device saves "
                      "more time of computation than an epoch of 391 exchanges instead of 98 costs",
                      said)

    def test_q2_compares_epochs_of_one_device_if_there_is_no_large_batch_on_several(self):
        for alone, said in ((3.0, "worse, because one device alone takes less time for an epoch with "
                                  "a batch of 128 than with 32"),
                            (5.0, "better, because one device alone takes more time")):
            times = {(1, 32): 1.0, (1, 128): alone, (4, 32): 1.5}
            found = lab_sweep.Measured(setting_of(hostfile="hosts"), results_of(RANKS, times), RANKS)
            self.assertIn(f"strong scaling would be {said}", lab_answers.other_scaling(found))

    def test_q2_without_a_pair_of_equal_total_batch_says_so(self):
        setting = setting_of({**SCALE, "batches": (32,)})
        self.assertIn("there are none", lab_answers.other_scaling(measured(setting=setting)))

    def test_q3_has_the_formula_and_its_numbers(self):
        said = lab_answers.formulas(measured(), 1.0)
        self.assertIn("T = 2(N−1)/N · S / bandwidth", said)
        self.assertIn("T is the median time of an all-reduce alone", said)
        self.assertIn("DDP ranks, with N = 4, S = 36,924,456 bytes and T = 0.4500 s: "
                      "55,386,684 bytes / 0.4500 s = 0.123 GB/s.", said)
        self.assertIn("have 0.125 GB/s, so T is at least 0.443 s, and the utilization is 98 %",
                      said)
        self.assertNotIn("utilization is", lab_answers.formulas(measured(), None))

    def test_q3_is_about_the_most_devices(self):
        setting = setting_of({**SCALE, "devices": (1, 2, 4)}, hostfile="hosts")
        found = measured(times={(2, 32): 1.2, (2, 128): 3.2}, setting=setting)
        self.assertIn("with N = 4, S = ", lab_answers.formulas(found, 1.0))

    def test_q4_names_two_remedies_with_their_numbers(self):
        results = {"small": ended(0.7), "no-remedy": ended(2.3)}
        said = lab_answers.remedies(setting_of(), SCALE["large"], results)
        self.assertIn("30 updates an epoch instead of 469, and ended with a loss of 2.3000 instead "
                      "of 0.7000", said)
        self.assertIn("16 times as large, so lr is 0.08 instead of 0.005", said)
        self.assertIn("from 0.005 to 0.08 over the first 2 epochs, here 60 iterations, by 0.00125 in each",
                      said)


class Data(unittest.TestCase):
    def test_bytes_of_an_iteration_are_told_by_kind(self):
        results = {"buffers-false": trained(1.0, ranks=2, sent=500),
                   "buffers-true": trained(1.0, ranks=2, sent=511)}
        self.assertEqual([(row["kind"], row["bytes"]) for row in lab_data.kinds_table(results).rows],
                         [("gradients", 1000), ("BatchNorm statistics of rank 0", 22),
                          ("parameters", 0)])

    def test_sizes_are_sums_of_buckets_of_gradients_and_of_the_others(self):
        buckets = [{"bytes": size, "averaged": averaged}
                   for size, averaged in ((40, True), (3, False), (60, True), (5, False))]
        self.assertEqual(Sizes("sizes", "", 1, "vgg11", ()).read(
            setting_of(), [json.dumps({"samples": 9, "buckets": buckets})]),
            {"samples": 9, "gradient": 100, "buffers": 8})

    def test_samples_of_each_rank_and_epoch_are_listed(self):
        orders = {f"set-epoch-{name}": Ordered([[[1, 2], [3, 4]], second])
                  for name, second in (("true", [[5, 6], [7, 8]]), ("false", [[1, 2], [3, 4]]))}
        self.assertEqual([tuple(row.values()) for row in lab_data.order_table(orders).rows],
                         [("true", 0, "1 2", "5 6"), ("true", 1, "3 4", "7 8"),
                          ("false", 0, "1 2", "1 2"), ("false", 1, "3 4", "3 4")])

    def test_distance_of_each_rank_is_from_rank_0_and_its_accuracy_in_percent(self):
        def of(*floats):
            return {"buffers_sha256": str(floats), "test": {"accuracy": 0.25},
                    "buffers": base64.b64encode(array.array("f", floats).tobytes()).decode()}
        runs = {f"buffers-{name}": Trained([{"records": [], "summary": of(*floats)} for floats in ranks])
                for name, ranks in (("true", ((3, 4), (3, 4))), ("false", ((3, 4), (3, 14))))}
        self.assertEqual([(row["broadcast"], row["rank"], row["distance"], row["accuracy"])
                          for row in lab_data.drift_table(runs).rows],
                         [("true", 0, 0.0, 25.0), ("true", 1, 0.0, 25.0), ("false", 0, 0.0, 25.0),
                          ("false", 1, 2.0, 25.0)])


class Verdicts(unittest.TestCase):
    def test_each_statement_has_its_claim(self):
        setting = setting_of(lab.SCALES["tiny"])
        kept = {work: work.read(setting, [text_of(argv, rank) for rank, argv in
                                          enumerate(work.run(setting).ranks)])
                for work in lab.runs(setting)}
        claims = lab.find(setting, {work.name: result_of(work, of_ranks)
                                    for work, of_ranks in kept.items()}).claims
        self.assertEqual([claim.key for claim in claims],
                         [statement.key for statement in lab.EXPERIMENT.statements])
        self.assertEqual(len({claim.key for claim in claims}), len(claims))

    def decided(self, claim, verdict, key):
        self.assertEqual((claim.verdict, claim.key), (verdict, key))

    def test_bytes_must_be_those_of_the_plan(self):
        results = {lab_sweep.SIZES: SIZES,
                   "buffers-false": trained(1.0, ranks=2, sent=36924456),
                   "buffers-true": trained(1.0, ranks=2, sent=36924456 + 22080 // 2)}
        self.decided(lab.bytes_claim(results), CONFIRMED, "bytes")
        for name, other in (("buffers-true", results["buffers-false"]),
                            ("buffers-false", trained(1.0, ranks=2, sent=36924452))):
            self.decided(lab.bytes_claim({**results, name: other}), NOT_CONFIRMED, "bytes")
        results[lab_sweep.SIZES] = Sized({"samples": 1, "gradient": 36924452, "buffers": 22080})
        self.decided(lab.bytes_claim(results), NOT_CONFIRMED, "bytes")

    def test_statistics_must_drift_without_broadcast_alone(self):
        results = {lab_sweep.SIZES: SIZES, "buffers-true": trained(1.0, ranks=2, buffers="aa"),
                   "buffers-false": trained(1.0, ranks=2, buffers="ab")}
        self.decided(lab_data.drift_claim(results), CONFIRMED, "drift")
        for name in ("buffers-true", "buffers-false"):
            other = {"buffers-true": "ab", "buffers-false": "aa"}[name]
            self.decided(lab_data.drift_claim({**results, name: trained(
                1.0, ranks=2, buffers=other)}), NOT_CONFIRMED, "drift")
        results[lab_sweep.SIZES] = Sized({"samples": 1, "gradient": 4, "buffers": 0})
        self.decided(lab_data.drift_claim(results), NOT_MEASURABLE, "drift")

    def test_order_must_change_with_set_epoch_alone(self):
        kept, changed = Ordered([[[1, 2]], [[1, 2]]]), Ordered([[[1, 2]], [[2, 1]]])
        for without, having, verdict in ((kept, changed, CONFIRMED), (kept, kept, NOT_CONFIRMED),
                                         (changed, changed, NOT_CONFIRMED)):
            results = {"set-epoch-false": without, "set-epoch-true": having}
            self.decided(lab_data.order_claim(results), verdict, "order")

    def test_order_of_every_rank_counts(self):
        kept = Ordered([[[1, 2], [3, 4]], [[1, 2], [3, 4]]])
        changed = Ordered([[[1, 2], [3, 4]], [[1, 2], [4, 3]]])
        results = {"set-epoch-false": changed, "set-epoch-true": changed}
        self.decided(lab_data.order_claim(results), NOT_CONFIRMED, "order")
        results["set-epoch-false"] = kept
        self.decided(lab_data.order_claim(results), CONFIRMED, "order")

    def test_large_batch_must_end_with_the_higher_loss(self):
        results = {"small": ended(0.7), "no-remedy": ended(2.3)}
        sizes = SCALE["large"]
        self.decided(lab.worse_claim(results, sizes), CONFIRMED, "worse")
        for loss in (0.7, 0.6):
            results["no-remedy"] = ended(loss)
            self.decided(lab.worse_claim(results, sizes), NOT_CONFIRMED, "worse")
        self.decided(lab.worse_claim(results, large_batch.SCALES["tiny"]), NOT_MEASURABLE, "worse")

    def test_epoch_must_get_shorter_with_every_batch(self):
        self.decided(lab.longer_claim(measured(DEVICES)), CONFIRMED, "batch")
        self.decided(lab.longer_claim(measured(DEVICES, {(1, 128): 5.0})), NOT_CONFIRMED, "batch")
        three = setting_of({**SCALE, "batches": (32, 128, 256)})
        self.decided(lab.longer_claim(measured(DEVICES, {(1, 256): 9.0}, three)), NOT_CONFIRMED,
                     "batch")
        one = setting_of({**SCALE, "batches": (32,)})
        self.decided(lab.longer_claim(measured(DEVICES, setting=one)), NOT_MEASURABLE, "batch")

    def test_ranks_are_faster_only_at_every_batch(self):
        hosts = setting_of(hostfile="hosts")
        self.decided(lab.faster_ranks_claim(hosts, measured()), CONFIRMED, "faster-ranks")
        slow = measured(times={(4, 32): 5.0})
        self.decided(lab.faster_ranks_claim(hosts, slow), NOT_CONFIRMED, "faster-ranks")
        self.decided(lab.faster_ranks_claim(setting_of(), slow), NOT_MEASURABLE, "faster-ranks")

    def test_devices_are_judged_as_far_as_there_are_cores(self):
        scale = {**SCALE, "devices": (1, 2, 4)}
        times = {(2, 32): 1.2, (2, 128): 3.2, (4, 32): 9.0, (4, 128): 9.0}
        for cores, threads, verdict in ((4, 0, NOT_CONFIRMED), (2, 0, CONFIRMED),
                                        (1, 0, NOT_MEASURABLE), (4, 2, CONFIRMED)):
            setting = setting_of(scale, cores, threads=threads)
            found = measured(DEVICES, times, setting)
            self.decided(lab.faster_devices_claim(setting, found), verdict, "faster-devices")

    def test_strong_scaling_must_be_worse(self):
        better = {(4, 32): 0.5}
        hosts = setting_of(hostfile="hosts")
        self.decided(lab.strong_ranks_claim(hosts, measured()), CONFIRMED, "strong-ranks")
        self.decided(lab.strong_ranks_claim(hosts, measured(times=better)), NOT_CONFIRMED,
                     "strong-ranks")
        self.decided(lab.strong_ranks_claim(setting_of(), measured()), NOT_MEASURABLE,
                     "strong-ranks")
        for times, cores, verdict in (({}, 4, CONFIRMED), (better, 4, NOT_CONFIRMED),
                                      ({}, 2, NOT_MEASURABLE)):
            setting = setting_of(cores=cores)
            claim = lab.strong_devices_claim(setting, measured(DEVICES, times, setting))
            self.decided(claim, verdict, "strong-devices")
            self.assertEqual(claim.numbers.startswith(lab_sweep.NEEDS_CORES),
                             claim.verdict == NOT_MEASURABLE)

    def test_strong_scaling_of_devices_is_judged_as_far_as_there_are_cores(self):
        scale = {**SCALE, "devices": (1, 2, 4), "batches": (32, 64, 128)}
        times = {(1, 64): 2.0, (2, 32): 1.5, (2, 64): 2.2, (4, 32): 0.1, (4, 64): 0.2}
        for cores, devices, verdict in ((2, 2, CONFIRMED), (4, 4, NOT_CONFIRMED)):
            setting = setting_of(scale, cores)
            claim = lab.strong_devices_claim(setting, measured(DEVICES, times, setting))
            self.decided(claim, verdict, "strong-devices")
            self.assertIn(f"on {devices} devices", claim.numbers)

    def test_share_of_communication_must_fall_with_every_batch(self):
        hosts = setting_of(hostfile="hosts")
        small_rest = {(4, 128): 2.8}
        self.decided(lab.share_claim(hosts, measured(times=small_rest)), CONFIRMED, "share")
        self.decided(lab.share_claim(hosts, measured(times={(4, 128): 99.0})), NOT_CONFIRMED,
                     "share")
        self.decided(lab.share_claim(setting_of(), measured()), NOT_MEASURABLE, "share")

    def test_most_ranks_decide(self):
        setting = setting_of({**SCALE, "devices": (1, 2, 4)}, hostfile="hosts")
        of_two = {(2, 32): 2.5, (2, 128): 30.0}  # slower than one, and its share rises
        found = measured(times={**of_two, (4, 128): 2.8}, setting=setting)
        self.decided(lab.faster_ranks_claim(setting, found), CONFIRMED, "faster-ranks")
        self.decided(lab.share_claim(setting, found), CONFIRMED, "share")


class Statistics(unittest.TestCase):
    def test_distance_of_statistics_is_relative(self):
        near, far = (array.array("f", values).tobytes() for values in ((3.0, 4.0), (3.0, 4.5)))
        summaries = [{"buffers_sha256": sha256, "buffers": base64.b64encode(floats).decode()}
                     for sha256, floats in (("a", near), ("b", far))]
        self.assertAlmostEqual(lab_data.distance(summaries[1], summaries[0]), 0.1)
        self.assertEqual(lab_data.distance({"buffers_sha256": "a"}, {"buffers_sha256": "a"}), 0)


if __name__ == "__main__":
    unittest.main()
