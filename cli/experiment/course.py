"""The course's assignment: VGG-11 on CIFAR-10 on one node, and on four by gather and scatter, by
all-reduce and by DistributedDataParallel."""
import dataclasses

from cli.experiment import course_answers, course_claims, course_costs, course_trials
from cli.experiment.course_buckets import BY_PARAMETER, by_parameter, layers_run
from cli.experiment.course_setups import (NODES, ONE, PRINTED, SETUPS, SHARED, nodes_name,
                                          nodes_times, tested)
from cli.experiment.results import improvement
from cli.experiment.study import (MADE_UP_IMAGES, Experiment, Findings, bars, line, lines,
                                  report_part, tabulate, tabulate_curves)
from cli.experiment.work import TIMES, Training

SOURCE = "the course's assignment on distributed training, VGG-11 on CIFAR-10, 4 nodes"
SCALES = {
    "quick": {"about": "Batches of 32 images in all in place of 256, 40 iterations in place of an "
                       "epoch; 36 in all and 12 iterations for 2, 3 and 4 nodes. Epochs of an MLP "
                       "for accuracies.",
              "batch": 32, "iterations": 40,
              "nodes": (2, 3, 4), "nodes_batch": 36, "nodes_iterations": 12, "trial": 300},
    "full": {"about": "As the assignment says: an epoch of 196 iterations of 256 images, and 40 "
                      "iterations of 300 images on 2, 3 and 4 nodes.",
             "batch": 256, "iterations": 196,
             "nodes": (2, 3, 4), "nodes_batch": 300, "nodes_iterations": 40, "trial": 300,
             "epoch": True},
    "tiny": {"about": "For tests.", "hidden": True,
             "batch": 8, "iterations": 5,
             "nodes": (2, 3), "nodes_batch": 6, "nodes_iterations": 2}}


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
    return planned + course_trials.runs(setting)


@report_part
def times(results):
    """Returns a table and a figure."""
    means = [results[setup.name].mean_iteration() for setup in SETUPS]
    peers = [results.get(peer_name(setup)) for setup in SETUPS]
    gloo = [peer and peer.mean_iteration() for peer in peers]
    counted = results[ONE.name].counted_iterations()
    table = tabulate(
        "times", "Mean time of an iteration", "task of each part",
        zip(SETUPS, means, [None, *means], gloo), [
            ("setup", "set-up", lambda setup, *_: setup.title),
            ("mean", "measured (s)", lambda _, mean, *__: mean, 6),
            ("improvement", "improvement (%)",
             lambda _, mean, before, __: improvement(before, mean), 2),
            *([("gloo", "PyTorch + Gloo (s)", lambda *thing: thing[-1], 6)] if any(gloo) else []),
            ("published", "published (s)", lambda setup, *_: setup.mean_iteration, 6),
            ("published_improvement", "published improvement (%)",
             lambda setup, *_: setup.improvement, 2)],
        f"Mean of iterations 2 to {counted + 1}, that is of {counted} values (the assignment's 40 "
        "iterations without the first give 39), over the ranks. Improvement: on the line above.")
    series = {"measured": means, "published": [setup.mean_iteration for setup in SETUPS],
              **({"PyTorch + Gloo": gloo} if any(gloo) else {})}
    return table, bars(
        "times", "Mean time of an iteration by set-up", "figure of mean times",
        "mean time of an iteration (s)", [setup.title for setup in SETUPS], series,
        "Published: on four other machines and at the assignment's size; compare the order.")


@report_part
def losses(results):
    """Returns a table and a figure."""
    table = tabulate_curves(
        "losses", "Loss of rank 0 at every 20th iteration", "task of each part",
        ("iteration", PRINTED),
        [(setup.name, setup.title, [results[setup.name].loss_at(step) for step in PRINTED])
         for setup in SETUPS] +
        [(f"{setup.name}_published", f"{setup.title}, published", setup.losses)
         for setup in SETUPS], 4,
        "Iterations count from 0. Cells after the end of the run are empty.")
    of_setups = {setup: results[setup.name].losses() for setup in SETUPS}
    return table, lines(
        "losses", "Loss of rank 0", "losses of each part", ("iteration", "loss"),
        [line(setup.title, range(len(values)), values, colour=setup.colour)
         for setup, values in of_setups.items()],
        "Gather and scatter, all-reduce and DDP have the same losses because they add in the same "
        "order; the published ones did not.")


@report_part
def accuracies(setting, results):
    """Returns a table and a figure; nothing without tests."""
    real = tested(results)
    things = real or [(setup, result.summary["test"]) for setup, result in
                      course_trials.of_setups(setting, results).items()]
    if not things:
        return []
    note = "" if real else (f"A{course_trials.other_training(setting)[1:]}: compare the set-ups "
                            "with each other, not with the published values.")
    table = tabulate("test", "Test after the epoch", "task of each part", things, [
        ("setup", "set-up", lambda setup, _: setup.title),
        ("loss", "test loss", lambda _, test: test["loss"], 4),
        ("accuracy", "accuracy (%)", lambda _, test: 100 * test["accuracy"], 2),
        ("published_loss", "published loss", lambda setup, _: setup.test_loss, 4),
        ("published_accuracy", "published accuracy (%)", lambda setup, _: setup.correct / 100, 2)],
        note)
    return table, bars("accuracy", "Test accuracy by set-up", "figure of accuracies",
                       "test accuracy (%)", [row["setup"] for row in table.rows],
                       {"measured": [row["accuracy"] for row in table.rows],
                        "published": [row["published_accuracy"] for row in table.rows]}, note)


@report_part
def by_nodes(setting, results):
    """Returns a table and a figure."""
    title = f"Mean time of an iteration by nodes, total batch {setting.scale['nodes_batch']}"
    x = setting.scale["nodes"]
    seconds = {setup: nodes_times(setting, results, setup) for setup in SHARED}
    return (tabulate_curves("nodes", title, "scaling task, total batch 300", ("nodes", x),
                            [(setup.name, f"{setup.title} (s)", values)
                             for setup, values in seconds.items()], 4),
            lines("nodes", title, "figure of time against nodes",
                  ("nodes", "mean time of an iteration (s)"),
                  [line(setup.title, x, values, colour=setup.colour)
                   for setup, values in seconds.items()], y_from_zero=True))


def notes(setting):
    said = ["DDP here is --sync ddp, which also overlaps with the next forward pass; gather and "
            "scatter and all-reduce move whole buckets of 25 MiB after backward. The assignment's "
            "go parameter by parameter, which --sync per-layer does: see what buckets gain.",
            "Published values are those of one report on four containers. Its improvements are "
            "given as they stand there; from its averages follow 37.31, 13.32 and 14.44 %."]
    if not setting.has_cifar10:
        said.append(MADE_UP_IMAGES)
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
         *losses(results), *accuracies(setting, results), *by_nodes(setting, results),
         *course_costs.shown(setting, results)],
        notes(setting))


EXPERIMENT = Experiment("course", "VGG-11 on one node and four", SOURCE, SCALES, runs, find, NODES,
                        statements=course_claims.STATEMENTS)
