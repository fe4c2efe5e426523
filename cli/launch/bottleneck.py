"""Finds what an iteration mostly waits for, and what to try."""
import math

from cli.runs.json_fields import list_at, number_at, ranks_text, text_at
from cli.runs.quantiles import mean, median

# Fractions of an iteration.
STRAGGLER_FROM = 0.1
OVERHEAD_FROM = 1 / 6
# A straggler exceeds the others by this many standard errors; less may be chance.
STANDARD_ERRORS = 2
# Above this fraction of its speed, a link is the limit.
LINK_IS_FULL = 0.7
UNKNOWN = "not known, because no rank ran two iterations (the first one warms up)."
# How a straggler may spend its time.
WORK = {"waiting for data": ("data",), "forward and backward": ("forward", "backward"),
        "the optimizer": ("optimizer",)}
OTHER = "in column other"

# Titles of other waits, and what to try. docs/tasks/slow-run.md has the same advice.
WAITS = {
    "data": ("waiting for data", "more --loaders or fewer --threads, so that the loader has a core, "
             "a faster disk or --augment false"),
    "optimizer": ("the optimizer", "a larger --batch-size or --accumulate, so that it updates less "
                  "often for the same samples, or a smaller model")}


class Rank:
    """Mean seconds of an iteration of a rank's worker, which may carry other ranks, too."""

    def __init__(self, summary):
        self._summary = summary
        self.number = int(number_at(summary, "rank") or 0)
        self.iteration = number_at(summary, "iteration_seconds", "mean") or 0
        self.of_worker = list_at(summary, "ranks_of_worker", "last") or [self.number]
        # Mean number of ranks that the worker computed: fewer before it took over some.
        self.carried = max(1, number_at(summary, "ranks_of_worker", "mean") or 1)
        self.adopted = [rank for recovery in list_at(summary, "failures", "recoveries")
                        for rank in list_at(recovery, "adopted")]

    def phases(self, *names):
        return sum(number_at(self._summary, "phase_seconds", name) or 0 for name in names)

    @property
    def exposed(self):
        return self.phases("exposed_communication")

    @property
    def own_work(self):
        return self.iteration - self.exposed

    def work(self, name):
        """Seconds of a kind of own work, by its name in WORK or OTHER."""
        if name == OTHER:
            return self.own_work - sum(self.phases(*phases) for phases in WORK.values())
        return self.phases(*WORK[name])

    @property
    def error(self):
        """Returns the standard error of own_work in seconds: infinite after a single timed iteration;
        None if the summary says nothing of it."""
        if "own_work_seconds" not in self._summary:
            return None
        error = number_at(self._summary, "own_work_seconds", "standard_error")
        return math.inf if error is None else error

    @property
    def work_per_rank(self):
        return self.own_work / self.carried

    @property
    def worker_name(self):
        return f"the worker of {ranks_text(self.of_worker)}"


def mean_phases(ranks, *names):
    return mean([rank.phases(*names) for rank in ranks])


def part_of(part, iteration):
    """ "210.0 of 512.0 ms an iteration (41 %)"."""
    return (f"{part * 1000:.1f} of {iteration * 1000:.1f} ms an iteration "
            f"({part / iteration * 100:.0f} %)")


def communication_advice(run, link_share, overlapping, halving, periodic, served):
    sync = (text_at(run, "sync") or "").split(":")[0]
    if sync in served:
        yield "a larger --staleness (fewer waits for slow ranks), or aggregators on further hosts"
    if sync in periodic:
        yield f"a larger H (--sync {sync}:H) or --delay (transfers run beside further steps)"
    elif not sync:
        yield "--sync ddp and --wire bf16 if they were not used"
    elif sync not in overlapping:
        yield "--sync ddp (transfers run beside backward)"
    if sync not in served and text_at(run, "wire") == "fp32" and text_at(run, "backend") in halving:
        if sync in periodic:
            yield "--wire bf16 (half the bytes)"
        elif (text_at(run, "compress") or "none") == "none":
            yield "--wire bf16 (half the bytes) or --compress int8 (a quarter)"
    yield "a larger --batch-size or --accumulate"
    if link_share is None or link_share >= LINK_IS_FULL:
        yield "more bandwidth"


def communication(exposed, iteration, summaries, *kinds):
    shares = [number_at(summary, "link_share") for summary in summaries]
    share = mean([share for share in shares if share is not None])
    links = "" if share is None else f", with the links at {share * 100:.0f} % of their speed"
    *others, last = communication_advice(summaries[-1], share, *kinds)
    advice = f"{', '.join(others)} or {last}" if others else last
    return f"exposed communication, {part_of(exposed, iteration)}{links}; try {advice}."


def computation(ranks, iteration):
    advice = ("further hosts, faster ones, or more --threads if cores are idle"
              if len(ranks) > 1 else
              "more workers on further hosts, or more --threads if cores are idle")
    part = part_of(mean_phases(ranks, "forward", "backward"), iteration)
    return f"computation (forward and backward), {part}; try {advice}."


def longest_work(slow, ranks):
    """Names the work on which the rank spends most more than all do, for each rank carried."""
    def excess(name):
        return (slow.work(name) / slow.carried -
                mean([rank.work(name) / rank.carried for rank in ranks]))
    return max([*WORK, OTHER], key=excess)


