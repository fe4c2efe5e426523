"""Signs that other processes used the cores while an experiment measured times. With one sign, no
statement on time has a verdict, and the report says so at its top.

A sign is a text. Each function that looks for one returns a list, which is empty if all is well."""
from cli.experiment.work import LOSSES, Training
from cli.runs.quantiles import mean, median

FACTOR = 1.25  # by which measurements may exceed what is possible, or each other
NOISE = 0.02  # share of a time by which a part of it may be below zero
OTHERS = "other processes used the cores"


def apart(name, first, second):
    """Looks at two measurements of one thing, in seconds; each is (what it is, value)."""
    (of_first, before), (of_second, after) = first, second
    if max(before, after) <= FACTOR * min(before, after):
        return []
    return [f"{name}: {of_first} {before:.4g} s, {of_second} {after:.4g} s, which should be equal"]


def too_fast(name, speedup, devices):
    """Looks at the speed-up of `devices` over one."""
    if speedup <= FACTOR * devices:
        return []
    return [f"{name}: a speed-up of {speedup:.2f}, of which {devices:g} is possible"]


def below_zero(name, seconds, whole):
    """Looks at the time that computation leaves of a whole."""
    if seconds >= -NOISE * whole:
        return []
    return [f"{name}: {seconds:.4g} s of {whole:.4g} s remain after computation"]


def unsteady(works, results):
    """Looks at the iterations of each training that has ended and whose times count, without its
    first one."""
    ended = dict(results)
    found = {work.name: ended[work.name].iteration_seconds() for work in works
             if isinstance(work, Training) and work.only != LOSSES and work.name in ended}
    return [sign for name, seconds in found.items() if seconds
            for sign in apart(f"an iteration of {name}", ("mean", mean(seconds)),
                              ("median", median(seconds)))]


def machines_of(environments):
    """Returns the machines on which runs were measured, as texts."""
    return sorted({f"{of_run.get('cpu')}, {of_run.get('cores')} cores" for of_run in environments})


def reason_of(signs, machines):
    """Returns why times cannot be judged; "" if they can."""
    if len(machines) > 1:
        return f"the runs are of {len(machines)} machines ({'; '.join(machines)})"
    if not signs:
        return ""
    more = f"; {len(signs) - 1} more signs of it" if len(signs) > 1 else ""
    return f"{OTHERS} ({signs[0]}{more})"


def notice_of(signs, machines):
    """Returns the sentences for the top of a report; "" if times can be judged."""
    if len(machines) > 1:
        return (f"NOT MEASURABLE: the runs were measured on {len(machines)} machines: "
                f"{'; '.join(machines)}. No statement on time has a verdict. Run the command again "
                "with --again on one of them.")
    if not signs:
        return ""
    return (f"NOT MEASURABLE: {OTHERS} while times were measured. No statement on time has a verdict, "
            f"and no time in this report counts. Signs: {'; '.join(signs)}. Run the command again with "
            "--again when nothing else runs.")
