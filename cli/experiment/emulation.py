"""Emulates computation by sleeps (`--compute-seconds`), if this machine has fewer cores than the
hosts that `--hosts` makes on it count together.

Ranks that compute at the same time would wait there for cores; ranks on separate machines do not.
So each training of several ranks runs twice:

    NAME          real computation, on links without a limit: losses, accuracies, parameters, bytes
    NAME-timed    emulated computation, on the links that were asked for: times

A training that is needed for only one of these (Training.only) runs once. First one rank trains
alone, to measure how long a rank sleeps; if the plan has such a run (Training.alone), that one. A
training of one rank always computes.
"""
import dataclasses

from cli.experiment.devices import OnDevices
from cli.experiment.disturbance import apart
from cli.experiment.results import FILLED
from cli.experiment.study import counted
from cli.experiment.work import LOSSES, TIMES, Late, Training, without
from cli.runs.hosts import UNSHAPED
from cli.runs.quantiles import mean, median

# The first iteration is not counted.
ALONE_ITERATIONS = 7
TIMED_ITERATIONS = 41  # at most, after warm-up, if the scale does not say
WARMUP = "--compress-warmup"
TESTS = ("--evaluate-every",)


def option_of(options, name, otherwise):
    return options[options.index(name) + 1] if name in options else otherwise


def shares_cores(work):
    """Whether several ranks compute at the same time."""
    return isinstance(work, Training) and not isinstance(work, (OnDevices, Late)) and work.ranks > 1


def is_timed(work):
    return shares_cores(work) and work.only != LOSSES


def alone_of(work, setting):
    """Returns the training of one rank that computes as each rank of `work` does."""
    passes = option_of(work.options, "--accumulate", 1)
    images = tuple(work.images or setting.images())
    name = "-".join(["alone", work.model, images[1], str(work.batch_size),
                     *([f"{passes}-passes"] if passes != 1 else [])])
    return Training(name, f"{work.model} alone, batch {work.batch_size}", 1, work.batch_size,
                    ALONE_ITERATIONS, ("--sync", "none", "--accumulate", passes),
                    model=work.model, images=work.images)


def alone_name(work, setting):
    return work.alone or alone_of(work, setting).name


def alones_of(works, setting):
    """Returns the trainings of one rank that are timed: one for each batch whose times are needed."""
    planned = {work.name: work for work in works}
    found = {alone_name(work, setting): work for work in works if is_timed(work)}
    return [planned.get(name) or alone_of(work, setting) for name, work in found.items()]


def seconds_of(result):
    """Returns forward and backward of a rank alone: medians without the first iteration."""
    records = result.ranks[0].records[1:]
    return tuple(median([record["phase_seconds"][phase] for record in records])
                 for phase in ("forward", "backward"))


def timed_name(work):
    return work.name if work.only == TIMES else f"{work.name}-timed"


def most_timed(setting):
    return setting.scale.get("timed_iterations", TIMED_ITERATIONS)


def timed(work, setting):
    """Returns the emulated run of a training."""
    forward, backward = setting.emulated[alone_name(work, setting)]
    most = most_timed(setting) + int(option_of(work.options, WARMUP, 0))
    return dataclasses.replace(
        work, name=timed_name(work), title=f"{work.title}, computation emulated",
        iterations=min(work.iterations, most), epochs=0, tests=False, sweep="",
        options=(*without(work.options, TESTS), "--compute-seconds",
                 f"{forward:.6g},{backward:.6g}"),
        rate=work.rate or setting.request["rate"],
        gbit=work.gbit or setting.request["link_gbit"])


def split(works, setting):
    """Returns the runs that replace `works`, without those that were timed alone, and without those
    whose rank alone did not fit in memory."""
    planned = []
    for work in works:
        if work.name in setting.emulated or is_timed(work) and (
                alone_name(work, setting) not in setting.emulated):
            continue
        if not shares_cores(work):
            planned.append(work)
        elif work.only != TIMES:
            planned.append(dataclasses.replace(work, rate=UNSHAPED, gbit=None))
        if is_timed(work):
            planned.append(timed(work, setting))
    return planned


def with_times(rank, of_emulated, warmup):
    """Returns the results of `rank` with the times of its emulated run. Iterations after the end of
    that run get its mean, without the first iteration and `warmup` more."""
    times = [{field: record[field] for field in ("iteration_seconds", "phase_seconds")
              if field in record} for record in of_emulated["records"]]
    steady = times[1 + warmup:] or times
    phases = {name: mean([time["phase_seconds"][name] for time in steady])
              for name in steady[0].get("phase_seconds", {})}
    usual = {"iteration_seconds": mean([time["iteration_seconds"] for time in steady]),
             **({"phase_seconds": phases} if phases else {})}
    records = [{**record, **(times[place] if place < len(times) else {**usual, FILLED: True})}
               for place, record in enumerate(rank["records"])]
    summary = dict(rank["summary"])
    if "epochs" in summary:
        summary["epochs"] = [{**epoch, "seconds": sum(
            record["iteration_seconds"] for record in records
            if record.get("epoch") == epoch["epoch"])} for epoch in summary["epochs"]]
    return {"records": records, "summary": summary}


def merged(works, ranks):
    """Returns {name: ranks} of `works`, from `ranks` of all runs; without those that lack one of
    their two runs."""
    found = {}
    for work in works:
        kept = ranks.get(work.name)
        if kept and is_timed(work) and work.only != TIMES:
            warmup = int(option_of(work.options, WARMUP, 0))
            kept = [with_times(rank, of_emulated, warmup)
                    for rank, of_emulated in zip(kept, ranks.get(timed_name(work), []))]
        if kept:
            found[work.name] = kept
    return found


def late_seconds(result, planned):
    """Returns how much longer than `planned` seconds forward and backward took in an iteration of an
    emulated run: a rank wakes late if others use the cores, for example to copy their gradients."""
    return sum(result.phase(name) for name in ("forward", "backward")) - planned


def signs(setting, works, results):
    """Looks for sleeps that took longer than they should have, as far as iterations became longer by
    that; see disturbance.py."""
    if not setting.emulated:
        return []
    ended = dict(results)
    found = []
    for work in works:
        # PyTorch's peer does not tell how long its sleeps took.
        told = is_timed(work) and not work.peer_mode and work.name in ended
        seconds = ended[work.name].iteration_seconds() if told else []
        if seconds:
            whole = mean(seconds)
            late = late_seconds(ended[work.name],
                                sum(setting.emulated[alone_name(work, setting)]))
            found += apart(f"an iteration of {timed_name(work)}",
                           ("with sleeps as planned", whole - late), ("as it was", whole))
    return found


def note(setting):
    """Returns the sentences for a report."""
    slept = "; ".join(f"{name.removeprefix('alone-')} {forward:.3g} s and {backward:.3g} s"
                      for name, (forward, backward) in setting.emulated.items())
    return ("COMPUTATION IS EMULATED in the runs of several ranks that give the times, because this "
            f"machine has {counted(setting.cores, 'core')} for {setting.request['workers']} hosts "
            f"with {setting.host_cores} each. Instead of computing, each rank sleeps as long as forward "
            "and backward took one rank that trained alone on this machine. The exchange and the "
            f"optimizer are real. Such a run has at most {most_timed(setting)} iterations after "
            f"warm-up. Forward and backward took: {slept}. Losses, accuracies and "
            "parameters come from runs with real computation, on links without a limit.")
