"""The course's assignment: VGG-11 on CIFAR-10 on one node, and on four by gather and scatter, by
all-reduce and by DistributedDataParallel."""
import dataclasses

from cli.experiment import (course_answers, course_claims, course_costs, course_parts, course_trials,
                            emulation)
from cli.experiment.course_buckets import (BY_PARAMETER, IN_BUCKETS, by_parameter, layers_name,
                                           layers_run, sheet_name, sheet_title)
from cli.experiment.course_setups import (DDP, GATHER, NODES, ONE, PRINTED, SETUPS, SHARED,
                                          nodes_name, nodes_times)
from cli.experiment.disturbance import too_fast, unsteady
from cli.experiment.results import improvement
from cli.experiment.study import (Experiment, Findings, bars, line, lines, made_up_note, report_part,
                                  tabulate, tabulate_curves)
from cli.experiment.work import TIMES, Training

SOURCE = "the course's assignment on distributed training, VGG-11 on CIFAR-10, 4 nodes"
SCALES = {
    "quick": {"about": "Batches of 32 images in all in place of 256, 40 iterations in place of an "
                       "epoch; 36 in all and 10 iterations for 2, 3 and 4 nodes. Epochs of an MLP "
                       "for accuracies.",
              "batch": 32, "iterations": 40, "timed_iterations": 15,
              "nodes": (2, 3, 4), "nodes_batch": 36, "nodes_iterations": 10, "trial": 300},
    "full": {"about": "As the assignment says: an epoch of 196 iterations of 256 images, and 40 "
                      "iterations of 300 images on 2, 3 and 4 nodes.",
             "batch": 256, "iterations": 196,
             "nodes": (2, 3, 4), "nodes_batch": 300, "nodes_iterations": 40, "trial": 300,
             "epoch": True},
    "tiny": {"about": "For tests.", "hidden": True,
             "batch": 8, "iterations": 5,
             "nodes": (2, 3), "nodes_batch": 6, "nodes_iterations": 2}}

EQUAL_LOSSES = "gather and scatter, all-reduce and DDP (equal)"
OTHERS_REAL = "Test accuracies are those of an MLP on other images, as their table says."


def peer_name(setup):
    return f"gloo-{setup.name}"


def setup_run(setup, scale, **more):
    batch = scale["batch"] // setup.nodes
    return Training(**{"name": setup.name, "title": f"{setup.title}, {setup.nodes} × {batch}",
                       "ranks": setup.nodes, "batch_size": batch,
                       "iterations": scale["iterations"], "options": setup.options, **more})


def peer_run(setup, scale):
    run = setup_run(setup, scale)
    return dataclasses.replace(run, name=peer_name(setup), title=f"PyTorch + Gloo, {run.title}",
                               iterations=min(scale["iterations"], 40), options=(),
                               peer_mode=setup.name, only=TIMES)


def runs(setting):
    scale = setting.scale
    tests = "epoch" in scale
    planned = [setup_run(setup, scale, epochs=int(tests), tests=tests) for setup in SETUPS]
    planned += [layers_run(setting, setup) for setup in BY_PARAMETER]
    if setting.peers:
        planned += [peer_run(setup, scale) for setup in SHARED]
    for setup in SHARED:
        for nodes in scale["nodes"]:
            batch = scale["nodes_batch"] // nodes
            planned.append(setup_run(
                setup, scale, name=nodes_name(setup, nodes), ranks=nodes, batch_size=batch,
                title=f"{setup.title}, {nodes} × {batch}", iterations=scale["nodes_iterations"],
                **({"tests": True} if course_trials.is_real(setting) else {"only": TIMES})))
    return [*planned, *course_trials.runs(setting), *course_parts.runs()]


def times_rows(results):
    """Returns (title, mean, mean of the setup that it is compared with, PyTorch's mean, setup whose
    published values stand beside it): the assignment's setups, then those in buckets."""
    means = [results[sheet_name(setup)].mean_iteration() for setup in SETUPS]
    peers = [results.get(peer_name(setup)) for setup in SETUPS]
    gloo = [peer and peer.mean_iteration() for peer in peers]
    of_sheet = zip(map(sheet_title, SETUPS), means, [None, *means], gloo, SETUPS)
    return [*of_sheet, *(
        (f"{setup.title}, {IN_BUCKETS}", results[setup.name].mean_iteration(),
         results[layers_name(setup)].mean_iteration(), None, None) for setup in BY_PARAMETER)]


