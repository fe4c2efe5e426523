"""cli/experiment/ddp_paper.py and its parts: runs, numbers, paragraphs and verdicts."""
import dataclasses
import pathlib
import re
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fakes import option, request_of
from cli.experiment import (ddp_bucket_claims, ddp_buckets, ddp_paper, ddp_phases, ddp_scaling,
                            ddp_setups, ddp_spark)
from cli.experiment.emulation import is_timed, shares_cores
from cli.experiment.results import NamedBuckets, Trained
from cli.experiment.study import CONFIRMED, NOT_CONFIRMED, NOT_MEASURABLE, Setting
from cli.experiment.work import COSTS, LOSSES, TIMES, Late, NamesOfBuckets
from cli.runs.quantiles import quantile

TINY = ddp_setups.SCALES["tiny"]
LAST = TINY["ranks"] - 1
MEMORY = 1 << 50
ORDERED = {"parameters": ["a", "b", "c"],
           "buckets": [{"bytes": 4, "averaged": True, "tensors": ["c"]},
                       {"bytes": 8, "averaged": True, "tensors": ["b", "a"]},
                       {"bytes": 4, "averaged": False, "tensors": ["mean"]}]}
MIXED = {**ORDERED, "buckets": [{**ORDERED["buckets"][0], "tensors": ["b"]},
                                {**ORDERED["buckets"][1], "tensors": ["c", "a"]}]}


def setting_of(scale=TINY, memory=MEMORY, **more):
    return Setting(request_of("out", **{"workers": 4, **more}), scale, 2, memory)


def trained(ranks, seconds=1.0, spread=0.0, exposed=0.1, late_exposed=0.1, sent=100, sha256="a",
            loss=2.0):
    """The first iteration is one that must not count."""
    def records(rank):
        times = [100.0, seconds * (1 - spread), seconds, seconds * (1 + spread)]
        return [{"iteration_seconds": time, "loss": loss, "bytes_sent": sent * (1 + rank),
                 "phase_seconds": {"forward": 0.2, "backward": 0.3, "optimizer": 0.01,
                                   "exposed_communication": 50.0 if time == 100.0 else
                                   late_exposed if rank == LAST else exposed}} for time in times]
    return Trained([{"records": records(rank), "summary": {"parameters_sha256": sha256}}
                    for rank in range(ranks)])


def results_of(setting, changed):
    """`changed`: arguments of trained(), or a layout, by a pattern of the runs' names."""
    results = {}
    for work in ddp_paper.runs(setting):
        changes = [change for pattern, change in changed.items() if re.search(pattern, work.name)]
        if isinstance(work, NamesOfBuckets):
            results[work.name] = NamedBuckets(changed.get(work.name, ORDERED))
        else:
            results[work.name] = trained(work.ranks, **{
                key: value for change in changes for key, value in change.items()})
    return results


def findings_of(changed, setting=None):
    setting = setting or setting_of(hosts="h")
    return ddp_paper.find(setting, results_of(setting, changed))


def claims_of(changed, setting=None):
    return {claim.key: claim for claim in findings_of(changed, setting).claims}


