"""The parts of the course's report that the sheet asks for besides times and losses: the bytes of each
process, the hash of the parameters, the coordinator's role, and the small programs."""
from cli.experiment import collectives
from cli.experiment.course_costs import MODEL
from cli.experiment.course_setups import DDP, GATHER, NODES, REDUCE, SHARED
from cli.experiment.study import report_part, tabulate
from cli.experiment.work import COSTS, Showing
from cli.launch.summaries import AGGREGATION

PARTS = {GATHER: "2a", REDUCE: "2b", DDP: "3"}
# The sheet's small programs: send a tensor, all-reduce it.
SMALL_OPS, SMALL_BACKENDS = ("send-recv", "all-reduce"), ("ring",)
COORDINATOR = "coordinator"


def runs():
    """Returns the small programs."""
    ranks = collectives.SHOWN_RANKS
    return [Showing(collectives.shown_name(op, backend), f"{op} of {ranks} floats, {backend}", ranks,
                    op, backend, ranks) for op in SMALL_OPS for backend in SMALL_BACKENDS]


def bytes_of_processes(setup, result):
    """Returns (process, bytes sent, bytes received) of an iteration. The coordinator receives the
    bytes that ranks send through it, and the other way round."""
    sent, received = result.bytes_by_rank("sent"), result.bytes_by_rank("received")
    through = (sum(received), sum(sent)) if setup.through_one else (0, 0)
    return [*((f"rank {rank}", *of_rank) for rank, of_rank in enumerate(zip(sent, received))),
            (COORDINATOR, *through)]


def planned_sent(setup, process):
    """Returns the bytes of gradients that a process sends in an iteration."""
    size = COSTS[MODEL].bytes
    if process == COORDINATOR:
        return NODES * size if setup.through_one else 0
    return size if setup.through_one else 2 * (NODES - 1) * size // NODES


@report_part
def bytes_table(results):
    things = [(setup, *of_process) for setup in SHARED
              for of_process in bytes_of_processes(setup, results[setup.name])]
    return tabulate(
        "sent", "Bytes that each process sends and receives in an iteration", "parts 2a, 2b and 3",
        things, [
            ("part", "part", lambda setup, *_: PARTS[setup]),
            ("setup", "setup", lambda setup, *_: setup.title),
            ("process", "process", lambda _, process, *__: process),
            ("sent", "sent (bytes)", lambda *thing: thing[2]),
            ("received", "received (bytes)", lambda *thing: thing[3]),
            ("planned", "gradients to send, planned (bytes)",
             lambda setup, process, *_: planned_sent(setup, process))],
        "Measured bytes are payload, gradients and the buffers of BatchNorm. The coordinator's are "
        "those that the ranks exchange with it; its messages that confirm each step are not counted.")


def hashes_by_setup(results):
    """Returns {setup: the hash of each rank's parameters}."""
    return {setup: [rank.summary.get("parameters_sha256", "") for rank in results[setup.name].ranks]
            for setup in SHARED}


@report_part
def hashes_table(results):
    things = [(setup, sha256, hashes.count(sha256))
              for setup, hashes in hashes_by_setup(results).items() for sha256 in dict.fromkeys(hashes)]
    return tabulate(
        "parameters", "SHA-256 of the parameters after training", "parts 2a, 2b and 3", things, [
            ("part", "part", lambda setup, *_: PARTS[setup]),
            ("setup", "setup", lambda setup, *_: setup.title),
            ("ranks", "ranks with it", lambda *thing: thing[2]),
            ("sha256", "SHA-256", lambda _, sha256, __: sha256)],
        same_parameters(results))


def same_parameters(results):
    """Says whether all ranks of all parts end with the same parameters."""
    hashes = [sha256 for of_setup in hashes_by_setup(results).values() for sha256 in of_setup]
    different = len(set(hashes))
    if different == 1:
        return f"They are equal: all {len(hashes)} ranks of the three parts have the same hash."
    return f"They are not equal: the {len(hashes)} ranks of the three parts have {different} hashes."


@report_part
def parameters_answer(results):
    return [("2a, 2b, 3", "Do the parts end with the same parameters?",
             f"{same_parameters(results)} Each part averages the gradients of the same samples and "
             "applies them to the same parameters.")]


def role_with_gradients(activity, result):
    """Says what a coordinator does through which all gradients go."""
    seconds = {name: activity["phase_seconds"][name] for name, *_ in AGGREGATION}
    titles = {name: title for name, title, _ in AGGREGATION}
    parts = [f"{titles[name]} {value:.4f} s" for name, value in seconds.items()]
    _, sent, received = bytes_of_processes(GATHER, result)[-1]
    return (f"In {activity['iteration_seconds']['mean']:.4f} s it {', '.join(parts[:-1])} and "
            f"{parts[-1]}; most of the time it {titles[max(seconds, key=seconds.get)]}. It waits "
            f"while the ranks compute and no gradient arrives. It receives {received:,} bytes, the "
            f"gradients of {NODES} ranks over its one link. It folds: it adds the {NODES} gradients and "
            f"divides by {NODES}. It sends {sent:,} bytes, the mean to {NODES} ranks; part of this "
            f"({activity['phase_seconds']['hidden_send']:.4f} s) runs beside the others.")


@report_part
def coordinator_answer(results):
    """Returns a list, which is empty if the coordinator recorded nothing."""
    result = results[GATHER.name]
    return [(PARTS[GATHER], "What does the coordinator do in an iteration?",
             role_with_gradients(result.coordinator, result))] if result.coordinator else []


@report_part
def no_gradient_answer(results, setup):
    """Says what the coordinator does if the ranks exchange the gradients themselves."""
    result = results[setup.name]
    sent = max(result.bytes_by_rank("sent"))
    return [(PARTS[setup], f"What does the coordinator do in an iteration ({setup.title})?",
             f"It receives 0, folds 0 and sends 0 bytes of gradients: each rank sends up to {sent:,} bytes "
             "to its neighbor on the ring. It hands out the addresses of the neighbors before the "
             "first iteration; then it waits for the message that ends a rank's iteration, and "
             "confirms the step to all.")]


@report_part
def small_table(results):
    return collectives.values_table(results, "small", SMALL_OPS, SMALL_BACKENDS)


@report_part
def small_answer(results):
    send, reduce = (results[collectives.shown_name(op, SMALL_BACKENDS[0])] for op in SMALL_OPS)
    text = collectives.values_text
    last = len(send.inputs) - 1
    return [("small programs", "What do the small programs do?",
             f"Send and receive: rank 0 sends {text(send.inputs[0])} and rank {last} gets "
             f"{text(send.outputs[last])}. All-reduce: each rank puts in its own tensor, and rank 0 gets "
             f"{text(reduce.outputs[0])}, the mean of all {last + 1}, "
             f"{'as does each other rank' if same(reduce.outputs) else 'but another rank does not'}. "
             "gradwire experiment collectives shows six more collectives, and times by size.")]


def same(values):
    return all(value == values[0] for value in values)


def shown(results):
    """Returns tables."""
    return [bytes_table(results), hashes_table(results), small_table(results)]


def answers(results):
    """Returns rows of (part, question, answer)."""
    return [*small_answer(results), *coordinator_answer(results),
            *(row for setup in (REDUCE, DDP) for row in no_gradient_answer(results, setup)),
            *parameters_answer(results)]
