"""What an experiment is made of. Its file in this folder holds it all, as data and as functions
from what was measured to tables, figures and claims."""
import dataclasses
import os
from collections.abc import Callable

from cli.runs.failure import EXIT_USAGE, Failure
from cli.runs.tables import Column
from cli.terminal.command import did_you_mean

CONFIRMED = "confirmed"
NOT_CONFIRMED = "not confirmed"
NOT_MEASURABLE = "not measurable here"
NEEDS_HOSTS = "a time that needs a host for each worker (--hosts, --hostfile)"
MADE_UP_IMAGES = ("The images were made up (--dataset synthetic), so losses and accuracies say nothing "
                  "about CIFAR-10.")


@dataclasses.dataclass(frozen=True)
class Setting:
    """Under which conditions an experiment runs."""
    request: dict  # see cli/experiment/experiment_command.h
    scale: dict  # the sizes of the chosen scale, by the experiment's own names
    cores: int  # of this machine, for this process
    memory: int  # bytes that are free on this machine

    @property
    def peers(self):
        return self.request["peers"]

    def backends(self, trait=""):
        """Returns the names in the program's table of back ends, or of those with a trait: see
        cli/experiment/tables_json.h."""
        rows = self.request["tables"]["backends"]
        return [name for name, traits in rows.items() if not trait or traits[trait]]

    def backend_of(self, sync):
        """Returns the default back end of a sync; "" of one that is in no table, which the plan's
        check refuses."""
        return self.request["tables"]["syncs"].get(sync, {"backend": ""})["backend"]

    @property
    def has_hosts(self):
        """A host for each rank: times may be compared."""
        return bool(self.request["hosts"] or self.request["hostfile"])

    @property
    def needs_hosts(self):
        """Why times cannot be judged; "" if they can."""
        return "" if self.has_hosts else NEEDS_HOSTS

    @property
    def has_cifar10(self):
        return bool(self.request["data_dir"])

    @property
    def data(self):
        """The options that name the images."""
        return self.images("synthetic")

    def images(self, otherwise):
        """CIFAR-10 if it was given, else the data set called `otherwise`."""
        if self.has_cifar10:
            return ("--dataset", "cifar10", "--data-dir",
                    os.path.abspath(self.request["data_dir"]))
        return ("--dataset", otherwise)

    def threads(self, ranks):
        """That each of `ranks` computes with; 0: as many as all hosts can give."""
        if self.request["threads"] or self.has_hosts:
            return self.request["threads"]
        return max(1, self.cores // ranks)


@dataclasses.dataclass(frozen=True)
class Table:
    """`source`: which table, figure or question of the source it answers."""
    key: str  # of its file
    title: str
    source: str
    columns: list[Column]
    rows: list
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Picture:
    """A figure. `drawing`: see cli/report/figures.py, without name and title."""
    key: str
    title: str
    source: str
    drawing: dict
    caption: str = ""


def values_of(columns, thing):
    """`columns`: of each its field, its title, a function that gives the value of a thing, and
    perhaps digits behind the point. A thing that is a tuple comes in its parts."""
    parts = thing if isinstance(thing, tuple) else (thing,)
    return {field: value(*parts) for field, _, value, *_ in columns}


def tabulate(key, title, source, things, columns, note=""):
    """A Table with a row for each of `things`: see values_of."""
    return Table(key, title, source,
                 [Column(field, called, *digits) for field, called, _, *digits in columns],
                 [values_of(columns, thing) for thing in things], note)


def tabulate_curves(key, title, source, x, curves, digits, note=""):
    """A Table with a row for each x: (name, values), and a column for each of `curves`: (field,
    title, values)."""
    name, values = x
    return Table(key, title, source,
                 [Column(name, name), *(Column(*of, digits) for *of, _ in curves)],
                 [{name: value, **{field: ys[row] for field, _, ys in curves}}
                  for row, value in enumerate(values)], note)


def line(name, x, y, **more):
    """One of a figure."""
    return {"name": name, "x": list(x), "y": list(y), **more}


def lines(key, title, source, labels, series, caption="", **more):
    """A Picture of lines; `labels` of x and y."""
    return Picture(key, title, source, {"kind": "lines", "x_label": labels[0], "y_label": labels[1],
                                        "series": series, **more}, caption)


def bars(key, title, source, label, categories, series, caption="", kind="bars"):
    """A Picture of bars, or of what else lies; `series`: by name, the values of the categories."""
    if isinstance(series, dict):
        series = [{"name": name, "values": values} for name, values in series.items()]
    return Picture(key, title, source, {"kind": kind, "x_label": label, "series": series,
                                        "categories": list(categories)}, caption)


@dataclasses.dataclass(frozen=True)
class Claim:
    text: str
    source: str
    verdict: str
    numbers: str  # what it was judged by; why, if it could not be


def judge(text, source, holds, numbers, *unless):
    """A claim. `unless`: why it cannot be judged here; a reason of "" is none."""
    if any(unless):
        return Claim(text, source, NOT_MEASURABLE, "; ".join(filter(None, [*unless, numbers])))
    return Claim(text, source, CONFIRMED if holds else NOT_CONFIRMED, numbers)


@dataclasses.dataclass(frozen=True)
class Findings:
    claims: list
    shown: list  # tables and pictures, each kind in its order
    notes: list  # sentences

    @property
    def tables(self):
        return [one for one in self.shown if isinstance(one, Table)]

    @property
    def pictures(self):
        return [one for one in self.shown if isinstance(one, Picture)]


@dataclasses.dataclass(frozen=True)
class Experiment:
    name: str
    title: str
    source: str  # which course or paper
    scales: dict  # sizes by name; what `about` says is said of a scale
    runs: Callable  # runs(setting): what is to be run, in order; see work.py
    find: Callable  # find(setting, results): Findings; results: see results.py, by run's name
    most_ranks: int
    options: tuple = ()  # that it takes, and not every one does
    announce: Callable = lambda setting: []  # sentences to be said before it starts

    def scale(self, name):
        if name not in self.scales:
            shown = [scale for scale, sizes in self.scales.items() if "hidden" not in sizes]
            raise Failure(f"--scale: got '{name}', expected {' or '.join(shown)}"
                          f"{did_you_mean(name, shown)}", EXIT_USAGE)
        return self.scales[name]


def experiment_called(name, experiments):
    """Failure names the nearest one."""
    for experiment in experiments:
        if experiment.name == name:
            return experiment
    names = [experiment.name for experiment in experiments]
    raise Failure(f"unknown experiment '{name}', expected one of {', '.join(names)}"
                  f"{did_you_mean(name, names)}", EXIT_USAGE)
