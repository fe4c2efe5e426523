"""Fig. 6 of the DDP paper: where an iteration goes, with and without overlap."""
from cli.experiment import phases
from cli.experiment.ddp_buckets import bucket_name
from cli.experiment.ddp_setups import (NEEDS, NO_NETWORK, PAPERS, RING, USUAL_MB,
                                       after_backward, listed, of_network, widths, widths_of)
from cli.experiment.study import Statement, bars, decide_time, report_part, tabulate
from cli.experiment.work import TIMES

TITLE, SOURCE = "Where an iteration goes", "Fig. 6, latency breakdown"
NONE, BACKWARD, FORWARD = "no overlap", "overlap", "overlap, next forward too"
# Loading is no part of the paper's figure.
PHASES = {phase: colour for phase, colour in phases.PHASES.items() if phase != "data"}
OVERLAP = Statement(
    "overlap", "An iteration is shorter if communication overlaps with backward.", "Fig. 6",
    "median time of an iteration with buckets of 25 MB, sent during and after backward",
    "with overlap it is shorter, for ResNet-50 and BERT, over ring and gloo", NEEDS)
STATEMENTS = (OVERLAP,)


def name_of(network, backend, overlap, ranks):
    if overlap == BACKWARD:
        return bucket_name(network, backend, USUAL_MB, ranks)
    return f"{network.key}-{backend}-{overlap.replace(',', '').replace(' ', '-')}"


def bars_of(setting):
    """Returns (network, back end, overlap, its run's name) of each bar."""
    (ranks, *_), networks = widths(setting), setting.scale["networks"]
    return [(network, backend, overlap, name_of(network, backend, overlap, ranks))
            for network in networks if ranks in widths_of(setting, network) for backend in PAPERS
            for overlap in (NONE, BACKWARD, FORWARD)
            if overlap != FORWARD or (network, backend) == (networks[0], RING)]


def runs(setting):
    ranks, *_ = widths(setting)
    options = {NONE: after_backward,
               FORWARD: lambda backend: ("--sync", "ddp", "--backend", backend,
                                         "--bucket-cap-mb", USUAL_MB)}
    return [of_network(setting.scale, network, name, f"{backend}, {overlap}",
                       options[overlap](backend), ranks=ranks, only=TIMES)
            for network, backend, overlap, name in bars_of(setting) if overlap in options]


@report_part
def found(setting, results):
    """Returns a table and a figure."""
    measured = [(network, backend, overlap, results[name])
                for network, backend, overlap, name in bars_of(setting)]
    table = tabulate("breakdown", TITLE, SOURCE, measured, [
        ("network", "model", lambda network, *_: network.title),
        ("backend", "back end", lambda _, backend, *__: backend),
        ("run", "communication", lambda *thing: thing[2]),
        *((phase, f"{phases.title_of(phase)} (s)",
           lambda *thing, phase=phase: thing[-1].phase(phase), 4) for phase in PHASES),
        ("total", "median iteration (s)", lambda *thing: thing[-1].median_iteration(), 4)],
        f"{widths(setting)[0]} ranks, buckets of {USUAL_MB} MB. Phases are means without the first "
        "iteration, over the ranks.")
    series = [{"name": phases.title_of(phase), "colour": colour, "hatch": phases.HATCHES.get(phase),
               "values": [result.phase(phase) for *_, result in measured]}
              for phase, colour in PHASES.items()]
    names = [f"{network.title}, {backend}, {overlap}" for network, backend, overlap, _ in measured]
    return table, bars("breakdown", TITLE, SOURCE, "mean time of an iteration (s)", names, series,
                       "Communication that runs beside computation takes no time of its own.",
                       kind="stacked")


@report_part
def claims(setting, results):
    times = {(network.title, backend, overlap): results[name].median_iteration()
             for network, backend, overlap, name in bars_of(setting)}
    pairs = {(network, backend): (times[network, backend, BACKWARD], without)
             for (network, backend, overlap), without in times.items() if overlap == NONE}
    numbers = "; ".join(f"{network}, {backend}: " + listed({"with": overlapped, "without": without})
                        for (network, backend), (overlapped, without) in pairs.items())
    complete = len(pairs) == len(PAPERS) * len(setting.scale["networks"])
    return [decide_time(setting, OVERLAP, all(first < second for first, second in pairs.values()),
                        numbers, "" if complete else NO_NETWORK)]
