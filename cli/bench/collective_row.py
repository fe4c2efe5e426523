"""A row of `gradwire bench collectives`: one operation, size, back end and wire."""
from cli.runs.failure import Failure
from cli.runs.quantiles import median, quantile
from cli.runs.tables import Column
from cli.runs.training import is_number

COLUMNS = [Column("op", "op"),
           Column("bytes", "size (B)"),
           Column("count", "count"),
           Column("type", "type"),
           Column("backend", "backend"),
           Column("wire", "wire"),
           Column("iterations", "iterations"),
           Column("min_us", "min (us)", 1),
           Column("p50_us", "p50 (us)", 1),
           Column("p99_us", "p99 (us)", 1),
           Column("algbw_gb_per_s", "algbw (GB/s)", 4),
           Column("busbw_gb_per_s", "busbw (GB/s)", 4),
           Column("bound_percent", "% of bound", 1),
           Column("cpu_seconds_per_gb", "CPU-s/GB", 2),
           Column("wrong", "wrong")]
TLS_COLUMN = Column("tls", "tls")
NUMBERS = ("cpu_seconds", "bytes_sent", "bytes_received", "iterations_in_all", "wrong")
FLOAT_BYTES = 4


def columns_of(tls):
    """`tls`: whether some rows have TLS."""
    return [column for own in COLUMNS for column in
            ([own, TLS_COLUMN] if tls and own.field == "wire" else [own])]


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


def collective_row(case, ranks, coordinator_cpu_seconds):
    """Returns a dict with the fields of columns_of().

    time    of an iteration: the longest of all ranks' times
    algbw   bytes / median time in 10^9 bytes a second; busbw: the operation's part of that
    bound   least time on the links / median time, in per cent; None without the links' speed
    wrong   the number of wrong values among all that any rank checked

    `ranks`: what each printed (bench/rank/collective_rank.h, ToJson). The coordinator's processor time
    is that of the whole run, if it is known. Failure if a report lacks a field or the ranks' numbers of
    iterations differ.
    """
    check_ranks(ranks)
    seconds = [max(of_ranks) for of_ranks in zip(*(rank["seconds"] for rank in ranks))]
    p50 = median(seconds)
    algbw = case.bytes / p50 / 1e9
    least = case.least_seconds()
    return {"op": case.op["name"],
            "bytes": case.bytes,
            "count": case.bytes // FLOAT_BYTES,
            "type": "float32",
            "backend": case.backend["name"],
            "wire": case.wire,
            "tls": "yes" if case.tls else "no",
            "iterations": len(seconds),
            "min_us": min(seconds) * 1e6,
            "p50_us": p50 * 1e6,
            "p99_us": quantile(seconds, 0.99) * 1e6,
            "algbw_gb_per_s": algbw,
            "busbw_gb_per_s": case.op["busbw_factor"] * algbw,
            "bound_percent": None if least is None else 100 * least / p50,
            "cpu_seconds_per_gb": cpu_seconds_per_gb(case.backend, ranks, coordinator_cpu_seconds),
            "wrong": int(total(ranks, "wrong"))}
