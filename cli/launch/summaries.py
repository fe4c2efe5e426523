"""All ranks' summaries, for people."""
from cli.runs.json_fields import field_at, number_at, object_in, text_at
from cli.runs.tables import TextColumn, phase_columns, text_table

CODEC_COLUMNS = (TextColumn(("compression_ratio",), "ratio", 1),
                 TextColumn(("residual_norm",), "residual", 2))
PEAK_COLUMN = TextColumn(("peak_memory_bytes",), "peak MB", 0, 1e-6)


def is_whole(file):
    """Whether the file is a summary of a worker that did not end early."""
    summary = object_in(file)
    return summary is not None and "ended" not in summary


def collect(files, ended=None):
    """Returns the summaries as --summary writes them; `files` has one for each rank. `ended`: the
    exit code of a failed run, and why; None if all went well."""
    read = [object_in(file) for file in files]
    collected = {"ranks": [summary for summary in read if summary is not None]}
    if missing := [rank for rank, summary in enumerate(read) if summary is None]:
        collected["missing_ranks"] = missing
    if ended:
        collected["ended"] = ended
    return collected


def transfer_of(summary):
    """Returns ranks, this rank's bytes an iteration on its worker's link and seconds of
    communication, or None."""
    ranks, iterations, sent, received = (number_at(summary, name) for name in (
        "world_size", "iterations", "bytes_sent", "bytes_received"))
    seconds = number_at(summary, "phase_seconds", "communication")
    if None in (ranks, iterations, sent, received, seconds):
        return None
    if ranks < 2 or iterations < 1 or seconds <= 0 or not max(sent, received):
        return None
    return ranks, max(sent, received) / iterations, seconds


def link_fields(summary, through_coordinator, seconds_per_byte):
    """Returns busbw_gbit and link_share. Through the coordinator a worker sends its gradient once;
    with other back ends it sends what an all-reduce puts on a link."""
    transfer = transfer_of(summary)
    if transfer is None:
        return {}
    ranks, size, seconds = transfer
    central = text_at(summary, "backend") in through_coordinator
    if not central:  # bytes of the worker's other ranks cross the same link in the same time
        size *= number_at(summary, "ranks_of_worker", "mean") or 1
    factor = 2 * (ranks - 1) / ranks if central else 1
    fields = {"busbw_gbit": factor * size / seconds * 8 / 1e9}
    if seconds_per_byte is not None:
        fields["link_share"] = size * (ranks if central else 1) * seconds_per_byte / seconds
    return fields


def with_shares(summary, through_coordinator, seconds_per_byte):
    """Returns a summary with

    exposed_share  the part of an iteration
    busbw_gbit     nccl-tests' measure: the bytes that a link must move for an all-reduce, over the
                   time of communication
    link_share     the part of that time that links of the given speed need at least
    """
    row = {**summary, **link_fields(summary, through_coordinator, seconds_per_byte)}
    mean = number_at(summary, "iteration_seconds", "mean")
    exposed = number_at(summary, "phase_seconds", "exposed_communication")
    if mean and exposed is not None:
        row["exposed_share"] = exposed / mean
    return row


def in_tenths(seconds):
    """Rounds to tenths of a millisecond, as the table shows times; None stays."""
    return None if seconds is None else round(seconds * 1e4)


def with_rest(row, phases):
    """Returns the row with the fields that make it add up:

    other   the mean iteration less all its parts, calculated from the rounded times, so that these
            add up
    hidden  the communication that is not exposed
    """
    mean, *parts = (in_tenths(number_at(row, *keys)) for keys in [
        ("iteration_seconds", "mean"),
        *(("phase_seconds", field_at(phase, "name")) for phase in parts_of(phases))])
    row = {**row}
    if mean is not None and None not in parts:
        row["other"] = (mean - sum(parts)) / 1e4
    whole, exposed = (in_tenths(number_at(row, "phase_seconds", name))
                      for name in ("communication", "exposed_communication"))
    if None not in (whole, exposed):
        row["hidden"] = (whole - exposed) / 1e4
    return row


