"""The benchmark report's training: classifiers on frozen extractors, on the devices of one process;
models, batches, devices and widths of the classifier, one of them changed at a time."""
import dataclasses
import math
from collections.abc import Callable

from cli.experiment.devices import (CHANNELS, CLASSES, OnDevices, classifier_size, communication,
                                    computation, fits, images_note, lacks_cores, times_series)
from cli.experiment.results import largest_difference
from cli.experiment.study import (Experiment, Findings, Table, bars, judge, line, lines, tabulate)
from cli.experiment.work import whole_epochs
from cli.runs.quantiles import mean
from cli.runs.tables import Column
from cli.runs.training import steps_per_epoch

SOURCE = "a benchmark report of data-parallel training and inference"
SAMPLES = 60000  # of an epoch
ONE_LAYER = 0  # width of a classifier
WIDTHS = (4096, 2048, 1024)
# A choice: the report's models, each with the width of its classifier.
MODELS = (("squeezenet1_0", ONE_LAYER), ("alexnet", 4096), ("resnet18", ONE_LAYER),
          ("densenet121", 4096), ("vgg16", 4096))
THREE_LAYERS = (("squeezenet1_0", 4096), ("resnet18", 4096))  # as the report's text has it
PUBLISHED = {("squeezenet1_0", ONE_LAYER): 5130, ("alexnet", 4096): 54575114,
             ("resnet18", ONE_LAYER): 5130, ("densenet121", 4096): 21020682,
             ("vgg16", 4096): 119586826, ("vgg16", 2048): 55599114, ("vgg16", 1024): 26750986}
EXACT = ("resnet18", ONE_LAYER)  # no dropout, and frozen BatchNorm
OPTIONS = ("--freeze-features", "true", "--lr", 0.01, "--momentum", 0.9, "--weight-decay", 0,
           "--augment", "false")
FEW_STEPS = 5
TOLERANCE = 1e-5  # of a loss, relative
NEEDS_WEIGHTS = "needs extractors that are trained"
SCALES = {
    "quick": {"about": "Images of 64×64 in place of 224×224, batches of 4 to 64 in place of 64 to "
                       "1024, 5 iterations of each run, and a width of 1024 except in the sweep "
                       "of widths.",
              "image": 64, "batches": (4, 8, 16, 32, 64), "devices": (1, 2, 3, 4),
              "most_devices": 4, "models": MODELS + THREE_LAYERS, "iterations": 5,
              "base": ("vgg16", 1024, 16, 2), "threshold": 2.0},
    "full": {"about": "As the report says: batches of 64 to 1024 as far as memory goes, 1 to 4 "
                      "devices, widths of 4096, 2048 and 1024, images of 224×224; an epoch of "
                      "each run.",
             "image": 224, "batches": (64, 128, 256, 512, 1024), "devices": (1, 2, 3, 4),
             "most_devices": 4, "models": MODELS + THREE_LAYERS, "iterations": 0, "epochs": 1,
             "base": ("vgg16", 4096, 64, 4), "threshold": 0.5},
    "tiny": {"about": "For tests.", "hidden": True,
             "image": 64, "batches": (2, 5), "devices": (1, 2), "most_devices": 2,
             "models": MODELS, "iterations": 2, "base": ("vgg16", 1024, 5, 2), "threshold": 2.0}}


@dataclasses.dataclass(frozen=True)
class Point:
    """A model and the conditions of its training."""
    model: str
    width: int
    batch: int
    devices: int

    @property
    def name(self):
        return f"{self.model}-{self.width}-batch-{self.batch}-devices-{self.devices}"

    @property
    def classifier(self):
        return "1 layer" if self.width == ONE_LAYER else f"{self.width}"

    @property
    def trained(self):
        return classifier_size(self.model, self.width)


@dataclasses.dataclass(frozen=True)
class Factor:
    """A property that changes while the others stay."""
    key: str
    title: str
    source: str
    label: Callable  # label(point)