SLOW, QUICK, EXPOSED = {"seconds": 2.0}, {"seconds": 0.5}, {"exposed": 0.3, "late_exposed": 0.3}
WHOLE = f"-{ddp_setups.WHOLE_MB}-mb"
# Results that confirm each statement, and results that do not.
CASES = {
    "order": ({}, {"resnet50-tensors": MIXED}),
    "bucket-bits": ({}, {"resnet50-sharded-25-mb": {"sha256": "b"}}),
    "small-tensors": ({"-0-mb": SLOW}, {"-0-mb": SLOW, "bert-gloo-25-mb": {"seconds": 3.0}}),
    "one-bucket": ({WHOLE: EXPOSED}, {WHOLE: EXPOSED, f"bert-ring{WHOLE}": {"exposed": 0.0,
                                                                           "late_exposed": 0.0}}),
    "middle": ({"-25-mb": QUICK}, {"-25-mb": QUICK, f"bert-ring{WHOLE}": {"seconds": 0.2}}),
    "usual-size": ({"-25-mb": {"seconds": 1.05}}, {"bert-gloo-25-mb": {"seconds": 1.2}}),
    "bert-longer": ({"bert-": SLOW}, {"bert-ring": SLOW}),
    "bert-larger": ({"bert-.*-25-mb": QUICK, "resnet50-.*-0-mb": QUICK}, {"-25-mb": QUICK}),
    "size-by-backend": ({"bert-ring-25-mb": QUICK}, {"bert-.*-25-mb": QUICK}),
    "quicker": ({"-gloo-": SLOW}, {"bert-gloo-": SLOW}),
    "steadier": ({"-gloo-": {"spread": 0.2}}, {"bert-gloo-": {"spread": 0.2}}),
    "twice-the-ranks": ({"-4-ranks": {"seconds": 1.2}}, {"bert-gloo-.*-4-ranks": {"seconds": 1.3}}),
    "middle-of-2w": ({"-25-mb": QUICK}, {"-25-mb": QUICK, f"resnet50-ring{WHOLE}-4": {"seconds": 0.2}}),
    "overlap": ({"no-overlap": SLOW}, {"ring-no-overlap": SLOW}),
    "group-bits": ({}, {"gloo-3-groups": {"sha256": "b"}}),
    "groups": ({"-3-groups": QUICK}, {"ring-3-groups": QUICK}),
    "no-sync": ({}, {"every-2": {"sent": 200}}),
    "no-sync-time": ({}, {"every-2": SLOW}),
    "strong": ({"vgg11-2-ranks": QUICK}, {"vgg11-2-ranks": SLOW}),
    "weak": ({"vgg11-2-ranks": {"seconds": 1.2}}, {"vgg11-2-ranks": {"seconds": 1.3}}),
    "tree-losses": ({"tree-losses": {"loss": 2.00001}}, {"tree-losses": {"loss": 2.0001}}),
    "shuffles": ({"shuffle-(tree|gather)": SLOW}, {"shuffle-tree": QUICK}),
    "output-at-end": ({"shuffle-ring": EXPOSED}, {}),
    "late-waits": ({"one-late": {"exposed": 0.3}}, {"one-late": {"late_exposed": 0.3}}),
    "late-overlap": ({"one-late-at-end": SLOW}, {"all-on-time-at-end": SLOW})}


