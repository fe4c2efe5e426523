"""The lost workers in all ranks' summaries, for people."""
from cli.runs.json_fields import list_at, number_at, ranks_at
from cli.runs.tables import TextColumn, text_table

PHASES = ("computing", "waiting", "connecting")
COLUMNS = [TextColumn(("lost",), "lost"), TextColumn(("first_step",), "at step"),
           TextColumn(("carriers",), "carried on by the worker of"),
           TextColumn(("seconds_lost",), "s lost", 3),
           *(TextColumn(("seconds_lost_by_phase", phase), phase, 3) for phase in PHASES)]
# `gradwire status` defines it in the same way.
MEANING = ("s lost, by the worker that lost most = computing (the interrupted step, with the wait "
           "for the lost worker) + waiting (for the new view) + connecting (until it computes again)")


def of_generation(recoveries):
    """Returns the row of one view, with the slowest survivor's times. A survivor that missed the
    view before it also counts the loss of that one."""
    row = min(recoveries, key=lambda recovery: len(list_at(recovery, "lost_ranks")))
    slowest = max(recoveries, key=lambda recovery: number_at(recovery, "seconds_lost") or 0)
    lost = ranks_at(row, "lost_ranks") if list_at(row, "lost_ranks") else "none: a pause"
    return {**slowest, "lost": lost,
            "carriers": "; ".join(ranks_at(carrier, "ranks")
                                  for carrier in list_at(row, "carriers"))}


def rows_of(summaries):
    """Returns a row for each view after the first, in order."""
    by_generation = {}
    for summary in summaries:
        for recovery in list_at(summary, "failures", "recoveries"):
            by_generation.setdefault(number_at(recovery, "generation") or 0, []).append(recovery)
    return [of_generation(by_generation[generation]) for generation in sorted(by_generation)]


def table(summaries):
    """Returns the lines of a table with a row for each recovery: the lost ranks, the first step
    with other carriers and the cost; then what the times mean. No lines without losses."""
    rows = rows_of(summaries)
    return ["", *text_table(COLUMNS, rows), MEANING] if rows else []
