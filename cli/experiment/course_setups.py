"""The course's setups, and the numbers that a group published."""
import dataclasses

NODES = 4
PRINTED = range(0, 200, 20)  # iterations whose loss is reported, counted from 0


@dataclasses.dataclass(frozen=True)
class Setup:
    """A setup. `mean_iteration` and all after it are published numbers, `losses` at PRINTED."""
    name: str
    title: str
    nodes: int
    options: tuple
    colour: str
    mean_iteration: float
    improvement: float | None
    losses: tuple
    test_loss: float
    correct: int
    through_one: bool = False  # process, which sends and receives the bytes of all ranks


# A choice: the assignment's four ways to train, each with the sync after which it is named.
ONE = Setup(
    "one-node", "one node", 1, ("--sync", "none"), "#0072b2", 1.461957, None,
    (2.4514, 2.8705, 2.3516, 2.2551, 2.3916, 2.2173, 2.2407, 2.1978, 2.1833, 2.1818), 2.1737, 1696)
GATHER = Setup(
    "gather-scatter", "gather and scatter", NODES, ("--sync", "gather-scatter", "--backend", "coordinator"),
    "#e69f00", 0.916541, 37.67,
    (2.6748, 2.4063, 2.4758, 2.2648, 2.2466, 2.1490, 2.2481, 2.3549, 2.1423, 2.0967), 2.6755, 1863,
    through_one=True)
REDUCE = Setup(
    "all-reduce", "all-reduce", NODES, ("--sync", "all-reduce"), "#009e73", 0.794420, 13.18,
    (2.6748, 2.4411, 2.4251, 2.2611, 2.2408, 2.1541, 2.2476, 2.3453, 2.1132, 2.1359), 2.2091, 1809)
DDP = Setup(
    "ddp", "DDP", NODES, ("--sync", "ddp"), "#cc79a7", 0.679717, 13.92,
    (2.6748, 2.4006, 2.4925, 2.2633, 2.2440, 2.1367, 2.2498, 2.4000, 2.1019, 2.1102), 2.4100, 1820)
SETUPS = (ONE, GATHER, REDUCE, DDP)
SHARED = (GATHER, REDUCE, DDP)


def capital(text):
    """Returns the text with a capital first letter."""
    return text[0].upper() + text[1:]


def nodes_name(setup, nodes):
    return f"{setup.name}-{nodes}-nodes"


def nodes_times(setting, results, setup):
    return [results[nodes_name(setup, nodes)].mean_iteration() for nodes in setting.scale["nodes"]]