def counted_note(results):
    """Says which iterations the means are of. An emulated run may have fewer than one node's."""
    counted, shared = (results[setup.name].counted_iterations() for setup in (ONE, DDP))
    fewer = (f" On {NODES} nodes, whose computation is emulated, it is the mean of iterations 2 to "
             f"{shared + 1}, that is of {shared} values." if shared < counted else "")
    return (f"Mean of iterations 2 to {counted + 1}, that is of {counted} values (the assignment's 40 "
            f"iterations without the first give 39), over the ranks.{fewer}")


@report_part
def times(results):
    """Returns a table and a figure."""
    rows = times_rows(results)
    has_peers = any(gloo for *_, gloo, _ in rows)
    table = tabulate(
        "times", "Mean time of an iteration", "task of each part", rows, [
            ("setup", "setup", lambda title, *_: title),
            ("mean", "measured (s)", lambda _, mean, *__: mean, 6),
            ("improvement", "improvement (%)",
             lambda _, mean, before, *__: improvement(before, mean), 2),
            *([("gloo", "PyTorch + Gloo (s)", lambda *row: row[3], 6)] if has_peers else []),
            ("published", "published (s)", lambda *row: row[4] and row[4].mean_iteration, 6),
            ("published_improvement", "published improvement (%)",
             lambda *row: row[4] and row[4].improvement, 2)],
        f"{counted_note(results)} The first four rows are the assignment's setups, as the published "
        "ones are: gather and scatter and all-reduce exchange parameter by parameter. Their "
        "improvement is on the line above. The last two rows exchange the same gradients in buckets; their "
        "improvement is on the same setup, parameter by parameter.")
    series = {"measured": [mean for _, mean, *_ in rows],
              "published": [of and of.mean_iteration for *_, of in rows],
              **({"PyTorch + Gloo": [gloo for *_, gloo, _ in rows]} if has_peers else {})}
    return table, bars(
        "times", "Mean time of an iteration by setup", "figure of mean times",
        "mean time of an iteration (s)", [row["setup"] for row in table.rows], series,
        "Published: on four other machines and at the assignment's size; compare the order. No value "
        "was published for buckets without overlap.")


def loss_curves(of_setups):
    """Returns lines of a figure. Setups of four nodes whose losses are equal have one line."""
    shared = [of_setups[setup] for setup in SHARED]
    if any(values != shared[0] for values in shared):
        return [line(setup.title, range(len(values)), values, colour=setup.colour)
                for setup, values in of_setups.items()]
    return [line(title, range(len(of_setups[setup])), of_setups[setup], colour=setup.colour)
            for setup, title in ((ONE, ONE.title), (GATHER, EQUAL_LOSSES))]


@report_part
def losses(setting, results):
    """Returns a table and a figure."""
    table = tabulate_curves(
        "losses", "Loss of rank 0 at every 20th iteration", "task of each part",
        ("iteration", PRINTED),
        [(setup.name, setup.title, [results[setup.name].loss_at(step) for step in PRINTED])
         for setup in SETUPS] +
        [(f"{setup.name}_published", f"{setup.title}, published", setup.losses)
         for setup in SETUPS], 4,
        "Iterations count from 0. Cells after the end of the run are empty."
        f"{course_trials.other_losses_note(setting)}")
    return table, lines(
        "losses", "Loss of rank 0", "losses of each part", ("iteration", "loss"),
        loss_curves({setup: results[setup.name].losses() for setup in SETUPS}),
        "Gather and scatter, all-reduce and DDP add in the same order, so their losses are equal; the "
        "published ones are not."
        f"{course_trials.other_losses_note(setting)}", y_log=10)


@report_part
def trial_losses(setting, results):
    """Returns a list of a table, which is empty if the setups' own losses decide."""
    found = course_trials.of_setups(setting, results)
    if course_trials.is_real(setting) or not found:
        return []
    other = course_trials.other_training(setting)
    return [tabulate_curves(
        "trial-losses", f"Loss of rank 0 at every 20th iteration, {other}", "task of each part",
        ("iteration", PRINTED),
        [(setup.name, setup.title, [result.loss_at(step) for step in PRINTED])
         for setup, result in found.items()], 4,
        "The statement that losses are close to those of one node is judged by these.")]


