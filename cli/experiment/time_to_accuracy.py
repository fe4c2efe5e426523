"""Time to accuracy: the gain of fewer bytes and fewer exchanges, and their cost in accuracy."""
import dataclasses
import math
import statistics

from cli.experiment.study import (HOSTS, LEARNING, Experiment, Findings, Statement, decide,
                                  decide_time, line, lines, report_part, tabulate)
from cli.experiment.work import Training
from cli.runs.quantiles import mean
from cli.runs.training import steps_per_epoch

SOURCE = "the measure of Coleman et al., DAWNBench, 2017"
BITS = 8
EPOCHS = "whole epochs (--scale quick or full)"
NEEDS_EPOCHS = f"needs {EPOCHS}"
NEEDS_PEERS = "needs PyTorch's runs (--peers)"
NOT_SHAPED = "links were not shaped"
SIMILAR = 0.01  # of accuracy, between DistributedDataParallel and ours

BYTES = Statement(
    "fewer-bytes", "Each method that is to send fewer bytes than float32 does so.",
    "docs/algorithms.md", "bytes that a rank sends in the whole run",
    "fewer than with float32, for each seed")
ONE_MODEL = Statement(
    "one-model", "All ranks of a run end with one model, whatever the method.",
    "docs/algorithms.md", "SHA-256 of the parameters", "one for all ranks, in each run")
REACH = Statement(
    "all-reach", "Every method reaches the accuracy.", "time to accuracy",
    "test accuracy after each epoch",
    "at least the accuracy once, with each seed, task and link; without --target, float32's", EPOCHS)
BEST = Statement(
    "leaner-quickest", "The quickest method sends fewer bytes than float32.", "time to accuracy",
    "seconds of training to the accuracy, the median over the seeds",
    "on each task and link the quickest is one that sends fewer bytes", f"{HOSTS}, {EPOCHS}")
AS_PEER = Statement(
    "as-distributed-data-parallel",
    f"float32 ends within {100 * SIMILAR:g} point of DistributedDataParallel.", "time to accuracy",
    "test accuracy at the end, the mean over the seeds",
    f"at most {100 * SIMILAR:g} point apart on each task and link", f"--peers, {EPOCHS}")


@dataclasses.dataclass(frozen=True)
class Method:
    """A way to train. `options`: of the worker or, for a peer, of PyTorch's script."""
    name: str
    title: str
    colour: str
    options: tuple
    is_peer: bool = False
    through_one: bool = False  # host, which sends and receives the bytes of all ranks
    is_leaner: bool = True  # than float32: it sends fewer bytes


# A choice: at least one method of each kind, with the argument that its paper recommends.
FLOAT32 = Method("fp32", "float32", "#0072b2", ("--sync", "ddp"), is_leaner=False)
OWN = (
    FLOAT32,
    Method("bf16", "bf16", "#56b4e9", ("--sync", "ddp", "--wire", "bf16")),
    Method("int8", "int8", "#009e73", ("--sync", "ddp", "--compress", "int8")),
    Method("top-k", "top-k 0.01", "#e69f00",
           ("--sync", "ddp", "--compress", "top-k:0.01", "--compress-warmup", 100)),
    Method("powersgd", "PowerSGD 2", "#cc79a7",
           ("--sync", "ddp", "--compress", "powersgd:2", "--compress-warmup", 2)),
    Method("local-sgd", "local SGD, every 10", "#d55e00", ("--sync", "local-sgd:10")),
    Method("diloco", "DiLoCo, every 10", "#882255", ("--sync", "diloco:10")),
    Method("parameter-server", "parameter server, staleness 2", "#7f7f7f",
           ("--sync", "parameter-server", "--staleness", 2), through_one=True, is_leaner=False))
PEER = Method("gloo-ddp", "PyTorch DDP", "#000000", ("--mode", "ddp"), is_peer=True,
              is_leaner=False)
PEERS = (PEER, Method("gloo-powersgd", "PyTorch DDP, PowerSGD 2", "#8c6d31",
                      ("--mode", "ddp", "--hook", "powersgd:2"), is_peer=True))


@dataclasses.dataclass(frozen=True)
class Task:
    """A net and data, with `batch` samples on each rank. The target is float32's accuracy after
    `target_epochs`, unless --target says another."""
    key: str
    title: str
    model: str
    batch: int
    lr: float
    samples: int = 0
    epochs: int = 0  # 0: some iterations
    target_epochs: int = 1
    needs_cifar10: bool = False


