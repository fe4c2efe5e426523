"""The statements of the course's assignment and of the published report, and their verdicts."""
from cli.experiment import course_buckets, course_costs, course_trials
from cli.experiment.course_buckets import BY_PARAMETER, faster_text, layers_name, sheet_name
from cli.experiment.course_setups import (DDP, GATHER, NODES, REDUCE, SETUPS, SHARED, capital,
                                          nodes_times)
from cli.experiment.noise import compared, condition_of
from cli.experiment.results import largest_difference
from cli.experiment.study import HOSTS, Statement, counted, decide, decide_time, report_part

FEW_STEPS = 5
TOLERANCE = 1e-5  # of a loss, relative

FIRST_LOSS = Statement(
    "first-loss", "All setups of 4 nodes have the same first loss, rank by rank.",
    "losses of each part (2.6748 in all three)", "loss of each rank at iteration 0",
    "the same in all setups, in buckets and parameter by parameter")
SAME_LOSSES = Statement(
    "reduce-same", f"All-reduce gives the losses of gather and scatter: within {TOLERANCE:g} over "
    f"the first {FEW_STEPS} iterations.", "losses of the two parts", "losses of all ranks",
    f"relative difference of at most {TOLERANCE:g}")
EQUAL = Statement(
    "ddp-same", "DDP gives exactly what gather and scatter gives: losses, and parameters on all "
    "ranks.", "losses of the two parts", "losses of all ranks, SHA-256 of the parameters",
    "no difference, and one hash on all ranks of both")
FASTER = {pair: Statement(
    f"{pair[1].name}-faster", f"{capital(pair[1].title)} takes less time than {pair[0].title}.",
    "figure of mean times", "mean time of iterations 2 to 40",
    f"less with {pair[1].title}, by more than the noise; gather and scatter and all-reduce exchange "
    "parameter by parameter, as in the assignment", HOSTS) for pair in zip(SETUPS, SETUPS[1:])}
NODES_FASTER = {setup: Statement(
    f"time-falls-{setup.name}", f"Time falls with nodes, {setup.title}.",
    "figure of time against nodes", "mean time of an iteration on 2, 3 and 4 nodes, one total batch",
    "less with each node more", HOSTS) for setup in SHARED}
STATEMENTS = (FIRST_LOSS, SAME_LOSSES, EQUAL, *course_trials.STATEMENTS,
              *FASTER.values(), *course_buckets.STATEMENTS, *course_costs.STATEMENTS,
              *NODES_FASTER.values())


@report_part
def first_loss_claim(results):
    names = {setup.title: setup.name for setup in SHARED}
    names.update((f"{setup.title} by parameter", layers_name(setup)) for setup in BY_PARAMETER)
    firsts = {title: [results[name].loss_at(0, rank) for rank in range(NODES)]
              for title, name in names.items()}
    texts = [f"{title} {', '.join(f'{loss:.6f}' for loss in of_ranks)}"
             for title, of_ranks in firsts.items()]
    return decide(FIRST_LOSS, len(set(map(tuple, firsts.values()))) == 1, "; ".join(texts))


@report_part
def same_losses_claim(results):
    difference = largest_difference(results[GATHER.name], results[REDUCE.name], FEW_STEPS)
    return decide(SAME_LOSSES, difference <= TOLERANCE,
                  f"largest difference {difference:.2g} of a loss")


@report_part
def equal_claim(results):
    gather, ddp = results[GATHER.name], results[DDP.name]
    hashes = gather.hashes() | ddp.hashes()
    difference = largest_difference(gather, ddp, gather.iterations)
    return decide(EQUAL, difference == 0 and len(hashes) == 1,
                  f"largest difference {difference:g}, "
                  f"{counted(len(hashes), 'hash', 'hashes')} of the parameters")


@report_part
def faster_claim(setting, results, pair):
    slower, faster = pair
    found = compared(*(results[sheet_name(of)] for of in (slower, faster)))
    return decide_time(setting, FASTER[pair], found.is_less,
                       f"{faster_text(found)}; published: {faster.improvement:.2f} % shorter",
                       condition=condition_of([found]))


def falls_with_nodes(setting, results, setup):
    """Returns whether an iteration takes less time with each node more."""
    seconds = nodes_times(setting, results, setup)
    return all(after < before for before, after in zip(seconds, seconds[1:]))


def nodes_text(setting, results, setup):
    return ", ".join(f"{nodes} nodes {seconds:.4f} s" for nodes, seconds in
                     zip(setting.scale["nodes"], nodes_times(setting, results, setup)))


@report_part
def nodes_claim(setting, results, setup):
    return decide_time(setting, NODES_FASTER[setup], falls_with_nodes(setting, results, setup),
                       nodes_text(setting, results, setup))


def claims(setting, results):
    """Returns a claim for each of STATEMENTS, in their order."""
    return [first_loss_claim(results), same_losses_claim(results), equal_claim(results),
            *course_trials.claims(setting, results),
            *(faster_claim(setting, results, pair) for pair in FASTER),
            *course_buckets.claims(setting, results), *course_costs.claims(setting, results),
            *(nodes_claim(setting, results, setup) for setup in SHARED)]
