"""The paper on PyTorch's DistributedDataParallel (Li et al., VLDB 2020): where an iteration goes,
the size of buckets, round-robin groups, fewer exchanges, scaling, and a tree in place of the ring.
"""
import dataclasses

from cli.experiment.results import EXPOSED, largest_difference
from cli.experiment.study import (LEARNING, Experiment, Findings, bars, judge, judge_time, line, lines,
                                  tabulate, tabulate_curves)
from cli.experiment.work import TIMES, Training
from cli.runs.quantiles import quantile

SOURCE = "PyTorch Distributed: Experiences on Accelerating Data Parallel Training, VLDB 2020"
SCALING_SOURCE = "Fig. 9, and the lecture's strong and weak scaling"
USUAL_MB = 25
GROUPED_MB = 1  # so that there are buckets for all groups
# A choice: the ring, as in NCCL, is measured first, and a tree is compared with it.
RING = "ring"
TREE = "tree"
TOLERANCE = 1e-5  # of a loss, relative
FEW_STEPS = 5


def overlapped(backend, bucket_mb):
    """Returns the options of a worker whose exchange overlaps with backward alone."""
    return "--sync", "ddp", "--backend", backend, "--bucket-cap-mb", bucket_mb, "--barrier"


OVERLAPS = {  # with which computation the exchange overlaps: options of the worker
    "no overlap": ("--sync", "all-reduce", "--backend", RING, "--bucket-cap-mb", USUAL_MB),
    "overlap": overlapped(RING, USUAL_MB),
    "also with next forward": ("--sync", "ddp", "--backend", RING, "--bucket-cap-mb", USUAL_MB)}
PHASES = {"forward": "#56b4e9", "backward": "#0072b2", EXPOSED: "#d55e00", "optimizer": "#009e73"}
TITLES = {EXPOSED: "exposed communication"}
HATCHES = {EXPOSED: "////"}


@dataclasses.dataclass(frozen=True)
class Network:
    """A network whose buckets are measured, with a batch that fits."""
    key: str
    title: str
    model: str
    images: tuple
    batch: int  # of each rank


TOKENS = ("--dataset", "synthetic-tokens")
SMALL_IMAGES = ("--dataset", "synthetic", "--image-size", "32")
SCALES = {
    "quick": {"about": "2 ranks and 6 iterations; ResNet-50 of 32 × 32 images, a tiny BERT, and "
                       "VGG-11 with batches of 8; the paper has 16 and 32 GPUs.",
              "ranks": 2, "batch": 8, "iterations": 6, "buckets": (0, 5, 10, 25, 50),
              "networks": (Network("resnet50", "ResNet-50", "resnet50", SMALL_IMAGES, 2),
                           Network("bert", "BERT (tiny)", "bert_tiny", TOKENS, 2)),
              "passes": (1, 2, 4), "scaling": (1, 2, 4), "strong": 16, "groups": (1, 3, 5)},
    "full": {"about": "4 ranks and 40 iterations; ResNet-50 of 224 × 224 images, BERT base, and "
                      "VGG-11 with batches of 64; the paper has 16 and 32 GPUs.",
             "ranks": 4, "batch": 64, "iterations": 40, "buckets": (0, 5, 10, 25, 50),
             "networks": (Network("resnet50", "ResNet-50", "resnet50", ("--dataset", "synthetic"),
                                  16),
                          Network("bert", "BERT (base)", "bert_base", TOKENS, 4)),
             "passes": (1, 2, 4, 8), "scaling": (1, 2, 4), "strong": 256, "groups": (1, 3, 5)},
    "tiny": {"about": "For tests.", "hidden": True, "ranks": 2, "batch": 2, "iterations": 3,
             "buckets": (0, 25),
             "networks": (Network("bert", "BERT (tiny)", "bert_tiny", TOKENS, 1),),
             "passes": (1, 2), "scaling": (1, 2), "strong": 4, "groups": (1, 3)}}


def backends(setting):
    """Returns those that load all workers alike, as the paper's process groups do."""
    return sorted(setting.backends("loads_workers_alike"), key=lambda name: name != RING)


