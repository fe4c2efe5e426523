"""Runs what an experiment needs, one run after the other, and reports progress."""
import dataclasses
import os
import re
import sys
import time

from cli.experiment.folder import fingerprint
from cli.runs.failure import Failure
from cli.runs.json_fields import json_or_none

LEAST_PART = 0.05  # of a run that must be done before its speed is believed
LEAST_SHARE = 0.1  # of the longest run's time; shorter runs mostly start, and predict no other
NOT_KNOWN = "time left not known yet"
SECONDS_BETWEEN_LINES = 0.5
# torch's allocator, C++'s, and the kernel, here and on another host.
NO_MEMORY = re.compile("can't allocate memory|std::bad_alloc|signal 9 |exit code 137")


def duration(seconds):
    """Rounds: "40 s", "6 min", "2.5 h"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


@dataclasses.dataclass
class Step:
    """A run of the plan."""
    work: object  # of cli/experiment/work.py
    run: object  # of cli/runs/runner.py
    fingerprint: str
    expected: float  # seconds
    record: dict | None = None  # its results; None until it has run

    @property
    def lacks_memory(self):
        """Whether it, or a smaller one of its sweep, did not fit."""
        return bool(self.record and not self.record["ranks"])


def plan_of(works, setting, folder):
    """Returns the steps. Those that `folder` has kept have their record, except with --again."""
    steps = []
    for work in works:
        run = work.run(setting)
        mark = fingerprint(run, setting.request)
        repeated = setting.request["again"] or work.leaves and not os.path.exists(work.leaves)
        record = None if repeated else folder.kept(work.name, mark)
        steps.append(Step(work, run, mark, work.seconds(setting), record))
    return steps


class Pace:
    """Estimates the time left from how long finished steps took, relative to what was expected. It is
    not known until a step has ended that is not short beside the others."""

    def __init__(self, steps):
        self._steps = steps
        self._least = LEAST_SHARE * max(step.expected for step in steps)
        self.factor = None  # by which steps take longer than expected
        self.update()

    def update(self):
        done = [step for step in self._steps
                if step.record and not step.lacks_memory and step.expected >= self._least]
        expected = sum(step.expected for step in done)
        if expected:
            self.factor = sum(step.record["seconds"] for step in done) / expected

    def left(self, current=None, part=0.0, elapsed=0.0):
        """Returns seconds; None if they are not known. `part` of step `current` took `elapsed` so
        far."""
        if self.factor is None:
            return None
        if current is None or part < LEAST_PART:
            rest = sum(step.expected for step in self._steps if not step.record) * self.factor
            return max(rest - elapsed, 0)
        others = sum(step.expected for step in self._steps
                     if not step.record and step is not current)
        return elapsed / part * (1 - part) + others * self.factor

    def left_text(self, *of_current):
        """Returns "about 6 min left"; arguments as of left()."""
        seconds = self.left(*of_current)
        return NOT_KNOWN if seconds is None else f"about {duration(seconds)} left"


def say(text):
    print(text, file=sys.stderr, flush=True)


class Ticker:
    """The progress line of the current run, on a terminal."""

    def __init__(self, title, step, pace):
        self._title, self._step, self._pace = title, step, pace
        self._start = time.monotonic()
        self._next = 0.0 if sys.stderr.isatty() else float("inf")

    def elapsed(self):
        return time.monotonic() - self._start

    def watch(self, printed):
        if self.elapsed() < self._next:
            return
        self._next = self.elapsed() + SECONDS_BETWEEN_LINES
        part = self._step.work.part_done(printed)
        left = self._pace.left_text(self._step, part, self.elapsed())
        sys.stderr.write(f"\r\x1b[K{self._title}  {100 * part:.0f} %, in all {left}")
        sys.stderr.flush()

    def clear(self):
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")


def announce(steps, folder):
    """Says what will run, and about how long that takes if runs that are kept tell."""
    pace = Pace(steps)
    kept = sum(step.record is not None for step in steps)
    say(f"{len(steps)} runs" + (f", of which {kept} are kept in {folder.path}" if kept else ""))
    width = max(len(step.work.name) for step in steps)
    for step in steps:
        took = "" if pace.factor is None else f": about {duration(step.expected * pace.factor)}"
        say(f"  {step.work.name:<{width}} {step.work.title}{': kept' if step.record else took}")
    if kept < len(steps):
        say(pace.left_text())


def results_of_step(step, setting, runner, ticker):
    """Returns "ranks" and "coordinator" of its record; no ranks if memory ends the sweep. Failure has
    the work's name."""
    try:
        outputs = runner.run(step.run, ticker.watch)
        return {"ranks": step.work.read(setting, outputs.ranks),
                "coordinator": json_or_none(outputs.coordinator)}
    except Failure as failure:
        if not step.work.sweep or not NO_MEMORY.search(str(failure)):
            raise failure.within(step.work.name) from None
        ticker.clear()
        say(f"{step.work.name}: memory ends the sweep here: {failure}")
        return {"ranks": [], "coordinator": None}


def do_step(step, title, setting, runner, pace):
    """Runs it and returns its record. Failure as of results_of_step."""
    ticker = Ticker(title, step, pace)
    try:
        results = results_of_step(step, setting, runner, ticker)
    finally:
        ticker.clear()
    return {"fingerprint": step.fingerprint, "commands": step.run.ranks,
            "seconds": ticker.elapsed(), **results}


def conduct(steps, setting, folder, runner, environment):
    """Does the steps without a record, and keeps each as it ends. Failure of do_step and Folder."""
    pace = Pace(steps)
    for number, step in enumerate(steps, 1):
        if step.record:
            continue
        title = f"run {number} of {len(steps)}  {step.work.name}"
        if step.work.sweep and any(other.lacks_memory and other.work.sweep == step.work.sweep
                                   for other in steps):  # a smaller one did not fit
            record = {"fingerprint": step.fingerprint, "commands": [], "seconds": 0.0, "ranks": []}
        else:
            record = do_step(step, title, setting, runner, pace)
        record["environment"] = environment
        folder.keep(step.work.name, record)
        step.record = record
        pace.update()
        say(f"{title}  took {duration(record['seconds'])}, {pace.left_text()}")
