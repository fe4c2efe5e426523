"""The tables of `gradwire bench training`."""
import dataclasses
from statistics import fmean as mean

from cli.runs.quantiles import median, quantile
from cli.runs.tables import Column
from cli.runs.training import parse_ranks

COMPUTATION = "computation"  # the set-up that is the base for the others
EXPOSED = "exposed_communication"

TRAINING_COLUMNS = [Column("setup", "set-up"),
                    Column("system", "system"),
                    Column("iterations", "iterations"),
                    Column("p50_seconds", "p50 (s)", 3),
                    Column("p90_seconds", "p90 (s)", 3),
                    Column("mean_seconds", "mean (s)", 3),
                    Column("exposed_seconds", "exposed communication (s)", 3),
                    Column("over_computation_seconds", "over computation (s)", 3),
                    Column("efficiency_percent", "efficiency (%)", 1)]
COMPARISON_COLUMNS = [Column("setup", "set-up"),
                      Column("p50_seconds", "p50 (s)", 3),
                      Column("peer", "peer"),
                      Column("peer_p50_seconds", "its p50 (s)", 3),
                      Column("ratio", "ratio", 2),
                      Column("mean_ratio", "ratio of means", 2)]


@dataclasses.dataclass
class TrainingTimes:
    """The measurements of all rounds of a set-up, without each round's first and last iteration."""
    iteration_seconds: list = dataclasses.field(default_factory=list)  # means over ranks
    exposed_seconds: list = dataclasses.field(default_factory=list)  # likewise; [] if not measured
    ranks_agree: bool = True  # all ranks had one parameters_sha256 in every round


def means(values_of_ranks):
    """Returns the mean over the ranks of each iteration except the first, which warms up, and the
    last: late updates end in the next iteration's forward pass, and the last has none."""
    return [sum(values) / len(values) for values in zip(*values_of_ranks)][1:-1]


def add_round(texts, compare, times):
    """Adds the ranks' output of one round, which may have exposed communication among its
    phase_seconds, to TrainingTimes. `compare`: whether the ranks' hashes must agree. Failure as
    parse_ranks."""
    outputs = parse_ranks(texts)
    times.iteration_seconds += means([output.seconds for output in outputs])
    exposed = [output.phase(EXPOSED) for output in outputs]
    if all(len(of_rank) == len(output.records) for of_rank, output in zip(exposed, outputs)):
        times.exposed_seconds += means(exposed)
    hashes = {output.summary.get("parameters_sha256", "") for output in outputs}
    if compare and len(hashes) > 1:
        times.ranks_agree = False


def training_rows(setups, times):
    """Returns a row of TRAINING_COLUMNS for each of `setups` (bench/setups.inc) in `times`. Set-up
    "computation" is the base of "over computation" and efficiency."""
    computation = times.get(COMPUTATION)
    alone = median(computation.iteration_seconds) if computation else None
    rows = []
    for setup in setups:
        if setup["name"] not in times:
            continue
        one = times[setup["name"]]
        p50 = median(one.iteration_seconds)
        rows.append({
            "setup": setup["name"],
            "system": "PyTorch" if setup["kind"] == "peer" else "Gradwire",
            "iterations": len(one.iteration_seconds),
            "p50_seconds": p50,
            "p90_seconds": quantile(one.iteration_seconds, 0.9),
            "mean_seconds": mean(one.iteration_seconds),
            "exposed_seconds": median(one.exposed_seconds),
            "over_computation_seconds": None if alone is None else p50 - alone,
            "efficiency_percent": None if alone is None else 100 * alone / p50})
    return rows


def bound_row(computation, transfer):
    """Returns the longer of the two, in seconds, as a row of TRAINING_COLUMNS."""
    least = max(computation, transfer)
    return {"setup": f"bound ({'computation' if least == computation else 'transfer'})",
            "system": "",
            "p50_seconds": least,
            "over_computation_seconds": least - computation,
            "efficiency_percent": 100 * computation / least}


def comparison_rows(setups, times):
    """Returns a row of COMPARISON_COLUMNS for each measured set-up and peer. The ratio of means is
    for set-ups that exchange only in some iterations."""
    medians = {name: median(one.iteration_seconds) for name, one in times.items()}
    averages = {name: mean(one.iteration_seconds) for name, one in times.items()}
    return [{"setup": setup["name"],
             "p50_seconds": medians[setup["name"]],
             "peer": peer,
             "peer_p50_seconds": medians[peer],
             "ratio": medians[setup["name"]] / medians[peer],
             "mean_ratio": averages[setup["name"]] / averages[peer]}
            for setup in setups for peer in setup["peers"]
            if setup["name"] in medians and peer in medians]
