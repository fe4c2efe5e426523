"""The benchmark report's training: what is varied. A point is a model and the conditions of its
training; a factor is one condition that changes while the others stay."""
import dataclasses
import math
from collections.abc import Callable

from cli.experiment import extractors
from cli.experiment.devices import (CHANNELS, CLASSES, OnDevices, bytes_of_image,
                                    bytes_of_parameters, classifier_size, images, largest_batch)
from cli.experiment.study import counted
from cli.experiment.work import samples_of, whole_epochs
from cli.runs.failure import EXIT_USAGE, Failure

SAMPLES = 60000  # of an epoch of the report
ONE_LAYER = 0  # width of a classifier
WIDTHS = (1024, 2048, 4096)
# A choice: the report's models, each with the width of its classifier.
MODELS = (("squeezenet1_0", ONE_LAYER), ("alexnet", 4096), ("resnet18", ONE_LAYER),
          ("densenet121", 4096), ("vgg16", 4096))
NATIVE, VANILLA = "native", "vanilla"
EXACT = ("resnet18", ONE_LAYER)  # no dropout, and frozen BatchNorm
OPTIONS = ("--freeze-features", "true", "--lr", 0.01, "--momentum", 0.9, "--weight-decay", 0,
           "--augment", "false")
LEAST_ITERATIONS = 5


@dataclasses.dataclass(frozen=True)
class Point:
    model: str
    width: int
    batch: int
    devices: int
    replication: str = NATIVE

    @property
    def name(self):
        end = "" if self.replication == NATIVE else f"-{self.replication}"
        return f"{self.model}-{self.width}-batch-{self.batch}-devices-{self.devices}{end}"

    @property
    def classifier(self):
        return "1 layer" if self.width == ONE_LAYER else f"{self.width}"

    @property
    def trained(self):
        return classifier_size(self.model, self.width)


@dataclasses.dataclass(frozen=True)
class Factor:
    key: str
    title: str
    source: str
    label: Callable  # label(point)

    def said(self, point):
        """Returns the label for a sentence: numbers have the factor's name before them."""
        label = self.label(point)
        return f"{self.key} {label}" if label.isdigit() else label


FACTORS = (
    Factor("model", "model", "figures by model",
           lambda point: f"{point.model}, {point.classifier}"),
    Factor("batch", "batch", "figures by batch", lambda point: f"{point.batch}"),
    Factor("devices", "devices", "figures by number of devices", lambda point: f"{point.devices}"),
    Factor("width", "width of the classifier", "figures by size of the hidden layers",
           lambda point: f"{point.width}"),
    Factor("replication", "data parallelism", "native and vanilla, as in inference",
           lambda point: point.replication))
BY_MODEL, BY_BATCH, BY_DEVICES, BY_WIDTH, BY_REPLICATION = FACTORS


def base(setting):
    return Point(*setting.scale["base"])


def batches(setting):
    """Returns the batches of the scale that fit in memory; if not all do, also the largest multiple
    of the smallest that fits."""
    start, planned = base(setting), setting.scale["batches"]
    largest = largest_batch(setting, start.devices, start.trained)
    fitting = [batch for batch in planned if batch <= largest]
    last = largest // planned[0] * planned[0]
    return fitting if fitting == list(planned) or last in (0, *fitting) else [*fitting, last]


def points(setting, factor):
    """Returns the points that fit in memory."""
    start, scale = base(setting), setting.scale
    changes = {"model": [{"model": model, "width": width} for model, width in scale["models"]],
               "batch": [{"batch": batch} for batch in batches(setting)],
               "devices": [{"devices": devices} for devices in scale["devices"]],
               "width": [{"width": width} for width in WIDTHS],
               "replication": [{"replication": name} for name in (NATIVE, VANILLA)]}
    planned = [dataclasses.replace(start, **change) for change in changes[factor.key]]
    return [point for point in planned
            if point.batch <= largest_batch(setting, point.devices, point.trained)]


def measured(setting, results, factor):
    """Returns the points that have results: memory may have ended the sweep of batches."""
    return [point for point in points(setting, factor) if point.name in results]


def exact_points(setting):
    """Returns the same training on one device, on the usual number, and there with vanilla."""
    several = dataclasses.replace(base(setting), model=EXACT[0], width=EXACT[1])
    return (dataclasses.replace(several, devices=1), several,
            dataclasses.replace(several, replication=VANILLA))


def all_points(setting):
    named = {point.name: point for factor in FACTORS for point in points(setting, factor)}
    named.update((point.name, point) for point in exact_points(setting))
    return list(named.values())


def all_measured(setting, results):
    return [point for point in all_points(setting) if point.name in results]


def iterations_of(setting, batch):
    """Returns epochs, 0 if the scale is a part of one, and iterations: all runs see the same number
    of samples."""
    part = setting.scale.get("samples", 0)
    iterations = max(LEAST_ITERATIONS, math.ceil(part / batch))
    return whole_epochs({**setting.scale, "iterations": iterations}, samples_of(images(setting)), 1,
                        batch)


def run_of(setting, point):
    width = () if point.width == ONE_LAYER else ("--hidden", point.width)
    vanilla = ("--replication", VANILLA) if point.replication == VANILLA else ()
    epochs, iterations = iterations_of(setting, point.batch)
    weights = extractors.weights_of(setting, point.model)
    return OnDevices(
        point.name, f"{point.model}, classifier {point.classifier}, batch {point.batch}, "
        f"{counted(point.devices, 'device')}, {point.replication}", 1, point.batch, iterations,
        (*OPTIONS, *width, *vanilla), epochs=epochs, model=point.model, devices=point.devices,
        parameters=point.trained, weights=weights,
        digest=extractors.sha256_of(weights) if setting.request["weights"] else "",
        sweep="batch" if point.batch > base(setting).batch else "")


def models_of(setting):
    return list(dict.fromkeys(point.model for point in all_points(setting)))


def check_memory(setting):
    """Failure if the base, from which each factor is changed, does not fit in the free memory."""
    start = base(setting)
    needed = (bytes_of_parameters(start.devices, start.trained) +
              start.batch * bytes_of_image(setting))
    if setting.memory < needed:
        raise Failure(f"{start.model} with batch {start.batch} on {start.devices} devices, which all "
                      f"figures compare with, needs about {needed / 1e9:.1f} GB of memory; "
                      f"{setting.memory / 1e9:.1f} GB are free", EXIT_USAGE)


def runs(setting):
    """Failure of check_memory."""
    check_memory(setting)
    return [*extractors.pretrainings(setting, models_of(setting)),
            *(run_of(setting, point) for point in all_points(setting))]


def planned_bytes(setting, point, samples):
    """Returns the bytes between devices for a batch of `samples`, with native replication: images to
    the others, scores from them, the scores' gradients to them, and from each the gradients of all
    trained parameters."""
    share = math.ceil(samples / point.devices)
    elsewhere, others = samples - share, math.ceil(samples / share) - 1
    image = CHANNELS * setting.scale["image"] ** 2
    return 4 * (elsewhere * (image + 2 * CLASSES) + others * point.trained)


def formula(point):
    """Returns the parameters that an epoch transfers, as the report counts them."""
    return SAMPLES / (point.batch * point.devices) * point.trained
