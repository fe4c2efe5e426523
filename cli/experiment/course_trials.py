"""How close losses and accuracies of the course's setups are, and the length of an epoch.

At full scale with CIFAR-10 the setups' own runs decide it. Otherwise a small net on other images
trains for an epoch in their place, with some seeds, and the verdicts say so."""
import dataclasses
import math

from cli.experiment.course_setups import DDP, NODES, ONE, PRINTED, SETUPS, SHARED, nodes_name
from cli.experiment.study import FULL, NEEDS_CIFAR10, Statement, decide, report_part
from cli.experiment.work import LOSSES, Training
from cli.runs.quantiles import mean
from cli.runs.training import steps_per_epoch

EPOCH_BATCH, EPOCH = 256, 196  # the assignment's total batch, and iterations of an epoch
SIMILAR = 0.03  # of accuracy
# Of a loss: as far as the published setups lie apart.
CLOSE = max(abs(a - b) for setup in SHARED for a, b in zip(ONE.losses, setup.losses))
MODEL, LR = "mlp", 0.05
# One epoch of the small net ends some points apart on other CPUs; the mean over the seeds does not.
SEEDS = (744, 745, 746)
SEEDS_NOTE = f"Accuracies are means over {len(SEEDS)} seeds."
OTHER_IMAGES, OTHER_SAMPLES, CIFAR10_SAMPLES = "fashion-mnist", 60000, 50000
NEEDS_EPOCH = "needs an epoch (--scale quick or full)"
ANY_SCALE = "--scale quick or full"
OF_VGG = f"{ANY_SCALE}; with VGG-11, {NEEDS_CIFAR10} and {FULL}"

LENGTH = Statement(
    "epoch", f"An epoch is {EPOCH} iterations at a total batch of {EPOCH_BATCH}.", "the assignment",
    "iterations of an epoch", f"{EPOCH} on one node and on 4", ANY_SCALE)
LOSSES_CLOSE = Statement(
    "losses-close", "Losses are close to those of one node: at iterations 0, 20 … 180 by no more "
    f"than the published ones, {CLOSE:.2f}.", "losses of each part",
    "loss of rank 0 at iterations 0, 20 … 180", f"at most {CLOSE:.2f} from one node's", OF_VGG)
ACCURACIES = Statement(
    "accuracies", f"Test accuracies of the four setups are similar: within {100 * SIMILAR:g} "
    "points.", "figure of accuracies",
    f"test accuracy after the epoch; of the small net, the mean over {len(SEEDS)} seeds",
    f"highest less lowest at most {100 * SIMILAR:g} points", OF_VGG)
NODES_ACCURACIES = Statement(
    "nodes-accuracies", "Accuracy is about the same on 2, 3 and 4 nodes.",
    "scaling task, total batch 300",
    f"test accuracy after equal iterations; of the small net, the mean over {len(SEEDS)} seeds",
    f"highest less lowest at most {100 * SIMILAR:g} points, in each setup that is tested", OF_VGG)
STATEMENTS = (LENGTH, LOSSES_CLOSE, ACCURACIES, NODES_ACCURACIES)


def is_real(setting):
    """Whether the setups' own runs decide about losses and accuracies."""
    return "epoch" in setting.scale and setting.has_cifar10


def trial_name(setup, nodes, seed=SEEDS[0]):
    end = "" if seed == SEEDS[0] else f"-seed-{seed}"
    return f"trial-{setup.name}-{nodes}-nodes{end}"


def length_name(nodes):
    return f"epoch-{nodes}-nodes"


def trial(setting, setup, nodes, seed):
    """Returns an epoch of the small net."""
    batch = setting.scale["trial"] // nodes
    samples = CIFAR10_SAMPLES if setting.has_cifar10 else OTHER_SAMPLES
    return Training(trial_name(setup, nodes, seed),
                    f"{setup.title}, an MLP, {nodes} × {batch}, seed {seed}", nodes, batch,
                    steps_per_epoch(samples, nodes, batch),
                    (*setup.options, "--lr", LR, "--seed", seed, "--sampler-seed", seed),
                    epochs=1, tests=True, model=MODEL, images=setting.images(OTHER_IMAGES),
                    only=LOSSES)


def length_run(setup):
    """Returns an epoch whose iterations are counted."""
    nodes, batch = setup.nodes, EPOCH_BATCH // setup.nodes
    return Training(length_name(nodes), f"an epoch of {EPOCH_BATCH}, an MLP, {nodes} × {batch}",
                    nodes, batch, EPOCH, setup.options, epochs=1, model=MODEL, only=LOSSES)


def runs(setting):
    """Returns the runs in place of those that the scale or the data do not have."""
    if "trial" not in setting.scale:
        return []
    lengths = [] if "epoch" in setting.scale else [length_run(ONE), length_run(DDP)]
    if is_real(setting):
        return lengths
    others = [nodes for nodes in setting.scale["nodes"] if nodes != NODES]
    return [*lengths, *(trial(setting, setup, setup.nodes, seed) for setup in SETUPS
                        for seed in SEEDS),
            *(trial(setting, DDP, nodes, seed) for nodes in others for seed in SEEDS)]


