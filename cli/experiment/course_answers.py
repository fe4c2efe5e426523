"""The answers to the course's questions, a sentence each, with the numbers of the run."""
from cli.experiment import course_trials, phases
from cli.experiment.course_buckets import layers_name
from cli.experiment.course_costs import MB, busiest_bytes
from cli.experiment.course_setups import DDP, GATHER, NODES, ONE, REDUCE, SHARED, capital, nodes_name
from cli.experiment.results import EXPOSED
from cli.experiment.study import EMULATED, Table, report_part
from cli.launch.summaries import AGGREGATION
from cli.runs.tables import Column

SHARE_CORES = ("All ranks shared the cores of this machine: the sentences on time describe this run, "
               "not four nodes.")


class Times:
    """The seconds of a mean iteration."""

    def __init__(self, result):
        self.whole = result.mean_iteration()
        self.computing = phases.computation(result)
        self.exposed = result.phase(EXPOSED) or 0
        self.hidden = phases.hidden(result) or 0


def times_of(results, *names):
    return [Times(results[name]) for name in names]


def compared(after, before):
    """Returns "1.0000 s instead of 2.0000 s"."""
    return f"{after:.4f} s instead of {before:.4f} s"


def takes(before, after):
    """Returns what an iteration takes, as a clause without subject."""
    change = 100 * (after.whole - before.whole) / before.whole
    return (f"takes {compared(after.whole, before.whole)}, {abs(change):.1f} % "
            f"{'less' if change <= 0 else 'more'}")


@report_part
def coordinator_answer(results):
    """Returns a list, which is empty if the coordinator recorded nothing."""
    activity = results[GATHER.name].coordinator
    if not activity:
        return []
    seconds = {title: activity["phase_seconds"][name] for name, title, _ in AGGREGATION}
    parts = [f"{title} {value:.4f} s" for title, value in seconds.items()]
    return [("2a", "What does the coordinator do in an iteration?",
             f"In {activity['iteration_seconds']['mean']:.4f} s it {', '.join(parts[:-1])} and "
             f"{parts[-1]}; most of the time it {max(seconds, key=seconds.get)}.")]


@report_part
def gather_answer(results):
    one, gather = times_of(results, ONE.name, GATHER.name)
    return [("2a", "What does gather and scatter gain on one node?",
             f"It {takes(one, gather)}, because each node computes for "
             f"{compared(gather.computing, one.computing)} and then waits {gather.exposed:.4f} s for "
             "communication, which one node does not have.")]


@report_part
def first_loss_answer(results):
    firsts = {setup: [results[setup.name].loss_at(0, rank) for rank in range(NODES)]
              for setup in SHARED}
    same = len(set(map(tuple, firsts.values()))) == 1
    of_rank = ", ".join(f"{setup.title} {losses[0]:.4f}" for setup, losses in firsts.items())
    return [("2a, 2b, 3", "Why is the first loss of each rank the same?",
             f"It is {firsts[GATHER][0]:.4f} on rank 0 in all three parts, because the ranks begin "
             "with the same parameters and the same samples, and no gradient is exchanged before it."
             if same else f"It is not the same (rank 0: {of_rank}), so the ranks did not begin with "
             "the same parameters and samples.")]


@report_part
def reduce_answer(results):
    gather, reduce = times_of(results, GATHER.name, REDUCE.name)
    sizes = {setup: busiest_bytes(setup, results[setup.name]) / MB for setup in (GATHER, REDUCE)}
    return [("2b", "What does all-reduce gain?",
             f"It {takes(gather, reduce)}; the busiest process sends and receives "
             f"{sizes[REDUCE]:.2f} MB an iteration instead of {sizes[GATHER]:.2f} MB, and a rank "
             f"waits {compared(reduce.exposed, gather.exposed)} for communication.")]


@report_part
def ddp_answer(results):
    reduce, ddp = times_of(results, REDUCE.name, DDP.name)
    return [("3", "What does DDP gain?",
             f"It {takes(reduce, ddp)}; {compared(ddp.hidden, reduce.hidden)} of communication run "
             f"beside computation, and {compared(ddp.exposed, reduce.exposed)} are exposed.")]


@report_part
def buckets_answer(results):
    layers, buckets = times_of(results, layers_name(REDUCE), REDUCE.name)
    return [("2b", "What do buckets gain?",
             f"All-reduce in buckets {takes(layers, buckets)}: a rank waits "
             f"{compared(buckets.exposed, layers.exposed)} for communication, with the same bytes in "
             "fewer and larger messages.")]


@report_part
def bound_answer(results):
    of_setups = {setup: Times(results[setup.name]) for setup in SHARED}
    texts = [f"{setup.title} {'computes' if times.computing > times.exposed else 'communicates'} "
             f"longer ({times.computing:.4f} s of computation, {times.exposed:.4f} s of exposed "
             "communication)" for setup, times in of_setups.items()]
    return [("2a, 2b, 3", "Is the workload compute-bound or network-bound?",
             f"{capital(', '.join(texts[:-1]))}, and {texts[-1]}.")]


@report_part
def nodes_answer(setting, results, setup):
    few, many = (setting.scale["nodes"][place] for place in (0, -1))
    before, after = times_of(results, nodes_name(setup, few), nodes_name(setup, many))
    falls = after.whole < before.whole
    return [("scaling", f"Why does the time fall, or not fall, with nodes ({setup.title})?",
             f"It {'falls' if falls else 'does not fall'} from {few} to {many} nodes "
             f"({compared(after.whole, before.whole)}), because a rank computes for "
             f"{compared(after.computing, before.computing)} and waits "
             f"{compared(after.exposed, before.exposed)} for communication.")]


@report_part
def accuracy_answer(setting, results):
    """Returns a list, which is empty if nothing was tested."""
    found = {setup: course_trials.accuracy(result)
             for setup, result in course_trials.of_setups(setting, results).items()}
    if not found:
        return []
    texts = ", ".join(f"{setup.title} {100 * part:.2f} %" for setup, part in found.items())
    other = "" if course_trials.is_real(setting) else f" ({course_trials.other_training(setting)})"
    apart = 100 * course_trials.spread(found.values())
    return [("2a, 2b, 3", "Are the test accuracies similar, and why?",
             f"They lie {apart:.2f} points apart ({texts}){other}, because each method averages the "
             "gradients of all ranks, whatever way they take; one node differs in its batch "
             "normalization and augmentation.")]


def note(setting):
    if setting.emulates:
        return f"Sentences on time: {EMULATED}."
    return "" if setting.has_hosts else SHARE_CORES


def answers(setting, results):
    """Returns a table of sentences."""
    found = [*coordinator_answer(results), *gather_answer(results), *reduce_answer(results),
             *buckets_answer(results), *ddp_answer(results), *first_loss_answer(results),
             *bound_answer(results), *accuracy_answer(setting, results),
             *(row for setup in SHARED for row in nodes_answer(setting, results, setup))]
    names = ("part", "question", "answer")
    return Table("answers", "Answers", "the questions of each part",
                 [Column(name, name) for name in names],
                 [dict(zip(names, row)) for row in found], note(setting), is_prose=True)
