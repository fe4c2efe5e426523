"""The benchmark report's training: classifiers on frozen extractors, on the devices of one process;
models, batches, devices, widths of the classifier and kinds of replication, one of them changed at
a time."""
from cli.experiment import thresholds
from cli.experiment.devices import (CORES, FEATURES, barrier, communication, computation,
                                    images_note, lacks_cores, times_series)
from cli.experiment.extractors import weights_note, weights_table
from cli.experiment.factors import (BY_BATCH, BY_DEVICES, BY_MODEL, BY_WIDTH, FACTORS, MODELS,
                                    NATIVE, ONE_LAYER, SAMPLES, all_measured, base, batches,
                                    exact_points, formula, measured, models_of, planned_bytes,
                                    runs)
from cli.experiment.results import largest_difference
from cli.experiment.study import (Experiment, Findings, Statement, bars, counted, decide, line,
                                  lines, report_part, tabulate)
from cli.runs.quantiles import mean, quantile
from cli.runs.training import RankOutput, steps_per_epoch

SOURCE = "a benchmark report of data-parallel training and inference"
THREE_LAYERS = (("squeezenet1_0", 4096), ("resnet18", 4096))  # as the report's text has it
NARROWER = (("vgg16", 2048), ("vgg16", 1024))  # where the sweep of widths is of another model
PUBLISHED = {("squeezenet1_0", ONE_LAYER): 5130, ("alexnet", 4096): 54575114,
             ("resnet18", ONE_LAYER): 5130, ("densenet121", 4096): 21020682,
             ("vgg16", 4096): 119586826, ("vgg16", 2048): 55599114, ("vgg16", 1024): 26750986}
FEW_STEPS = 5
MOST_LINEAR = 20  # the largest loss over the smallest, of a figure with a linear axis
TOLERANCE = 1e-5  # of a loss, relative
MORE = 1.25  # times the bytes, which take longer beyond the noise from run to run: a choice
SCALES = {
    "quick": {"about": "Images of 64×64 in place of 224×224, batches of 4 to 64 in place of 64 to "
                       "1024, AlexNet with a width of 1024 in place of VGG-16 except in the "
                       "sweeps of models and widths, 1,024 images in each run; extractors are "
                       "trained for 120 iterations first.",
              "image": 64, "batches": (4, 8, 16, 32, 64), "devices": (1, 2, 3, 4),
              "most_devices": 4, "models": MODELS + THREE_LAYERS + NARROWER, "samples": 1024,
              "window": 64, "pretrain": 120, "base": ("alexnet", 1024, 16, 2), "threshold": 1.5},
    "full": {"about": "As the report says: batches of 64 to 1024 as far as memory goes, 1 to 4 "
                      "devices, widths of 4096, 2048 and 1024, images of 224×224; four epochs of "
                      "each run, which are 3,752 iterations with batch 64.",
             "image": 224, "batches": (64, 128, 256, 512, 1024), "devices": (1, 2, 3, 4),
             "most_devices": 4, "models": MODELS + THREE_LAYERS, "iterations": 0, "epochs": 4,
             "window": 1024, "base": ("vgg16", 4096, 64, 4), "threshold": 0.5},
    "tiny": {"about": "For tests.", "hidden": True,
             "image": 64, "batches": (2, 5), "devices": (1, 2), "most_devices": 2,
             "models": MODELS + NARROWER, "samples": 1, "window": 5, "pretrain": 1,
             "base": ("alexnet", 1024, 5, 2), "threshold": 2.0}}

COUNTS = Statement(
    "parameters", "The numbers of trained parameters are the report's.", "table of models",
    "trained parameters of each classifier", "all seven are equal",
    "memory for VGG-16 with a width of 4096")
FROZEN = Statement(
    "frozen", "Training leaves frozen weights and statistics as they are, to the bit.",
    "the report's method", "a hash of all frozen tensors, before and after",
    "both are equal in all runs")
EQUAL = Statement(
    "devices-equal", "Several devices compute what one does.",
    "data parallelism changes no result", f"losses of the first {FEW_STEPS} iterations, ResNet-18",
    f"they agree within {TOLERANCE:g} of a loss")
REPLICATION = Statement(
    "replication-equal", "Native and vanilla training compute the same.",
    "data parallelism changes no result", f"losses of the first {FEW_STEPS} iterations, ResNet-18",
    f"they agree within {TOLERANCE:g} of a loss")
BYTES = Statement(
    "bytes", "Between devices go the others' images and scores, and all their gradients, and "
    "nothing else.", "Fig. 6a, data transfer per epoch", "bytes of each iteration, native",
    "all are those of the plan")