SMALL = Task("fashion-mnist", "an MLP on Fashion-MNIST", "mlp", 64, 0.05, 60000, 3, 2)
SCALES = {
    "quick": {"about": "An MLP on Fashion-MNIST, 4 ranks of 64 images, 3 epochs, one seed. The "
                       "accuracy to be reached is that of float32 after 2.",
              "ranks": 4, "seeds": (744,), "tasks": (SMALL,)},
    "full": {"about": "VGG-11 on CIFAR-10 (with --data-dir), 5 epochs, and an MLP on "
                      "Fashion-MNIST, 10; 4 ranks of 64 images, three seeds. The accuracy to be "
                      "reached is that of float32 after 3 epochs, and after 5.",
             "ranks": 4, "seeds": (744, 745, 746),
             "tasks": (Task("cifar10", "VGG-11 on CIFAR-10", "vgg11", 64, 0.1, 50000, 5, 3,
                            needs_cifar10=True),
                       dataclasses.replace(SMALL, epochs=10, target_epochs=5))},
    "tiny": {"about": "For tests.", "hidden": True, "ranks": 2, "seeds": (744,), "iterations": 3,
             "tasks": (dataclasses.replace(SMALL, batch=8, epochs=0),)}}


def methods(setting):
    return OWN + PEERS if setting.peers else OWN


def tasks(setting):
    return [task for task in setting.scale["tasks"]
            if setting.has_cifar10 or not task.needs_cifar10]


def links(setting):
    """Returns {"rate", "gbit"} of each kind of link to train on; a rate of "": as they are."""
    shaped = setting.request["link"] if setting.request["hosts"] else []
    return shaped or [{"rate": "", "gbit": None}]


def name_of(task, method, link, seed):
    return "-".join(filter(None, (task.key, method.name, link["rate"], str(seed))))


def iterations(setting, task):
    steps = steps_per_epoch(task.samples, setting.scale["ranks"], task.batch)
    return task.epochs * steps or setting.scale["iterations"]


def training(setting, task, method, link, seed):
    options = ("--lr", task.lr, "--seed", seed, "--sampler-seed", seed, "--evaluate-every", 1)
    if not method.is_peer:
        options += ("--augment", "false", *method.options)
    images = setting.images("cifar10") if task.needs_cifar10 else ("--dataset", "fashion-mnist")
    peer_mode = method.options[1] if method.is_peer else ""
    more = method.options[2:] if method.is_peer else ()
    at = f" at {link['rate']}" if link["rate"] else ""
    return Training(name_of(task, method, link, seed), f"{task.title}, {method.title}{at}",
                    setting.scale["ranks"], task.batch, iterations(setting, task),
                    options + more, epochs=task.epochs, peer_mode=peer_mode, model=task.model,
                    images=images, rate=link["rate"], gbit=link["gbit"])


def runs(setting):
    return [training(setting, task, method, link, seed) for link in links(setting)
            for task in tasks(setting) for seed in setting.scale["seeds"]
            for method in methods(setting)]


@dataclasses.dataclass(frozen=True)
class Point:
    """The state of a run when it was tested."""
    seconds: float  # of training, of the rank that took longest
    sent: float  # bytes, of a rank, the mean
    accuracy: float  # 0 to 1


def curve(result):
    """Returns the points of a run, one for each epoch."""
    points, sent = [], 0
    seconds = [0.0] * len(result.ranks)
    for rows in zip(*(rank.summary["epochs"] for rank in result.ranks)):
        seconds = [before + row["seconds"] for before, row in zip(seconds, rows)]
        sent += sum(record["bytes_sent"] for rank in result.ranks for record in rank.records
                    if record["epoch"] == rows[0]["epoch"]) / len(result.ranks)
        points.append(Point(max(seconds), sent, rows[0]["test"]["accuracy"]))
    return points


def reached(points, target):
    """Returns the Point where a curve, straight between tests, first has the accuracy, or None."""
    before = None
    for point in points:
        if point.accuracy >= target and before is None:
            return point
        if point.accuracy >= target:
            part = (target - before.accuracy) / (point.accuracy - before.accuracy)
            return Point(before.seconds + part * (point.seconds - before.seconds),
                         before.sent + part * (point.sent - before.sent), target)
        before = point
    return None


def middle(values):
    """Returns the median. None counts as never."""
    found = statistics.median_high([math.inf if value is None else value for value in values])
    return None if found == math.inf else found


class Outcome:
    """The results of a method on a task and a link, over the seeds."""

    def __init__(self, method, curves, target):
        self.method, self.curves = method, curves
        self._reached = [reached(points, target) for points in curves]
        self.count = sum(point is not None for point in self._reached)
        self.seconds = middle([point and point.seconds for point in self._reached])
        self.sent = middle([point and point.sent for point in self._reached])
        self.ends = [points[-1].accuracy for points in curves]

    def least_seconds(self, gbit, ranks):
        """Returns seconds to the accuracy, at least what the busiest of such links needs."""
        if self.seconds is None or gbit is None:
            return self.seconds
        busiest = self.sent * (ranks if self.method.through_one else 1)
        return max(self.seconds, BITS * busiest / (gbit * 1e9))