def exact_backends(setting):
    """Returns those that add in the order of the fold, however the bytes are cut."""
    return [name for name in backends(setting) if name in setting.backends("exact")]


def bucket_name(network, backend, size):
    return f"{network.key}-{backend}-{size}-mb"


def overlap_name(title):
    return title.replace(" ", "-")


def groups_name(backend, groups):
    return f"{backend}-{groups}-groups"


def training(scale, name, title, options, **more):
    return Training(name, title, **{"ranks": scale["ranks"], "batch_size": scale["batch"],
                                    "iterations": scale["iterations"], "options": options, **more})


def scaling_run(scale, kind, ranks):
    batch = scale["strong"] // ranks if kind == "strong" else scale["batch"]
    options = ("--sync", "none") if ranks == 1 else OVERLAPS["overlap"]
    return training(scale, f"{kind}-{ranks}-ranks", f"{kind} scaling, {ranks} × {batch}",
                    options, ranks=ranks, batch_size=batch, only=TIMES)


def runs(setting):
    scale = setting.scale
    planned = [training(scale, overlap_name(title), title, options, only=TIMES)
               for title, options in OVERLAPS.items()]
    planned += [training(scale, bucket_name(network, backend, size),
                         f"{network.title}, {backend}, buckets of {size} MB",
                         overlapped(backend, size), model=network.model, images=network.images,
                         batch_size=network.batch)
                for network in scale["networks"] for backend in backends(setting)
                for size in scale["buckets"]]
    planned += [training(scale, groups_name(backend, groups), f"{backend}, {groups} group(s) in turn",
                         (*overlapped(backend, GROUPED_MB), "--groups", groups))
                for backend in backends(setting) for groups in scale["groups"]]
    planned.append(training(scale, TREE, "sums up a tree, and the mean down again",
                            overlapped(TREE, USUAL_MB)))
    planned += [training(scale, f"every-{passes}", f"an exchange every {passes} passes",
                         (*OVERLAPS["overlap"], "--accumulate", passes), only=TIMES)
                for passes in scale["passes"]]
    return planned + [scaling_run(scale, kind, ranks) for kind in ("strong", "weak")
                      for ranks in scale["scaling"]]


def breakdown(results):
    """Returns a table and a figure."""
    title, source = "Where an iteration goes", "Fig. 6, latency breakdown"
    of_overlaps = {overlap: results[overlap_name(overlap)] for overlap in OVERLAPS}
    table = tabulate("breakdown", title, source, of_overlaps.items(), [
        ("run", "communication", lambda overlap, _: overlap),
        *((phase, f"{TITLES.get(phase, phase)} (s)",
           lambda _, result, phase=phase: result.phase(phase), 4) for phase in PHASES),
        ("total", "median iteration (s)", lambda _, result: result.median_iteration(), 4)],
        "Phases are means without the first iteration, over the ranks.")
    series = [{"name": TITLES.get(phase, phase), "colour": colour, "hatch": HATCHES.get(phase),
               "values": [result.phase(phase) for result in of_overlaps.values()]}
              for phase, colour in PHASES.items()]
    return table, bars("breakdown", title, source, "mean time of an iteration (s)", OVERLAPS, series,
                       "Communication that runs beside computation takes no time of its own.",
                       kind="stacked")


def buckets_table(setting, results):
    things = [(network, backend, size,
               results[bucket_name(network, backend, size)].iteration_seconds())
              for network in setting.scale["networks"] for backend in backends(setting)
              for size in setting.scale["buckets"]]
    return tabulate("buckets", "Time of an iteration by size of buckets", "Figs. 7 and 8", things, [
        ("network", "model", lambda network, *_: network.title),
        ("backend", "back end", lambda _, backend, *__: backend),
        ("mb", "bucket (MB)", lambda *thing: thing[2]),
        *((f"p{percent}", f"p{percent} (s)",
           lambda *thing, percent=percent: quantile(thing[-1], percent / 100), 4)
          for percent in (10, 50, 90))],
        "0 MB: a bucket for each parameter. The first bucket is of 1 MB at most.")