class ClaimsTest(unittest.TestCase):
    def test_each_statement_can_be_confirmed_and_not(self):
        self.assertEqual([*CASES], [one.key for one in ddp_paper.STATEMENTS])
        for key, (confirming, refuting) in CASES.items():
            self.assertEqual(claims_of(confirming)[key].verdict, CONFIRMED, key)
            self.assertEqual(claims_of(refuting)[key].verdict, NOT_CONFIRMED, key)

    def test_scaling_is_judged_up_to_the_most_ranks(self):
        setting = setting_of({**TINY, "scaling": (1, 2, 4)}, hosts="h")
        batches = {work.name: (work.ranks, work.batch_size) for work in ddp_scaling.runs(setting)}
        for ranks, strong in ((1, 4), (2, 2), (4, 1)):
            for batch in (strong, 2):  # of each rank
                self.assertEqual(batches[f"vgg11-{ranks}-ranks-batch-{batch}"], (ranks, batch))
        for seconds, strong, weak in ((0.25, CONFIRMED, CONFIRMED), (0.5, NOT_CONFIRMED, CONFIRMED),
                                      (1.5, NOT_CONFIRMED, NOT_CONFIRMED)):
            claims = claims_of({"vgg11-2-ranks": QUICK, "vgg11-4-ranks": {"seconds": seconds}}, setting)
            self.assertEqual((claims["strong"].verdict, claims["weak"].verdict), (strong, weak))

    def test_wide_buckets_are_judged_for_networks_that_have_all_sizes_there(self):
        resnet, bert = TINY["networks"]
        both = {**TINY, "networks": (resnet, dataclasses.replace(bert, wide_buckets=TINY["buckets"]))}
        changed = {"-25-mb": QUICK, f"bert-gloo{WHOLE}-4": {"seconds": 0.2}}
        for scale, verdict in ((TINY, CONFIRMED), (both, NOT_CONFIRMED)):
            claim = claims_of(changed, setting_of(scale, hosts="h"))["middle-of-2w"]
            self.assertEqual((claim.verdict, "BERT" in claim.numbers), (verdict, scale is both))

    def test_buckets_are_counted_without_the_one_for_buffers(self):
        claims = claims_of({})
        self.assertIn("ResNet-50 3 tensors in 2 buckets", claims["order"].numbers)
        self.assertIn("ResNet-50 1 hash,", claims["bucket-bits"].numbers)

    def test_statements_name_the_figure_of_the_ranks_that_decide_them(self):
        places = {one.key: one.source for one in ddp_paper.STATEMENTS if "Fig. 7" in one.source}
        self.assertEqual(places, {
            "middle": "Fig. 7", **dict.fromkeys(("bert-longer", "bert-larger"),
                                                "Fig. 7, BERT beside ResNet-50"),
            **dict.fromkeys(("size-by-backend", "quicker", "steadier"),
                            "Fig. 7, NCCL beside Gloo"),
            "twice-the-ranks": "Fig. 8 beside Fig. 7"})
        self.assertEqual([one.key for one in ddp_paper.STATEMENTS if one.source == "Fig. 8"],
                         ["middle-of-2w"])

    def test_times_that_differ_by_no_more_than_the_noise_are_equal(self):
        near = {"-0-mb": {"seconds": 1.001, "spread": 0.1}, WHOLE: SLOW,
                "-25-mb": {"seconds": 1.0, "spread": 0.1}}
        claims = claims_of(near)
        for key in ("small-tensors", "middle", "middle-of-2w"):
            self.assertEqual((claims[key].verdict, claims[key].condition),
                             (NOT_CONFIRMED, "equal within the noise"), key)
        self.assertIn("each parameter 1.0010 s, 25 MB 1.0000 s, equal within the noise of 0.1634 s",
                      claims["small-tensors"].numbers)
        self.assertIn("25 MB (equal within the noise to each parameter)", claims["middle"].numbers)
        far = claims_of({**near, "bert-gloo-25-mb": {"seconds": 3.0}})
        self.assertEqual(far["small-tensors"].condition, "")  # 25 MB are slower there
        wide = claims_of({**near, "-0-mb": {"seconds": 1.2, "spread": 0.1}})
        self.assertEqual(wide["small-tensors"].verdict, CONFIRMED)
        self.assertEqual([one.key for one in ddp_paper.STATEMENTS if "Figs." in one.source], [])

    def test_ratio_of_twice_the_ranks_is_said(self):
        numbers = claims_of({"bert-gloo-.*-4-ranks": {"seconds": 1.3}})["twice-the-ranks"].numbers
        self.assertEqual(numbers.split("; ")[-1], "BERT (tiny), gloo, 4 over 2 ranks: 1.3000 s over "
                                                  "1.0000 s is 1.30")

    def test_claims_are_those_of_the_statements_in_their_order(self):
        claims = findings_of({}).claims
        self.assertEqual([claim.key for claim in claims],
                         [one.key for one in ddp_paper.EXPERIMENT.statements])

    def test_times_need_hosts_as_their_statements_say(self):
        undecided = {key for key, claim in claims_of({}, setting_of()).items()
                     if claim.verdict == NOT_MEASURABLE}
        self.assertEqual(undecided, {one.key for one in ddp_paper.STATEMENTS if one.needs})

    def test_network_that_does_not_fit_is_said(self):
        memory = 2 * ddp_setups.COPIES * COSTS["bert_tiny"].bytes + 1
        claims = claims_of({}, setting_of(hosts="auto", memory=memory))
        for key in ("small-tensors", "bert-longer", "bucket-bits", "overlap"):
            self.assertEqual(claims[key].verdict, NOT_MEASURABLE, key)
            self.assertIn("too little memory", claims[key].numbers)
        self.assertIn("needs twice the ranks", claims["twice-the-ranks"].numbers)


