"""Large batches: their cost in training, and remedies."""
import dataclasses
import decimal
import math

from cli.experiment.study import (MADE_UP, Experiment, Findings, Statement, bars, decide, line,
                                  lines, made_up_note, report_part, tabulate, tabulate_curves)
from cli.experiment.work import DDP, LOSSES, Training, fits, samples_of
from cli.runs import training

SOURCE = "the HPC lab (Q4), and Goyal et al., Accurate, Large Minibatch SGD, 2017"
DEVICES = 4
FASHION_MNIST = "fashion-mnist"
EPOCHS = "all 5 epochs (--scale quick or full)"
NEEDS_EPOCHS = f"needs {EPOCHS}"
SCALES = {
    # LeNet learns nothing with 16 times 0.02, so lr is lower here.
    "quick": {"about": "LeNet on Fashion-MNIST, 5 epochs; 512 for each device is taken as the "
                       "largest batch. Two of the 5 epochs are warm-up; Goyal et al. have 5 of 90.",
              "model": "lenet", "images": FASHION_MNIST, "base": 128, "batches": (512,),
              "lr": 0.005, "warmup": 2, "epochs": 5},
    "full": {"about": "VGG-11, 5 epochs; the largest batch is the last of 128, 512, 2048 … that "
                      "fits into memory. Two of the 5 epochs are warm-up; Goyal et al. have 5 of 90.",
             "model": "vgg11", "images": "synthetic", "base": 128,
             "batches": (128, 512, 2048, 8192), "lr": 0.1, "warmup": 2, "epochs": 5},
    "tiny": {"about": "For tests.", "hidden": True,
             "model": "lenet", "images": FASHION_MNIST, "base": 8, "batches": (8,), "lr": 0.02,
             "warmup": 1, "iterations": 3}}


@dataclasses.dataclass(frozen=True)
class Way:
    """A way to train with batches of one size."""
    name: str
    title: str
    devices: int
    colour: str
    scales: bool = False  # lr, with the batch
    warms: bool = False  # up to it


SMALL = Way("small", "small batch", 1, "#7f7f7f")
PLAIN = Way("no-remedy", "no remedy", DEVICES, "#d55e00")
SCALED = Way("scaled-lr", "linear scaling of lr", DEVICES, "#0072b2", scales=True)
WARMED = Way("warm-up", "scaling with warm-up", DEVICES, "#009e73", scales=True, warms=True)
WAYS = (SMALL, PLAIN, SCALED, WARMED)

RATE = Statement(
    "linear-rule", "lr is that of the linear rule: lr times total batch over the base batch; in "
    "warm-up it rises to that.", "Goyal et al., section 2.2", "lr of every iteration",
    "constant without warm-up; with it, rising in each step of the warm-up and constant after it")
STEPS = Statement(
    "steps", "An epoch has as many iterations as the total batch goes into the samples.", "Q4",
    "iterations of the run", "epochs times samples over total batch, rounded up", EPOCHS)
WORSE = Statement(
    "large-worse", "With no remedy, a large batch has the higher training loss after as many "
    "epochs.", "Q4", "training loss of the last epoch",
    "higher with 4 × the largest batch than with one of 128", EPOCHS)
REMEDY = Statement(
    "remedy-helps", "Linear scaling of lr with warm-up lowers the training loss of a large batch.",
    "Goyal et al., section 2", "training loss of the last epoch, large batch",
    "lower with scaled lr and warm-up than with no remedy", EPOCHS)


def largest(setting, sizes):
    """Returns the batch of each device: the largest that fits, or the smallest of all."""
    fitting = [batch for batch in sizes["batches"]
               if fits(setting, sizes["model"], DEVICES, batch)]
    return max(fitting, default=min(sizes["batches"]))


def total_batch(setting, sizes, way):
    return sizes["base"] if way is SMALL else way.devices * largest(setting, sizes)


def lr_of(setting, sizes, way):
    """Returns the learning rate after the warm-up."""
    return sizes["lr"] * (total_batch(setting, sizes, way) / sizes["base"] if way.scales else 1)


def steps_per_epoch(setting, sizes, way):
    samples = samples_of(setting.images(sizes["images"]))
    batch = total_batch(setting, sizes, way) // way.devices
    return training.steps_per_epoch(samples, way.devices, batch)


def way_run(setting, sizes, way):
    batch = total_batch(setting, sizes, way) // way.devices
    epochs = sizes.get("epochs", 0)
    options = ["--lr", sizes["lr"], *(DDP if way.devices > 1 else ("--sync", "none"))]
    if way.scales:
        options += ["--scale-lr", "true", "--base-batch", sizes["base"]]
    if way.warms:
        options += ["--warmup-epochs", sizes["warmup"]]
    return Training(way.name, f"{way.title}, {way.devices} × {batch}", way.devices, batch,
                    epochs * steps_per_epoch(setting, sizes, way) or sizes["iterations"],
                    tuple(options), epochs=epochs, model=sizes["model"],
                    images=setting.images(sizes["images"]), only=LOSSES)


def runs(setting):
    return [way_run(setting, setting.scale, way) for way in WAYS]


def digits_of(rates):
    """Returns the digits after the point that all rates need, at least three."""
    return max(3, *(-decimal.Decimal(f"{rate:.6g}").as_tuple().exponent for rate in rates))


