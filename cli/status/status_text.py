"""A coordinator's /status.json for people. Any field except state and ranks may be missing."""
import json
import sys
import time

from cli.launch.losses import PHASES
from cli.launch.summaries import AGGREGATION, CODEC_COLUMNS, PEAK_COLUMN
from cli.runs.json_fields import list_at, no_number, number_at, ranks_at, ranks_text, text_at
from cli.runs.quantiles import mean
from cli.runs.tables import TextColumn, phase_columns, text_table

PROGRAM = "gradwire-coordinator"
SETTINGS = ("model", "dataset", "sync", "backend", "wire", "batch-size", "bucket-cap-mb")
SHOWN_EVENTS = 10


class NotACoordinator(Exception):
    """Says what the answer is."""


def parse(body):
    """Parses /status.json. NotACoordinator if it is no JSON, or another program's."""
    try:
        status = json.loads(body.decode(), parse_constant=no_number)
    except (ValueError, RecursionError):
        raise NotACoordinator("its answer is no JSON") from None
    if text_at(status, "program") != PROGRAM:
        raise NotACoordinator("its answer is not a coordinator's")
    if not text_at(status, "state") or not isinstance(status.get("ranks"), list):
        raise NotACoordinator("its answer lacks state or ranks")
    return status


def numbers_of(status, *keys):
    """Returns the numbers of the ranks that have one."""
    numbers = (number_at(rank, *keys) for rank in status["ranks"])
    return [number for number in numbers if number is not None]


def has_ended(status):
    """Whether the run is over."""
    return text_at(status, "state") in ("finished", "aborted")


def progress_text(status):
    """Returns "step 17 of 196", or "no step done yet"."""
    step = number_at(status, "step") or 0
    total = number_at(status, "total_steps") or 0
    if step <= 0:
        return "no step done yet"
    return f"step {step:.0f}" + (f" of {total:.0f}" if total > 0 else "")


def head_line(status):
    state = text_at(status, "state")
    reason = text_at(status, "reason")
    world_size = number_at(status, "world_size") or 0
    parts = [f"run {text_at(status, 'run')[:12]}: {state}" + (f" ({reason})" if reason else ""),
             f"{len(status['ranks'])} of {world_size:.0f} ranks"]
    view = number_at(status, "generation")
    if view is not None:
        parts.append(f"view {view:.0f}")
    return ", ".join(parts)


def settings_line(status):
    values = ((name, text_at(status, "settings", name)) for name in SETTINGS)
    return ", ".join(f"{name} {value}" for name, value in values if value)