FACTORS = (
    Factor("model", "model", "figures by model",
           lambda point: f"{point.model}, {point.classifier}"),
    Factor("batch", "batch", "figures by batch", lambda point: f"{point.batch}"),
    Factor("devices", "devices", "figures by number of devices", lambda point: f"{point.devices}"),
    Factor("width", "width of the classifier", "figures by size of the hidden layers",
           lambda point: f"{point.width}"))
BY_MODEL, BY_BATCH, BY_DEVICES, BY_WIDTH = FACTORS


def base(setting):
    return Point(*setting.scale["base"])


def points(setting, factor):
    """Returns the points that fit in memory."""
    start, scale = base(setting), setting.scale
    changes = {"model": [{"model": model, "width": width} for model, width in scale["models"]],
               "batch": [{"batch": batch} for batch in scale["batches"]],
               "devices": [{"devices": devices} for devices in scale["devices"]],
               "width": [{"width": width} for width in WIDTHS]}
    planned = [dataclasses.replace(start, **change) for change in changes[factor.key]]
    return [point for point in planned
            if fits(setting, point.devices, point.batch, point.trained)]


def exact_points(setting):
    """Returns the same training on one device, and on the usual number."""
    several = dataclasses.replace(base(setting), model=EXACT[0], width=EXACT[1])
    return dataclasses.replace(several, devices=1), several


def all_points(setting):
    named = {point.name: point for factor in FACTORS for point in points(setting, factor)}
    named.update((point.name, point) for point in exact_points(setting))
    return list(named.values())


def run_of(setting, point):
    width = () if point.width == ONE_LAYER else ("--hidden", point.width)
    epochs, iterations = whole_epochs(setting.scale, SAMPLES, 1, point.batch)
    return OnDevices(point.name, f"{point.model}, classifier {point.classifier}, batch "
                     f"{point.batch}, {point.devices} device(s)", 1, point.batch, iterations,
                     (*OPTIONS, *width), epochs=epochs, model=point.model,
                     devices=point.devices, parameters=point.trained)


def runs(setting):
    return [run_of(setting, point) for point in all_points(setting)]


def planned_bytes(setting, point, samples):
    """Returns the bytes between devices for a batch of `samples`: images to the others, scores from
    them, the scores' gradients to them, and from each the gradients of all trained parameters."""
    share = math.ceil(samples / point.devices)
    elsewhere, others = samples - share, math.ceil(samples / share) - 1
    image = CHANNELS * setting.scale["image"] ** 2
    return 4 * (elsewhere * (image + 2 * CLASSES) + others * point.trained)


def formula(point):
    """Returns the parameters that an epoch transfers, as the report counts them."""
    return SAMPLES / (point.batch * point.devices) * point.trained


def sent_per_epoch(results, point):
    sent = mean([record["bytes_sent"] for record in results[point.name].ranks[0].records])
    return sent * steps_per_epoch(SAMPLES, 1, point.batch)


def factor_table(setting, results, factor):
    start = base(setting)
    fixed = {"model": start.model, "width": f"width {start.width}",
             "batch": f"batch {start.batch}", "devices": f"{start.devices} device(s)"}
    changed = (factor.key, "width") if factor is BY_MODEL else (factor.key,)
    return tabulate(
        f"by-{factor.key}", f"Training by {factor.title}", factor.source, points(setting, factor), [
            ("value", factor.title, factor.label),
            ("trained", "trained parameters", lambda point: point.trained),
            ("computation", "computation (s)", lambda point: computation(results[point.name]), 4),
            ("communication", "communication (s)",
             lambda point: communication(results[point.name]), 4),
            ("loss", "mean loss", lambda point: mean(results[point.name].losses()), 4),
            ("last", "last loss", lambda point: results[point.name].losses()[-1], 4)],
        "Means of an iteration without the first; the rest is "
        f"{', '.join(text for key, text in fixed.items() if key not in changed)}.")


