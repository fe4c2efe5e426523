"""The course's gather and scatter, and its all-reduce, parameter by parameter as the sheet says: they
show what buckets alone gain."""
from cli.experiment.course_setups import GATHER, REDUCE, capital
from cli.experiment.noise import compared, condition_of
from cli.experiment.results import EXPOSED, improvement, largest_difference
from cli.experiment.study import HOSTS, Statement, bars, decide, decide_time, report_part, tabulate
from cli.experiment.work import Training

SOURCE = "parts on gather and scatter, and on all-reduce"
BY_PARAMETER = (GATHER, REDUCE)  # as the assignment has it
IN_BUCKETS = "in buckets of 25 MiB"
MOST_ITERATIONS = 40


def backend_of(setup):
    """Returns the options that name a setup's back end; none if it is the default of its sync and
    of per-layer."""
    if "--backend" not in setup.options:
        return ()
    at = setup.options.index("--backend")
    return setup.options[at:at + 2]


def layers_name(setup):
    return f"{setup.name}-by-parameter"


def sheet_name(setup):
    """Returns the name of the run that exchanges as the assignment says."""
    return layers_name(setup) if setup in BY_PARAMETER else setup.name


def sheet_title(setup):
    return f"{setup.title}, parameter by parameter" if setup in BY_PARAMETER else setup.title


def layers_run(setting, setup):
    scale = setting.scale
    batch = scale["batch"] // setup.nodes
    return Training(layers_name(setup),
                    f"{setup.title}, parameter by parameter, {setup.nodes} × {batch}", setup.nodes,
                    batch, min(scale["iterations"], MOST_ITERATIONS),
                    ("--sync", "per-layer", *backend_of(setup)))


@report_part
def by_parameter(results):
    """Returns a table and a figure."""
    table = tabulate(
        "by-parameter", "What buckets gain", SOURCE,
        [(setup, results[layers_name(setup)], results[setup.name]) for setup in BY_PARAMETER], [
            ("setup", "setup", lambda setup, *_: setup.title),
            ("layers", "parameter by parameter (s)",
             lambda _, layers, __: layers.mean_iteration(), 4),
            ("buckets", "in buckets (s)", lambda _, __, buckets: buckets.mean_iteration(), 4),
            ("gain", "improvement (%)", lambda _, layers, buckets: improvement(
                layers.mean_iteration(), buckets.mean_iteration()), 2),
            ("layers_exposed", "of it communication, by parameter (s)",
             lambda _, layers, __: layers.phase(EXPOSED), 4),
            ("exposed", "of it communication, in buckets (s)",
             lambda _, __, buckets: buckets.phase(EXPOSED), 4)],
        "The assignment loops over the parameters after backward: 34 exchanges, one after the "
        "other. In buckets of 25 MiB it is three. Everything else is equal.")
    return table, bars("by-parameter", "What buckets gain", SOURCE, "mean time of an iteration (s)",
                       [row["setup"] for row in table.rows],
                       {"parameter by parameter": [row["layers"] for row in table.rows],
                        "in buckets": [row["buckets"] for row in table.rows]})


SAME = Statement(
    "by-parameter-same", "Parameter by parameter gives exactly the losses that buckets give.", SOURCE,
    f"losses of rank 0 to the last over the first {MOST_ITERATIONS} iterations",
    "they differ in no bit, with gather and scatter and with all-reduce")
BUCKETS = {setup: Statement(
    f"buckets-faster-{setup.name}",
    f"{capital(setup.title)} takes less time in buckets than parameter by parameter.",
    "bucketing, by itself", "mean time of an iteration",
    "less in buckets of 25 MiB, by more than the noise", HOSTS)
    for setup in BY_PARAMETER}
STATEMENTS = (SAME, *BUCKETS.values())


@report_part
def same_claim(results):
    differences = {setup: largest_difference(results[setup.name], results[layers_name(setup)],
                                             MOST_ITERATIONS) for setup in BY_PARAMETER}
    return decide(SAME, not any(differences.values()),
                  ", ".join(f"{setup.title}: largest difference {difference:g}"
                            for setup, difference in differences.items()))


def faster_text(found):
    """Returns the numbers of a Compared."""
    gain = improvement(found.before, found.after)
    return (f"{found.after:.4f} s instead of {found.before:.4f} s, {abs(gain):.1f} % "
            f"{'longer' if gain < 0 else 'shorter'}{found.text}")


@report_part
def faster_claim(setting, results, setup):
    found = compared(*(results[name] for name in (layers_name(setup), setup.name)))
    return decide_time(setting, BUCKETS[setup], found.is_less, faster_text(found),
                       condition=condition_of([found]))


def claims(setting, results):
    """Returns a claim for each of STATEMENTS."""
    return [same_claim(results), *(faster_claim(setting, results, setup) for setup in BY_PARAMETER)]
