"""What all ranks' summaries say, for people."""
import json
import pathlib

from cli.runs.failure import Failure
from cli.terminal.text_table import TextColumn, number_at, phase_columns, text_at, text_table


def read_summary(file):
    try:
        summary = json.loads(pathlib.Path(file).read_bytes())
    except (OSError, ValueError):
        summary = None
    if not isinstance(summary, dict):
        raise Failure(f"no summary in '{file}'")
    return summary


def collect(files):
    """As --summary writes them, in the order of `files`. Failure names one that is missing or no
    JSON."""
    return {"ranks": [read_summary(file) for file in files]}


def transfer_of(summary):
    """Ranks, bytes an iteration in one direction of this worker's link, and seconds of
    communication; None if they are not known."""
    ranks, iterations, sent, received = (number_at(summary, name) for name in (
        "world_size", "iterations", "bytes_sent", "bytes_received"))
    seconds = number_at(summary, "phase_seconds", "communication")
    if None in (ranks, iterations, sent, received, seconds):
        return None
    if ranks < 2 or iterations < 1 or seconds <= 0:
        return None
    return ranks, max(sent, received) / iterations, seconds


def link_fields(summary, through_coordinator, seconds_per_byte):
    """Through the coordinator a worker sends its gradient once, and the coordinator all; with other
    back ends what leaves a worker is what an all-reduce puts on a link."""
    transfer = transfer_of(summary)
    if transfer is None:
        return {}
    ranks, size, seconds = transfer
    central = text_at(summary, "backend") in through_coordinator
    factor = 2 * (ranks - 1) / ranks if central else 1
    fields = {"busbw_gbit": factor * size / seconds * 8 / 1e9}
    if seconds_per_byte is not None:
        fields["link_share"] = size * (ranks if central else 1) * seconds_per_byte / seconds
    return fields


def with_shares(summary, through_coordinator, seconds_per_byte):
    """A summary and what follows from it:

    exposed_share  of an iteration
    busbw_gbit     nccl-tests' measure: the bytes that a link must move for an all-reduce, over the
                   time of communication
    link_share     of that time, what links of the given speed need at least
    """
    row = {**summary, **link_fields(summary, through_coordinator, seconds_per_byte)}
    mean = number_at(summary, "iteration_seconds", "mean")
    exposed = number_at(summary, "phase_seconds", "exposed_communication")
    if mean and exposed is not None:
        row["exposed_share"] = exposed / mean
    return row


def columns_of(phases, with_links, with_clocks, with_codec):
    links = [TextColumn(("link_share",), "of plan %", 0, 100)] if with_links else []
    clocks = [TextColumn(("staleness", "lag", "mean"), "lag", 1),
              TextColumn(("staleness", "lag", "max"), "max lag"),
              TextColumn(("staleness", "spread", "max"), "max spread")] if with_clocks else []
    codec = [TextColumn(("compression_ratio",), "ratio", 1),
             TextColumn(("residual_norm",), "residual", 2)] if with_codec else []
    return [TextColumn(("rank",), "rank"),
            TextColumn(("iteration_seconds", "p50"), "p50 ms", 1, 1000), *phase_columns(phases),
            TextColumn(("exposed_share",), "exposed %", 0, 100),
            TextColumn(("busbw_gbit",), "busbw Gbit/s", 2), *links, *clocks, *codec,
            TextColumn(("loss", "first"), "first loss", 4),
            TextColumn(("loss", "last"), "last loss", 4),
            TextColumn(("test", "accuracy"), "accuracy %", 2, 100)]


def table(rows, phases, with_links):
    """A line for each rank: median and phases of an iteration, the shares, with a parameter server how
    far ranks were apart, in steps, with compression its ratio and what it left out, relative to the
    gradients, losses and accuracy."""
    with_clocks = any("staleness" in row for row in rows)
    with_codec = any("compression_ratio" in row for row in rows)
    return text_table(columns_of(phases, with_links, with_clocks, with_codec), rows)
