"""The benchmark report's training: epochs until the loss has fallen to a threshold, by each factor."""
import dataclasses
import math

from cli.experiment.devices import images
from cli.experiment.factors import (BY_BATCH, BY_DEVICES, BY_MODEL, BY_REPLICATION, BY_WIDTH,
                                    FACTORS, MODELS, ONE_LAYER, measured)
from cli.experiment.study import Statement, bars, decide, report_part, tabulate
from cli.experiment.work import samples_of

SOURCE = "figure of epochs to a loss threshold"
QUANTITY = "epochs until the loss is at most the threshold"
NEEDS = "losses that reach the threshold (--weights, --pretrain or --scale full)"
LATE = ("squeezenet1_0", "resnet18")
EARLY = ("vgg16", "alexnet")
PUBLISHED = {"batch": "a larger batch later", "devices": "more devices sooner",
             "width": "more trained parameters sooner"}

BY_SIZE = Statement(
    "threshold-model", "SqueezeNet and ResNet-18 reach the threshold later than VGG-16 and "
    "AlexNet.", f"{SOURCE}, by model (500 epochs later)", QUANTITY,
    "the first of the two small models takes more epochs than the last of the two large ones, "
    "with the report's sizes", NEEDS)
ORDERS = {
    "devices": Statement(
        "threshold-devices", "More devices reach the threshold sooner.", "Fig. 1b", QUANTITY,
        "each number of devices takes fewer epochs than the one before", NEEDS),
    "batch": Statement(
        "threshold-batch", "A larger batch reaches the threshold later.", "Fig. 2a", QUANTITY,
        "each batch takes more epochs than the one before", NEEDS),
    "width": Statement(
        "threshold-width", "More trained parameters reach the threshold sooner.", "Fig. 5b",
        QUANTITY, "each width takes fewer epochs than the one before", NEEDS)}
SAME = Statement(
    "threshold-replication", "Native and vanilla training reach the threshold at the same time.",
    "both compute the same", QUANTITY, "both take the same number of epochs, to a twentieth", NEEDS)
STATEMENTS = (BY_SIZE, *ORDERS.values(), SAME)
RISES = {"devices": False, "batch": True, "width": False}
TOLERANCE = 0.05


def running_means(losses, over):
    """Returns the means of the last `over` losses, from iteration number `over` on."""
    return [sum(losses[end - over:end]) / over for end in range(over, len(losses) + 1)]


def first_below(losses, threshold, over=1):
    """Returns the number of iterations until the mean of the last `over` losses is at most
    `threshold`; None if it never is."""
    return next((number for number, loss in enumerate(running_means(losses, over), over)
                 if loss <= threshold), None)


def window(setting, point):
    """Returns the number of losses in a mean: those of the same number of samples, whatever the
    batch, so that small batches do not reach the threshold by chance."""
    return math.ceil(setting.scale["window"] / point.batch)


@dataclasses.dataclass(frozen=True)
class Reached:
    """When a training reached the threshold; None: it did not."""
    factor: object
    point: object
    trained_for: int  # iterations of the run
    iterations: int | None
    seconds: float | None
    samples: int  # of an epoch

    @property
    def epochs(self):
        return self.iterations and self.iterations * self.point.batch / self.samples

    @property
    def label(self):
        return self.factor.label(self.point)

    @property
    def published(self):
        if self.factor is BY_MODEL and self.point.width == ONE_LAYER:
            return "500 epochs after VGG-16 and AlexNet"
        return PUBLISHED.get(self.factor.key, "")

    @property
    def said(self):
        if self.iterations is None:
            most = self.trained_for * self.point.batch / self.samples
            return f"{self.factor.said(self.point)}: not within {most:.4g} epochs"
        return f"{self.factor.said(self.point)}: {self.epochs:.4g} epochs"


def reached(setting, results, factor):
    """Returns a Reached for each point."""
    found = []
    for point in measured(setting, results, factor):
        result = results[point.name]
        losses = result.losses()
        iterations = first_below(losses, setting.scale["threshold"], window(setting, point))
        seconds = iterations and sum(result.ranks[0].seconds[:iterations])
        found.append(Reached(factor, point, len(losses), iterations, seconds,
                             samples_of(images(setting))))
    return found


def rises(epochs):
    """Whether each number of epochs is above the one before; None if that is unknown. None among
    `epochs`: above all others."""
    known = [math.inf if value is None else value for value in epochs]
    pairs = list(zip(known, known[1:]))
    if any(after <= before < math.inf or after < before for before, after in pairs):
        return False
    return True if pairs and known[-2] < math.inf else None


def decide_known(statement, holds, found):
    """As decide(). `holds` is None if it cannot be decided."""
    return decide(statement, holds, "; ".join(one.said for one in found),
                  f"needs {statement.needs}" if holds is None else "")


@report_part
def models_claim(setting, results):
    """Judges the classifiers whose sizes the report has."""
    found = reached(setting, results, BY_MODEL)
    sized = [one for one in found if (one.point.model, one.point.width) in MODELS]
    early = [one for one in sized if one.point.model in EARLY]
    late = [one for one in sized if one.point.model in LATE]
    first_late = min((one.epochs for one in late if one.epochs), default=math.inf)
    last_early = max((one.epochs or math.inf for one in early), default=math.inf)
    undecided = not early or not late or first_late == last_early == math.inf
    return decide_known(BY_SIZE, None if undecided else first_late > last_early, found)


@report_part
def order_claim(setting, results, factor):
    found = reached(setting, results, factor)
    epochs = [one.epochs for one in found]
    return decide_known(ORDERS[factor.key],
                        rises(epochs if RISES[factor.key] else epochs[::-1]), found)


@report_part
def same_claim(setting, results):
    found = reached(setting, results, BY_REPLICATION)
    native, vanilla = (one.epochs for one in found)
    if native is None or vanilla is None:
        return decide_known(SAME, None if native == vanilla else False, found)
    return decide_known(SAME, abs(native - vanilla) <= TOLERANCE * native, found)


def claims(setting, results):
    return [models_claim(setting, results),
            *(order_claim(setting, results, factor) for factor in (BY_DEVICES, BY_BATCH, BY_WIDTH)),
            same_claim(setting, results)]


@report_part
def table(setting, results):
    found = [one for factor in FACTORS for one in reached(setting, results, factor)]
    return tabulate("threshold", f"Until the loss is at most {setting.scale['threshold']:g}",
                    SOURCE, found, [
        ("factor", "factor", lambda one: one.factor.title),
        ("value", "value", lambda one: one.label),
        ("trained_for", "iterations of the run", lambda one: one.trained_for),
        ("iterations", "iterations to it", lambda one: one.iterations),
        ("epochs", "epochs to it", lambda one: one.epochs, 5),
        ("seconds", "seconds to it", lambda one: one.seconds, 2),
        ("report", "the report", lambda one: one.published)],
        f"The loss is the mean over the last {setting.scale['window']} samples. An empty cell: not "
        "reached in this run. The report does not say its threshold.")


@report_part
def picture(setting, results, factor):
    found = reached(setting, results, factor)
    return bars(f"threshold-by-{factor.key}", f"Epochs to the threshold by {factor.title}",
                f"{SOURCE}, {factor.source}", "epochs", [one.label for one in found],
                {"epochs": [one.epochs for one in found]},
                "Without a bar: not reached in this run.")


def pictures(setting, results):
    return [picture(setting, results, factor) for factor in FACTORS]
