#!/usr/bin/python3
"""`gradwire bench training`, once its options are read.

    bench_training.py JSON    JSON: see cli/bench/bench_request.h

Trains with each setup in turn, in rounds, and compares them in tables. Reports progress on stderr.
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from cli.bench.measurement import measured_by
from cli.bench.training_rows import (COMPARISON_COLUMNS, TRAINING_COLUMNS, TrainingTimes,
                                     add_round, bound_row, comparison_rows, training_rows)
from cli.runs.failure import Failure, within
from cli.runs.report import Part
from cli.runs.training import alone, ranks_of, training_peers_of, warn_of_slow_blas


def model_and_data(request):
    args = [*request["model_options"], "--dataset", request["dataset"]]
    return args + (["--data-dir", request["data_dir"]] if request["data_dir"] else [])


def common_args(request):
    """Returns the arguments that Gradwire's worker and the peer's script share."""
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


def run_rounds(request, runner, times):
    """Fills `times` by setup. Failure of Runner.run and add_round names round and setup."""
    for number in range(1, request["rounds"] + 1):
        for setup in request["setups"]:
            of_setup = times.get(setup["name"], TrainingTimes())
            with within(f"round {number}, {setup['name']}"):
                outputs = runner.run(run_of(request, setup))
                add_round(outputs.ranks, setup["kind"] == "own", of_setup)
            times[setup["name"]] = of_setup
            print(f"round {number} of {request['rounds']}  {setup['name']:<20} "
                  f"p50 so far {of_setup.p50:.3f} s", file=sys.stderr, flush=True)


def emulation_notes(seconds):
    return ["COMPUTATION IS EMULATED: each rank sleeps instead, "
            f"{seconds['forward']:g} s in forward and {seconds['backward']:g} s in backward of an "
            "iteration, layer by layer in proportion to the multiply-adds. A layer's gradients are "
            "ready when its sleep in backward ends. The exchange and the optimizer, which are real, "
            "have the processors to themselves. Bound: the longer of the sleeps and of a ring's "
            "least time for float32 gradients on the links, if the two overlapped completely; "
            "codecs send less."]


def notes_of(request):
    emulated = request["compute_seconds"]
    return [*(emulation_notes(emulated) if emulated else []),
            f"Setups ran in turn, in {request['rounds']} rounds of {request['iterations']} "
            "iterations. The first iteration of a round does not count, nor a further one at the "
            "end, because no forward pass follows it to hide late updates. One compute thread a "
            "rank, SGD, no augmentation. The time of an iteration is the mean over the ranks, so "
            "the sum is the time of the run. The longest would count a wait twice if one rank "
            "waits in this iteration and another in the next.",
            "Exposed communication: median of the trainer's own wait; empty if it is hidden in "
            "backward and not measured. Efficiency: median of computation over the median. For "
            "local-sgd and diloco use the mean, because most iterations exchange nothing."]


def gradient_bytes(layout):
    """Reads gradwire-layout's output. Failure if it is something else."""
    try:
        return sum(bucket["bytes"] for bucket in json.loads(layout)["buckets"]
                   if bucket["averaged"])
    except (ValueError, KeyError, TypeError):
        raise Failure(f"gradwire-layout printed no layout: {layout[:80]}") from None


def bound_rows(request, layout):
    """Returns the least time of any setup, for emulated computation and known links."""
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


def measure(request, runner, report):
    """Fills the report, which after a Failure holds the measurements so far."""
    layout = runner.try_out([request["programs"]["layout"], *model_and_data(request)])
    bounds, times = bound_rows(request, layout), {}
    try:
        warn_of_slow_blas(request)
        run_rounds(request, runner, times)
    finally:
        fill_report(request, times, bounds, report)
    for name, of_setup in sorted(times.items()):
        if not of_setup.ranks_agree:
            raise Failure(f"{name}: the ranks of one run ended with different parameters")


if __name__ == "__main__":
    sys.exit(measured_by(measure))
