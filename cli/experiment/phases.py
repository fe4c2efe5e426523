"""The phases of an iteration side by side, for several runs."""
from cli.experiment.results import EXPOSED
from cli.experiment.study import bars, tabulate
from cli.launch.summaries import AGGREGATION

COMPUTATION = ("forward", "backward", "optimizer")
# The parts of an iteration, in its order, and their colors.
PHASES = {"data": "#cc79a7", "forward": "#56b4e9", "backward": "#0072b2", EXPOSED: "#d55e00",
          "optimizer": "#009e73"}
TITLES = {"data": "loading", EXPOSED: "exposed communication"}
HATCHES = {EXPOSED: "////"}
# The parts of the coordinator's iteration, likewise.
COORDINATOR = {"wait": "#d9d9d9", "receive": "#e69f00", "fold": "#7f7f7f", "send": "#f0e442"}
COORDINATOR_HATCHES = {"receive": "\\\\\\\\", "send": "...."}


def title_of(phase):
    return TITLES.get(phase, phase)


def computation(result):
    """Returns mean seconds of computation in an iteration."""
    return sum(result.phase(phase) or 0 for phase in COMPUTATION)


def hidden(result):
    """Returns mean seconds of communication beside the parts; None if not measured."""
    whole, exposed = result.phase("communication"), result.phase(EXPOSED)
    return None if None in (whole, exposed) else whole - exposed


def coordinator_parts(activity):
    """Returns the seconds of each of AGGREGATION, which add up to the coordinator's iteration."""
    return {name: activity["phase_seconds"][name] for name, *_ in AGGREGATION}


def coordinator_table(key, title, source, activities):
    """Returns a table; `activities`: of coordinators, by title of their runs."""
    meanings = ", ".join(f"{title} ({meaning})" for _, title, meaning in AGGREGATION)
    return tabulate(key, title, source, activities.items(), [
        ("run", "coordinator of", lambda name, _: name),
        *((name, f"{title} (s)", lambda _, activity, name=name: coordinator_parts(activity)[name], 4)
          for name, title, _ in AGGREGATION),
        ("hidden", "sends beside them (s)",
         lambda _, activity: activity["phase_seconds"]["hidden_send"], 4),
        ("total", "iteration (s)", lambda _, activity: activity["iteration_seconds"]["mean"], 4)],
        f"Means of an iteration of the coordinator, which adds up from: {meanings}.")


def with_coordinators(series, activities):
    """Returns the series of a stacked figure with a bar more for each of `activities`."""
    ranks = len(series[0]["values"])
    parts = [coordinator_parts(activity) for activity in activities]
    return [*({**one, "values": one["values"] + [None] * len(parts)} for one in series),
            *({"name": title, "colour": COORDINATOR[name],
               "hatch": COORDINATOR_HATCHES.get(name),
               "values": [None] * ranks + [of_one[name] for of_one in parts]}
              for name, title, _ in AGGREGATION if parts)]


def breakdown(key, title, source, results, activities=None):
    """Returns a table and a stacked figure of `results`, by name. `activities`: of coordinators, by
    name, which the figure has, too."""
    activities = activities or {}
    table = tabulate(key, title, source, results.items(), [
        ("run", "setup", lambda name, _: name),
        *((phase, f"{title_of(phase)} (s)",
           lambda _, result, phase=phase: result.phase(phase), 4) for phase in PHASES),
        ("hidden", "communication beside them (s)", lambda _, result: hidden(result), 4),
        ("total", "iteration (s)", lambda _, result: result.mean_iteration(), 4)],
        "Means over the ranks, without the first iteration. The iteration also has parts that are "
        "no phase.")
    series = [{"name": title_of(phase), "colour": colour, "hatch": HATCHES.get(phase),
               "values": [result.phase(phase) for result in results.values()]}
              for phase, colour in PHASES.items()]
    return table, bars(key, title, source, "mean time of an iteration (s)",
                       [*results, *activities], with_coordinators(series, activities.values()),
                       "Communication that runs beside computation takes no time of its own.",
                       kind="stacked")