def buckets_picture(setting, results, network, backend):
    sizes = setting.scale["buckets"]
    values = [results[bucket_name(network, backend, size)].iteration_seconds() for size in sizes]
    return bars(f"buckets-{network.key}-{backend}",
                f"Time of an iteration by size of buckets, {network.title}, {backend}",
                "Figs. 7 and 8", "time of an iteration (s)", [f"{size} MB" for size in sizes],
                [{"values": values}],
                "Boxes hold the middle half, and are cut by the median; whiskers: 10th and "
                "90th percentile.", kind="box")


def groups_times(setting, results, backend):
    return [results[groups_name(backend, groups)].median_iteration()
            for groups in setting.scale["groups"]]


def by_groups(setting, results):
    """Returns a table and a figure."""
    title = "Time of an iteration by groups that buckets take turns on"
    source, x = "Fig. 12, round-robin process groups", setting.scale["groups"]
    times = {backend: groups_times(setting, results, backend) for backend in backends(setting)}
    return (tabulate_curves("groups", title, source, ("groups", x),
                            [(backend, f"{backend} (s)", values)
                             for backend, values in times.items()], 4,
                            f"Medians, with buckets of {GROUPED_MB} MB."),
            lines("groups", title, source, ("groups", "median time of an iteration (s)"),
                  [line(backend, x, values) for backend, values in times.items()],
                  y_from_zero=True))


def sent_per_iteration(result):
    """Returns bytes, of all ranks."""
    return sum(rank.summary["bytes_sent"] for rank in result.ranks) // result.iterations


def busiest_bytes(result):
    """Returns the bytes that the busiest rank sends in an iteration."""
    return max(rank.summary["bytes_sent"] for rank in result.ranks) // result.iterations


def tree_table(results):
    things = [(RING, results[overlap_name("overlap")]), (TREE, results[TREE])]
    return tabulate("tree", "Reduce by a tree, as a shuffle engine does it, and by a ring",
                    "the lecture's aggregation by Spark's treeReduce", things, [
        ("backend", "back end", lambda title, _: title),
        ("total", "median iteration (s)", lambda _, result: result.median_iteration(), 4),
        ("bytes", "bytes sent, all ranks", lambda _, result: sent_per_iteration(result)),
        ("busiest", "of them by the busiest rank", lambda _, result: busiest_bytes(result))])


def passes_table(setting, results):
    things = [(passes, results[f"every-{passes}"]) for passes in setting.scale["passes"]]
    return tabulate("no-sync", "An exchange every N passes (no_sync)",
                    "Fig. 10, skipping exchanges", things, [
        ("passes", "passes", lambda passes, _: passes),
        ("bytes", "bytes sent per exchange", lambda _, result: sent_per_iteration(result)),
        ("total", "median iteration (s)", lambda _, result: result.median_iteration(), 4),
        ("per_pass", "of it per pass (s)",
         lambda passes, result: result.median_iteration() / passes, 4)])


def scaling(setting, results):
    """Returns a table and a figure."""
    x, titles = setting.scale["scaling"], {
        "strong": f"strong, total batch {setting.scale['strong']} (s)",
        "weak": f"weak, {setting.scale['batch']} for each rank (s)"}
    times = {kind: [results[f"{kind}-{ranks}-ranks"].median_iteration() for ranks in x]
             for kind in titles}
    return (tabulate_curves("scaling", "Scaling", SCALING_SOURCE, ("ranks", x),
                            [(kind, title, times[kind]) for kind, title in titles.items()], 4,
                            "Medians of an iteration."),
            lines("scaling", "Time of an iteration by ranks", SCALING_SOURCE,
                  ("ranks", "median time of an iteration (s)"),
                  [line(f"{kind} scaling", x, values) for kind, values in times.items()],
                  y_from_zero=True))


def overlap_claim(setting, results):
    without, overlapped = (results[overlap_name(title)].median_iteration()
                           for title in ("no overlap", "overlap"))
    return judge_time(
        setting, "An iteration is shorter when communication overlaps with backward.", "Fig. 6",
        overlapped < without, f"{overlapped:.4f} s with, {without:.4f} s without")


