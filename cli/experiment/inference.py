"""The benchmark report's inference: data parallelism that keeps its replicas, against replicate,
scatter, parallel apply and gather written out."""
from cli.experiment.data_parallel import SOURCE
from cli.experiment.devices import (CORES, OnDevices, communication, computation,
                                    images_note, lacks_cores, times_series)
from cli.experiment.disturbance import too_fast, unsteady
from cli.experiment.results import largest_difference
from cli.experiment.study import (Experiment, Findings, Statement, bars, decide, line, lines,
                                  report_part, tabulate)
from cli.experiment.work import whole_epochs
from cli.runs.quantiles import mean, median

KINDS = {"native": "native", "vanilla": "vanilla", "single": "one device"}
SEVERAL = ("native", "vanilla")
FIGURE = "figures of inference"
TOLERANCE = 1e-5  # of a loss, relative
ALIKE = 1.25
PARAMETERS = {"vgg16": 138357544, "resnet18": 11689512}
SCALES = {
    "quick": {"about": "Images of 32×32 in place of 224×224, 2 devices in place of 4, 5 batches of "
                       "each size.",
              "model": "vgg16", "image": 32, "batches": (32, 64, 128, 256), "devices": 2,
              "most_devices": 2, "iterations": 5},
    "full": {"about": "As the report says: 4 devices, all test images, of 224×224, in batches of "
                      "32, 64, 128 and 256.",
             "model": "vgg16", "image": 224, "batches": (32, 64, 128, 256), "devices": 4,
             "most_devices": 4, "iterations": 0, "epochs": 1},
    "tiny": {"about": "For tests.", "hidden": True,
             "model": "resnet18", "image": 32, "batches": (3, 8), "devices": 2, "most_devices": 2,
             "iterations": 3}}
SAMPLES = 10000
SAME_SCORES = Statement(
    "same-scores", "Native and vanilla give the same scores, to the bit.",
    "both compute the same", "a hash of all scores", "both are equal for every batch")
SINGLE = Statement(
    "single", "Native and vanilla give the scores of one device.", "data parallelism changes no result",
    "losses of each batch", f"they agree within {TOLERANCE:g} of a loss")
SPIKE = Statement(
    "spike", "Vanilla's computation has a steep spike at batch 32.", "Fig. 4a",
    "vanilla's mean computation of a batch: the forward pass, with replication and setting up",
    "the smallest batch takes longer than each other", CORES)
FASTER = {part: Statement(
    f"faster-{part.__name__}", f"Vanilla is faster in {part.__name__}.", figure,
    f"mean {part.__name__} of a batch, native less vanilla",
    "the median over the batches, each relative to the longer of the two, is above 0", CORES)
    for part, figure in ((computation, "Fig. 4a"), (communication, "Fig. 4b"))}
NATIVE_ALIKE = Statement(
    "alike", "Native's computation is alike over the batches.", "Fig. 4a",
    "native's mean computation of a batch", f"the longest is at most {ALIKE:g} times the shortest",
    CORES)
GAP = Statement(
    "gap", "The difference of their communication shrinks with the batch.", "Fig. 4b",
    "mean communication of a batch, native less vanilla",
    "its size is smaller with each larger batch", CORES)
STATEMENTS = (SAME_SCORES, SINGLE, SPIKE, *FASTER.values(), NATIVE_ALIKE, GAP)


def name_of(kind, batch):
    return f"{kind}-batch-{batch}"


def run_of(setting, kind, batch):
    scale = setting.scale
    single = kind == "single"
    epochs, iterations = whole_epochs(scale, SAMPLES, 1, batch)
    return OnDevices(name_of(kind, batch), f"{KINDS[kind]}, batch {batch}", 1, batch, iterations,
                     ("--inference", "native" if single else kind), epochs=epochs,
                     model=scale["model"], devices=1 if single else scale["devices"],
                     parameters=PARAMETERS[scale["model"]])


def runs(setting):
    return [run_of(setting, kind, batch) for batch in setting.scale["batches"] for kind in KINDS]


@report_part
def times_by_batch(setting, results):
    """Returns a table and a figure."""
    things = [(batch, kind, results[name_of(kind, batch)])
              for batch in setting.scale["batches"] for kind in KINDS]
    table = tabulate("times", "Time of a batch", FIGURE, things, [
        ("batch", "batch", lambda batch, _, __: batch),
        ("kind", "data parallelism", lambda _, kind, __: KINDS[kind]),
        ("computation", "computation (s)", lambda _, __, result: computation(result), 4),
        ("communication", "communication (s)", lambda _, __, result: communication(result), 4),
        ("bytes", "bytes between devices", lambda _, __, result: round(mean(
            [record["bytes_sent"] for record in result.ranks[0].records[1:]])))],
        f"{setting.scale['devices']} devices divide a batch. Means without the first.")
    return table, bars("times", "Time of a batch", FIGURE, "mean time of a batch (s)",
                       [f"{batch}, {KINDS[kind]}" for batch, kind, _ in things],
                       times_series([result for *_, result in things]), kind="stacked")


