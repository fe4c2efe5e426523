"""Runs that start nothing, for the tests beside it."""
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

EMULATED_SECONDS = 0.9  # of an iteration
RUNS = 14  # of the course, at scale tiny
SMALL = 2  # of them, programs that compute nothing and have no threads
ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))
from cli.experiment import experiment, writing
from cli.experiment.experiment import EXPERIMENTS, run_experiment
from cli.experiment.results import result_of
from cli.experiment.study import experiment_called
from cli.report import figures
from cli.runs.failure import Failure
from cli.runs.runner import Outputs


TRAITS = {"loads_workers_alike": True, "exact": True}
TABLES = {"models": ["vgg11", "mlp", "lenet", "alexnet", "squeezenet1_0", "vgg16", "resnet18",
                     "resnet50", "densenet121", "bert_tiny", "bert_small", "bert_base"],
          "datasets": ["cifar10", "fashion-mnist", "mnist", "synthetic", "synthetic-tokens"],
          "wires": ["fp32", "bf16", "fp16"],
          "compressions": ["none", "int8", "top-k", "powersgd"],
          "operations": ["send-recv", "broadcast", "scatter", "gather", "reduce", "all-gather",
                         "reduce-scatter", "all-reduce"],
          "syncs": ["none", "data-parallel", "gather-scatter", "all-reduce", "per-layer", "ddp",
                    "local-sgd", "diloco", "parameter-server"],
          "backends": {"coordinator": {**TRAITS, "loads_workers_alike": False}, "sharded": TRAITS,
                       "ring": TRAITS, "tree": {"loads_workers_alike": False, "exact": False},
                       "gloo": {**TRAITS, "exact": False}, "mpi": {**TRAITS, "exact": False}}}


def request_of(folder, name="course", **more):
    return {"command": f"gradwire experiment {name}", "words": [name], "scale": "tiny",
            "programs": {"worker": "/x/gradwire-worker", "coordinator": "/x/gradwire-coordinator",
                         "collectives": "/x/gradwire-collectives",
                         "layout": "/x/gradwire-layout", "mpi": "/x/libgradwire_mpi.so",
                         "peers": str(ROOT / "bench/peers")},
            "cores": len(os.sched_getaffinity(0)), "under_mpirun": ["mpi"], "one_host": ["memory"],
            "versions": {"gradwire": "1"}, "blas_path": "", "blas_warning": "", "hosts": "",
            "hostfile": "", "rate": "none", "port": 29400, "peers": False, "timeout_seconds": 60, "link_gbit": None,
            "data_dir": "", "out": str(folder), "again": False, "threads": 0, "link": [],
            "chosen": {}, "target": 0, "json": False, "weights": "", "pretrain": 0,
            "memory_left": None, "tables": TABLES,
            **more}


def option(argv, name):
    return argv[argv.index(name) + 1] if name in argv else ""


