"""Groups logs into runs, and names the runs.

Files whose names differ only in their rank are one run, as those of `gradwire launch` are:

    ddp.rank0.jsonl, ddp.rank1.jsonl     run "ddp"
    a/ddp-0.jsonl, a/ddp-1.jsonl         run "ddp": the last number that is the file's own rank
    0/ddp.jsonl, 1/ddp.jsonl             run "ddp": the same, in a folder's name

A run is named after its files without folder and ending, or with the folder if two runs would have
the same name. Runs are in the order of their logs.
"""
import collections
import dataclasses
import os
import re

from cli.runs.failure import EXIT_USAGE, Failure

MOST_NAMED = 10
SEPARATORS = "-_. "
RANK_MARK = "\0"  # stands for the rank; no path has it
RANK_WORDS = ("", "w", "n", "x", "worker", "workers", "rank", "ranks", "node", "nodes")


@dataclasses.dataclass
class LoggedRun:
    """The logs of one run, by rank. `setup`: its name without the number of ranks."""
    name: str
    setup: str
    logs: list


def setup_name(name, ranks):
    """Returns `name` without the part that is the number of ranks: "ddp" for "ddp-4", "ddp-w4",
    "4ranks-ddp" or "ddp_4nodes" with 4 ranks."""
    says_ranks = {text for word in RANK_WORDS for text in (f"{word}{ranks}", f"{ranks}{word}")}
    parts = re.split(f"([{re.escape(SEPARATORS)}])", name)
    setup = ""
    for separator, token in zip(["", *parts[1::2]], parts[::2]):
        if token.lower() not in says_ranks:
            setup += (separator if setup else "") + token
    return setup or name


def make_run(name, logs):
    logs = sorted(logs, key=lambda log: log.rank)
    for log, after in zip(logs, logs[1:]):
        if log.rank == after.rank:
            raise Failure(f"'{log.file}' and '{after.file}' are both of rank {log.rank} of run "
                          f"{name}; if they are of two runs, say so: --run NAME=FILE,FILE",
                          EXIT_USAGE)
    shown = os.fsencode(name).decode(errors="replace")
    return LoggedRun(shown, setup_name(shown, len(logs)), logs)


def key_of(log):
    """Returns a key that all ranks of a run share."""
    for number in reversed(list(re.finditer("[0-9]+", log.file))):
        if number[0] == str(log.rank):
            return log.file[:number.start()] + RANK_MARK + log.file[number.end():]
    return log.file


def without_rank(name):
    """Removes the mark, a word "rank" before it, and separators at both ends."""
    before, mark, after = name.partition(RANK_MARK)
    if mark:
        before = before.rstrip(SEPARATORS).removesuffix("rank").rstrip(SEPARATORS)
    return (before + after).strip(SEPARATORS)


def stem(path):
    return os.path.splitext(os.path.basename(path))[0]


def short_name(key, logs):
    """Returns the name without the rank; a single log keeps its name, unless that has "rank"."""
    own = stem(logs[0].file)
    if len(logs) == 1 and "rank" not in own:
        return own
    return without_rank(stem(key)) or own


def long_name(key, logs):
    """Adds the innermost folder that is not named only after the rank."""
    path = logs[0].file if len(logs) == 1 else key
    folders = [shown for part in os.path.dirname(path).split("/") if (shown := without_rank(part))]
    return "/".join([*folders[-1:], short_name(key, logs)])


def names_of(groups):
    """Returns a different name for each group, by key."""
    shorts = collections.Counter(short_name(key, logs) for key, logs in groups.items())
    names = {}
    for key, logs in groups.items():
        name = short_name(key, logs)
        if shorts[name] > 1:
            name = long_name(key, logs)
        names[key] = logs[0].file if name in names.values() else name
    return names


def group_runs(logs):
    groups = {}
    for log in logs:
        groups.setdefault(key_of(log), []).append(log)
    names = names_of(groups)
    return [make_run(names[key], group) for key, group in groups.items()]


def last_step(log):
    return log.records[-1]["step"]


def missing_ranks(run):
    """Returns a sentence, or None."""
    there = {log.rank for log in run.logs}
    missing = [rank for rank in range(max(there)) if rank not in there]
    if not missing:
        return None
    which = (f"{len(missing)} ranks" if len(missing) > MOST_NAMED
             else "rank " + ", ".join(map(str, missing)))
    return f"Run {run.name} has no log of {which}; its figures are of the other ranks only."


def unequal_ends(run):
    """Returns a sentence, or None."""
    first = min(run.logs, key=last_step)
    last = max(reversed(run.logs), key=last_step)
    if last_step(first) == last_step(last):
        return None
    return (f"Run {run.name}: the log of rank {first.rank} ends with step {last_step(first)}, that "
            f"of rank {last.rank} with step {last_step(last)}, so a worker was lost, or the run "
            "still goes on.")


def notes_of(runs):
    """Returns sentences that a reader must know: which ranks below a run's highest have no log, and
    which ranks ended with different steps."""
    return [note for run in runs for note in (missing_ranks(run), unequal_ends(run)) if note]
