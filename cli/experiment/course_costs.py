"""The costs of the course's setups beside their time: phases of an iteration, bytes of the busiest
process, and peak memory."""
from cli.experiment import phases
from cli.experiment.course_buckets import BY_PARAMETER, IN_BUCKETS, layers_name
from cli.experiment.course_setups import DDP, GATHER, NODES, REDUCE, SETUPS, SHARED, nodes_name
from cli.experiment.results import EXPOSED
from cli.experiment.study import HOSTS, Statement, decide, decide_time, report_part, tabulate
from cli.experiment.work import COSTS
from cli.runs.quantiles import mean

MODEL = "vgg11"
MB = 1e6
UNKNOWN_MEMORY = "the system does not report peak memory"

COMPUTE_BOUND = Statement(
    "compute-bound", "The workload is more compute-bound than network-bound.",
    "why gather and scatter beats one node", "mean computation (forward, backward, optimizer) and "
    "exposed communication of an iteration", "computation takes longer in each setup of 4 nodes",
    HOSTS)
LESS_BYTES = Statement(
    "reduce-fewer-bytes", "All-reduce communicates less between nodes than gather and scatter.",
    "why all-reduce beats gather and scatter",
    "bytes that the busiest process sends and receives in an iteration, planned and measured; "
    "rank 0 or the coordinator is one of the processes", "fewer with all-reduce, in both")
BYTES_RISE = Statement(
    "bytes-rise", "Communication rises with the nodes.", "scaling task, total batch 300",
    "bytes that the busiest process sends and receives in an iteration, on 2, 3 and 4 nodes",
    "more with each node more, in each setup")
EXPOSED_RISES = Statement(
    "exposed-rises", "Time spent in communication rises with the nodes.",
    "scaling task, total batch 300", "exposed communication of an iteration on 2, 3 and 4 nodes",
    "more with each node more, in each setup", HOSTS)
MEMORY = Statement(
    "buckets-memory", "Buckets trade memory for time.", "why DDP beats all-reduce",
    "peak memory of a worker and mean time of an iteration, DDP and all-reduce by parameter",
    "more memory and less time with DDP's buckets", HOSTS)
STATEMENTS = (COMPUTE_BOUND, LESS_BYTES, BYTES_RISE, EXPOSED_RISES, MEMORY)


def planned_bytes(setup, nodes):
    """Returns what the busiest process sends and receives of gradients in an iteration."""
    size = COSTS[MODEL].bytes
    return 2 * nodes * size if setup.through_one else 4 * (nodes - 1) * size // nodes


def busiest_bytes(setup, result):
    """Returns the measured bytes of an iteration. A process through which all bytes go has those of
    all ranks."""
    of_ranks = result.bytes_by_rank()
    return sum(of_ranks) if setup.through_one else max(of_ranks)


@report_part
def bytes_table(results):
    return tabulate(
        "bytes", "Bytes of the busiest process in an iteration", "parts 2a, 2b and 3",
        [(setup, results[setup.name]) for setup in SHARED], [
            ("setup", "setup", lambda setup, _: setup.title),
            ("process", "busiest process",
             lambda setup, _: "coordinator" if setup.through_one else "each rank"),
            ("planned", "planned (MB)", lambda setup, _: planned_bytes(setup, NODES) / MB, 2),
            ("measured", "measured (MB)",
             lambda setup, result: busiest_bytes(setup, result) / MB, 2)],
        "Sent and received together. Planned: gradients alone, of "
        f"{COSTS[MODEL].bytes:,} bytes. Measured bytes include the buffers of BatchNorm. In the "
        "assignment rank 0 gathers. Here the coordinator, a process of its own, does so; rank 0 "
        "would have the bytes of one rank less.")


def memory_rows(results):
    names = {setup.title: setup.name for setup in SETUPS}
    names.update((f"{setup.title} by parameter", layers_name(setup)) for setup in BY_PARAMETER)
    return [(title, results[name].peaks()) for title, name in names.items()]


@report_part
def memory_table(results):
    def peak(peaks, rank):
        return peaks[rank] / MB if rank < len(peaks) and peaks[rank] else None
    return tabulate(
        "memory", "Peak memory of each worker", "buckets and memory", memory_rows(results), [
            ("setup", "setup", lambda title, _: title),
            *((f"rank_{rank}", f"rank {rank} (MB)",
               lambda _, peaks, rank=rank: peak(peaks, rank), 1) for rank in range(NODES))],
        "The largest resident set of the process, libraries and data included.")


def nodes_rows(setting, results):
    return [(setup, nodes, results[nodes_name(setup, nodes)])
            for setup in SHARED for nodes in setting.scale["nodes"]]