# Of a factor's points, by time: (statement, factor, what is timed, whether it rises).
ORDERS = tuple((Statement(key, text, source, f"mean {part.__name__} of an iteration", rule,
                          "" if part is communication else CORES), factor, part, rises)
               for key, text, source, rule, factor, part, rises in (
    ("communication-batch", "Communication grows with the batch.", "Fig. 2b",
     "each batch takes longer than the one before", BY_BATCH, communication, True),
    ("barrier-batch", "Communication grows with the batch, timed as the report did: as a barrier "
     "after the step.", "Fig. 2b", "each batch waits longer than the one before", BY_BATCH,
     barrier, True),
    ("communication-devices", "Communication falls as devices rise.", "Fig. 1a",
     "from two devices on, each number takes less than the one before", BY_DEVICES, communication,
     False),
    ("barrier-devices", "Communication falls as devices rise, timed as the report did: as a "
     "barrier after the step.", "Fig. 1a",
     "from two devices on, each number waits less than the one before", BY_DEVICES, barrier,
     False),
    ("computation-width", "More trained parameters need more computation.", "Fig. 5a",
     "each width takes longer than the one before", BY_WIDTH, computation, True),
    ("communication-width", "More trained parameters need more communication.", "Fig. 5a",
     "each width takes longer than the one before", BY_WIDTH, communication, True)))
GROWS = Statement(
    "communication-model", "Communication grows with the trained parameters.", "Fig. 3b",
    "bytes of an iteration, and the range of its communication (10th to 90th percentile)",
    "each model with more trained parameters sends more bytes; the range of the largest is above "
    "that of the smallest; and no range is above that of a model with at least "
    f"{MORE:g} times the bytes")
DENSENET = Statement(
    "densenet", "DenseNet computes remarkably long.", "Fig. 3a", "mean computation of an iteration",
    "DenseNet-121 takes longer than each other model with its classifier of the report",
    CORES)
STATEMENTS = (COUNTS, FROZEN, EQUAL, REPLICATION, BYTES, *(order[0] for order in ORDERS), GROWS,
              DENSENET, *thresholds.STATEMENTS)


def sent_per_epoch(results, point):
    sent = mean([record["bytes_sent"] for record in results[point.name].ranks[0].records])
    return sent * steps_per_epoch(SAMPLES, 1, point.batch)


@report_part
def factor_table(setting, results, factor):
    start = base(setting)
    fixed = {"model": start.model, "width": f"width {start.width}",
             "batch": f"batch {start.batch}", "devices": counted(start.devices, "device")}
    changed = (factor.key, "width") if factor is BY_MODEL else (factor.key,)
    return tabulate(
        f"by-{factor.key}", f"Training by {factor.title}", factor.source,
        measured(setting, results, factor), [
            ("value", factor.title, factor.label),
            ("trained", "trained parameters", lambda point: point.trained),
            ("computation", "computation (s)", lambda point: computation(results[point.name]), 4),
            ("communication", "communication (s)",
             lambda point: communication(results[point.name]), 4),
            ("barrier", "wait at a barrier (s)", lambda point: barrier(results[point.name]), 4),
            ("loss", "mean loss", lambda point: mean(results[point.name].losses()), 4),
            ("last", "last loss", lambda point: results[point.name].losses()[-1], 4)],
        "Means of an iteration without the first; the rest is "
        f"{', '.join(text for key, text in fixed.items() if key not in changed)}."
        f"{most_communication(setting, results) if factor is BY_MODEL else ''}")


def most_communication(setting, results):
    """Says which extractor communicates most, and why."""
    points = measured(setting, results, BY_MODEL)
    most = max(points, key=lambda point: communication(results[point.name]))
    return (f"\n\nMost communication: {BY_MODEL.label(most)}, with "
            f"{communication(results[most.name]):.4f} s an iteration. The extractors are frozen and "
            "send no gradients. Each device sends the gradients of its classifier, whose first layer "
            "grows with the features that the extractor gives it: " +
            ", ".join(f"{model} {FEATURES[model]:,}" for model in models_of(setting)) + ".")


