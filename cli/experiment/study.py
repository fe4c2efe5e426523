"""The parts of an experiment. Each experiment has a file in this folder, with its data and with
functions that turn measurements into tables, figures and claims."""
import dataclasses
import functools
import os
from collections.abc import Callable

from cli.runs.failure import EXIT_USAGE, Failure
from cli.runs.hostfile import read_hostfile
from cli.runs.made_hosts import MADE, cores_of_host
from cli.runs.mpirun import why_not
from cli.runs.tables import Column, as_columns, values_of
from cli.terminal.command import did_you_mean

CONFIRMED = "confirmed"
NOT_CONFIRMED = "not confirmed"
NOT_MEASURABLE = "not measurable here"
NOT_RUN = "not run"
VERDICTS = {CONFIRMED: "confirmed", NOT_CONFIRMED: "not-confirmed",
            NOT_MEASURABLE: "not-measurable", NOT_RUN: "not-run"}  # in results.json
# For `needs` of a Statement, and why one has no verdict.
HOSTS = "a host for each worker (--hosts auto, --hosts podman or --hostfile)"
NEEDS_RUNS = "needs runs that have not ended"
NEEDS_HOSTS = "needs a host for each worker (--hosts, --hostfile)"
NEEDS_CIFAR10 = "CIFAR-10 (--data-dir)"
FULL = "--scale full"
MADE_UP = {"synthetic": "images", "synthetic-tokens": "token sequences"}  # data sets that need no file
MADE_UP_DATA = ("The {} of {} were made up (--dataset {}): their losses and accuracies say nothing about "
                "learning.")
CIFAR10 = "cifar10"
LEARNING = ("lr", "momentum", "weight-decay")
EMULATED = "computation emulated (as long as one rank alone takes here)"


