#!/usr/bin/python3
"""`gradwire bench training`, once its options are read.

    bench_training.py JSON    JSON: see cli/bench/bench_request.h

Trains with each set-up in turn, in rounds, and puts tables beside each other. Says on stderr how
it goes.
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from cli.bench.measurement import measured_by
from cli.bench.training_rows import (COMPARISON_COLUMNS, TRAINING_COLUMNS, TrainingTimes,
                                     add_round, bound_row, comparison_rows, training_rows)
from cli.runs.failure import Failure, within
from cli.runs.quantiles import median
from cli.runs.report import Part
from cli.runs.training import alone, ranks_of, training_peers_of


def model_and_data(request):
    args = [*request["model_options"], "--dataset", request["dataset"]]
    return args + (["--data-dir", request["data_dir"]] if request["data_dir"] else [])


def common_args(request):
    """What Gradwire's worker and the peer's script are told alike."""
    emulated = request["compute_seconds"]
    iterations = request["iterations"] + 1  # the last one is not counted
    return [*model_and_data(request), "--batch-size", str(request["batch_size"]),
            "--iterations", str(iterations), "--threads", "1",
            *(["--compute-seconds", emulated["option"]] if emulated else [])]


def run_of(request, setup):
    argv = common_args(request)
    if setup["kind"] == "peer":
        return training_peers_of(request, [*argv, *setup["options"]], request["workers"])
    start = alone if setup["kind"] == "alone" else ranks_of
    return start(request, [*argv, "--augment", "false", *setup["options"]], request["workers"])


def say_round(request, number, setup, times):
    p50 = median(times.iteration_seconds)
    print(f"round {number} of {request['rounds']}  {setup['name']:<20} p50 so far {p50:.3f} s",
          file=sys.stderr, flush=True)


def run_rounds(request, runner, times):
    """Fills `times` by set-up. Failure as Runner.run and add_round, with round and set-up."""
    for number in range(1, request["rounds"] + 1):
        for setup in request["setups"]:
            of_setup = times.get(setup["name"], TrainingTimes())
            with within(f"round {number}, {setup['name']}"):
                outputs = runner.run(run_of(request, setup))
                add_round(outputs.ranks, setup["kind"] == "own", of_setup)
            times[setup["name"]] = of_setup
            say_round(request, number, setup, of_setup)


def emulation_notes(seconds):
    return ["COMPUTATION IS EMULATED: in place of it each rank sleeps "
            f"{seconds['forward']:g} s in forward and {seconds['backward']:g} s in backward of an "
            "iteration, layer by layer, each the share that its multiply-adds are of all; a layer's "
            "gradients are there when its sleep in backward ends. So processors are left to the "
            "exchange and the optimizer, which are real. Bound: the longer of the sleeps and of "
            "a ring's least time for the gradients on the links, if the two overlapped wholly."]


def notes_of(request):
    emulated = request["compute_seconds"]
    return [*(emulation_notes(emulated) if emulated else []),
            f"Set-ups ran in turn, in {request['rounds']} rounds of {request['iterations']} "
            "iterations, the first of each not counted, nor a further one at the end, behind which "
            "no forward pass hides what is late; one compute thread a rank, SGD, no "
            "augmentation. The time of an iteration is the mean over the ranks: the sum of those "
            "is what the run took, while the longest would count twice what one rank waits in "
            "this iteration and another in the next.",
            "Exposed communication: median of what the trainer itself waited; empty where it is "
            "hidden in backward and not measured. Efficiency: median of computation over the "
            "median. Of local-sgd and diloco the mean counts: most iterations exchange nothing."]


def gradient_bytes(layout):
    """Of what gradwire-layout printed. Failure if that is something else."""
    try:
        return sum(bucket["bytes"] for bucket in json.loads(layout)["buckets"]
                   if bucket["averaged"])
    except (ValueError, KeyError, TypeError):
        raise Failure(f"gradwire-layout printed no layout: {layout[:80]}") from None


def bound_rows(request, layout):
    """What no set-up can be quicker than, where computation is emulated and the links' speed is
    known."""
    emulated, per_byte = request["compute_seconds"], request["ring_seconds_per_byte"]
    if not emulated or per_byte is None:
        return []
    transfer = per_byte * gradient_bytes(layout)
    return [bound_row(emulated["forward"] + emulated["backward"], transfer)]


def fill_report(request, times, bounds, report):
    setups = request["setups"]
    report.title = (f"Training {request['model']}, {request['workers']} ranks, "
                    f"batch {request['batch_size']} per rank")
    if request["compute_seconds"]:
        report.title += ", computation emulated"
    rows = training_rows(setups, times)
    report.parts = [Part("setups", "", TRAINING_COLUMNS, [*rows, *bounds] if rows else [])]
    comparisons = comparison_rows(setups, times)
    if comparisons:
        report.parts.append(
            Part("comparisons", "Ratio to the peer", COMPARISON_COLUMNS, comparisons))
    report.notes = notes_of(request)


def check_agreement(times):
    for name, of_setup in sorted(times.items()):
        if not of_setup.ranks_agree:
            raise Failure(f"{name}: the ranks of one run ended with different parameters")


def measure(request, runner, report):
    """Fills the report, which after a Failure holds what was measured before."""
    layout = runner.try_out([request["programs"]["layout"], *model_and_data(request)])
    bounds, times = bound_rows(request, layout), {}
    try:
        run_rounds(request, runner, times)
    finally:
        fill_report(request, times, bounds, report)
    check_agreement(times)


if __name__ == "__main__":
    sys.exit(measured_by(measure))