@report_part
def nodes_table(setting, results):
    return tabulate(
        "nodes-costs", "Communication and time by nodes", "scaling task, total batch 300",
        nodes_rows(setting, results), [
            ("setup", "setup", lambda setup, *_: setup.title),
            ("nodes", "nodes", lambda _, nodes, __: nodes),
            ("planned", "busiest process, planned (MB)",
             lambda setup, nodes, _: planned_bytes(setup, nodes) / MB, 2),
            ("measured", "measured (MB)",
             lambda setup, _, result: busiest_bytes(setup, result) / MB, 2),
            ("exposed", "exposed communication (s)", lambda *thing: thing[-1].phase(EXPOSED), 4),
            ("mean", "iteration (s)", lambda *thing: thing[-1].mean_iteration(), 4)])


def coordinators(results):
    """Returns what the coordinator of each run did that gathers there, by the run's title."""
    names = {GATHER.title: GATHER.name, f"{GATHER.title} by parameter": layers_name(GATHER)}
    return {title: results[name].coordinator for title, name in names.items()
            if results[name].coordinator}


@report_part
def phases_of_setups(results):
    """Returns a table and a figure."""
    activity = results[GATHER.name].coordinator
    return phases.breakdown("phases", f"Where an iteration goes {IN_BUCKETS}",
                            "computation and communication",
                            {setup.title: results[setup.name] for setup in SETUPS},
                            {f"coordinator of {GATHER.title}": activity} if activity else {})


@report_part
def coordinator_tables(results):
    """Returns a list of a table, which is empty if no coordinator recorded what it did."""
    found = coordinators(results)
    return [phases.coordinator_table(
        "coordinator", "Where the coordinator's iteration goes", "part 2a, the role of rank 0",
        found)] if found else []


def shown(setting, results):
    """Returns tables and figures."""
    return [*phases_of_setups(results), *coordinator_tables(results), bytes_table(results),
            nodes_table(setting, results), memory_table(results)]


def bound_parts(results):
    """Returns {setup: seconds of computation and of exposed communication}."""
    return {setup: (phases.computation(results[setup.name]), results[setup.name].phase(EXPOSED))
            for setup in SHARED}


@report_part
def compute_claim(setting, results):
    parts = bound_parts(results)
    return decide_time(
        setting, COMPUTE_BOUND, all(computing > waiting for computing, waiting in parts.values()),
        ", ".join(f"{setup.title} {computing:.4f} s and {waiting:.4f} s"
                  for setup, (computing, waiting) in parts.items()))


@report_part
def bytes_claim(results):
    planned = {setup: planned_bytes(setup, NODES) for setup in (GATHER, REDUCE)}
    measured = {setup: busiest_bytes(setup, results[setup.name]) for setup in (GATHER, REDUCE)}
    return decide(LESS_BYTES, planned[REDUCE] < planned[GATHER] and
                  measured[REDUCE] < measured[GATHER],
                  ", ".join(f"{setup.title} {measured[setup] / MB:.2f} MB, planned "
                            f"{planned[setup] / MB:.2f}" for setup in planned))


def rises(setting, results, value_of):
    """Returns {setup: values by nodes}, and whether each rises with each node more."""
    found = {setup: [value_of(setup, results[nodes_name(setup, nodes)])
                     for nodes in setting.scale["nodes"]] for setup in SHARED}
    return found, all(a < b for values in found.values() for a, b in zip(values, values[1:]))


def texts(found, digits, unit):
    return ", ".join(f"{setup.title} " + " → ".join(f"{value:.{digits}f}" for value in values)
                     for setup, values in found.items()) + f" {unit}"


@report_part
def rise_claims(setting, results):
    sizes, more = rises(setting, results,
                        lambda setup, result: busiest_bytes(setup, result) / MB)
    times, longer = rises(setting, results, lambda _, result: result.phase(EXPOSED))
    return [decide(BYTES_RISE, more, texts(sizes, 2, "MB")),
            decide_time(setting, EXPOSED_RISES, longer, texts(times, 4, "s"))]


@report_part
def memory_claim(setting, results):
    layers, buckets = results[layers_name(REDUCE)], results[DDP.name]
    before, after = (mean(result.peaks()) / MB for result in (layers, buckets))
    slow, fast = (result.mean_iteration() for result in (layers, buckets))
    known = all(layers.peaks() + buckets.peaks())
    return decide_time(setting, MEMORY, after > before and fast < slow,
                       f"by parameter {before:.1f} MB and {slow:.4f} s, DDP {after:.1f} MB and "
                       f"{fast:.4f} s", "" if known else UNKNOWN_MEMORY)


def claims(setting, results):
    """Returns a claim for each of STATEMENTS."""
    return [compute_claim(setting, results), bytes_claim(results),
            *rise_claims(setting, results), memory_claim(setting, results)]