def by_chance(slow, others):
    """Returns how far chance alone may put the own work of `slow` above that of `others`; 0 if a
    summary does not say."""
    errors = [rank.error for rank in others]
    if None in [slow.error, *errors] or not others:
        return 0
    return STANDARD_ERRORS * math.hypot(slow.error, math.hypot(*errors) / len(others))


def slowest(ranks, iteration):
    """Returns the rank whose worker's own work is so much longer than the other workers' that it
    delays them, by more than chance, and the ranks of those. (None, None) if there is none."""
    slow = max(ranks, key=lambda rank: rank.own_work)
    others = [rank for rank in ranks if rank.of_worker != slow.of_worker]
    usual = median([rank.own_work for rank in others]) if others else slow.own_work
    if slow.own_work - usual < max(STRAGGLER_FROM * iteration, by_chance(slow, others)):
        return None, None
    return slow, others


def straggler(slow, others, ranks, iteration):
    """Describes a worker that is also slower for each rank that it carries; None if it is not."""
    usual = median([rank.work_per_rank for rank in others])
    if (slow.work_per_rank - usual) * slow.carried < STRAGGLER_FROM * iteration:
        return None
    several = any(len(rank.of_worker) > 1 for rank in ranks)
    who = slow.worker_name if several else f"rank {slow.number}"
    each = " for each rank" if several else ""
    return (f"{who}, whose own work takes {slow.work_per_rank * 1000:.1f} ms an iteration{each}, "
            f"the others' {usual * 1000:.1f} ms (most of it {longest_work(slow, ranks)}); look at "
            "what else its host does, or give it another.")


def uneven(slow, others):
    """Describes a worker that is slower because it carries more ranks, perhaps after a loss."""
    usual = median([rank.own_work for rank in others])
    times = (f"{slow.worker_name} computes {len(slow.of_worker)} ranks one after the other, so its own "
             f"work takes {slow.own_work * 1000:.1f} ms an iteration, that of the others "
             f"{usual * 1000:.1f} ms")
    if slow.adopted:
        was = "was" if len(slow.adopted) == 1 else "were"
        return (f"the loss of a worker: since {ranks_text(slow.adopted)} {was} lost, {times}; start "
                "the next run with all workers.")
    return f"an uneven deal of ranks: {times}; try as many ranks for each worker."


def held_up(ranks, iteration, summaries, *kinds):
    """Says why the others wait for one worker; None if they do not."""
    slow, others = slowest(ranks, iteration)
    if slow is None:
        return None
    found = straggler(slow, others, ranks, iteration) or uneven(slow, others)
    # Were it as quick as the others, all would still wait for the transfers as long as it does now.
    if slow.exposed < slow.own_work - median([rank.own_work for rank in others]):
        return found
    exposed = mean([rank.exposed for rank in ranks])
    return f"{communication(exposed, iteration, summaries, *kinds)} Next: {found}"


def longest_wait(ranks, iteration, summaries, *kinds):
    """Returns the seconds of the longest wait, and what it is and what to try."""
    waits = {name: mean_phases(ranks, name) for name in ("exposed_communication", *WAITS)}
    longest = max(waits, key=waits.get)
    seconds = waits[longest]
    if longest == "exposed_communication":
        return seconds, communication(seconds, iteration, summaries, *kinds)
    title, advice = WAITS[longest]
    return seconds, f"{title}, {part_of(seconds, iteration)}; try {advice}."


def judge(ranks, summaries, *kinds):
    iteration = mean([rank.iteration for rank in ranks])
    if found := held_up(ranks, iteration, summaries, *kinds):
        return found
    seconds, wait = longest_wait(ranks, iteration, summaries, *kinds)
    if seconds > mean_phases(ranks, "forward", "backward"):
        return wait
    found = computation(ranks, iteration)
    return found if seconds < OVERHEAD_FROM * iteration else f"{found} Next: {wait}"


def bottleneck(summaries, overlapping=(), halving=(), periodic=(), served=()):
    """Returns one sentence. `summaries`: the ranks', any field of which may be missing, with
    link_share if it is known; `overlapping`: syncs whose transfers run beside backward; `halving`:
    back ends that take half types; `periodic`: syncs that exchange models every H steps; `served`:
    syncs whose model aggregators keep. The first that applies is named:

    straggler    one worker's own work (iteration − exposed communication) is longer than the median
                 of the others' by at least a tenth of an iteration, also for each rank that it
                 carries; and by at least two standard errors, if the summaries have own_work_seconds.
                 If its own exposed communication is no shorter than that delay, exposed
                 communication is named first, and the straggler as next
    the loss of a worker, or an uneven deal: the same, because it carries more ranks
    exposed communication, waiting for data, optimizer, or computation (forward and backward): the
                 longest of the four (means over the ranks). After computation, the longest of the
                 other three follows as next, if it takes at least a sixth of an iteration
    """
    ranks = [rank for rank in map(Rank, summaries) if rank.iteration > 0]
    found = (judge(ranks, summaries, overlapping, halving, periodic, served) if ranks
             else UNKNOWN)
    return f"Bottleneck: {found}"
