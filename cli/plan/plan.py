#!/usr/bin/python3
"""`gradwire plan`, once its options are read: buckets, bytes, and the least time of an iteration.

    plan.py JSON    {"command", "files": as of cli/runs/report.py,
                     "layout_command": program and arguments, which print the layout as JSON:
                                       see bench/layout_main.cc,
                     "model", "workers", "per_host", "link_gbit", "wire", "batch_size",
                     "seconds_per_byte": of a link, "element_bytes": on the wire,
                     "samples": of an epoch; null: the layout's, if it has them,
                     "compute_seconds": of an iteration, alone, or null,
                     "interval": steps between exchanges of models; 0: every step exchanges
                                 gradients,
                     "overlaps": whether exchanges of the sync run beside computation,
                     "measured": {"sync", "backend", "iteration_seconds", "exposed_seconds",
                                  "bytes_sent_per_step", "trained_parameters": 0 if
                                  unknown} of a finished run, or null,
                     "backends": [{"name",
                                   "average": {"worker", "host", "coordinator"}: for one byte of
                                              a bucket, bytes that a worker sends, and bytes on the
                                              link of a host, or null, and of the coordinator,
                                   "broadcast": the same}]}
"""
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from cli.runs.failure import EXIT_USAGE, Failure
from cli.runs.hosts import own_environment
from cli.runs.jobs import run_job
from cli.runs.json_fields import json_or_none
from cli.runs.process import Command
from cli.runs.report import Part, Report, write_report
from cli.runs.tables import Column
from cli.runs.training import steps_per_epoch
from cli.terminal.command import drive

FLOAT_BYTES = 4
SECONDS_TO_LAY_OUT = 120
BUCKET_COLUMNS = [Column("bucket", "bucket"), Column("bytes", "bytes on the wire"),
                  Column("what", "what")]
WORKER_COLUMNS = [Column("backend", "backend"), Column("worker_bytes", "worker, bytes/step")]
HOST_COLUMNS = [Column("host_bytes", "host, bytes/step")]
LINK_COLUMNS = [Column("coordinator_bytes", "coordinator, bytes/step"),
                Column("transfer_seconds", "transfer (s)", 3)]
ITERATION_COLUMNS = [Column("barrier_seconds", "iteration, barrier (s)", 3),
                     Column("overlap_seconds", "iteration, overlap (s)", 3)]
EPOCH_COLUMNS = [Column("worker_bytes_per_epoch", "worker, bytes/epoch"),
                 Column("epoch_seconds", "epoch, at least (s)", 1)]
MEASURED_COLUMNS = [Column("measured_seconds", "measured iteration (s)", 3),
                    Column("measured_exposed_seconds", "measured exposed (s)", 3),
                    Column("measured_bytes", "measured, bytes/step")]
NOTES = ["Bytes are payload, for each direction of a link. Transfer: the busiest link's bytes at "
         "its speed, with headers at an MTU of 1500 (1448 of 1514 bytes are payload).",
         "With a barrier an iteration takes computation + transfer, with overlap at least the "
         "longer of the two."]
HOST_NOTES = ["Workers on one host use its link together; they have consecutive ranks, and the coordinator is on "
              "another host. Libraries with ways of their own have no times."]


def whole(size):
    """Rounds: shares of bytes that do not divide leave a fraction."""
    return math.floor(size + 0.5)


def names_of_tensors(buckets):
    """Returns a list in Markdown. Buckets of factors (see LowRankPlan) hold no tensors."""
    names = [f"- {number}: {', '.join(bucket['tensors'])}"
             for number, bucket in enumerate(buckets) if "tensors" in bucket]
    return ["", "Tensors by bucket, in the order in which backward completes them:", "", *names] \
        if names else []


def trained_parameters(layout):
    """Returns the elements of the parameters that the buckets name; 0 if they name none."""
    elements = {tensor["name"]: math.prod(tensor["shape"]) for tensor in layout["parameters"]}
    return sum(elements.get(name, 0) for bucket in layout["buckets"]
               for name in bucket.get("tensors", ()))


def check_same_model(layout, measured):
    """Failure if the measured run trained another model. A summary has the model's name, but not the
    options that change it."""
    planned, ran = trained_parameters(layout), measured["trained_parameters"]
    if planned and ran and planned != ran:
        raise Failure(f"--summary: that run trained {ran} parameters, but the model of this plan "
                      f"trains {planned}; give that run's --hidden, --freeze-features, --image-size "
                      "and --dataset", EXIT_USAGE)