def transfer(setting, results):
    """Returns a table and a figure."""
    title, source = "Data transfer of an epoch", "figure of data transfer per epoch"
    table = tabulate("transfer", title, source, all_points(setting), [
        ("model", "model", lambda point: point.model),
        ("classifier", "classifier", lambda point: point.classifier),
        ("batch", "batch B", lambda point: point.batch),
        ("devices", "devices k", lambda point: point.devices),
        ("formula", "N/(B·k) × trained parameters", lambda point: round(formula(point))),
        ("sent", "bytes between devices", lambda point: round(sent_per_epoch(results, point)))],
        f"N is {SAMPLES:,}. The report's formula counts parameters, and a batch for each device; "
        "here, as in torch.nn.DataParallel, the devices divide the batch B. Bytes are those of an "
        "iteration that were counted, times the iterations of an epoch.")
    shown = list(dict.fromkeys(point for factor in (BY_BATCH, BY_DEVICES)
                               for point in points(setting, factor)))
    return table, bars(
        "transfer", title, source, "billions per epoch",
        [f"batch {point.batch}, {point.devices} device(s)" for point in shown],
        {"report's formula, parameters": [formula(point) / 1e9 for point in shown],
         "bytes between devices": [sent_per_epoch(results, point) / 1e9 for point in shown]})


def first_below(losses, threshold):
    """Returns the number of iterations until a loss is at most `threshold`; None if none is."""
    return next((number for number, loss in enumerate(losses, 1) if loss <= threshold), None)


def threshold_rows(setting, results):
    rows = []
    for point in points(setting, BY_MODEL):
        losses = results[point.name].losses()
        iterations = first_below(losses, setting.scale["threshold"])
        rows.append({"model": BY_MODEL.label(point), "trained_for": len(losses),
                     "iterations": iterations,
                     "epochs": iterations and iterations * point.batch / SAMPLES})
    return rows


def threshold_table(setting, results):
    threshold = setting.scale["threshold"]
    return Table("threshold", f"Until the loss is at most {threshold:g}",
                 "figure of epochs to a loss threshold",
                 [Column("model", "model"), Column("trained_for", "iterations of the run"),
                  Column("iterations", "iterations to it"), Column("epochs", "epochs to it", 4)],
                 threshold_rows(setting, results),
                 "An empty cell: not reached. The report does not say its threshold.")


def times_picture(setting, results, factor):
    of_factor = points(setting, factor)
    return bars(f"times-by-{factor.key}", f"Time of an iteration by {factor.title}", factor.source,
                "mean time of an iteration (s)", map(factor.label, of_factor),
                times_series([results[point.name] for point in of_factor]),
                "Computation: zero_grad, forward, loss, backward, step. Communication: "
                "transfers between the devices.", kind="stacked")


def losses_picture(setting, results, factor):
    losses = {point: results[point.name].losses() for point in points(setting, factor)}
    return lines(f"losses-by-{factor.key}", f"Loss by {factor.title}", factor.source,
                 ("iteration", "loss"), [line(factor.label(point), range(len(values)), values)
                                         for point, values in losses.items()])


def counts_claim(setting, results):
    trained = {(point.model, point.width): results[point.name].summary["trained_parameters"]
               for point in all_points(setting)}
    missing = PUBLISHED.keys() - trained.keys()
    wrong = [key for key in PUBLISHED.keys() & trained.keys() if trained[key] != PUBLISHED[key]]
    return judge("The numbers of trained parameters are the report's.", "table of models",
                 not wrong, ", ".join(f"{model} {width or '1 layer'}: {count:,}"
                                      for (model, width), count in trained.items()),
                 "needs more memory" if missing else "")


def frozen_claim(setting, results):
    hashes = [results[point.name].summary["frozen_sha256"] for point in all_points(setting)]
    same = sum(of_run["first"] == of_run["last"] for of_run in hashes)
    return judge("Training leaves frozen weights and statistics as they are, to the bit.",
                 "the report's method", same == len(hashes), f"in {same} of {len(hashes)} runs")