def duration(seconds):
    """Returns "1h2m3s", without parts that are 0."""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "m"), (seconds, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0"


def seconds_left(status):
    """Returns None if it is not known."""
    step = number_at(status, "step")
    total = number_at(status, "total_steps")
    iteration = mean(numbers_of(status, "iteration_seconds"))
    if has_ended(status) or None in (step, total, iteration) or total <= step:
        return None
    return min((total - step) * iteration, sys.maxsize)


def progress_line(status):
    parts = [progress_text(status)]
    iteration = mean(numbers_of(status, "iteration_seconds"))
    if iteration is not None and iteration > 0:
        parts.append(f"{iteration * 1000:.1f} ms an iteration")
        rate = sum(numbers_of(status, "samples")) / iteration
        parts.append(f"{rate:{'.2g' if rate < 1 else '.1f'}} images/s")
    loss = mean(numbers_of(status, "loss"))
    if loss is not None:
        parts.append(f"loss {loss:.4f}")
    left = seconds_left(status)
    if left is not None:
        parts.append(f"{duration(left)} left")
    return ", ".join(parts)


def checkpoint_line(status):
    step = number_at(status, "checkpoint", "step")
    age = number_at(status, "checkpoint", "age_seconds")
    if step is None or age is None:
        return ""
    size = number_at(status, "checkpoint", "bytes") or 0
    took = number_at(status, "checkpoint", "seconds") or 0
    return (f"last checkpoint: before step {step:.0f}, {duration(age)} ago, {size / 1e6:.1f} MB, "
            f"written in {took:.2f} s")


def ledger_line(status):
    why = text_at(status, "not_durable")
    return f"steps are not recorded any more: {why}" if why else ""


def exposed_line(status):
    iteration = sum(numbers_of(status, "iteration_seconds"))
    if iteration <= 0:
        return ""
    exposed = sum(numbers_of(status, "phase_seconds", "exposed_communication"))
    return f"exposed communication: {exposed / iteration * 100:.0f} % of the last iteration"


def besides(status, number):
    """Returns the other ranks that the worker of this rank, known by its address, carries."""
    addresses = {number_at(rank, "rank"): text_at(rank, "address") for rank in status["ranks"]}
    own = addresses.pop(number, "")
    return [int(rank) for rank, address in addresses.items()
            if own and address == own and rank is not None]


def workers_compared(status):
    """Returns how many workers have ranks with own work. A resumed run counts the steps of its
    checkpoint before there is any; after a loss, one worker may carry all ranks."""
    return len({text_at(rank, "address") or number_at(rank, "rank") for rank in status["ranks"]
                if (number_at(rank, "work_seconds") or 0) > 0})


def slowest_line(status):
    slowest = number_at(status, "slowest_rank")
    if slowest is None:
        return ("slowest: none; the ranks' own work differs by chance only"
                if workers_compared(status) > 1 else "")
    line = f"slowest: rank {slowest:.0f}"
    shared = besides(status, slowest)
    if shared:
        line += f" (its worker carries {ranks_text(shared)} too)"
    work = {number_at(rank, "rank"): number_at(rank, "work_seconds") for rank in status["ranks"]}
    own = work.pop(slowest, None)
    others = [seconds for rank, seconds in work.items()
              if seconds is not None and rank not in shared]
    if own is not None and others:
        line += (f", {own * 1000:.1f} ms of own work an iteration; the others "
                 f"{mean(others) * 1000:.1f} ms")
    return line


def coordinator_line(status):
    """Describes the coordinator's iteration, if gradients go through it."""
    mean = number_at(status, "coordinator", "iteration_seconds", "mean")
    times = [number_at(status, "coordinator", "phase_seconds", name) for name, *_ in AGGREGATION]
    if mean is None or None in times:
        return ""
    parts = ", ".join(f"{title} {seconds * 1000:.1f}"
                      for (_, title, _), seconds in zip(AGGREGATION, times))
    return f"coordinator: {mean * 1000:.1f} ms an iteration on average: {parts}"


def cost_text(what, is_over):
    """Returns "0.412 s lost (computing 0.321, waiting 0.041, …)", of the worker that lost most."""
    seconds = number_at(what, "seconds_lost")
    if seconds is None:
        return "its cost is not known" if is_over else "its cost is not known yet"
    parts = ((name, number_at(what, "seconds_lost_by_phase", name)) for name in PHASES)
    parts = ", ".join(f"{name} {part:.3f}" for name, part in parts if part is not None)
    return f"{seconds:.3f} s lost" + (f" ({parts})" if parts else "")


def process_text(what):
    """Returns "10.10.1.1:29401, process 4711"."""
    pid = number_at(what, "pid")
    return text_at(what, "address") + (f", process {pid:.0f}" if pid else "")


def loss_line(loss, has_next, is_over):
    """`has_next`: the run also went on after a later loss."""
    process = process_text(loss)
    line = (f"  {ranks_at(loss, 'ranks')}" + (f" ({process})" if process else "") +
            f" in step {number_at(loss, 'step') or 0:.0f}: {text_at(loss, 'cause')}")
    if carriers := "; ".join(f"{ranks_at(carrier, 'adopted')} on the worker of "
                             f"{ranks_at(carrier, 'ranks')} ({text_at(carrier, 'address')})"
                             for carrier in list_at(loss, "carriers")):
        # The workers went on only in the view after the next loss, and reported that one.
        skipped = has_next and number_at(loss, "seconds_lost") is None
        cost = "its cost counts with the next loss" if skipped else cost_text(loss, is_over)
        line += f"; then {carriers}; {cost}"
    return line


def loss_lines(status):
    """Describes the lost workers and their ranks' new carriers."""
    losses = list_at(status, "failures", "last")
    if not losses:
        return []
    seconds = number_at(status, "failures", "seconds_lost") or 0
    count = number_at(status, "failures", "losses") or len(losses)
    head = f"lost: {count:.0f} {'worker' if count == 1 else 'workers'}, {seconds:.3f} s lost in all"
    went_on = [bool(list_at(loss, "carriers")) for loss in losses]
    lines = [loss_line(loss, any(went_on[place:]), has_ended(status))
             for place, loss in enumerate(losses, 1)]
    return ["", head, *lines[-SHOWN_EVENTS:]]


def columns_of(status):
    """Returns the columns, with the phases that the coordinator lists; how far ranks are apart, with
    a parameter server; and ratio and residual, with compression."""
    listed = status.get("phases")
    served = any(number_at(rank, "lag") is not None for rank in status["ranks"])
    clocks = [TextColumn(("lag",), "lag"), TextColumn(("spread",), "spread")] if served else []
    compressed = any(number_at(rank, "compression_ratio") is not None for rank in status["ranks"])
    codec = CODEC_COLUMNS if compressed else []
    return [TextColumn(("rank",), "rank"), TextColumn(("state",), "state"),
            TextColumn(("steps_done",), "steps"), *clocks, *codec,
            TextColumn(("iteration_seconds",), "iteration ms", 1, 1000),
            *phase_columns(listed if isinstance(listed, list) else []),
            TextColumn(("work_seconds",), "own work", 1, 1000), PEAK_COLUMN,
            TextColumn(("loss",), "loss", 4),
            TextColumn(("heard_seconds",), "heard s ago", 1), TextColumn(("address",), "address"),
            TextColumn(("pid",), "process")]


def event_line(event):
    seconds = min(max(number_at(event, "time") or 0, 0), 1e11)
    return (f"  {time.strftime('%H:%M:%S', time.localtime(seconds))}"
            f"  step {number_at(event, 'step') or 0:<6.0f} {text_at(event, 'kind'):<9} "
            f"{text_at(event, 'text')}")


def event_lines(status):
    events = status.get("events")
    if not isinstance(events, list) or not events:
        return []
    return ["", "events", *map(event_line, events[-SHOWN_EVENTS:])]


def lines_of(status):
    """Returns all lines: the run, progress, the slowest rank, a table of the ranks (the last step
    in milliseconds), lost workers and the last events. A missing value is "-"."""
    head = [head_line(status), settings_line(status), progress_line(status), checkpoint_line(status),
            ledger_line(status), exposed_line(status),
            slowest_line(status), coordinator_line(status)]
    ranks = ["", *text_table(columns_of(status), status["ranks"])] if status["ranks"] else []
    return [*filter(None, head), *ranks, *loss_lines(status), *event_lines(status)]


def fitted(lines, columns, rows):
    """Cuts to `rows` lines of `columns` characters; the last says how many are omitted."""
    rows = max(rows, 1)
    if len(lines) > rows:
        lines = [*lines[:rows - 1], f"... {len(lines) - rows + 1} more lines"]
    return [line[:columns] for line in lines]