def training_text(argv, rank):
    """What a worker prints whose loss is 2 + rank at first, and whose iterations get shorter with
    every rank that takes part."""
    seconds = EMULATED_SECONDS if "--compute-seconds" in argv else 1.0
    count = int(option(argv, "--iterations") or 196)
    epochs = int(option(argv, "--epochs") or 1)
    records = [{"step": step, "loss": 2 + rank - step / 1000, "iteration_seconds": seconds,
                "phase_seconds": {"data": 0.01, "forward": 0.3, "backward": 0.5,
                                  "communication": 0.1, "exposed_communication": 0.05,
                                  "optimizer": 0.01},
                "bytes_sent": 100, "bytes_received": 100, "samples": 1, "epoch": step * epochs // count, "lr": 0.1}
               for step in range(count)]
    summary = {"parameters_sha256": "a", "buffers_sha256": "b", "bytes_sent": 100 * count,
               "peak_memory_bytes": 400_000_000,
               "epochs": [{"epoch": epoch, "seconds": 1.0, "loss": 2.0, "accuracy": 0.1,
                           "test": {"accuracy": 0.1 * (epoch + 1)}} for epoch in range(epochs)],
               "trained_parameters": 1, "outputs_sha256": "c",
               "frozen_sha256": {"first": "d", "last": "d"}, "barrier_seconds": 0.01}
    if "--mode" in argv:  # PyTorch's peer
        for record in records:
            record["phase_seconds"] = {"exposed_communication": 0.05}
    if "--evaluate" in argv:
        summary["test"] = {"loss": 2.2, "accuracy": 0.18}
    lines = "".join(json.dumps(record) + "\n" for record in records)
    return lines + json.dumps(summary, indent=2) + "\n"


def layout_text(argv):
    """Of gradwire-layout."""
    if option(argv, "--model"):
        return json.dumps({"samples": 50000, "buckets": [{"bytes": 40, "averaged": True},
                                                         {"bytes": 8, "averaged": False}]}) + "\n"
    second = [1, 0] if option(argv, "--set-epoch") == "true" else [0, 1]
    ranks = int(option(argv, "--world-size"))
    return json.dumps({"order": [[[0, 1]] * ranks, [second] * ranks]}) + "\n"


def names_text():
    """Of gradwire-layout, of a model with two layers."""
    tensors = ["first.weight", "first.bias", "last.weight"]
    return json.dumps({"parameters": [{"name": name} for name in tensors],
                       "buckets": [{"bytes": 4, "averaged": True, "tensors": tensors[:0:-1]},
                                   {"bytes": 8, "averaged": True, "tensors": tensors[:1]}]}) + "\n"


def averages_text():
    return json.dumps({"seconds": [0.002, 0.001], "wrong": 0, "bytes_sent": 10}) + "\n"


def shown_text(rank):
    return json.dumps({"rank": rank, "input": [rank] * 4, "output": [None] * 4,
                       "sent": {"0": 4}}) + "\n"


def coordinator_text():
    """What a coordinator prints through which gradients go."""
    return json.dumps({"iterations": 9, "iteration_seconds": {"mean": 1.0},
                       "phase_seconds": {"wait": 0.5, "receive": 0.3, "fold": 0.15, "send": 0.05,
                                         "hidden_send": 0.2}, "peak_memory_bytes": 1}, indent=2)


def text_of(argv, rank):
    if argv[0].endswith("layout"):
        return names_text() if "--bucket-cap-mb" in argv else layout_text(argv)
    if "--show" in argv:
        return shown_text(rank)
    return averages_text() if "--bytes" in argv else training_text(argv, rank)


def results_of_plan(experiment, setting):
    """Returns the results of all runs of an experiment, by name in their order."""
    ranks = {work: work.run(setting).ranks for work in experiment.runs(setting)}
    return {work.name: result_of(work, work.read(setting, [
        text_of(argv, rank) for rank, argv in enumerate(of_work)]))
            for work, of_work in ranks.items()}


class FakeRunner:
    """Stands in for cli/runs/runner.py's; `fail_at`: the number of the run that fails; `fails`: by
    its options; `why` and `error`: of both."""

    def __init__(self, fail_at=None, fails=lambda argv: False,
                 why="rank 0 was killed by signal 9 (Killed)", error=Failure):
        self.runs, self.tried = [], []
        self._fail_at, self._fails, self._why, self._error = fail_at, fails, why, error

    def __call__(self, request, check):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def run_here(self, _name, _argv):
        return "1.13\n"

    def try_out(self, argv):
        self.tried.append(argv)

    def run(self, run, watch=lambda printed: None):
        if len(self.runs) == self._fail_at or self._fails(run.ranks[0]):
            raise self._error(self._why)
        self.runs.append(run)
        for argv in run.ranks:
            if "--save-weights" in argv:
                pathlib.Path(option(argv, "--save-weights")).touch()
        texts = [text_of(argv, rank) for rank, argv in enumerate(run.ranks)]
        watch(texts[0].encode())
        return Outputs(texts, coordinator=coordinator_text() if "--aggregation-summary" in
                       run.coordinator_options else "")


def no_images(_figure):
    return {"png": b"", "svg": b"", "pdf": b""}


def conduct_with(runner, request, draw=no_images):
    """Runs an experiment with `runner` and `draw` in place of real ones. Drawing takes its time, so
    report.pdf is empty unless figures are drawn."""
    paper = writing.Paper if draw is not no_images else mock.Mock(
        return_value=mock.Mock(**{"done.return_value": b""}))
    with mock.patch.object(experiment, "Runner", runner), \
            mock.patch.object(figures, "render", draw), \
            mock.patch.object(writing, "Paper", paper):
        run_experiment(experiment_called(request["words"][0], EXPERIMENTS), request, lambda: None)


class Conducted(unittest.TestCase):
    """Tests of what a command leaves in --out."""
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name, "out")
        self.said = io.StringIO()

    def conduct(self, runner, draw=no_images, **more):
        """What it started."""
        with contextlib.redirect_stderr(self.said), contextlib.redirect_stdout(io.StringIO()):
            conduct_with(runner, request_of(self.out, **more), draw)
        return runner.runs

    def results(self):
        return json.loads((self.out / "results.json").read_text())