def buckets_claim(setting, results, network, backend):
    sizes = setting.scale["buckets"]
    times = {size: results[bucket_name(network, backend, size)].median_iteration()
             for size in sizes}
    best = min(times, key=times.get)
    return judge_time(
        setting, f"Neither no buckets nor the largest are best, {network.title}, {backend}.",
        "Figs. 7 and 8", best not in (sizes[0], sizes[-1]),
        ", ".join(f"{size} MB {seconds:.4f} s" for size, seconds in times.items()))


def same_parameters_claim(setting, results, network):
    hashes = set().union(*(results[bucket_name(network, backend, size)].hashes()
                           for backend in exact_backends(setting)
                           for size in setting.scale["buckets"]))
    return judge(f"The size of buckets changes no bit of the parameters, {network.title}.",
                 "section 3.2, bucketing keeps the result", len(hashes) == 1,
                 f"{len(hashes)} hash(es) of the parameters, over all sizes and ranks of "
                 f"{' and '.join(exact_backends(setting))}")


def same_groups_claim(setting, results):
    hashes = {backend: set().union(*(results[groups_name(backend, groups)].hashes()
                                     for groups in setting.scale["groups"]))
              for backend in backends(setting)}
    return judge("The number of groups changes no bit of the parameters.",
                 "section 3.3, round-robin process groups",
                 all(len(of_backend) == 1 for of_backend in hashes.values()),
                 "hashes over all groups and ranks: " + ", ".join(
                     f"{backend} {len(of_backend)}" for backend, of_backend in hashes.items()))


def groups_claim(setting, results, backend):
    times = dict(zip(setting.scale["groups"], groups_times(setting, results, backend)))
    return judge_time(
        setting, f"Several groups in turn are quicker than one, {backend}.", "Fig. 12",
        min(times, key=times.get) != 1,
        ", ".join(f"{groups} {seconds:.4f} s" for groups, seconds in times.items()))


def tree_claim(setting, results):
    first, second = results[groups_name(RING, 1)], results[TREE]
    difference = largest_difference(first, second, FEW_STEPS)
    return judge(f"The tree gives the losses of the fold: within {TOLERANCE:g} over "
                 f"{FEW_STEPS} steps.", "section 2.3, an all-reduce may add in any order",
                 difference <= TOLERANCE, f"{difference:.1e}, relative, over all ranks")


def tree_time_claim(setting, results):
    ring, tree = (results[name] for name in (overlap_name("overlap"), TREE))
    return judge_time(
        setting, "The ring takes less time than a tree.", "section 2.3, ring and tree",
        ring.median_iteration() < tree.median_iteration(),
        f"ring {ring.median_iteration():.4f} s, tree {tree.median_iteration():.4f} s")


def passes_claim(setting, results):
    sent = [sent_per_iteration(results[f"every-{passes}"])
            for passes in setting.scale["passes"]]
    return judge("Under no_sync there is one exchange every N passes.", "section 3.2.4",
                 len(set(sent)) == 1, ", ".join(
                     f"{size:,} bytes for {passes} pass(es)"
                     for passes, size in zip(setting.scale["passes"], sent)))


def find(setting, results):
    networks = setting.scale["networks"]
    sweeps = [(network, backend) for network in networks for backend in backends(setting)]
    notes = ["Runs that name no model train VGG-11; the paper's measurements on NCCL need GPUs."]
    if not setting.has_hosts:
        notes.append("All ranks shared this machine, so times do not predict those of a cluster.")
    return Findings(
        [*(same_parameters_claim(setting, results, network) for network in networks),
         same_groups_claim(setting, results), passes_claim(setting, results),
         tree_claim(setting, results), overlap_claim(setting, results),
         tree_time_claim(setting, results),
         *(groups_claim(setting, results, backend) for backend in backends(setting)),
         *(buckets_claim(setting, results, *sweep) for sweep in sweeps)],
        [*breakdown(results), buckets_table(setting, results), passes_table(setting, results),
         *(buckets_picture(setting, results, *sweep) for sweep in sweeps),
         *by_groups(setting, results), tree_table(results), *scaling(setting, results)], notes)


EXPERIMENT = Experiment("ddp-paper", "Buckets, overlap and scaling of DistributedDataParallel",
                        SOURCE, SCALES, runs, find, 4, leaves_open=LEARNING)