def parts_of(phases):
    return [phase for phase in phases if field_at(phase, "is_part")]


def columns_of(phases, with_links, with_clocks, with_codec):
    links = [TextColumn(("link_share",), "of plan %", 0, 100)] if with_links else []
    clocks = [TextColumn(("staleness", "lag", "mean"), "lag", 1),
              TextColumn(("staleness", "lag", "max"), "max lag"),
              TextColumn(("staleness", "spread", "max"), "max spread")] if with_clocks else []
    codec = CODEC_COLUMNS if with_codec else []
    return [TextColumn(("rank",), "rank"),
            TextColumn(("iteration_seconds", "mean"), "iteration ms", 1, 1000),
            *phase_columns(parts_of(phases)), TextColumn(("other",), "other", 1, 1000),
            TextColumn(("hidden",), "(hidden)", 1, 1000),
            TextColumn(("exposed_share",), "exposed %", 0, 100),
            TextColumn(("iteration_seconds", "p50"), "p50 ms", 1, 1000),
            TextColumn(("busbw_gbit",), "busbw Gbit/s", 2), PEAK_COLUMN, *links, *clocks, *codec,
            TextColumn(("loss", "first"), "first loss", 4),
            TextColumn(("loss", "last"), "last loss", 4),
            TextColumn(("test", "accuracy"), "accuracy %", 2, 100)]


def table(rows, phases, with_links):
    """Returns a line for each rank: the mean iteration and its parts, the communication that they
    hide, the median, the shares, losses and accuracy; with a parameter server also how far ranks
    were apart, in steps, and with compression its ratio and residual, relative to the gradients.
    The last line says how the times add up."""
    with_clocks = any("staleness" in row for row in rows)
    with_codec = any("compression_ratio" in row for row in rows)
    rows = [with_rest(row, phases) for row in rows]
    titles = [text_at(phase, "title") for phase in parts_of(phases)]
    return [*text_table(columns_of(phases, with_links, with_clocks, with_codec), rows),
            f"Means in ms without the first iteration: iteration = {' + '.join(titles)} + other. "
            "(hidden) is communication beside these; communication = exposed + hidden."]


# The coordinator's work in an iteration: name in JSON, title, and meaning.
AGGREGATION = (("wait", "waits", "for the ranks to compute"),
               ("receive", "receives", "all ranks are sending terms"),
               ("fold", "folds", "adds them up"),
               ("send", "sends", "means to the ranks"))


def coordinator_table(aggregation):
    """Returns the coordinator's mean iteration, which adds up; nothing if it averaged none."""
    if not aggregation:
        return []
    mean = in_tenths(number_at(aggregation, "iteration_seconds", "mean"))
    times = {name: in_tenths(number_at(aggregation, "phase_seconds", name)) for name, *_ in AGGREGATION}
    if mean is None or None in times.values():
        return []
    times["wait"] = mean - sum(times[name] for name in times if name != "wait")
    row = {"who": "coordinator", "iteration": mean / 1e4,
           "hidden": number_at(aggregation, "phase_seconds", "hidden_send"),
           "peak_memory_bytes": number_at(aggregation, "peak_memory_bytes"),
           **{name: tenths / 1e4 for name, tenths in times.items()}}
    columns = [TextColumn(("who",), ""), TextColumn(("iteration",), "iteration ms", 1, 1000),
               *(TextColumn((name,), title, 1, 1000) for name, title, _ in AGGREGATION),
               TextColumn(("hidden",), "(hidden sends)", 1, 1000), PEAK_COLUMN]
    meanings = " + ".join(f"{title} ({meaning})" for _, title, meaning in AGGREGATION)
    return ["", *text_table(columns, [row]),
            f"Likewise: iteration = {meanings}; (hidden sends) go on while it receives or folds."]