class RunsTest(unittest.TestCase):
    def widths(self, scale="quick", memory=MEMORY, **more):
        return ddp_setups.widths(setting_of(ddp_setups.SCALES[scale], memory, **more))

    def test_ranks_of_the_figures_are_as_many_as_hosts_allow(self):
        self.assertEqual(self.widths(), (4,))
        self.assertEqual(self.widths(hosts="auto", workers=8), (4, 8))
        self.assertEqual(self.widths("full", hosts="auto", workers=16), (4, 8, 16))
        for scale in ("quick", "full"):
            for hosts, ranks in ((4, (2, 4)), (5, (2, 4)), (6, (3, 6)), (7, (3, 6)), (8, (4, 8))):
                self.assertEqual(self.widths(scale, hostfile="f", workers=hosts), ranks)

    def test_hosts_are_those_of_the_scale_or_of_the_file(self):
        def hosts(scale, lines):
            with tempfile.NamedTemporaryFile("w") as file:
                file.write("".join(f"10.10.1.{line + 1}\n" for line in range(lines)))
                file.flush()
                return ddp_paper.EXPERIMENT.hosts(request_of(
                    "out", scale=scale, hostfile=file.name if lines else ""))
        self.assertEqual([hosts("quick", lines) for lines in (0, 2, 4, 5, 9)], [8, 4, 4, 5, 8])
        self.assertEqual(hosts("full", 0), 16)

    def test_only_networks_that_fit_run_on_so_many_ranks(self):
        network = TINY["networks"][0]
        copy = ddp_setups.COPIES * COSTS[network.model].bytes
        for memory, more, expected in ((2 * copy + 1, {"hosts": "auto"}, (2,)),
                                       (4 * copy + 1, {"hosts": "auto"}, (2, 4)),
                                       (copy + 1, {"hostfile": "f"}, (2, 4))):
            self.assertEqual(ddp_setups.widths_of(setting_of(memory=memory, **more), network),
                             expected)

    def test_computation_is_real_only_where_parameters_or_losses_are_compared(self):
        works = {work.name: work for work in ddp_paper.runs(setting_of(hosts="auto"))}
        for name, only in (("resnet50-ring-25-mb-2-ranks", ""),
                           (f"resnet50-ring{WHOLE}-2-ranks", TIMES),
                           ("resnet50-sharded-25-mb-2-ranks", LOSSES),
                           ("resnet50-gloo-25-mb-2-ranks", TIMES), ("tree-losses", LOSSES),
                           ("resnet50-ring-25-mb-4-ranks", TIMES)):
            self.assertEqual(works[name].only, only, name)

    def test_bucket_above_the_model_is_above_every_model(self):
        self.assertLess(max(cost.bytes for cost in COSTS.values()), ddp_setups.WHOLE_MB << 20)
        for scale in ddp_setups.SCALES.values():
            self.assertLessEqual({0, ddp_setups.USUAL_MB, ddp_setups.WHOLE_MB},
                                 {*scale["buckets"]})
            self.assertLessEqual({*scale["compared"]}, {*scale["buckets"]})
            for network in scale["networks"]:
                self.assertLessEqual({ddp_setups.USUAL_MB}, {*network.wide_buckets})
                self.assertLessEqual({*network.wide_buckets}, {*scale["buckets"]})

    def test_each_run_has_the_options_that_it_is_named_after(self):
        setting = setting_of(hosts="auto")
        names = ("--sync", "--backend", "--bucket-cap-mb")
        argv = {work.name: work.run(setting).ranks[-1] for work in ddp_paper.runs(setting)
                if not isinstance(work, NamesOfBuckets)}
        for name, expected in {
                "bert-ring-0-mb-2-ranks": ("ddp", "ring", "0"),
                "resnet50-gloo-25-mb-4-ranks": ("ddp", "gloo", "25"),
                f"bert-gloo{WHOLE}-2-ranks": ("ddp", "gloo", "1024"),
                "resnet50-gloo-no-overlap": ("all-reduce", "gloo", "25"),
                "resnet50-ring-overlap-next-forward-too": ("ddp", "ring", "25"),
                "ring-3-groups": ("ddp", "ring", "1"), "gloo-1-groups": ("ddp", "gloo", "1"),
                "every-2": ("ddp", "ring", "25"), "tree-losses": ("ddp", "tree", "25"),
                "shuffle-tree": ("all-reduce", "tree", "25"),
                "shuffle-ring": ("all-reduce", "ring", "25"),
                "shuffle-gather-and-scatter": ("gather-scatter", "coordinator", "25"),
                "one-late-at-end": ("all-reduce", "ring", "25"),
                "all-on-time-overlap": ("ddp", "ring", "25"),
                "vgg11-1-ranks-batch-4": ("none", "", ""),
                "vgg11-2-ranks-batch-2": ("ddp", "ring", "25")}.items():
            self.assertEqual(tuple(option(argv[name], one) for one in names), expected, name)
            self.assertEqual("--barrier" in argv[name], expected[0] == "ddp" and "forward" not in name,
                             name)
        self.assertEqual([option(argv[f"{backend}-{groups}-groups"], "--groups")
                          for backend in ("ring", "gloo") for groups in (1, 3)], ["1", "3"] * 2)
        self.assertEqual(option(argv["every-2"], "--accumulate"), "2")

    def test_bert_has_its_usual_size_alone_on_twice_the_ranks_but_at_full_scale(self):
        for scale, ranks, count in (("quick", 8, 1), ("full", 16, 6)):
            setting = setting_of(ddp_setups.SCALES[scale], hosts="auto", workers=16)
            names = [work.name for work in ddp_paper.runs(setting)]
            of_bert = [name for name in names if re.fullmatch(f"bert-ring-.*-{ranks}-ranks", name)]
            self.assertEqual(len(of_bert), count)
            self.assertIn(f"bert-ring-{ddp_setups.USUAL_MB}-mb-{ranks}-ranks", of_bert)

    def test_each_run_ends_if_a_rank_is_lost(self):
        setting = setting_of(hosts="auto")
        runs = {work.name: work.run(setting) for work in ddp_paper.runs(setting)}
        together = {name: run.coordinator_options for name, run in runs.items() if run.coordinator}
        self.assertGreater(len(together), 30)
        self.assertEqual(together.pop("shuffle-gather-and-scatter"),
                         ("--aggregation-summary", "/dev/stdout", "--on-loss", "stop"))
        self.assertEqual({*together.values()}, {("--on-loss", "stop")})

    def test_only_the_last_rank_is_late_and_all_sleep_on_any_machine(self):
        works = {work.name: work for work in ddp_paper.runs(setting_of())}
        for name, late in (("one-late-overlap", "0.3"), ("all-on-time-overlap", "")):
            work = works[name]
            self.assertIsInstance(work, Late)
            self.assertFalse(shares_cores(work) or is_timed(work))
            ranks = work.run(setting_of()).ranks
            self.assertEqual([(option(argv, "--batch-size"), option(argv, "--iterations"))
                              for argv in ranks],
                             [(str(TINY["batch"]), str(TINY["iterations"]))] * TINY["ranks"])
            self.assertEqual([(option(argv, "--compute-seconds"), option(argv, "--late-seconds"))
                              for argv in ranks], [("0.01,0.02", ""), ("0.01,0.02", late)])

    def test_back_ends_that_the_paper_lacks_are_timed_at_full_scale_only(self):
        for scale, expected in (("quick", ["ring", "gloo"]), ("full", ["ring", "sharded", "gloo"])):
            self.assertEqual(ddp_buckets.timed_backends(setting_of(ddp_setups.SCALES[scale])),
                             expected)


