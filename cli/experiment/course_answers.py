"""The answers to the course's questions, a sentence each, with the numbers of the run. Each is made
from the judgement of the claim on the same thing."""
from cli.experiment import course_claims, course_costs, course_parts, course_trials, phases
from cli.experiment.course_buckets import layers_name, sheet_name
from cli.experiment.course_costs import MB, busiest_bytes
from cli.experiment.course_setups import (DDP, GATHER, NODES, ONE, REDUCE, SHARED, capital,
                                          nodes_name)
from cli.experiment.results import EXPOSED
from cli.experiment.study import CONFIRMED, EMULATED, NOT_MEASURABLE, Table, report_part
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


def on_time(setting, said):
    """Returns a sentence on times. It begins with the reason if no claim on them has a verdict."""
    why = setting.needs_hosts or setting.disturbed
    return f"Not measurable here: {why}. In this run: {said}" if why else said


def gain_answer(setting, results, part, question, names, said):
    """Returns a row on the time that the second of two runs saves. said(before, after, takes): the
    answer."""
    before, after = times_of(results, *names)
    return [(part, question, on_time(setting, said(before, after, takes(before, after))))]


@report_part
def gather_answer(setting, results):
    return gain_answer(
        setting, results, "2a", "What does gather and scatter gain, compared with one node?",
        [sheet_name(ONE), sheet_name(GATHER)],
        lambda one, gather, takes: f"It {takes}, because each node computes for "
        f"{compared(gather.computing, one.computing)} and then waits {gather.exposed:.4f} s for "
        "communication, which one node does not have.")


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
def reduce_answer(setting, results):
    sizes = {setup: busiest_bytes(setup, results[sheet_name(setup)]) / MB
             for setup in (GATHER, REDUCE)}
    return gain_answer(
        setting, results, "2b", "What does all-reduce gain?", map(sheet_name, (GATHER, REDUCE)),
        lambda gather, reduce, takes: f"It {takes}; the busiest process sends and receives "
        f"{sizes[REDUCE]:.2f} MB an iteration instead of {sizes[GATHER]:.2f} MB, and a rank "
        f"waits {compared(reduce.exposed, gather.exposed)} for communication.")


@report_part
def ddp_answer(setting, results):
    return gain_answer(
        setting, results, "3", "What does DDP gain?", map(sheet_name, (REDUCE, DDP)),
        lambda reduce, ddp, takes: f"It {takes}; {compared(ddp.hidden, reduce.hidden)} of "
        f"communication run beside computation, and {compared(ddp.exposed, reduce.exposed)} are "
        "exposed.")


@report_part
def buckets_answer(setting, results):
    return gain_answer(
        setting, results, "2b", "What do buckets gain?", [layers_name(REDUCE), REDUCE.name],
        lambda layers, buckets, takes: f"All-reduce in buckets {takes}: a rank waits "
        f"{compared(buckets.exposed, layers.exposed)} for communication, with the same bytes in "
        "fewer and larger messages.")


def listed(setups):
    """Returns "a, b and c"."""
    titles = [setup.title for setup in setups]
    return " and ".join(filter(None, [", ".join(titles[:-1]), titles[-1]]))


@report_part
def bound_answer(setting, results):
    parts = course_costs.bound_parts(results)
    texts = [f"{setup.title} {'computes' if computing > waiting else 'communicates'} "
             f"longer ({computing:.4f} s of computation, {waiting:.4f} s of exposed "
             "communication)" for setup, (computing, waiting) in parts.items()]
    by_kind = {kind: [setup for setup, (computing, waiting) in parts.items()
                      if (computing > waiting) == computes]
               for kind, computes in (("compute-bound", True), ("network-bound", False))}
    bound = [f"{kind} with {listed(setups)}" for kind, setups in by_kind.items() if setups]
    return [("2a, 2b, 3", "Is the workload compute-bound or network-bound?",
             on_time(setting, f"{capital(', '.join(texts[:-1]))}, and {texts[-1]}. So it is "
                     f"{', and '.join(bound)}."))]


@report_part
def nodes_answer(setting, results, setup):
    few, many = (setting.scale["nodes"][place] for place in (0, -1))
    before, after = times_of(results, nodes_name(setup, few), nodes_name(setup, many))
    said = ("falls with each node more" if course_claims.falls_with_nodes(setting, results, setup)
            else "does not fall with each node more")
    return [("scaling", f"Why does the time fall, or not fall, with nodes ({setup.title})?",
             on_time(setting, f"It {said} ({course_claims.nodes_text(setting, results, setup)}). "
                     f"From {few} to {many} nodes a rank computes for "
                     f"{compared(after.computing, before.computing)} and waits "
                     f"{compared(after.exposed, before.exposed)} for communication."))]


def learning_answer(claim, question, sentence_of):
    """Returns a list, which is empty if nothing decides the claim, or if it needs runs that have not
    ended: then `claim` is empty, too. sentence_of(is_confirmed, condition): `condition` is " (...)",
    or "" if the claim has none."""
    if not claim or claim.verdict == NOT_MEASURABLE:
        return []
    condition = f" ({claim.condition})" if claim.condition else ""
    return [("2a, 2b, 3", question, sentence_of(claim.verdict == CONFIRMED, condition))]


@report_part
def accuracy_answer(setting, results):
    claim = course_trials.accuracy_claim(setting, results)
    limit = 100 * course_trials.SIMILAR

    def sentence_of(is_similar, condition):
        apart = 100 * course_trials.spread(course_trials.accuracies(setting, results).values())
        similar = (f"They are similar{condition}: they lie {apart:.2f} points apart"
                   if is_similar else
                   f"They are not similar here{condition}: they lie {apart:.2f} points apart, more "
                   f"than {limit:g}")
        because = "because" if is_similar else "although"
        return (f"{similar} ({claim.numbers}), {because} each method averages the gradients of all "
                "ranks, whatever way they take; one node differs in its batch normalization and "
                "augmentation.")

    return learning_answer(claim, "Are the test accuracies similar, and why?", sentence_of)


@report_part
def losses_answer(setting, results):
    claim = course_trials.close_claim(setting, results)
    return learning_answer(
        claim, "Are the losses close to those of one node?",
        lambda is_close, condition: f"They are {'' if is_close else 'not '}close{condition}: "
        f"{claim.numbers}. That is the distance from one node's at every 20th iteration; the published "
        f"ones lie up to {course_trials.CLOSE:.2f} apart.")


def note(setting):
    if setting.disturbed:
        return f"Sentences on time: {setting.disturbed}."
    if setting.emulates:
        return f"Sentences on time: {EMULATED}."
    return "" if setting.has_hosts else SHARE_CORES


def answers(setting, results):
    """Returns a table of sentences."""
    found = [*course_parts.answers(results), *gather_answer(setting, results),
             *reduce_answer(setting, results), *buckets_answer(setting, results),
             *ddp_answer(setting, results), *first_loss_answer(results),
             *losses_answer(setting, results), *bound_answer(setting, results),
             *accuracy_answer(setting, results),
             *(row for setup in SHARED for row in nodes_answer(setting, results, setup))]
    names = ("part", "question", "answer")
    return Table("answers", "Answers", "the questions of each part",
                 [Column(name, name) for name in names],
                 [dict(zip(names, row)) for row in found], note(setting), is_prose=True)
