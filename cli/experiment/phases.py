"""The phases of an iteration side by side, for several runs."""
from cli.experiment.results import EXPOSED
from cli.experiment.study import bars, tabulate

COMPUTATION = ("forward", "backward", "optimizer")
# The parts of an iteration, in its order, and their colors.
PHASES = {"data": "#cc79a7", "forward": "#56b4e9", "backward": "#0072b2", EXPOSED: "#d55e00",
          "optimizer": "#009e73"}
TITLES = {"data": "loading", EXPOSED: "exposed communication"}
HATCHES = {EXPOSED: "////"}


def title_of(phase):
    return TITLES.get(phase, phase)


def computation(result):
    """Returns mean seconds of computation in an iteration."""
    return sum(result.phase(phase) or 0 for phase in COMPUTATION)


def hidden(result):
    """Returns mean seconds of communication beside the parts; None if not measured."""
    whole, exposed = result.phase("communication"), result.phase(EXPOSED)
    return None if None in (whole, exposed) else whole - exposed


def breakdown(key, title, source, results):
    """Returns a table and a stacked figure of `results`, by name."""
    table = tabulate(key, title, source, results.items(), [
        ("run", "set-up", lambda name, _: name),
        *((phase, f"{title_of(phase)} (s)",
           lambda _, result, phase=phase: result.phase(phase), 4) for phase in PHASES),
        ("hidden", "communication beside them (s)", lambda _, result: hidden(result), 4),
        ("total", "iteration (s)", lambda _, result: result.mean_iteration(), 4)],
        "Means over the ranks, without the first iteration. The iteration also has parts that are "
        "no phase.")
    series = [{"name": title_of(phase), "colour": colour, "hatch": HATCHES.get(phase),
               "values": [result.phase(phase) for result in results.values()]}
              for phase, colour in PHASES.items()]
    return table, bars(key, title, source, "mean time of an iteration (s)", results, series,
                       "Communication that runs beside computation takes no time of its own.",
                       kind="stacked")