def equal_claim(setting, results):
    alone, several = (results[point.name] for point in exact_points(setting))
    difference = largest_difference(alone, several, FEW_STEPS)
    devices = exact_points(setting)[1].devices
    return judge(f"{devices} devices compute what one does: losses within {TOLERANCE:g} over the "
                 f"first {len(alone.losses()[:FEW_STEPS])} iterations.",
                 "data parallelism changes no result",
                 difference <= TOLERANCE, f"largest difference {difference:.2g} of a loss")


def bytes_claim(setting, results):
    counted = [(record["bytes_sent"], planned_bytes(setting, point, record["samples"]))
               for point in all_points(setting)
               for record in results[point.name].ranks[0].records]
    right = sum(sent == planned for sent, planned in counted)
    return judge("Between devices go the others' images and scores, and all their gradients, and "
                 "nothing else.", "figure of data transfer per epoch", right == len(counted),
                 f"the bytes of {right} of {len(counted)} iterations are those of the plan")


def order_claim(setting, results, factor, text, falls):
    of_factor = points(setting, factor)
    times = [communication(results[point.name]) for point in of_factor]
    return judge(text, factor.source, sorted(times, reverse=falls) == times,
                 ", ".join(f"{factor.title} {factor.label(point)}: {seconds:.4f} s"
                           for point, seconds in zip(of_factor, times)),
                 lacks_cores(setting, max(point.devices for point in of_factor)))


def threshold_claim(setting, results):
    """Judges the classifiers whose sizes the report has."""
    reached = {row["model"]: row["iterations"] for row in threshold_rows(setting, results)}

    def iterations_of(*models):
        return [reached[BY_MODEL.label(point)] for point in points(setting, BY_MODEL)
                if (point.model, point.width) in MODELS and point.model in models]

    early = iterations_of("vgg16", "alexnet")
    late = [iterations or math.inf for iterations in iterations_of("squeezenet1_0", "resnet18")]
    decided = all(early)
    return judge("SqueezeNet and ResNet-18 reach the threshold later than VGG-16 and AlexNet.",
                 "figure of epochs to a loss threshold", decided and min(late) > max(early),
                 ", ".join(f"{model}: {iterations or 'not reached'}"
                           for model, iterations in reached.items()),
                 "" if decided else NEEDS_WEIGHTS)


def left_out(setting):
    """Returns sentences on the runs that memory does not allow."""
    largest = max((point.batch for point in points(setting, BY_BATCH)), default=0)
    beyond = [batch for batch in setting.scale["batches"] if batch > largest]
    return [f"The sweep of batches ends at {largest}: {beyond[0]} would need more memory than the "
            f"{setting.memory / 1e9:.0f} GB that are free."] if beyond else []


def find(setting, results):
    notes = [images_note(setting),
             "A device is a group of compute threads of one process. Extractors have random "
             "weights (--seed), because no trained ones are available; losses are not the report's.",
             "Communication is measured as the copies between devices. The report timed a barrier "
             "after each iteration, in which faster devices wait for slower ones; its findings on "
             "communication follow from that. Bytes of gradients do not depend on the batch.",
             *left_out(setting)]
    return Findings(
        [counts_claim(setting, results), frozen_claim(setting, results),
         equal_claim(setting, results), bytes_claim(setting, results),
         order_claim(setting, results, BY_BATCH, "Communication grows with the batch.", False),
         order_claim(setting, results, BY_DEVICES, "Communication falls with devices.", True),
         threshold_claim(setting, results)],
        [*(factor_table(setting, results, factor) for factor in FACTORS),
         *(times_picture(setting, results, factor) for factor in FACTORS),
         *(losses_picture(setting, results, factor) for factor in FACTORS),
         *transfer(setting, results), threshold_table(setting, results)], notes)


EXPERIMENT = Experiment("data-parallel", "Data-parallel training on the devices of one process",
                        SOURCE, SCALES, runs, find, 1, leaves_open=("weight-decay",))
