"""A row of `gradwire bench collectives`: one operation, size, back end and wire."""
from cli.runs.failure import Failure
from cli.runs.quantiles import median, quantile
from cli.runs.tables import as_columns, values_of
from cli.runs.training import is_number

NUMBERS = ("cpu_seconds", "bytes_sent", "bytes_received", "iterations_in_all", "wrong")
FLOAT_BYTES = 4


def is_report(rank):
    if not isinstance(rank, dict) or not isinstance(rank.get("seconds"), list):
        return False
    return (all(is_number(rank.get(field)) for field in NUMBERS) and
            all(is_number(seconds) and seconds > 0 for seconds in rank["seconds"]))


def check_ranks(ranks):
    for number, rank in enumerate(ranks):
        if not is_report(rank):
            raise Failure(f"rank {number} printed no report")
        measured, expected = len(rank["seconds"]), len(ranks[0]["seconds"])
        if measured != expected or measured == 0:
            raise Failure(f"rank {number} measured {measured} iterations, rank 0 {expected}")


def total(ranks, field):
    return sum(rank[field] for rank in ranks)


def cpu_seconds_per_gb(backend, ranks, coordinator_cpu_seconds):
    """Returns seconds of all processes per 10^9 bytes that any of them sent; None if unknown."""
    cpu_seconds, sent = total(ranks, "cpu_seconds"), total(ranks, "bytes_sent")
    if backend["loads_coordinator"]:
        if coordinator_cpu_seconds is None:
            return None
        part = len(ranks[0]["seconds"]) / ranks[0]["iterations_in_all"]
        cpu_seconds += coordinator_cpu_seconds * part
        sent += total(ranks, "bytes_received")  # the coordinator sent it all
    return cpu_seconds / (sent / 1e9) if sent else None


def cpu_seconds_per_gb_and_rank(case, ranks):
    """Returns a rank's seconds per 10^9 bytes of the tensor, whether they were sent or not."""
    of_tensors = sum(case.bytes * len(rank["seconds"]) for rank in ranks)
    return total(ranks, "cpu_seconds") / (of_tensors / 1e9)


class Measured:
    """The measurement of a Case. `ranks`: what each printed (bench/rank/collective_rank.h, ToJson);
    the coordinator's processor time is that of the whole run, if it is known. Failure if a report
    lacks a field or the ranks' numbers of iterations differ."""

    def __init__(self, case, ranks, coordinator_cpu_seconds):
        check_ranks(ranks)
        self.case, self.ranks = case, ranks
        self.coordinator_cpu_seconds = coordinator_cpu_seconds
        # The time of an iteration is the longest of all ranks'.
        self.seconds = [max(of_ranks) for of_ranks in zip(*(rank["seconds"] for rank in ranks))]
        self.p50 = median(self.seconds)
        self.algbw = case.bytes / self.p50 / 1e9

    def bound_percent(self):
        """Returns least time on the links / median time; None without the links' speed."""
        least = self.case.least_seconds()
        return None if least is None else 100 * least / self.p50


FIELDS = [
    ("op", "op", lambda one: one.case.op["name"]),
    ("bytes", "size (B)", lambda one: one.case.bytes),
    ("count", "count", lambda one: one.case.bytes // FLOAT_BYTES),
    ("type", "type", lambda _: "float32"),
    ("backend", "backend", lambda one: one.case.backend["name"]),
    ("wire", "wire", lambda one: one.case.wire),
    ("tls", "tls", lambda one: "yes" if one.case.tls else "no"),
    ("tensors", "tensors", lambda one: "shared" if one.case.shared else "own"),
    ("iterations", "iterations", lambda one: len(one.seconds)),
    ("min_us", "min (us)", lambda one: min(one.seconds) * 1e6, 1),
    ("p50_us", "p50 (us)", lambda one: one.p50 * 1e6, 1),
    ("p99_us", "p99 (us)", lambda one: quantile(one.seconds, 0.99) * 1e6, 1),
    ("algbw_gb_per_s", "algbw (GB/s)", lambda one: one.algbw, 4),
    ("busbw_gb_per_s", "busbw (GB/s)", lambda one: one.case.op["busbw_factor"] * one.algbw, 4),
    ("bound_percent", "% of bound", Measured.bound_percent, 1),
    ("cpu_seconds_per_gb", "CPU-s/GB", lambda one: cpu_seconds_per_gb(
        one.case.backend, one.ranks, one.coordinator_cpu_seconds), 2),
    ("cpu_seconds_per_gb_and_rank", "CPU-s/GB of tensor and rank",
     lambda one: cpu_seconds_per_gb_and_rank(one.case, one.ranks), 3),
    ("wrong", "wrong", lambda one: int(total(one.ranks, "wrong")))]


def columns_of(tls, shared):
    """`tls`, `shared`: whether some rows have TLS, and tensors in shared memory."""
    hidden = {field for field, shown in (("tls", tls), ("tensors", shared)) if not shown}
    return [column for column in as_columns(FIELDS) if column.field not in hidden]


def collective_row(case, ranks, coordinator_cpu_seconds):
    """Returns a dict with the fields of columns_of(). Failure as Measured."""
    return values_of(FIELDS, Measured(case, ranks, coordinator_cpu_seconds))
