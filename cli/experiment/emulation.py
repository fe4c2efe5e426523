"""Computation by sleeps (`--compute-seconds`), if this machine has fewer cores than the hosts that
`--hosts` makes on it count together.

Ranks that compute beside each other there would wait for cores, as ranks on machines of their own
do not. So each training of several ranks runs twice:

    as it is      on links without a limit: losses, accuracies, parameters, bytes
    NAME-timed    computation emulated, on links as asked for: times

A training of which only one of these is wanted (Training.only) runs once. How long a rank sleeps is
measured first, by one that trains alone. A training of one rank computes: it is alone.
"""
import dataclasses

from cli.experiment.devices import OnDevices
from cli.experiment.work import LOSSES, TIMES, Training
from cli.runs.hosts import UNSHAPED
from cli.runs.quantiles import mean, median

ALONE_ITERATIONS = 7  # the first is not counted
TIMED_ITERATIONS = 41  # without warm-up; the same
WARMUP = "--compress-warmup"
TESTS = ("--evaluate-every",)


def option_of(options, name, otherwise):
    return options[options.index(name) + 1] if name in options else otherwise


def without(options, names):
    """`options` without those, and their values."""
    kept = []
    for place, option in enumerate(options):
        before = options[place - 1] if place else None
        if option not in names and before not in names:
            kept.append(option)
    return tuple(kept)


def shares_cores(work):
    """Ranks beside each other train."""
    return isinstance(work, Training) and not isinstance(work, OnDevices) and work.ranks > 1


def is_timed(work):
    return shares_cores(work) and work.only != LOSSES


def alone_of(work, setting):
    """The training of one rank that has the computation of each of a work's ranks."""
    passes = option_of(work.options, "--accumulate", 1)
    images = tuple(work.images or setting.images())
    name = "-".join(["alone", work.model, images[1], str(work.batch_size),
                     *([f"{passes}-passes"] if passes != 1 else [])])
    return Training(name, f"{work.model} alone, batch {work.batch_size}", 1, work.batch_size,
                    ALONE_ITERATIONS, ("--sync", "none", "--accumulate", passes),
                    model=work.model, images=work.images)


def alones_of(works, setting):
    """One for each batch whose times are wanted."""
    return list({alone.name: alone for work in works if is_timed(work)
                 for alone in [alone_of(work, setting)]}.values())


def seconds_of(result):
    """Forward and backward, of a rank alone: medians without the first iteration."""
    records = result.ranks[0].records[1:]
    return tuple(median([record["phase_seconds"][phase] for record in records])
                 for phase in ("forward", "backward"))


def timed_name(work):
    return work.name if work.only == TIMES else f"{work.name}-timed"


def timed(work, setting):
    """The emulated run of a training."""
    forward, backward = setting.emulated[alone_of(work, setting).name]
    most = TIMED_ITERATIONS + int(option_of(work.options, WARMUP, 0))
    return dataclasses.replace(
        work, name=timed_name(work), title=f"{work.title}, computation emulated",
        iterations=min(work.iterations, most), epochs=0, tests=False, sweep="",
        options=(*without(work.options, TESTS), "--compute-seconds",
                 f"{forward:.6g},{backward:.6g}"),
        rate=work.rate or setting.request["rate"],
        gbit=work.gbit or setting.request["link_gbit"])


def split(works, setting):
    """What is run in place of `works`."""
    planned = []
    for work in works:
        if not shares_cores(work):
            planned.append(work)
        elif work.only != TIMES:
            planned.append(dataclasses.replace(work, rate=UNSHAPED, gbit=None))
        if is_timed(work):
            planned.append(timed(work, setting))
    return planned


def with_times(rank, of_emulated, warmup):
    """What a rank gave, with the times of its emulated run; iterations that this one did not have
    take its mean, without the first and `warmup`."""
    times = [{field: record[field] for field in ("iteration_seconds", "phase_seconds")
              if field in record} for record in of_emulated["records"]]
    steady = times[1 + warmup:] or times
    phases = {name: mean([time["phase_seconds"][name] for time in steady])
              for name in steady[0].get("phase_seconds", {})}
    usual = {"iteration_seconds": mean([time["iteration_seconds"] for time in steady]),
             **({"phase_seconds": phases} if phases else {})}
    records = [{**record, **(times[place] if place < len(times) else usual)}
               for place, record in enumerate(rank["records"])]
    summary = dict(rank["summary"])
    if "epochs" in summary:
        summary["epochs"] = [{**epoch, "seconds": sum(
            record["iteration_seconds"] for record in records
            if record.get("epoch") == epoch["epoch"])} for epoch in summary["epochs"]]
    return {"records": records, "summary": summary}


def merged(works, ranks):
    """{name: ranks} of `works`, out of those that were run."""
    found = {}
    for work in works:
        kept = ranks.get(work.name)
        if kept and is_timed(work) and work.only != TIMES:
            warmup = int(option_of(work.options, WARMUP, 0))
            kept = [with_times(rank, of_emulated, warmup)
                    for rank, of_emulated in zip(kept, ranks[timed_name(work)])]
        if kept:
            found[work.name] = kept
    return found


def note(setting):
    """The sentences of a report."""
    slept = "; ".join(f"{name.removeprefix('alone-')}: {forward:.3g} and {backward:.3g} s"
                      for name, (forward, backward) in setting.emulated.items())
    return (f"COMPUTATION IS EMULATED in the runs of several ranks from which times are taken, "
            f"because this machine has {setting.cores} core(s) for {setting.request['workers']} "
            f"hosts with {setting.host_cores} each: in place of computing a rank sleeps as long as "
            "one that trained alone on this machine took for forward and backward. The exchange "
            f"and the optimizer are real. {slept}. Losses, accuracies and parameters are those of the "
            "same runs with real computation, on links without a limit.")