@report_part
def part_picture(setting, results, part, kinds):
    title = part.__name__
    return lines(title, f"{title.capitalize()} of a batch", FIGURE, ("batch", f"{title} (s)"),
                 [line(KINDS[kind], setting.scale["batches"],
                       times(setting, results, kind, part).values()) for kind in kinds],
                 y_log=10)


@report_part
def same_scores_claim(setting, results):
    hashes = {batch: {results[name_of(kind, batch)].summary["outputs_sha256"] for kind in SEVERAL}
              for batch in setting.scale["batches"]}
    return decide(SAME_SCORES, all(len(of_batch) == 1 for of_batch in hashes.values()),
                  "; ".join(f"batch {batch}: {', '.join(sorted(sha[:12] for sha in of_batch))}"
                            for batch, of_batch in hashes.items()))


@report_part
def single_claim(setting, results):
    difference = max(largest_difference(results[name_of("single", batch)],
                                        results[name_of(kind, batch)], None)
                     for batch in setting.scale["batches"] for kind in SEVERAL)
    return decide(SINGLE, difference <= TOLERANCE, f"largest difference {difference:.2g} of a loss")


def times(setting, results, kind, part):
    """Returns seconds by batch."""
    return {batch: part(results[name_of(kind, batch)]) for batch in setting.scale["batches"]}


def gaps(setting, results, part):
    """Returns native's time less vanilla's, by batch."""
    vanilla = times(setting, results, "vanilla", part)
    return {batch: seconds - vanilla[batch]
            for batch, seconds in times(setting, results, "native", part).items()}


def decide_times(setting, statement, holds, seconds, of=""):
    """Returns a Claim on `seconds` by batch; `of`: words that say which."""
    return decide(statement, holds,
                  of + ", ".join(f"batch {batch} {value:.4f} s" for batch, value in seconds.items()),
                  lacks_cores(setting, setting.scale["devices"]), setting.disturbed)


@report_part
def spike_claim(setting, results):
    vanilla = times(setting, results, "vanilla", computation)
    smallest = setting.scale["batches"][0]
    return decide_times(setting, SPIKE, max(vanilla, key=vanilla.get) == smallest, vanilla)


@report_part
def faster_claim(setting, results, part):
    by_batch = gaps(setting, results, part)
    of_kinds = [times(setting, results, kind, part) for kind in SEVERAL]
    longest = {batch: max(of_kind[batch] for of_kind in of_kinds) for batch in by_batch}
    parts = [gap / longest[batch] if gap else 0.0 for batch, gap in by_batch.items()]
    return decide_times(setting, FASTER[part], median(parts) > 0, by_batch,
                        f"in the median {100 * median(parts):+.0f} % of the longer; native less "
                        "vanilla: ")


@report_part
def alike_claim(setting, results):
    native = times(setting, results, "native", computation)
    return decide_times(setting, NATIVE_ALIKE,
                        max(native.values()) <= ALIKE * min(native.values()), native)


@report_part
def gap_claim(setting, results):
    sizes = {batch: abs(gap) for batch, gap in gaps(setting, results, communication).items()}
    shrinks = all(after < before for before, after in zip(list(sizes.values()),
                                                          list(sizes.values())[1:]))
    return decide_times(setting, GAP, shrinks, sizes)


def find(setting, results):
    notes = [images_note(setting),
             "A device is a group of compute threads of one process. Native keeps threads and "
             "replicas, which read the model's own parameters; vanilla copies all tensors to each "
             "device and makes new threads for each batch.",
             "Weights are random (--seed); neither the times nor the equality of scores depend on "
             "them."]
    return Findings(
        [same_scores_claim(setting, results), single_claim(setting, results),
         spike_claim(setting, results),
         faster_claim(setting, results, computation), faster_claim(setting, results, communication),
         alike_claim(setting, results), gap_claim(setting, results)],
        [*times_by_batch(setting, results),
         part_picture(setting, results, computation, KINDS),
         part_picture(setting, results, communication, SEVERAL)], notes)


@report_part
def signs_of_batch(setting, results, batch):
    single = results[name_of("single", batch)].mean_iteration()
    return [sign for kind in SEVERAL for name in [name_of(kind, batch)]
            for sign in too_fast(name, single / results[name].mean_iteration(),
                                 setting.scale["devices"])]


def signs(setting, works, results):
    """Looks for signs that other processes used the cores; see disturbance.py."""
    if lacks_cores(setting, setting.scale["devices"]):
        return []
    return [*(sign for batch in setting.scale["batches"]
              for sign in signs_of_batch(setting, results, batch)), *unsteady(works, results)]


EXPERIMENT = Experiment("inference", "Native against vanilla data-parallel inference", SOURCE,
                        SCALES, runs, find, 1, statements=STATEMENTS, signs=signs)