@report_part
def accuracies(setting, results):
    """Returns a table and a figure; nothing without tests."""
    found = course_trials.accuracies(setting, results)
    if not found:
        return []
    real = course_trials.is_real(setting)
    note = "" if real else (f"A{course_trials.other_training(setting)[1:]}: compare the setups "
                            "with each other, not with the published values, which are VGG-11's. "
                            f"{course_trials.SEEDS_NOTE}")
    things = [(setup, accuracy, course_trials.of_setups(setting, results)[setup].summary["test"])
              for setup, accuracy in found.items()]
    table = tabulate("test", "Test after the epoch", "task of each part", things, [
        ("setup", "setup", lambda setup, *_: setup.title),
        ("loss", "test loss", lambda *thing: thing[2].get("loss"), 4),
        ("accuracy", "accuracy (%)", lambda _, accuracy, __: 100 * accuracy.mean, 2),
        *([] if real else [
            ("least", "least of the seeds (%)", lambda _, accuracy, __: 100 * accuracy.least, 2),
            ("most", "most of the seeds (%)", lambda _, accuracy, __: 100 * accuracy.most, 2)]),
        ("published_loss", "published loss", lambda setup, *_: setup.test_loss, 4),
        ("published_accuracy", "published accuracy (%)", lambda setup, *_: setup.correct / 100, 2)],
        note)
    return table, bars("accuracy", "Test accuracy by setup", "figure of accuracies",
                       "test accuracy (%)", [row["setup"] for row in table.rows],
                       {"measured" if real else f"measured, {course_trials.other_model(setting)}":
                        [row["accuracy"] for row in table.rows],
                        "published" if real else "published, VGG-11 on CIFAR-10":
                        [row["published_accuracy"] for row in table.rows]}, note)


@report_part
def by_nodes(setting, results):
    """Returns a table and a figure."""
    title = f"Mean time of an iteration by nodes, total batch {setting.scale['nodes_batch']}"
    x = setting.scale["nodes"]
    seconds = {setup: nodes_times(setting, results, setup) for setup in SHARED}
    return (tabulate_curves("nodes", title, "scaling task, total batch 300", ("nodes", x),
                            [(setup.name, f"{setup.title} (s)", values)
                             for setup, values in seconds.items()], 4,
                            f"Gather and scatter and all-reduce exchange {IN_BUCKETS}."),
            lines("nodes", title, "figure of time against nodes",
                  ("nodes", "mean time of an iteration (s)"),
                  [line(setup.title, x, values, colour=setup.colour)
                   for setup, values in seconds.items()],
                  f"Gather and scatter and all-reduce exchange {IN_BUCKETS}.", y_from_zero=True))


def notes(setting):
    said = ["DDP here is --sync ddp, which also overlaps with the next forward pass; gather and "
            "scatter and all-reduce move whole buckets of 25 MiB after backward, unless they are said to "
            "go parameter by parameter, as the assignment's do (--sync per-layer).",
            "Published values are those of one report on four containers. Its improvements are "
            "given as they stand there; from its averages follow 37.31, 13.32 and 14.44 %."]
    if not setting.has_cifar10:
        said.append(made_up_note("VGG-11", OTHERS_REAL if "trial" in setting.scale else ""))
    if not setting.has_hosts:
        said.append("All ranks shared the cores of this machine, so the times say little about "
                    "four nodes.")
    if setting.peers:
        said.append("PyTorch + Gloo trained on the same model, batch and threads, without "
                    "augmentation.")
    return said


def find(setting, results):
    return Findings(
        course_claims.claims(setting, results),
        [course_answers.answers(setting, results), *times(results), *by_parameter(results),
         *losses(setting, results), *trial_losses(setting, results),
         *accuracies(setting, results), *by_nodes(setting, results),
         *course_parts.shown(results), *course_costs.shown(setting, results)],
        notes(setting))


def signs(setting, works, results):
    """Looks for signs that other processes used the cores; see disturbance.py."""
    return [*setup_signs(results),
            *(sign for setup in SHARED for sign in nodes_signs(setting, results, setup)),
            *emulation.signs(setting, works, results), *unsteady(works, results)]


@report_part
def setup_signs(results):
    one = results[ONE.name].mean_iteration()
    return [sign for setup in SHARED
            for sign in too_fast(f"{setup.title} after one node",
                                 one / results[setup.name].mean_iteration(), NODES)]


@report_part
def nodes_signs(setting, results, setup):
    """More nodes share one total batch, so the time falls at most as their number rises."""
    pairs = [*zip(setting.scale["nodes"], nodes_times(setting, results, setup))]
    return [sign for (few, before), (many, after) in zip(pairs, pairs[1:])
            for sign in too_fast(f"{setup.title}, {many} nodes after {few}", before / after,
                                 many / few)]


EXPERIMENT = Experiment("course", "VGG-11 on one node and four", SOURCE, SCALES, runs, find, NODES,
                        options=("peers",), statements=course_claims.STATEMENTS, signs=signs)