class Study:
    """The measurements of a task on a link."""

    def __init__(self, setting, results, task, link):
        self.setting, self.task, self.link = setting, task, link
        self.target = target_of(setting, results, task)
        self.outcomes = [Outcome(method, curves_of(setting, results, task, method, link),
                                 self.target) for method in methods(setting)]
        self.float32 = self.outcomes[0]
        self.key = "-".join(filter(None, (task.key, link["rate"])))
        self.where = f"{task.title}{' at ' + link['rate'] if link['rate'] else ''}"
        self.needs_epochs = "" if task.epochs else NEEDS_EPOCHS


def curves_of(setting, results, task, method, link):
    return [curve(results[name_of(task, method, link, seed)]) for seed in setting.scale["seeds"]]


def target_of(setting, results, task):
    if setting.request["target"]:
        return setting.request["target"]
    curves = curves_of(setting, results, task, FLOAT32, links(setting)[0])
    return mean([points[min(task.target_epochs, len(points)) - 1].accuracy for points in curves])


def rates_worked_out(setting):
    """Returns the links that were asked for but are not available."""
    return [] if setting.request["hosts"] else setting.request["link"]


def columns_of(study):
    base, ranks = study.float32.seconds, study.setting.scale["ranks"]
    return [
        ("method", "method", lambda one: one.method.title),
        ("reached", "seeds that reach it", lambda one: f"{one.count} of {len(one.curves)}"),
        ("seconds", "seconds to it", lambda one: one.seconds, 2),
        ("ratio", "of float32's",
         lambda one: one.seconds / base if one.seconds and base else None, 3),
        *((link["rate"], f"at {link['rate']} no less than (s)",
           lambda one, gbit=link["gbit"]: one.least_seconds(gbit, ranks), 2)
          for link in rates_worked_out(study.setting)),
        ("megabytes", "MB sent by a rank to it", lambda one: one.sent and one.sent / 1e6, 2),
        ("accuracy", "accuracy at the end (%)", lambda one: 100 * mean(one.ends), 2),
        ("lowest", "lowest (%)", lambda one: 100 * min(one.ends), 2),
        ("highest", "highest (%)", lambda one: 100 * max(one.ends), 2),
        ("run_seconds", "whole run (s)",
         lambda one: statistics.median(points[-1].seconds for points in one.curves), 2),
        ("run_megabytes", "whole run (MB)",
         lambda one: mean([points[-1].sent for points in one.curves]) / 1e6, 2)]


def table_of(study):
    note = ("Medians over the seeds; empty: more than half do not reach it. Between two tests the "
            "accuracy is assumed to be linear. Seconds are of training, without tests. A rank "
            "receives about as much as it sends.")
    if rates_worked_out(study.setting):
        note += (" No less than: calculated, not measured; the larger of the time here and of "
                 "the time that the bytes need on the busiest link.")
    return tabulate(study.key, f"To {100 * study.target:.2f} % test accuracy: {study.where}",
                    "time to accuracy", study.outcomes, columns_of(study), note)


def picture_of(study, key, axis, value):
    """`value` of a point is its x; the means over the seeds are drawn."""
    curves = {outcome.method: [
        (mean([*map(value, points)]), 100 * mean([point.accuracy for point in points]))
        for points in zip(*outcome.curves)] for outcome in study.outcomes}
    return lines(f"{study.key}-{key}", f"Test accuracy by {axis}: {study.where}",
                 "time to accuracy", (axis, "test accuracy (%)"),
                 [line(method.title, *zip(*points), colour=method.colour)
                  for method, points in curves.items()],
                 "Means over the seeds, a point for each epoch.", x_log=10)


def bytes_claim(studies):
    """Compares whole runs, so it needs no accuracy."""
    wrong = [f"{one.method.title} ({study.where})" for study in studies for one in study.outcomes
             if one.method.is_leaner and any(points[-1].sent >= base[-1].sent for points, base in
                                             zip(one.curves, study.float32.curves))]
    shares = [f"{one.method.title} {points[-1].sent / base[-1].sent:.3f}"
              for one in studies[0].outcomes if one.method.is_leaner
              for points, base in [(one.curves[0], studies[0].float32.curves[0])]]
    return decide(BYTES, not wrong,
                  f"not so: {', '.join(wrong)}" if wrong else ", ".join(shares))


@report_part
def models_claim(setting, results):
    apart = [name for name in
             (name_of(task, method, link, seed) for task in tasks(setting) for method in OWN
              for link in links(setting) for seed in setting.scale["seeds"])
             if len(results[name].hashes()) != 1]
    return decide(ONE_MODEL, not apart, f"not so: {', '.join(apart)}" if apart else
                  f"one hash in each run of {len(OWN)} methods")


