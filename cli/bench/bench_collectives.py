#!/usr/bin/python3
"""`gradwire bench collectives`, once its options are read.

    bench_collectives.py JSON    JSON: see cli/bench/bench_request.h

Measures each size with each back end and wire, and PyTorch + Gloo with --peers. Reports progress on
stderr.
"""
import contextlib
import pathlib
import sys
from typing import NamedTuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from cli.bench.collective_row import FLOAT_BYTES, collective_row, columns_of
from cli.bench.measurement import measured_by
from cli.runs.failure import EXIT_USAGE, Failure, within
from cli.runs.hosts import THIS_MACHINE
from cli.runs.json_fields import json_or_none
from cli.runs.made_hosts import MADE
from cli.runs.mpirun import why_not
from cli.runs.output_file import scratch_folder
from cli.runs.report import Part
from cli.runs.training import collective_ranks, peers_of

PEER_SCRIPT = "gloo_collectives.py"


class Case(NamedTuple):
    """One line of the table, before its measurement."""
    bytes: int  # of the bucket, as float32
    op: dict
    backend: dict
    wire: str
    tls: bool = False
    shared: bool = False  # the tensors lie in shared memory

    def least_seconds(self):
        """Returns what the busiest link needs; None if its speed is not known."""
        per_byte = self.backend["least_seconds_per_byte"][self.op["name"]]
        if per_byte is None:
            return None
        element_bytes = self.backend["wires"][self.wire] if self.op["sums"] else FLOAT_BYTES
        return per_byte * self.bytes / FLOAT_BYTES * element_bytes


def why_unmeasured(request, backend):
    """Returns why a back end cannot be measured here; "" if it can."""
    name = backend["name"]
    if name in request["under_mpirun"]:
        return why_not(request)
    if name in request["one_host"] and (request["hosts"] or request["hostfile"]):
        return "its workers must be on one host"
    if not backend["wires"] and all(op["sums"] for op in request["ops"]):
        return "it carries float32 only"
    return ""


def unmeasured(request):
    """Returns why back ends cannot be measured here, by name. Failure if the user named one."""
    reasons = {}
    for backend in request["backends"]:
        if why := why_unmeasured(request, backend):
            reasons[backend["name"]] = why
            if backend["asked"]:
                raise Failure(f"--backends: {backend['name']}: {why}", EXIT_USAGE)
    return reasons


def has_shared_tensors(request, op, backend, wire):
    return (backend["name"] in request["one_host"] and op["name"] == "all-reduce" and
            wire == "fp32")


def cases_of(request):
    absent = unmeasured(request)
    return [Case(size, op, backend, wire, tls, shared)
            for op in request["ops"] for size in op["sizes"]
            for backend in request["backends"] if backend["name"] not in absent
            if op["name"] in backend["least_seconds_per_byte"]
            for wire in (backend["wires"] if op["sums"] else ["fp32"])
            for tls in ([False, True] if backend["tls"] else [False])
            for shared in ([False, True] if has_shared_tensors(request, op, backend, wire)
                           else [False])]


@contextlib.contextmanager
def certificates(request, runner):
    """Yields all programs' TLS options, with new certificates; none without --tls. Failure if it
    fails."""
    if not request["tls"]:
        yield ()
        return
    with scratch_folder() as folder:
        runner.run_here("make-certificates", [request["programs"]["make_certificates"], "--out",
                                              folder, "--days", "1", THIS_MACHINE])
        files = {"cert": f"{THIS_MACHINE}.pem", "key": f"{THIS_MACHINE}.key", "ca": "ca.pem"}
        yield tuple(word for name, file in files.items()
                    for word in (f"--tls-{name}", str(pathlib.Path(folder, file))))


def run_of(request, case, tls=()):
    """`tls`: what certificates() gives, for a case with it."""
    tls = tls if case.tls else ()
    loop = ["--op", case.op["name"], "--bytes", str(case.bytes), "--warmup", str(request["warmup"]),
            "--iterations", str(request["iterations"]),
            "--seconds", f"{request['seconds_per_size']:g}"]
    if case.backend["is_peer"]:
        return peers_of(request, PEER_SCRIPT, loop, request["workers"])
    tensors = ["--tensors", "shared"] if case.shared else []
    options = ["--backend", case.backend["name"], "--wire", case.wire, *tensors, *tls, *loop]
    return collective_ranks(request, request["workers"], options, tls)


def say_row(row, asked):
    few = f"  ({row['iterations']} iterations only)" if row["iterations"] < asked else ""
    wrong = "  WRONG VALUES" if row["wrong"] else ""
    print(f"{row['op']:<14} {row['bytes']:12} B  {row['backend']:<14} {row['wire']}"
          f"{'  TLS' if row['tls'] == 'yes' else ''}"
          f"{'  shared tensors' if row['tensors'] == 'shared' else ''}  p50 {row['p50_us']:.1f} us  "
          f"busbw {row['busbw_gb_per_s']:.4f} GB/s{few}{wrong}", file=sys.stderr, flush=True)


def notes_of(request):
    notes = ["The time of an iteration is the longest of all ranks'. Every iteration is checked "
             "against values computed separately: all values in the warm-up and at the end, up to "
             "1024 of the bucket in measured iterations. Sums are means."]
    if any(op["name"] != "all-reduce" for op in request["ops"]):
        notes.append("Rank 0 is the root; it sends to the last rank. Operations other than "
                     "all-reduce begin after a barrier, which the times exclude.")
    if request["seconds_per_size"] > 0:
        notes.append("A size ends early if its measured iterations would take more than "
                     f"{request['seconds_per_size']:g} s; the column says how many there were.")
    notes += [f"Back end {name} was not measured: {why}."
              for name, why in unmeasured(request).items()]
    if any(case.shared for case in cases_of(request)):
        notes.append("Tensors \"shared\" lie in memory that all ranks can read, so nothing is copied; "
                     "the mean is read where it was folded. Others are the caller's own.")
    if request["tls"]:
        notes.append("Rows with tls \"yes\" have encrypted connections between all processes.")
    if request["link_gbit"] is not None:
        notes.append("% of bound: least time for the payload on the busiest link, with headers at "
                     "an MTU of 1500, over the median.")
        if request["hosts"] in MADE:
            notes.append("The bound is for a coordinator on a host of its own. Here it is on the "
                         "host of rank 0, whose bytes cross no link, so it may be quicker.")
    return notes


def measure(request, runner, report):
    """Fills the report. Failure names size and back end, or says that values were wrong."""
    runner.try_out([request["programs"]["collectives"], "--help"])
    report.title = f"Collectives, {request['workers']} ranks"
    report.notes = notes_of(request)
    rows = []
    cases = cases_of(request)
    columns = columns_of(request["tls"], any(case.shared for case in cases))
    report.parts = [Part("rows", "", columns, rows)]
    with certificates(request, runner) as tls:
        for case in cases:
            with within(f"{case.op['name']}, {case.bytes} bytes, {case.backend['name']}"):
                outputs = runner.run(run_of(request, case, tls))
                row = collective_row(case, [json_or_none(text) for text in outputs.ranks],
                                     outputs.coordinator_cpu_seconds)
            say_row(row, request["iterations"])
            rows.append(row)
    wrong = sum(row["wrong"] for row in rows)
    if wrong:
        raise Failure(f"{wrong} values were wrong; see column \"wrong\"")


if __name__ == "__main__":
    sys.exit(measured_by(measure))
