"""What all ranks' summaries say of workers that were lost, for people."""
from cli.runs.json_fields import list_at, number_at, ranks_at
from cli.runs.tables import TextColumn, text_table

PHASES = ("computing", "waiting", "connecting")
COLUMNS = [TextColumn(("lost",), "lost"), TextColumn(("first_step",), "at step"),
           TextColumn(("carriers",), "carried on by the worker of"),
           TextColumn(("seconds_lost",), "s lost", 3),
           *(TextColumn(("seconds_lost_by_phase", phase), phase, 3) for phase in PHASES)]
# The same definition as of `gradwire status`.
MEANING = ("s lost, by the worker that lost most = computing (the step that broke off, with "
           "the wait for the lost worker) + waiting (for the new view) + connecting (until it computes again)")


def of_generation(recoveries):
    """What survivors say of one view: the slowest one's times. One that has missed the view before
    counts what was lost with that, too."""
    row = min(recoveries, key=lambda recovery: len(list_at(recovery, "lost_ranks")))
    slowest = max(recoveries, key=lambda recovery: number_at(recovery, "seconds_lost") or 0)
    lost = ranks_at(row, "lost_ranks") if list_at(row, "lost_ranks") else "nobody: a pause"
    return {**slowest, "lost": lost,
            "carriers": "; ".join(ranks_at(carrier, "ranks")
                                  for carrier in list_at(row, "carriers"))}


def rows_of(summaries):
    """For each view after the first, in their order."""
    by_generation = {}
    for summary in summaries:
        for recovery in list_at(summary, "failures", "recoveries"):
            by_generation.setdefault(number_at(recovery, "generation") or 0, []).append(recovery)
    return [of_generation(by_generation[generation]) for generation in sorted(by_generation)]


def table(summaries):
    """Who was lost, from which step on others carry its ranks and what that cost: a line for each
    time that they went on, and what the times mean; none if nobody was lost."""
    rows = rows_of(summaries)
    return ["", *text_table(COLUMNS, rows), MEANING] if rows else []