def of_studies(studies, text_of):
    """Returns `text_of` each study, with its name if there are several."""
    if len(studies) == 1:
        return text_of(studies[0])
    return "; ".join(f"{study.where}: {text_of(study)}" for study in studies)


def needs_epochs(studies):
    return next((study.needs_epochs for study in studies if study.needs_epochs), "")


def missing_text(study):
    """Returns the methods that do not reach the accuracy with each seed."""
    missing = [f"{one.method.title} {one.count} of {len(one.curves)}, ends at "
               f"{100 * mean(one.ends):.2f} %" for one in study.outcomes
               if one.count < len(one.curves)]
    return f"{100 * study.target:.2f} %: {'; '.join(missing) or 'all seeds of all methods'}"


def reach_claim(studies):
    reach = all(one.count == len(one.curves) for study in studies for one in study.outcomes)
    return decide(REACH, reach, of_studies(studies, missing_text), needs_epochs(studies))


def by_time(study):
    """Returns our methods that reach the accuracy, the quickest first."""
    those = [one for one in study.outcomes if one.seconds is not None and not one.method.is_peer]
    return sorted(those, key=lambda one: one.seconds)


def order_text(study):
    return ", ".join(f"{one.method.title} {one.seconds:.2f} s"
                     for one in by_time(study)) or "none reaches it"


def best_claim(studies):
    firsts = [next(iter(by_time(study)), None) for study in studies]
    return decide_time(
        studies[0].setting, BEST, all(first and first.method.is_leaner for first in firsts),
        of_studies(studies, order_text), needs_epochs(studies))


def ends_of(study, methods_wanted):
    """Returns the mean accuracies at the end."""
    return [mean(next(one for one in study.outcomes if one.method is method).ends)
            for method in methods_wanted]


def peer_claim(studies):
    if not studies[0].setting.peers:
        return decide(AS_PEER, False, "", NEEDS_PEERS, needs_epochs(studies))
    ends = {study.key: ends_of(study, (FLOAT32, PEER)) for study in studies}
    return decide(AS_PEER, all(abs(ours - theirs) <= SIMILAR for ours, theirs in ends.values()),
                  of_studies(studies, lambda study: "{:.2f} % and {:.2f} %".format(
                      *(100 * end for end in ends[study.key]))), needs_epochs(studies))


def notes(setting):
    said = ["All methods have the same learning rate, momentum, batches and epochs, and no "
            "augmentation; none was tuned for itself. One that ends lower is shown lower.",
            "DiLoCo's outer step has its usual learning rate, 0.7, and momentum, 0.9. The "
            "parameter server is the coordinator, through which all ranks' bytes go."]
    if not setting.request["hosts"]:
        said.append(f"{NOT_SHAPED[0].upper()}{NOT_SHAPED[1:]}: that needs --hosts. Times are those "
                    "of the links as they are.")
    if len(tasks(setting)) < len(setting.scale["tasks"]):
        said.append("VGG-11 was left out: it needs CIFAR-10 (--data-dir).")
    if setting.peers:
        said.append("PyTorch's bytes are calculated for a ring, because Gloo counts none.")
    return said


@report_part
def study_of(setting, results, task, link):
    """Returns a list of a Study."""
    return [Study(setting, results, task, link)]


def find(setting, results):
    planned = [(task, link) for task in tasks(setting) for link in links(setting)]
    studies = [one for task, link in planned for one in study_of(setting, results, task, link)]
    complete = len(studies) == len(planned)
    claims = [complete and bytes_claim(studies), models_claim(setting, results),
              *(complete and claim(studies) for claim in (reach_claim, best_claim, peer_claim))]
    pictures = [picture for study in studies for picture in (
        picture_of(study, "seconds", "seconds of training", lambda point: point.seconds),
        picture_of(study, "bytes", "MB sent by a rank", lambda point: point.sent / 1e6))]
    return Findings(claims, [*map(table_of, studies), *pictures], notes(setting))


def announce(setting):
    """Returns sentences to print before it starts."""
    asked = [link["rate"] for link in rates_worked_out(setting)]
    return [f"--link {','.join(asked)}: {NOT_SHAPED}, which needs --hosts; the report says what "
            "they would at least take"] if asked else []


EXPERIMENT = Experiment("time-to-accuracy", "Time and bytes to an accuracy", SOURCE, SCALES, runs,
                        find, 4, options=("link", "target", "peers"), announce=announce,
                        statements=(BYTES, ONE_MODEL, REACH, BEST, AS_PEER), leaves_open=LEARNING)
