"""Runs that train, and what their ranks print; for `gradwire bench` and `gradwire experiment`."""
import dataclasses
import importlib.metadata
import math
import pathlib
import sys

from cli.runs.failure import Failure
from cli.runs.json_fields import json_or_none
from cli.runs.mpirun import needs_mpirun
from cli.runs.runner import COORDINATOR, MASTER, PYTHON, Run

PEER_SCRIPT = "gloo_training.py"
# A worker writes its log and summary to stdout.
TO_STDOUT = ["--print-every", "0", "--log-jsonl", "/dev/stdout", "--summary", "/dev/stdout"]
# A coordinator through which gradients go writes its mean iteration there.
COORDINATOR_TO_STDOUT = ("--aggregation-summary", "/dev/stdout")


@dataclasses.dataclass
class RankOutput:
    """The output of one rank: a record for each iteration, and its summary."""
    records: list
    summary: dict = dataclasses.field(default_factory=dict)

    @property
    def seconds(self):
        return [record["iteration_seconds"] for record in self.records]

    def phase(self, name):
        """Returns seconds of a phase, in the iterations that measured it."""
        phases = [record.get("phase_seconds", {}).get(name) for record in self.records]
        return [seconds for seconds in phases if is_number(seconds)]


def ranks_of(request, argv, count):
    """Returns a Run of `count` ranks that share a coordinator."""
    through_one = ("--backend", "coordinator") in zip(argv, argv[1:])
    return Run([[request["programs"]["worker"], *argv, *TO_STDOUT,
                 "--coordinator", COORDINATOR, "--rank", str(rank)] for rank in range(count)],
               coordinator_options=COORDINATOR_TO_STDOUT if through_one else (),
               mpirun=needs_mpirun(request, argv))


def alone(request, argv, count=1):
    """Returns a Run of `count` workers that do not communicate."""
    return Run([[request["programs"]["worker"], *argv, *TO_STDOUT]] * count, coordinator=False)


def collective_ranks(request, count, options, coordinator_options=()):
    """Returns a Run of the program that measures and shows collectives."""
    return Run([[request["programs"]["collectives"], "--coordinator", COORDINATOR,
                 "--rank", str(rank), "--world-size", str(count), *map(str, options)]
                for rank in range(count)], coordinator_options=coordinator_options,
               mpirun=needs_mpirun(request, options))


def installed_torch():
    """Returns the version of this machine's PyTorch without loading it; "" if there is none."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return ""


def peers_of(request, script, argv, count):
    """Returns a Run of a script of bench/peers/ with `argv`. Failure if the script is missing."""
    path = pathlib.Path(request["programs"]["peers"], script)
    if not path.exists():
        raise Failure(f"no '{path}'; it is built and installed together with gradwire")
    return Run([[PYTHON, str(path), "--rank", str(rank), "--world-size", str(count),
                 "--master", MASTER, *argv] for rank in range(count)], coordinator=False,
               inputs=(installed_torch(),))


def training_peers_of(request, argv, count):
    """As peers_of; the ranks end unless they compute on the workers' BLAS."""
    blas = ["--blas", request["blas_path"]] if request["blas_path"] else []
    return peers_of(request, PEER_SCRIPT, [*argv, *blas], count)


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def steps_per_epoch(samples, workers, batch_size):
    """Returns the iterations of an epoch. Each rank has an equal share of the samples, filled up,
    in batches of which the last may be smaller."""
    return math.ceil(math.ceil(samples / workers) / batch_size)


def object_of(text, what):
    value = json_or_none(text)
    if not isinstance(value, dict):
        raise Failure(what)
    return value


def parse_output(text):
    """Returns a RankOutput. The text has a line of JSON for each iteration, epoch and recovery, then
    perhaps a summary: an object that begins on a line of its own, which repeats the latter two."""
    lines, summary_start, summary = text.partition("\n{\n")
    output = RankOutput([])
    for line in filter(str.strip, lines.split("\n")):
        record = object_of(line, f"a line that is no JSON object: {line}")
        if "kind" in record:  # of an epoch, or of a recovery after a pause
            continue
        if not is_number(record.get("iteration_seconds")):
            raise Failure("an iteration without iteration_seconds")
        output.records.append(record)
    if summary_start:
        output.summary = object_of(summary_start + summary, "a summary that is no JSON object")
    return output


def parse_ranks(texts):
    """Returns what each rank printed. Failure if it is something else, or of another length."""
    outputs = []
    for rank, text in enumerate(texts):
        try:
            outputs.append(parse_output(text))
        except Failure as failure:
            raise Failure(f"rank {rank} printed {failure}") from None
        printed, expected = (len(outputs[of].records) for of in (rank, 0))
        if printed != expected:
            raise Failure(f"rank {rank} printed {printed} iterations, rank 0 {expected}")
    return outputs


def warn_of_slow_blas(request):
    """Says on stderr why matrix products are slow on this machine, and what to export."""
    if request["blas_warning"]:
        print(f"warning: {request['blas_warning']}", file=sys.stderr, flush=True)