class TablesTest(unittest.TestCase):
    def test_scaling_keeps_the_total_batch_or_that_of_each_rank(self):
        setting = setting_of({**TINY, "strong": 8, "weak": 3}, hosts="h")
        self.assertEqual([ddp_scaling.batch_of(setting.scale, kind, 2) for kind in ("strong", "weak")],
                         [4, 3])
        found = ddp_paper.find(setting, results_of(setting, {
            "vgg11-1-ranks-batch-8": {"seconds": 4.0}, "vgg11-2-ranks-batch-4": {"seconds": 2.5},
            "vgg11-1-ranks-batch-3": {"seconds": 1.5}, "vgg11-2-ranks-batch-3": {"seconds": 2.0}}))
        (table,) = (table for table in found.tables if table.key == "scaling")
        self.assertEqual([tuple(row.values()) for row in table.rows], [(1, 4.0, 1.5), (2, 2.5, 2.0)])

    def test_bars_of_the_breakdown_are_the_phases_of_their_rows(self):
        setting = setting_of(hosts="h")
        results = results_of(setting, {"resnet50-gloo-no-overlap": {"seconds": 3.0, **EXPOSED}})
        for record in results["resnet50-gloo-no-overlap"].ranks[0].records[1:]:
            record["phase_seconds"] = {**record["phase_seconds"], "forward": 0.4}  # of one of two ranks
        table, picture = ddp_phases.found(setting, results)
        row, other = table.rows[3:5]
        self.assertEqual((row["backend"], row["run"], row["total"]), ("gloo", "no overlap", 3.0))
        self.assertEqual((other["run"], other["total"]), ("overlap", 1.0))
        self.assertIn("2 ranks, buckets of 25 MB.", table.note)
        place = picture.drawing["categories"].index("ResNet-50, gloo, no overlap")
        self.assertEqual(place, 3)
        self.assertEqual(picture.drawing["kind"], "stacked")
        found = {one["name"]: one["values"][place] for one in picture.drawing["series"]}
        for name, seconds in (("forward", 0.3), ("backward", 0.3), ("exposed communication", 0.3),
                              ("optimizer", 0.01)):
            self.assertAlmostEqual(found[name], seconds, msg=name)
        for phase in ("forward", "backward", "exposed_communication", "optimizer"):
            self.assertAlmostEqual(row[phase], found[
                "exposed communication" if phase == "exposed_communication" else phase])

    def test_overlap_is_compared_for_each_network_and_back_end(self):
        claim = claims_of({"bert-gloo-25-mb": {"seconds": 0.5}})["overlap"]
        self.assertEqual(claim.numbers.split("; ")[-1], "BERT (tiny), gloo: with 0.5000 s, without 1.0000 s")

    def test_times_by_groups_and_by_passes_are_of_their_runs(self):
        changed = {"ring-3-groups": {"seconds": 0.5}, "gloo-1-groups": {"seconds": 2.0},
                   "every-2": {"seconds": 3.0, "sent": 70}}
        self.assertEqual([(row["groups"], row["ring"], row["gloo"])
                          for row in self.table("groups", changed).rows], [(1, 1.0, 2.0), (3, 0.5, 1.0)])
        row = self.table("no-sync", changed).rows[1]
        self.assertEqual((row["passes"], row["bytes"], row["total"], row["per_pass"]),
                         (2, 210, 3.0, 1.5))

    def table(self, key, changed):
        return next(table for table in findings_of(changed).tables if table.key == key)

    def test_paragraph_says_what_shuffles_cost(self):
        note = self.table("shuffles", {"shuffle-ring": {"seconds": 0.5, "sent": 60},
                                       "shuffle-tree": {"seconds": 0.75, "sent": 80},
                                       "shuffle-gather": {"seconds": 2.0}}).note
        for part in ("Over 2 ranks a tree of shuffles takes 0.750 s, 1.50 times as long as a ring "
                     "(0.500 s)", "busiest rank sends 160 bytes and a ring's 120",
                     "takes 2.000 s, 4.00 times"):
            self.assertIn(part, note)

    def test_paragraph_says_what_a_late_rank_costs(self):
        note = self.table("late", {"on-time-at-end": {"seconds": 1.5},
                                   "one-late-at-end": {"seconds": 2.0},
                                   "one-late-overlap": {"seconds": 1.25, "exposed": 0.4}}).note
        for part in ("sleeps 0.01 s in forward and 0.02 s in backward, and the late one 0.3 s more in forward",
                     "1.000 s if all are on time and 1.250 s if one is late",
                     "goes from 0.100 s to 0.400 s",
                     "saves 0.500 s if all are on time and 0.750 s if one is late"):
            self.assertIn(part, note)

    def test_rows_of_shuffles_and_of_late_ranks_are_those_of_their_runs(self):
        changed = {"shuffle-ring": {"seconds": 0.5, "sent": 60, "exposed": 0.2, "late_exposed": 0.2},
                   "shuffle-tree": {"seconds": 0.75}, "shuffle-gather": {"seconds": 2.0},
                   "on-time-at-end": {"seconds": 1.5}, "one-late-at-end": {"seconds": 1.75},
                   "on-time-overlap": {"seconds": 1.25}}
        table = self.table("shuffles", changed)
        self.assertEqual([(row["way"], row["total"]) for row in table.rows],
                         [("ring, overlap", 1.0), ("ring, at the end", 0.5), ("tree, at the end", 0.75),
                          ("gather and scatter, at the end", 2.0)])
        row = table.rows[1]  # of two ranks, the second of which sends twice as much
        self.assertEqual((row["bytes"], row["busiest"]), (180, 120))
        self.assertAlmostEqual(row["exposed"], 0.2)
        rows = self.table("late", changed).rows
        self.assertEqual([(row["ranks"], row["sent"], row["total"]) for row in rows], [
            ("all on time", "after backward", 1.5), ("all on time", "during backward", 1.25),
            ("one late", "after backward", 1.75), ("one late", "during backward", 1.0)])

    def test_others_must_wait_with_and_without_overlap(self):
        for late in ("one-late-overlap", "one-late-at-end"):
            claim = claims_of({late: {"exposed": 0.5}})["late-waits"]
            self.assertEqual(claim.verdict, NOT_CONFIRMED, late)

    def test_ranks_that_wait_are_not_the_late_one(self):
        rows = self.table("late", {"one-late": {"exposed": 0.5, "late_exposed": 0.25}}).rows
        self.assertEqual([(row["others"], row["late"]) for row in rows][2:], [(0.5, 0.25)] * 2)

    def test_all_ranks_that_are_on_time_wait(self):
        result = Trained([{"records": [{"phase_seconds": {"exposed_communication": seconds}}
                                       for seconds in (50.0, of_rank)], "summary": {}}
                          for of_rank in (0.25, 0.75, 9.0)])
        self.assertEqual(ddp_spark.waited(setting_of({**TINY, "ranks": 3}), result), 0.5)

    def test_tensors_of_each_bucket_are_named(self):
        rows = self.table("tensors", {}).rows
        self.assertEqual([(row["bucket"], row["count"], row["first"], row["last"])
                          for row in rows[:3]],
                         [(0, 1, "c", "c"), (1, 2, "b", "a"), (2, 1, "mean", "mean")])

    def test_best_size_is_that_of_the_medians_in_the_table(self):
        result = Trained([{"records": [{"iteration_seconds": seconds} for seconds in of_rank],
                           "summary": {}} for of_rank in ((9, 1, 1, 10), (9, 9, 1, 2))])
        self.assertEqual(result.median_iteration(), 5)
        self.assertEqual(quantile(result.iteration_seconds(), 0.5), 5)

    def test_boxes_have_the_sizes_of_each_number_of_ranks(self):
        drawn = {one.key: one.drawing.get("categories") for one in findings_of({}).pictures}
        narrow = ["each parameter, 2 ranks", "25 MB, 2 ranks", "all in one, 2 ranks"]
        self.assertEqual(drawn["buckets-resnet50-gloo"],
                         [*narrow, "each parameter, 4 ranks", "25 MB, 4 ranks", "all in one, 4 ranks"])
        self.assertEqual(drawn["buckets-bert-gloo"], [*narrow, "25 MB, 4 ranks"])

    def test_busiest_rank_is_not_the_first_of_necessity(self):
        self.assertEqual(ddp_spark.busiest_bytes(trained(2, sent=10)), 20)

    def test_percentiles_of_each_size_are_those_of_its_iterations(self):
        row = self.table("buckets", {"resnet50-ring-25-mb-2": {"seconds": 4.0, "spread": 0.5}}).rows[1]
        self.assertEqual((row["network"], row["backend"], row["ranks"], row["mb"]),
                         ("ResNet-50", "ring", 2, 25))
        for name, seconds in (("p10", 2.4), ("p50", 4.0), ("p90", 5.6)):
            self.assertAlmostEqual(row[name], seconds)

    def test_time_of_a_pass_is_its_part_of_the_iteration(self):
        rows = self.table("no-sync", {"every-2": {"seconds": 3.0}}).rows
        self.assertEqual([(row["passes"], row["total"], row["per_pass"]) for row in rows],
                         [(1, 1.0, 1.0), (2, 3.0, 1.5)])

    def test_spread_is_relative(self):
        setting = setting_of(hosts="h")
        sweep = ddp_buckets.sweeps(setting)[0]
        results = results_of(setting, {"": {"seconds": 4.0, "spread": 0.5}})
        self.assertAlmostEqual(sweep.spread(results), 0.8)


if __name__ == "__main__":
    unittest.main()