@report_part
def transfer(setting, results):
    """Returns a table and a figure."""
    title, source = "Data transfer of an epoch", "Fig. 6a"
    table = tabulate("transfer", title, source, all_measured(setting, results), [
        ("model", "model", lambda point: point.model),
        ("classifier", "classifier", lambda point: point.classifier),
        ("batch", "batch B", lambda point: point.batch),
        ("devices", "devices k", lambda point: point.devices),
        ("replication", "data parallelism", lambda point: point.replication),
        ("formula", "N/(B·k) × trained parameters", lambda point: round(formula(point))),
        ("sent", "bytes between devices", lambda point: round(sent_per_epoch(results, point)))],
        f"N is {SAMPLES:,}. The report's formula counts parameters, and a batch for each device; "
        "here, as in torch.nn.DataParallel, the devices divide the batch B. Bytes are those of an "
        "iteration that were counted, times the iterations of an epoch. Vanilla also copies all "
        "tensors of the model in each iteration.")
    shown = [(factor, point) for factor in FACTORS for point in measured(setting, results, factor)]
    return table, bars(
        "transfer", title, source, "billions per epoch",
        [f"{factor.key}: {factor.label(point)}" for factor, point in shown],
        {"report's formula, parameters": [formula(point) / 1e9 for _, point in shown],
         "bytes between devices": [sent_per_epoch(results, point) / 1e9 for _, point in shown]})


@report_part
def times_picture(setting, results, factor):
    of_factor = measured(setting, results, factor)
    return bars(f"times-by-{factor.key}", f"Time of an iteration by {factor.title}", factor.source,
                "mean time of an iteration (s)", map(factor.label, of_factor),
                times_series([results[point.name] for point in of_factor]),
                "Computation: zero_grad, forward, loss, backward, step. Communication: "
                "transfers between the devices.", kind="stacked")


@report_part
def barrier_picture(setting, results, factor):
    of_factor = measured(setting, results, factor)
    return bars(f"barrier-by-{factor.key}", f"Communication by {factor.title}, timed in two ways",
                factor.source, "mean time of an iteration (s)", map(factor.label, of_factor),
                {"transfers between the devices":
                     [communication(results[point.name]) for point in of_factor],
                 "a barrier after the step, as the report": [
                     barrier(results[point.name]) for point in of_factor]})


@report_part
def losses_picture(setting, results, factor):
    series = []
    for point in measured(setting, results, factor):
        if factor is BY_MODEL and (point.model, point.width) in NARROWER:
            continue  # more lines than colors
        over = thresholds.window(setting, point)
        means = thresholds.running_means(results[point.name].losses(), over)
        series.append(line(factor.label(point),
                           [(over + place) * point.batch for place in range(len(means))], means))
    losses = [loss for one in series for loss in one["y"]]
    apart = max(losses) > MOST_LINEAR * min(losses) > 0
    return lines(f"losses-by-{factor.key}", f"Loss by {factor.title}", factor.source,
                 ("images", "loss"), series,
                 f"Means over the last {setting.scale['window']} images.",
                 **({"y_log": 10} if apart else {}))


@report_part
def counts_claim(setting, results):
    trained = {(point.model, point.width): results[point.name].summary["trained_parameters"]
               for point in all_measured(setting, results)}
    missing = PUBLISHED.keys() - trained.keys()
    wrong = [key for key in PUBLISHED.keys() & trained.keys() if trained[key] != PUBLISHED[key]]
    return decide(COUNTS, not wrong, ", ".join(f"{model} {width or '1 layer'}: {count:,}"
                                               for (model, width), count in trained.items()),
                  f"needs {COUNTS.needs}" if missing else "")


@report_part
def frozen_claim(setting, results):
    hashes = [results[point.name].summary["frozen_sha256"]
              for point in all_measured(setting, results)]
    same = sum(of_run["first"] == of_run["last"] for of_run in hashes)
    return decide(FROZEN, same == len(hashes), f"in {same} of {len(hashes)} runs")


@report_part
def equal_claim(statement, points, results):
    """Judges the first losses of two points."""
    first, second = (results[point.name] for point in points)
    difference = largest_difference(first, second, FEW_STEPS)
    return decide(statement, difference <= TOLERANCE,
                  f"largest difference {difference:.2g} of a loss on "
                  f"{counted(points[1].devices, 'device')}")


@report_part
def bytes_claim(setting, results):
    compared = [(record["bytes_sent"], planned_bytes(setting, point, record["samples"]))
                for point in all_measured(setting, results) if point.replication == NATIVE
                for record in results[point.name].ranks[0].records]
    right = sum(sent == planned for sent, planned in compared)
    return decide(BYTES, right == len(compared),
                  f"the bytes of {right} of {len(compared)} iterations are those of the plan")


@report_part
def order_claim(setting, results, statement, factor, part, rises):
    """Judges the times of a factor's points; one device communicates with no other. Transfers need
    no core for each device: one thread makes them while no device computes."""
    of_factor = [point for point in measured(setting, results, factor)
                 if factor is not BY_DEVICES or point.devices > 1]
    times = [part(results[point.name]) for point in of_factor]
    holds = all(before < after if rises else before > after
                for before, after in zip(times, times[1:]))
    return decide(statement, holds,
                  "; ".join(f"{factor.said(point)}: {seconds:.4f} s"
                            for point, seconds in zip(of_factor, times)),
                  "" if len(times) > 1 else "needs two that communicate",
                  "" if part is communication else
                  lacks_cores(setting, max(point.devices for point in of_factor)), setting.disturbed)