@dataclasses.dataclass(frozen=True)
class Setting:
    """The conditions of an experiment."""
    request: dict  # see cli/experiment/experiment_command.h
    scale: dict  # the sizes of the chosen scale, by the experiment's own names
    cores: int  # of this machine, for this process
    memory: int  # free bytes on this machine
    # If computation is emulated: (forward, backward) seconds by the run that took them; see
    # emulation.py.
    emulated: dict = dataclasses.field(default_factory=dict)
    disturbed: str = ""  # why times cannot be judged; see disturbance.py

    @property
    def peers(self):
        return self.request["peers"]

    def backends(self, trait=""):
        """Returns names of the back ends with a network that run here, all or with a trait: see
        cli/experiment/tables_json.h."""
        rows = self.request["tables"]["backends"]
        # The sources compare what a network carries.
        absent = [*self.request["one_host"],
                  *(self.request["under_mpirun"] if self.why_no_mpirun else [])]
        return [name for name, traits in rows.items()
                if name not in absent and (not trait or traits[trait])]

    @functools.cached_property
    def why_no_mpirun(self):
        """Says why back ends that need mpirun do not run here; "" if they do."""
        return why_not(self.request)

    @property
    def has_hosts(self):
        """Whether each rank has a host, so that times may be compared."""
        return bool(self.request["hosts"] or self.request["hostfile"])

    @property
    def needs_hosts(self):
        """Returns why times cannot be judged; "" if they can."""
        return "" if self.has_hosts else NEEDS_HOSTS

    @property
    def hosts_are_here(self):
        """Whether they are made on this machine, and share its cores and memory."""
        return self.request["hosts"] in MADE

    @property
    def hosts_are_elsewhere(self):
        """Whether the ranks run on other machines."""
        return self.has_hosts and not self.hosts_are_here

    @property
    def host_cores(self):
        """Returns the cores that each host made here counts as its own."""
        return self.request["threads"] or cores_of_host(self.request["workers"], self.cores)

    @property
    def emulates(self):
        """Whether hosts made here count more cores together than this machine has."""
        return self.hosts_are_here and self.host_cores * self.request["workers"] > self.cores

    @property
    def has_cifar10(self):
        return self.request["chosen"].get("dataset", CIFAR10) == CIFAR10 and bool(
            self.request["data_dir"])

    def images(self, otherwise="synthetic"):
        """Returns options for the data set of --dataset; without one for CIFAR-10 if it was given,
        else for the data set `otherwise`."""
        folder = self.request["data_dir"]
        name = self.request["chosen"].get("dataset", CIFAR10 if folder else otherwise)
        return ("--dataset", name, *(("--data-dir", os.path.abspath(folder)) if folder else ()))

    def learning(self):
        """Returns the given options of the optimizer, for the worker."""
        return tuple(word for name in LEARNING if name in self.request["chosen"]
                     for word in (f"--{name}", self.request["chosen"][name]))

    def threads(self, ranks):
        """Returns the compute threads of each of `ranks`; 0: as many as all hosts have."""
        if self.hosts_are_here:
            return self.host_cores
        if self.request["threads"] or self.has_hosts:
            return self.request["threads"]
        return max(1, self.cores // ranks)


@dataclasses.dataclass(frozen=True)
class Table:
    """A table. `source`: the table, figure or question of the source that it answers."""
    key: str  # of its file
    title: str
    source: str
    columns: list[Column]
    rows: list
    note: str = ""
    is_prose: bool = False  # its cells are sentences


@dataclasses.dataclass(frozen=True)
class Picture:
    """A figure. `drawing`: see cli/report/figures.py, without name and title."""
    key: str
    title: str
    source: str
    drawing: dict
    caption: str = ""


def made_up_note(what, others="", dataset="synthetic"):
    """Returns a note on data that are made up. `what`: the trainings that have them; `others`: a
    sentence on those that do not."""
    return " ".join(filter(None, [MADE_UP_DATA.format(MADE_UP[dataset], what, dataset), others]))


def counted(number, noun, plural=""):
    """Returns "1 pass", "2 passes"; `plural`: the noun's, if it needs more than an s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def tabulate(key, title, source, things, columns, note=""):
    """Returns a Table with a row for each of `things`; `columns` as as_columns takes them."""
    return Table(key, title, source, as_columns(columns),
                 [values_of(columns, thing) for thing in things], note)


def tabulate_curves(key, title, source, x, curves, digits, note=""):
    """Returns a Table. `x`: (name, values); `curves`: (field, title, values) of each column."""
    name, values = x
    return Table(key, title, source,
                 [Column(name, name), *(Column(*of, digits) for *of, _ in curves)],
                 [{name: value, **{field: ys[row] for field, _, ys in curves}}
                  for row, value in enumerate(values)], note)


def line(name, x, y, **more):
    """Returns a line of a figure."""
    return {"name": name, "x": list(x), "y": list(y), **more}


def lines(key, title, source, labels, series, caption="", **more):
    """Returns a Picture of lines; `labels` of x and y."""
    return Picture(key, title, source, {"kind": "lines", "x_label": labels[0], "y_label": labels[1],
                                        "series": series, **more}, caption)


def bars(key, title, source, label, categories, series, caption="", kind="bars"):
    """Returns a Picture of bars or boxes; `series`: values of the categories, by name."""
    if isinstance(series, dict):
        series = [{"name": name, "values": values} for name, values in series.items()]
    return Picture(key, title, source, {"kind": kind, "x_label": label, "series": series,
                                        "categories": list(categories)}, caption)


@dataclasses.dataclass(frozen=True)
class Statement:
    """A statement of a source, which an experiment decides. Each part is a phrase in plain
    English."""
    key: str  # of its experiment's statements
    text: str
    source: str  # the place in the source
    quantity: str  # what is measured
    rule: str  # when it is confirmed
    needs: str = ""  # what must be given or chosen so that it is decided; "": nothing


@dataclasses.dataclass(frozen=True)
class Claim:
    text: str
    source: str
    verdict: str
    numbers: str  # the evidence, or why there is no verdict
    condition: str = ""  # of the verdict, to stand beside it
    key: str = ""  # of its Statement

    @property
    def said(self):
        """Returns the verdict, with its condition."""
        return ", ".join(filter(None, [self.verdict, self.condition]))


def judge(text, source, holds, numbers, *unless):
    """Returns a Claim. `unless`: reasons why it cannot be judged here; "" is none."""
    if any(unless):
        return Claim(text, source, NOT_MEASURABLE, "; ".join(filter(None, [*unless, numbers])))
    return Claim(text, source, CONFIRMED if holds else NOT_CONFIRMED, numbers)


def decide(statement, holds, numbers, *unless):
    """Returns a Claim on a Statement, as judge() does."""
    claim = judge(statement.text, statement.source, holds, numbers, *unless)
    return dataclasses.replace(claim, key=statement.key)


def decide_time(setting, statement, holds, numbers, *unless, condition=""):
    """Returns a Claim on a Statement about the time of trainings, as decide() does. `condition`: of a
    verdict."""
    claim = judge_time(setting, statement.text, statement.source, holds, numbers, *unless)
    if claim.verdict != NOT_MEASURABLE:
        said = ", ".join(filter(None, [condition, claim.condition]))
        claim = dataclasses.replace(claim, condition=said)
    return dataclasses.replace(claim, key=statement.key)


def judge_time(setting, text, source, holds, numbers, *unless):
    """Returns a Claim on the time of trainings, as judge() does."""
    claim = judge(text, source, holds, numbers, *unless, setting.needs_hosts, setting.disturbed)
    emulated = setting.emulates and claim.verdict != NOT_MEASURABLE
    return dataclasses.replace(claim, condition=EMULATED if emulated else "")


class NotRun(Exception):
    """A result is asked for of a run that has not ended."""


class EndedRuns(dict):
    """The results of an experiment that has ended early, by name of the run. Raises NotRun for a run
    of the plan that has none."""

    def __init__(self, results, missing):
        super().__init__(results)
        self.missing = frozenset(missing)

    def __getitem__(self, name):
        self._check(name)
        return super().__getitem__(name)

    def __contains__(self, name):
        self._check(name)
        return super().__contains__(name)

    def get(self, name, otherwise=None):
        self._check(name)
        return super().get(name, otherwise)

    def _check(self, name):
        if name in self.missing:
            raise NotRun(name)


def report_part(function):
    """Makes a function that returns a part of a report, or several: it returns none of them if they
    need a run that has not ended."""
    @functools.wraps(function)
    def of_ended_runs(*arguments, **more):
        try:
            return function(*arguments, **more)
        except NotRun:
            return ()
    return of_ended_runs


@dataclasses.dataclass(frozen=True)
class Findings:
    claims: list
    shown: list  # tables and pictures, each kind in its order
    notes: list  # sentences
    head: tuple = ()  # sentences at the top of the report

    def without_gaps(self, statements):
        """Returns the findings of an experiment that has ended early: without the parts that are
        left out (see report_part()), and with a Claim for each of `statements`."""
        claims = {claim.key: claim for claim in self.claims if claim}
        return Findings([claims.get(one.key) or Claim(one.text, one.source, NOT_RUN, NEEDS_RUNS,
                                                      key=one.key) for one in statements],
                        [one for one in self.shown if one and getattr(one, "rows", True)],
                        [note for note in self.notes if note], self.head)

    @property
    def tables(self):
        return [one for one in self.shown if isinstance(one, Table)]

    @property
    def pictures(self):
        """Returns those that have something to draw. Without memory for a run some have no bar."""
        return [one for one in self.shown
                if isinstance(one, Picture) and one.drawing.get("categories") != []]


@dataclasses.dataclass(frozen=True)
class Experiment:
    name: str
    title: str
    source: str  # a course or paper
    # Sizes by name; `about` describes the scale, `hosts` is how many it uses if there are so many.
    scales: dict
    runs: Callable  # runs(setting): the planned runs, in order; see work.py
    find: Callable  # find(setting, results): Findings; results: see results.py, by run's name
    most_ranks: int
    options: tuple = ()  # that only some experiments take
    announce: Callable = lambda setting: []  # sentences to print before it starts
    statements: tuple = ()  # all that it decides, in order
    leaves_open: tuple = ()  # options of training that its source does not fix, by name
    # signs(setting, works, results): that other processes used the cores, see disturbance.py; results
    # as find() gets them
    signs: Callable = lambda setting, works, results: []

    def hosts(self, request):
        """Returns how many hosts it uses. Failure as of scale and read_hostfile."""
        most = self.scale(request["scale"]).get("hosts", self.most_ranks)
        if not request["hostfile"]:
            return most
        return max(self.most_ranks, min(most, len(read_hostfile(request["hostfile"]))))

    def scale(self, name):
        if name not in self.scales:
            shown = [scale for scale, sizes in self.scales.items() if "hidden" not in sizes]
            raise Failure(f"--scale: got '{name}', expected {' or '.join(shown)}"
                          f"{did_you_mean(name, shown)}", EXIT_USAGE)
        return self.scales[name]


def sizes_with(scale, chosen):
    """Returns the sizes of a scale with those of `chosen`, texts by the name of an option, wherever
    the scale has such a name."""
    sizes = {}
    for name, size in scale.items():
        if isinstance(size, dict):
            size = sizes_with(size, chosen)
        sizes[name] = type(size)(chosen[name]) if name in chosen else size
    return sizes


def experiment_called(name, experiments):
    """Returns the experiment. Failure names the nearest one."""
    for experiment in experiments:
        if experiment.name == name:
            return experiment
    names = [experiment.name for experiment in experiments]
    raise Failure(f"unknown experiment '{name}', expected one of {', '.join(names)}"
                  f"{did_you_mean(name, names)}", EXIT_USAGE)
