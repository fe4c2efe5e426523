"""The tables of `gradwire bench training`."""
import dataclasses

from cli.runs.quantiles import mean, median, quantile
from cli.runs.tables import as_columns, values_of
from cli.runs.training import parse_ranks

COMPUTATION = "computation"  # the setup that is the base for the others
EXPOSED = "exposed_communication"


@dataclasses.dataclass
class TrainingTimes:
    """The measurements of all rounds of a setup, without each round's first and last iteration."""
    iteration_seconds: list = dataclasses.field(default_factory=list)  # means over ranks
    exposed_seconds: list = dataclasses.field(default_factory=list)  # likewise; [] if not measured
    ranks_agree: bool = True  # all ranks had one parameters_sha256 in every round

    @property
    def p50(self):
        return median(self.iteration_seconds)

    @property
    def mean(self):
        return mean(self.iteration_seconds)


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


def training_fields(alone):
    """`alone`: median seconds of setup "computation", the base of the last two; or None."""
    return [
        ("setup", "setup", lambda setup, _: setup["name"]),
        ("system", "system",
         lambda setup, _: "PyTorch" if setup["kind"] == "peer" else "Gradwire"),
        ("iterations", "iterations", lambda _, one: len(one.iteration_seconds)),
        ("p50_seconds", "p50 (s)", lambda _, one: one.p50, 3),
        ("p90_seconds", "p90 (s)", lambda _, one: quantile(one.iteration_seconds, 0.9), 3),
        ("mean_seconds", "mean (s)", lambda _, one: one.mean, 3),
        ("exposed_seconds", "exposed communication (s)",
         lambda _, one: median(one.exposed_seconds), 3),
        ("over_computation_seconds", "over computation (s)",
         lambda _, one: alone and one.p50 - alone, 3),
        ("efficiency_percent", "efficiency (%)", lambda _, one: alone and 100 * alone / one.p50, 1)]


TRAINING_COLUMNS = as_columns(training_fields(None))


def training_rows(setups, times):
    """Returns a row of TRAINING_COLUMNS for each of `setups` (bench/setups.inc) in `times`."""
    fields = training_fields(times[COMPUTATION].p50 if COMPUTATION in times else None)
    return [values_of(fields, (setup, times[setup["name"]]))
            for setup in setups if setup["name"] in times]


def bound_row(computation, transfer):
    """Returns the longer of the two, in seconds, as a row of TRAINING_COLUMNS."""
    least = max(computation, transfer)
    return {"setup": f"bound ({'computation' if least == computation else 'transfer'})",
            "system": "",
            "p50_seconds": least,
            "over_computation_seconds": least - computation,
            "efficiency_percent": 100 * computation / least}


COMPARISON_FIELDS = [
    ("setup", "setup", lambda setup, *_: setup["name"]),
    ("p50_seconds", "p50 (s)", lambda _, own, *__: own.p50, 3),
    ("peer", "peer", lambda _, __, name, ___: name),
    ("peer_p50_seconds", "its p50 (s)", lambda *thing: thing[-1].p50, 3),
    ("ratio", "ratio", lambda _, own, __, peer: own.p50 / peer.p50, 2),
    # For setups that exchange only in some iterations.
    ("mean_ratio", "ratio of means", lambda _, own, __, peer: own.mean / peer.mean, 2)]
COMPARISON_COLUMNS = as_columns(COMPARISON_FIELDS)


def comparison_rows(setups, times):
    """Returns a row of COMPARISON_COLUMNS for each measured setup and peer."""
    return [values_of(COMPARISON_FIELDS, (setup, times[setup["name"]], peer, times[peer]))
            for setup in setups for peer in setup["peers"]
            if setup["name"] in times and peer in times]