class Sent:
    """The communication of a model's iterations, without the first one."""

    def __init__(self, point, result):
        self.title, self.trained = BY_MODEL.label(point), point.trained
        (rank,) = result.ranks
        self.bytes = mean([record["bytes_sent"] for record in rank.records])
        seconds = RankOutput(rank.records[1:]).phase("communication") or [0]
        self.least, self.most = quantile(seconds, 0.1), quantile(seconds, 0.9)

    def takes_longer_than(self, other):
        """Whether nearly all iterations take longer than nearly all of the other."""
        return self.least > other.most


@report_part
def grows_claim(setting, results):
    """Judges bytes exactly, and times by ranges that do not overlap. Models of about the same size
    take about the same time, so noise would decide between them."""
    models = sorted((Sent(point, results[point.name])
                     for point in measured(setting, results, BY_MODEL)),
                    key=lambda one: one.trained)
    pairs = [(less, more) for less in models for more in models if less.trained < more.trained]
    holds = (all(less.bytes < more.bytes for less, more in pairs) and
             models[-1].takes_longer_than(models[0]) and
             not any(less.takes_longer_than(more) for less, more in pairs
                     if more.bytes >= MORE * less.bytes))
    return decide(GROWS, holds, "; ".join(
        f"{one.title}: {one.bytes / 1e6:.2f} MB in {one.least:.4f} to {one.most:.4f} s"
        for one in models), setting.disturbed)


@report_part
def densenet_claim(setting, results):
    times = {point.model: computation(results[point.name])
             for point in measured(setting, results, BY_MODEL)
             if (point.model, point.width) in MODELS}
    others = [seconds for model, seconds in times.items() if model != "densenet121"]
    return decide(DENSENET, times["densenet121"] > max(others),
                  ", ".join(f"{model}: {seconds:.4f} s" for model, seconds in times.items()),
                  lacks_cores(setting, base(setting).devices), setting.disturbed)


@report_part
def batches_note(setting, results):
    """Says which batch was the largest, if it is not the scale's."""
    largest = max(point.batch for point in measured(setting, results, BY_BATCH))
    wanted = setting.scale["batches"][-1]
    if largest == wanted:
        return f"The sweep of batches ends at {largest}, the largest of this scale."
    tried = "was tried and did not fit" if largest < max(batches(setting)) else "would not fit"
    return (f"The sweep of batches ends at {largest} in place of {wanted}: more {tried} in the "
            f"{setting.memory / 1e9:.0f} GB that are free.")


def notes_of(setting, results):
    return [images_note(setting),
            "A device is a group of compute threads of one process. Native keeps threads and "
            "replicas; vanilla makes new threads and copies all tensors for each batch.",
            weights_note(setting),
            "Communication is measured as the copies between devices. The report timed a barrier "
            "after each iteration, in which faster devices wait for slower ones; both are shown. "
            "The wait at that barrier is the time of the slowest device in forward and backward "
            "less each device's own, on average. Bytes of gradients do not depend on the batch.",
            "Devices divide a batch, as in torch.nn.DataParallel, so their number changes no loss "
            "except by dropout. If each device had a batch of its own, as the report's formula "
            "has it, more devices would be a larger batch.",
            batches_note(setting, results)]


def claims(setting, results):
    alone, several, vanilla = exact_points(setting)
    return [counts_claim(setting, results), frozen_claim(setting, results),
            equal_claim(EQUAL, (alone, several), results),
            equal_claim(REPLICATION, (several, vanilla), results),
            bytes_claim(setting, results),
            *(order_claim(setting, results, *order) for order in ORDERS),
            grows_claim(setting, results), densenet_claim(setting, results),
            *thresholds.claims(setting, results)]


def find(setting, results):
    return Findings(
        claims(setting, results),
        [*(factor_table(setting, results, factor) for factor in FACTORS),
         thresholds.table(setting, results),
         *weights_table(setting, results, models_of(setting)),
         *(times_picture(setting, results, factor) for factor in FACTORS),
         *(barrier_picture(setting, results, factor) for factor in (BY_BATCH, BY_DEVICES)),
         *(losses_picture(setting, results, factor) for factor in FACTORS),
         *transfer(setting, results), *thresholds.pictures(setting, results)],
        notes_of(setting, results))


EXPERIMENT = Experiment("data-parallel", "Data-parallel training on the devices of one process",
                        SOURCE, SCALES, runs, find, 1, options=("weights", "pretrain"),
                        leaves_open=("weight-decay",), statements=STATEMENTS)
