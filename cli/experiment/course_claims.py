"""The statements of the course's assignment and of the published report, and their verdicts."""
from cli.experiment import course_buckets, course_costs
from cli.experiment.course_buckets import BY_PARAMETER, layers_name
from cli.experiment.course_setups import (DDP, GATHER, NODES, ONE, PRINTED, REDUCE, SETUPS, SHARED,
                                          capital, nodes_name, nodes_times, tested)
from cli.experiment.results import improvement, largest_difference
from cli.experiment.study import CIFAR10, FULL, HOSTS, Statement, decide, decide_time

EPOCH = 196  # iterations
FEW_STEPS = 5
TOLERANCE = 1e-5  # of a loss, relative
SIMILAR = 0.03  # of accuracy, between set-ups
# Of a loss: as far as the published set-ups lie apart.
CLOSE = max(abs(a - b) for setup in SHARED for a, b in zip(ONE.losses, setup.losses))
NEEDS_CIFAR10 = f"needs {CIFAR10}"
NEEDS_FULL = f"needs {FULL}"

FIRST_LOSS = Statement(
    "first-loss", "All set-ups of 4 nodes have the same first loss, rank by rank.",
    "losses of each part (2.6748 in all three)", "loss of each rank at iteration 0",
    "the same in all set-ups, in buckets and parameter by parameter")
SAME_LOSSES = Statement(
    "reduce-same", f"All-reduce gives the losses of gather and scatter: within {TOLERANCE:g} over "
    f"the first {FEW_STEPS} iterations.", "losses of the two parts", "losses of all ranks",
    f"relative difference of at most {TOLERANCE:g}")
EQUAL = Statement(
    "ddp-same", "DDP gives exactly what gather and scatter gives: losses, and parameters on all "
    "ranks.", "losses of the two parts", "losses of all ranks, SHA-256 of the parameters",
    "no difference, and one hash on all ranks of both")
EPOCH_LENGTH = Statement(
    "epoch", f"An epoch is {EPOCH} iterations at a total batch of 256.", "the assignment",
    "iterations of an epoch", f"{EPOCH} in all four set-ups", FULL)
LOSSES_CLOSE = Statement(
    "losses-close", "Losses are close to those of one node: at iterations 0, 20 … 180 by no more "
    f"than the published ones, {CLOSE:.2f}.", "losses of each part",
    "loss of rank 0 at iterations 0, 20 … 180", f"at most {CLOSE:.2f} from one node's",
    f"{CIFAR10}, {FULL}")
ACCURACIES = Statement(
    "accuracies", f"Test accuracies of the four set-ups are similar: within {100 * SIMILAR:g} "
    "points.", "figure of accuracies", "test accuracy after the epoch",
    f"highest less lowest at most {100 * SIMILAR:g} points", f"{CIFAR10}, {FULL}")
FASTER = {pair: Statement(
    f"{pair[1].name}-faster", f"{capital(pair[1].title)} takes less time than {pair[0].title}.",
    "figure of mean times", "mean time of iterations 2 to 40",
    f"less with {pair[1].title}", HOSTS) for pair in zip(SETUPS, SETUPS[1:])}
NODES_FASTER = {setup: Statement(
    f"time-falls-{setup.name}", f"Time falls with nodes, {setup.title}.",
    "figure of time against nodes", "mean time of an iteration on 2, 3 and 4 nodes, one total batch",
    "less with each node more", HOSTS) for setup in SHARED}
STATEMENTS = (FIRST_LOSS, SAME_LOSSES, EQUAL, EPOCH_LENGTH, LOSSES_CLOSE, ACCURACIES,
              *FASTER.values(), *course_buckets.STATEMENTS, *course_costs.STATEMENTS,
              *NODES_FASTER.values())


def needs_full(setting):
    return "" if "epoch" in setting.scale else NEEDS_FULL


def needs_cifar10(setting):
    return "" if setting.has_cifar10 else NEEDS_CIFAR10


def first_loss_claim(results):
    names = {setup.title: setup.name for setup in SHARED}
    names.update((f"{setup.title} by parameter", layers_name(setup)) for setup in BY_PARAMETER)
    firsts = {title: [results[name].loss_at(0, rank) for rank in range(NODES)]
              for title, name in names.items()}
    texts = [f"{title} {', '.join(f'{loss:.6f}' for loss in of_ranks)}"
             for title, of_ranks in firsts.items()]
    return decide(FIRST_LOSS, len(set(map(tuple, firsts.values()))) == 1, "; ".join(texts))


def same_losses_claim(results):
    difference = largest_difference(results[GATHER.name], results[REDUCE.name], FEW_STEPS)
    return decide(SAME_LOSSES, difference <= TOLERANCE,
                  f"largest difference {difference:.2g} of a loss")


def equal_claim(results):
    gather, ddp = results[GATHER.name], results[DDP.name]
    hashes = gather.hashes() | ddp.hashes()
    difference = largest_difference(gather, ddp, gather.iterations)
    return decide(EQUAL, difference == 0 and len(hashes) == 1,
                  f"largest difference {difference:g}, {len(hashes)} hash(es) of the parameters")


def epoch_claim(setting, results):
    counts = {setup.title: results[setup.name].iterations for setup in SETUPS}
    return decide(EPOCH_LENGTH, set(counts.values()) == {EPOCH},
                  ", ".join(f"{title} {count}" for title, count in counts.items()),
                  needs_full(setting))


def faster_claim(setting, results, pair):
    slower, faster = pair
    before, after = (results[of.name].mean_iteration() for of in (slower, faster))
    return decide_time(setting, FASTER[pair], after < before,
                       f"{after:.4f} s after {before:.4f} s, {improvement(before, after):+.1f} %; "
                       f"published {faster.improvement:+.2f} %")


def nodes_claim(setting, results, setup):
    seconds = nodes_times(setting, results, setup)
    return decide_time(setting, NODES_FASTER[setup], sorted(seconds, reverse=True) == seconds,
                       ", ".join(f"{nodes} nodes {of_nodes:.4f} s"
                                 for nodes, of_nodes in zip(setting.scale["nodes"], seconds)))


def accuracy_claim(setting, results):
    found = {setup.title: test["accuracy"] for setup, test in tested(results)}
    spread = max(found.values(), default=0) - min(found.values(), default=0)
    return decide(ACCURACIES, spread <= SIMILAR,
                  ", ".join(f"{title} {100 * accuracy:.2f} %" for title, accuracy in found.items()),
                  needs_cifar10(setting), "" if found else NEEDS_FULL)


def close_claim(setting, results):
    pairs = [(results[ONE.name].loss_at(iteration), results[setup.name].loss_at(iteration))
             for setup in SHARED for iteration in PRINTED]
    difference = max(abs(a - b) for a, b in pairs if a is not None)
    return decide(LOSSES_CLOSE, difference <= CLOSE, f"at most {difference:.2f}",
                  needs_cifar10(setting), needs_full(setting))


def claims(setting, results):
    """Returns a claim for each of STATEMENTS, in their order."""
    return [first_loss_claim(results), same_losses_claim(results), equal_claim(results),
            epoch_claim(setting, results), close_claim(setting, results),
            accuracy_claim(setting, results),
            *(faster_claim(setting, results, pair) for pair in FASTER),
            *course_buckets.claims(setting, results), *course_costs.claims(setting, results),
            *(nodes_claim(setting, results, setup) for setup in SHARED)]