@dataclasses.dataclass(frozen=True)
class Accuracy:
    """Test accuracies, 0 to 1, over the seeds."""
    of_seeds: tuple

    @property
    def mean(self):
        return mean(self.of_seeds)

    @property
    def least(self):
        return min(self.of_seeds)

    @property
    def most(self):
        return max(self.of_seeds)

    @property
    def text(self):
        seeds = "" if len(self.of_seeds) == 1 else (f" ({100 * self.least:.2f} to "
                                                    f"{100 * self.most:.2f} %)")
        return f"{100 * self.mean:.2f} %{seeds}"


def of_setups(setting, results):
    """Returns {setup: its run, with the first seed}; empty if the scale has none."""
    names = {setup: setup.name if is_real(setting) else trial_name(setup, setup.nodes)
             for setup in SETUPS}
    return {setup: results[name] for setup, name in names.items() if name in results}


def accuracy_of(results, names):
    return Accuracy(tuple(results[name].summary["test"]["accuracy"] for name in names))


def names_of_seeds(setup, nodes):
    return [trial_name(setup, nodes, seed) for seed in SEEDS]


def accuracies(setting, results):
    """Returns {setup: its Accuracy}; empty if nothing is tested."""
    return {setup: accuracy_of(results, [setup.name] if is_real(setting) else
                               names_of_seeds(setup, setup.nodes))
            for setup in of_setups(setting, results)}


def accuracies_by_nodes(setting, results):
    """Returns {setup: {nodes: its Accuracy}}; empty if the scale has none."""
    real = is_real(setting)
    tested, name_of = (SHARED, nodes_name) if real else ((DDP,), trial_name)
    return {setup: {nodes: accuracy_of(results, [nodes_name(setup, nodes)] if real else
                                       names_of_seeds(setup, nodes))
                    for nodes in setting.scale["nodes"]}
            for setup in tested if name_of(setup, setting.scale["nodes"][0]) in results}


def decided(setting, statement, found, holds, numbers):
    """Returns a Claim that names what was trained in place of the setups. `found`: the runs."""
    claim = decide(statement, holds, numbers, "" if found else NEEDS_EPOCH)
    other = found and not is_real(setting)
    return dataclasses.replace(claim, condition=other_training(setting) if other else "")


def other_model(setting):
    return f"an MLP on {'CIFAR-10' if setting.has_cifar10 else 'Fashion-MNIST'}"


def other_training(setting):
    return f"{other_model(setting)} in place of VGG-11 on CIFAR-10"


def other_losses_note(setting):
    """Says, after other sentences, which losses decide; "" if these do."""
    if is_real(setting):
        return ""
    images = "" if setting.has_cifar10 else ", because its images are made up"
    return (f" VGG-11's losses do not decide whether losses are close to those of one node{images}: "
            f"{other_model(setting)} does.")


def spread(accuracies):
    values = [accuracy.mean for accuracy in accuracies]
    return max(values) - min(values)


@report_part
def length_claim(setting, results):
    names = {setup.title: setup.name if "epoch" in setting.scale else length_name(setup.nodes)
             for setup in (ONE, DDP)}
    counts = {title: results[name].iterations for title, name in names.items() if name in results}
    known = counts if "trial" in setting.scale else {}
    return decide(LENGTH, set(counts.values()) == {EPOCH},
                  ", ".join(f"{title} {count}" for title, count in counts.items()),
                  "" if known else NEEDS_EPOCH)


def apart(first, second):
    """Returns how far two losses are apart: infinity if one of them is infinite."""
    return math.inf if math.inf in (first, second) else abs(first - second)


@report_part
def close_claim(setting, results):
    found = of_setups(setting, results)
    losses = {step: [found[setup].loss_at(step) for setup in SETUPS] for step in PRINTED if found}
    compared = {step: values for step, values in losses.items() if None not in values}
    difference = max((apart(one, other) for one, *others in compared.values() for other in others),
                     default=0)
    end = ("" if len(compared) == len(losses) else
           f" (up to iteration {max(compared, default=0)}, because the runs end before {PRINTED[-1]})")
    return decided(setting, LOSSES_CLOSE, found, difference <= CLOSE, f"at most {difference:.2f}{end}")


@report_part
def accuracy_claim(setting, results):
    found = accuracies(setting, results)
    return decided(setting, ACCURACIES, found, found and spread(found.values()) <= SIMILAR,
                   ", ".join(f"{setup.title} {accuracy.text}" for setup, accuracy in found.items()))


@report_part
def nodes_claim(setting, results):
    found = accuracies_by_nodes(setting, results)
    texts = [f"{setup.title} " + ", ".join(f"{nodes} nodes {accuracy.text}"
                                           for nodes, accuracy in by_nodes.items())
             for setup, by_nodes in found.items()]
    return decided(setting, NODES_ACCURACIES, found,
                   all(spread(by_nodes.values()) <= SIMILAR for by_nodes in found.values()),
                   "; ".join(texts))


def claims(setting, results):
    """Returns a claim for each of STATEMENTS."""
    return [length_claim(setting, results), close_claim(setting, results),
            accuracy_claim(setting, results), nodes_claim(setting, results)]