def last_epoch_table(setting, sizes, results, ways):
    """Answers Q4."""
    digits = digits_of([lr_of(setting, sizes, way) for way in ways])
    return tabulate("last-epoch", "Training loss and accuracy of the last epoch", "Q4", ways, [
        ("way", "way", lambda way: way.title),
        ("devices", "devices", lambda way: way.devices),
        ("batch", "total batch", lambda way: total_batch(setting, sizes, way)),
        ("steps", "iterations of an epoch", lambda way: steps_per_epoch(setting, sizes, way)),
        ("lr", "lr", lambda way: lr_of(setting, sizes, way), digits),
        ("loss", "training loss", lambda way: results[way.name].epochs()[-1]["loss"], 4),
        ("accuracy", "training accuracy (%)", lambda way: last_accuracy(results, way), 2)],
        "Over all samples of the epoch, each as the model was when it came.")


def last_accuracy(results, way):
    """Returns per cent."""
    return 100 * results[way.name].epochs()[-1]["accuracy"]


def losses_by_epoch(results, way):
    return [epoch["loss"] for epoch in results[way.name].epochs()]


@report_part
def by_epoch(results):
    """Returns a table and a figure."""
    title, source = "Training loss by epoch", "Q4, and remedies"
    losses = {way: losses_by_epoch(results, way) for way in WAYS}
    x = range(1, len(losses[WAYS[-1]]) + 1)
    return (tabulate_curves("epochs", title, source, ("epoch", x),
                            [(way.name, way.title, values) for way, values in losses.items()], 4),
            lines("epochs", title, source, ("epoch", "training loss"),
                  [line(way.title, x, values, colour=way.colour)
                   for way, values in losses.items()]))


@report_part
def accuracy_picture(results):
    return bars("accuracy", "Training accuracy of the last epoch", "Q4, and remedies",
                "training accuracy (%)", [way.title for way in WAYS],
                {"accuracy": [last_accuracy(results, way) for way in WAYS]})


def loss_claim(statement, results, sizes, lower, higher, shown):
    """Decides whether one way ends with a lower loss than another."""
    losses = {way: losses_by_epoch(results, way)[-1] for way in shown}
    return decide(statement, losses[lower] < losses[higher],
                  ", ".join(f"{way.title} {loss:.4f}" for way, loss in losses.items()),
                  needs_epochs(sizes))


def needs_epochs(sizes):
    return "" if "epochs" in sizes else NEEDS_EPOCHS


@report_part
def worse_claim(results, sizes):
    return loss_claim(WORSE, results, sizes, SMALL, PLAIN, (SMALL, PLAIN))


@report_part
def remedy_claim(results, sizes):
    return loss_claim(REMEDY, results, sizes, WARMED, PLAIN, (PLAIN, SCALED, WARMED))


def rates(result):
    return [record["lr"] for record in result.ranks[0].records]


def is_warm_up(found, start, end, steps):
    """Whether lr rises up to `end` within `steps` steps, and stays there."""
    rising, rest = found[:steps], found[steps:]
    return (start <= rising[0] < end and all(a < b for a, b in zip(rising, rising[1:])) and
            rising[-1] <= end * (1 + 1e-9) and all(math.isclose(rate, end) for rate in rest))


@report_part
def rate_claim(setting, results):
    sizes = setting.scale
    end = lr_of(setting, sizes, SCALED)
    steps = sizes["warmup"] * steps_per_epoch(setting, sizes, WARMED)
    warm = rates(results[WARMED.name])
    steady = all(math.isclose(rate, lr_of(setting, sizes, way))
                 for way in (SMALL, PLAIN, SCALED) for rate in rates(results[way.name]))
    return decide(RATE, steady and is_warm_up(warm, sizes["lr"], end, steps),
                  f"base batch {sizes['base']}: {sizes['lr']:g}, scaled {end:g}; warm-up from "
                  f"{warm[0]:.4g} to {warm[-1]:.4g}")


@report_part
def steps_claim(setting, results):
    counts = {way: (results[way.name].iterations,
                    setting.scale.get("epochs", 0) * steps_per_epoch(setting, setting.scale, way))
              for way in WAYS}
    return decide(STEPS, all(got == expected for got, expected in counts.values()),
                  ", ".join(f"{way.title} {got}" for way, (got, _) in counts.items()),
                  needs_epochs(setting.scale))


def notes(setting):
    sizes = setting.scale
    said = [f"Batches of {largest(setting, sizes)} for each of {DEVICES} devices, which are "
            f"ranks, against {sizes['base']} on one."]
    dataset = setting.images(sizes["images"])[1]
    if dataset in MADE_UP:
        said.append(made_up_note("all trainings", dataset=dataset))
    return said


def find(setting, results):
    sizes = setting.scale
    return Findings(
        [rate_claim(setting, results), steps_claim(setting, results),
         worse_claim(results, sizes), remedy_claim(results, sizes)],
        [report_part(last_epoch_table)(setting, sizes, results, WAYS), *by_epoch(results),
         accuracy_picture(results)], notes(setting))


EXPERIMENT = Experiment("large-batch", "Large batches and their remedies", SOURCE, SCALES, runs,
                        find, DEVICES, statements=(RATE, STEPS, WORSE, REMEDY),
                        leaves_open=("model", "dataset", "lr", "momentum", "weight-decay"))
