"""The course's gather and scatter, and its all-reduce, parameter by parameter as the sheet says, so
that what buckets gain is visible by itself."""
from cli.experiment.course_setups import GATHER, REDUCE
from cli.experiment.results import EXPOSED, improvement, largest_difference
from cli.experiment.study import Table, bars, judge
from cli.experiment.work import Training
from cli.runs.tables import Column

SOURCE = "parts on gather and scatter, and on all-reduce"
BY_PARAMETER = (GATHER, REDUCE)  # as the assignment has it
MOST_ITERATIONS = 40


def layers_name(setup):
    return f"{setup.name}-by-parameter"


def layers_run(setting, setup):
    scale = setting.scale
    batch = scale["batch"] // setup.nodes
    return Training(layers_name(setup),
                    f"{setup.title}, parameter by parameter, {setup.nodes} × {batch}", setup.nodes,
                    batch, min(scale["iterations"], MOST_ITERATIONS),
                    ("--sync", "per-layer", "--backend", setting.backend_of(setup.name)))


def layers_table(results):
    rows = []
    for setup in BY_PARAMETER:
        layers, buckets = (results[name] for name in (layers_name(setup), setup.name))
        rows.append({"setup": setup.title, "layers": layers.mean_iteration(),
                     "buckets": buckets.mean_iteration(),
                     "gain": improvement(layers.mean_iteration(), buckets.mean_iteration()),
                     "layers_exposed": layers.phase(EXPOSED), "exposed": buckets.phase(EXPOSED)})
    return Table(
        "by-parameter", "What buckets gain", SOURCE,
        [Column("setup", "set-up"), Column("layers", "parameter by parameter (s)", 4),
         Column("buckets", "in buckets (s)", 4), Column("gain", "improvement (%)", 2),
         Column("layers_exposed", "of it communication, by parameter (s)", 4),
         Column("exposed", "in buckets (s)", 4)], rows,
        "The assignment loops over the parameters after backward: 34 exchanges, one after the "
        "other. In buckets of 25 MiB it is three. Everything else is equal.")


def layers_picture(results):
    return bars("by-parameter", "What buckets gain", SOURCE, "mean time of an iteration (s)",
                [setup.title for setup in BY_PARAMETER],
                {"parameter by parameter": [results[layers_name(setup)].mean_iteration()
                                            for setup in BY_PARAMETER],
                 "in buckets": [results[setup.name].mean_iteration() for setup in BY_PARAMETER]})


def layers_claim(results):
    differences = {setup: largest_difference(results[setup.name], results[layers_name(setup)],
                                             MOST_ITERATIONS) for setup in BY_PARAMETER}
    return judge("Parameter by parameter gives exactly the losses that buckets give.", SOURCE,
                 not any(differences.values()),
                 ", ".join(f"{setup.title}: largest difference {difference:g}"
                           for setup, difference in differences.items()))


def buckets_claim(setting, results, setup):
    layers, buckets = (results[name].mean_iteration() for name in (layers_name(setup), setup.name))
    return judge(f"{setup.title.capitalize()} takes less time in buckets than parameter by "
                 "parameter.", "bucketing, by itself", buckets < layers,
                 f"{buckets:.4f} s after {layers:.4f} s, {improvement(layers, buckets):+.1f} %",
                 setting.needs_hosts)