class Plan:
    """The bytes that ranks exchange, and their time. Failure if `layout` is none, or if it is not of
    the measured run's model."""

    def __init__(self, request, layout):
        if not isinstance(layout, dict) or not {"buckets", "parameters"} <= layout.keys():
            raise Failure("got no layout, expected buckets and parameters")
        if request["measured"]:
            check_same_model(layout, request["measured"])
        self.request = request
        self.buckets = layout["buckets"]
        self.parameters = sum(math.prod(tensor["shape"]) for tensor in layout["parameters"])
        self.samples = request["samples"] or layout.get("samples")
        self.steps = self.samples and steps_per_epoch(self.samples, request["workers"],
                                                      request["batch_size"])

    def wire_bytes(self, bucket):
        if not bucket["averaged"]:
            return bucket["bytes"]
        return bucket["bytes"] / FLOAT_BYTES * self.request["element_bytes"]

    def bytes_on_link(self, backend, end):
        """Returns the mean over all steps, or None if it is unknown; `end`: "worker", "host" or
        "coordinator"."""
        if backend["average"][end] is None:
            return None
        exchange = sum(self.wire_bytes(bucket) *
                       backend["average" if bucket["averaged"] else "broadcast"][end]
                       for bucket in self.buckets)
        return exchange / (self.request["interval"] or 1)

    def columns(self):
        return [*WORKER_COLUMNS,
                *(HOST_COLUMNS if self.request["per_host"] > 1 else []),
                *LINK_COLUMNS,
                *(ITERATION_COLUMNS if self.request["compute_seconds"] is not None else []),
                *(EPOCH_COLUMNS if self.samples else []),
                *(MEASURED_COLUMNS if self.request["measured"] else [])]

    def backend_row(self, backend):
        worker, host, coordinator = (self.bytes_on_link(backend, end)
                                     for end in ("worker", "host", "coordinator"))
        row = {"backend": backend["name"], "worker_bytes": whole(worker),
               "coordinator_bytes": whole(coordinator)}
        if self.samples:
            row["worker_bytes_per_epoch"] = whole(worker) * self.steps
        if host is not None:
            transfer = max(host, coordinator) * self.request["seconds_per_byte"]
            row |= {"host_bytes": whole(host)} | self.times(transfer)
        return row | self.measured_fields(backend["name"])

    def times(self, transfer):
        """Returns the least times, if the busiest link takes `transfer` seconds a step."""
        times = {"transfer_seconds": transfer}
        compute = self.request["compute_seconds"]
        if compute is not None:
            times["barrier_seconds"] = compute + transfer
            times["overlap_seconds"] = max(compute, transfer)
        if self.samples:
            bound = "overlap_seconds" if self.request["overlaps"] else "barrier_seconds"
            times["epoch_seconds"] = times.get(bound, transfer) * self.steps
        return times

    def measured_fields(self, backend):
        measured = self.request["measured"]
        if not measured or measured["backend"] != backend:
            return {}
        return {"measured_seconds": measured["iteration_seconds"],
                "measured_exposed_seconds": measured["exposed_seconds"],
                "measured_bytes": whole(measured["bytes_sent_per_step"])}

    def facts(self):
        request = self.request
        batch, workers = request["batch_size"], request["workers"]
        facts = {"model": f"{request['model']}, {self.parameters} parameters",
                 "workers": workers,
                 **({"workers on a host": request["per_host"]} if request["per_host"] > 1 else {}),
                 "link": f"{request['link_gbit']:g} Gbit/s, both ways at once",
                 "wire": request["wire"],
                 "batch": f"{batch} per worker, {batch * workers} in all"}
        if request["interval"]:
            facts["exchange"] = (f"after every {request['interval']} steps; bytes and transfer are "
                                 "means of a step")
        if self.samples:
            facts["epoch"] = f"{self.samples} samples, {self.steps} steps{self.bound_of_epoch()}"
        if request["compute_seconds"] is not None:
            facts["computation alone"] = f"{request['compute_seconds']:.3f} s an iteration"
        if request["measured"]:
            facts["measured"] = "sync {sync}, backend {backend}".format(**request["measured"])
        return facts

    def bound_of_epoch(self):
        if self.request["compute_seconds"] is None:
            return ", of transfer alone"
        return " with overlap" if self.request["overlaps"] else " with a barrier"

    def report(self):
        """Returns buckets, bytes, and the least time of an iteration, for each back end."""
        backends = [self.backend_row(backend) for backend in self.request["backends"]]
        averaged = "models, averaged" if self.request["interval"] else "gradients, averaged"
        buckets = [{"bucket": number, "bytes": int(self.wire_bytes(bucket)),
                    "what": averaged if bucket["averaged"] else "buffers, rank 0's",
                    **({"tensors": bucket["tensors"]} if "tensors" in bucket else {})}
                   for number, bucket in enumerate(self.buckets)]
        return Report(
            f"Plan: {self.request['model']} on {self.request['workers']} workers",
            self.request["command"], self.facts(),
            [Part("backends", "Least times, by back end", self.columns(), backends),
             Part("buckets", "Buckets, in the order in which they are ready", BUCKET_COLUMNS,
                  buckets)],
            NOTES + (HOST_NOTES if self.request["per_host"] > 1 else []) + names_of_tensors(self.buckets))


def run(request, check):
    command = Command(request["layout_command"], own_environment())
    layout = run_job("gradwire-layout", command, SECONDS_TO_LAY_OUT, check)
    write_report(Plan(request, json_or_none(layout)).report(), request["files"])


if __name__ == "__main__":
    sys.exit(drive("gradwire plan", run))
