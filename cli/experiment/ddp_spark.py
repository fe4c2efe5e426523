"""The lecture's questions about Spark: what an aggregation by shuffles costs, and what happens if
not all tasks are active at the same time."""
from cli.experiment.ddp_scaling import groups_name
from cli.experiment.ddp_setups import (NEEDS, RING, USUAL_MB, after_backward, overlapped, training,
                                       usual_name)
from cli.experiment.results import EXPOSED, largest_difference
from cli.experiment.study import Statement, decide, decide_time, report_part, tabulate
from cli.experiment.work import LOSSES, TIMES, Late
from cli.runs.quantiles import mean

LECTURE = "the lecture's aggregation by Spark"
TREE = "tree"
TREE_LOSSES = "tree-losses"
TOLERANCE = 1e-5  # of a loss, relative
FEW_STEPS = 3  # later ones multiply the rounding, because losses rise at first
HALF = 0.5  # of the delay
OVERLAP, AT_END = "ring, overlap", "ring, at the end"
BY_TREE, BY_DRIVER = "tree, at the end", "gather and scatter, at the end"
SHUFFLES = {  # that send a rank's gradients when its backward pass has ended
    AT_END: after_backward(RING), BY_TREE: after_backward(TREE),
    BY_DRIVER: ("--sync", "gather-scatter", "--backend", "coordinator", "--bucket-cap-mb",
                USUAL_MB)}
ON_TIME, LATE = "all on time", "one late"

TREE_LOSS = Statement(
    "tree-losses", "The tree gives the losses of the fold.",
    "section 2.3, an all-reduce may add in any order", "losses of tree and ring",
    f"they differ by at most {TOLERANCE:g}, relative, over {FEW_STEPS} steps")
SHUFFLE = Statement(
    "shuffles", "Aggregation by shuffles, in a tree or at a driver, takes longer than a ring.",
    LECTURE, "median time of an iteration whose gradients leave after backward",
    "the ring's is the shortest", NEEDS)
AT_ONCE = Statement(
    "output-at-end", "There is no overlap if a task's output leaves only when it completes.",
    LECTURE, "exposed communication of the ring, during and after backward",
    "sent after backward it is longer", NEEDS)
WAITS = Statement(
    "late-waits", "If one rank is late, all ranks of a ring wait for it.", LECTURE,
    "exposed communication of the ranks that are on time, with and without a late one",
    "it grows by more than half of the delay")
STILL = Statement(
    "late-overlap", "Overlap still saves time if one rank is late.", LECTURE,
    "median time of an iteration with a late rank, sent during and after backward",
    "with overlap it is shorter", NEEDS)
STATEMENTS = (TREE_LOSS, SHUFFLE, AT_ONCE, WAITS, STILL)


def shuffle_name(setting, way):
    if way == OVERLAP:
        return usual_name(setting.scale["ranks"], setting.scale["batch"])
    return "shuffle-" + way.partition(",")[0].replace(" ", "-")


def late_name(when, overlap):
    return f"{when}-{'overlap' if overlap else 'at-end'}".replace(" ", "-")


def late_run(scale, when, overlap):
    options = overlapped(RING, USUAL_MB) if overlap else after_backward(RING)
    title = f"{when}, {'overlap' if overlap else 'sent at the end'}, ranks that sleep"
    return Late(late_name(when, overlap), title, scale["ranks"], scale["batch"],
                scale["iterations"], options, sleeps=scale["sleeps"],
                late=(scale["ranks"] - 1,) if when == LATE else (), late_seconds=scale["late"],
                recovers=False)


def runs(setting):
    scale = setting.scale
    return [training(scale, TREE_LOSSES, "sums up a tree, and the mean down again",
                     overlapped(TREE, USUAL_MB), only=LOSSES),
            *(training(scale, shuffle_name(setting, way), way, options, only=TIMES)
              for way, options in SHUFFLES.items()),
            *(late_run(scale, when, overlap) for when in (ON_TIME, LATE)
              for overlap in (False, True))]


def busiest_bytes(result):
    """Returns the bytes that the busiest rank sends in an iteration."""
    return max(sum(record["bytes_sent"] for record in rank.records)
               for rank in result.ranks) // result.iterations


def shuffles(setting, results):
    return {way: results[shuffle_name(setting, way)] for way in (OVERLAP, *SHUFFLES)}


@report_part
def shuffle_table(setting, results):
    of_ways = shuffles(setting, results)
    return tabulate("shuffles", "Gradients by a ring, a tree of shuffles, and a driver", LECTURE,
                    of_ways.items(), [
        ("way", "way", lambda way, _: way),
        ("total", "median iteration (s)", lambda _, result: result.median_iteration(), 4),
        ("exposed", "exposed communication (s)", lambda _, result: result.phase(EXPOSED), 4),
        ("bytes", "bytes sent, all ranks", lambda _, result: result.sent_per_iteration()),
        ("busiest", "of them by the busiest rank", lambda _, result: busiest_bytes(result))],
        shuffle_paragraph(of_ways, setting.scale["ranks"]))


def shuffle_paragraph(of_ways, ranks):
    ring, tree, driver = (of_ways[way] for way in (AT_END, BY_TREE, BY_DRIVER))
    costs = [(result.median_iteration(), result.median_iteration() / ring.median_iteration())
             for result in (tree, driver)]
    return (f"A Spark task's output leaves when the task completes, so three rows send after "
            f"backward. Over {ranks} ranks a tree of shuffles takes {costs[0][0]:.3f} s, "
            f"{costs[0][1]:.2f} times as long as a ring ({ring.median_iteration():.3f} s), because "
            f"its busiest rank sends {busiest_bytes(tree):,} bytes and a ring's "
            f"{busiest_bytes(ring):,}. A gather at one place, the driver, takes "
            f"{costs[1][0]:.3f} s, {costs[1][1]:.2f} times as long: that place receives and sends "
            "all gradients (its bytes are not those of a rank). With overlap the ring takes "
            f"{of_ways[OVERLAP].median_iteration():.3f} s.")


def exposed_of(result, ranks):
    """Returns the mean exposed communication of these ranks, without the first iteration."""
    return mean([record["phase_seconds"][EXPOSED] for rank in ranks
                 for record in result.ranks[rank].records[1:]])


def waited(setting, result):
    """Returns the exposed communication of the ranks that are never late."""
    return exposed_of(result, range(setting.scale["ranks"] - 1))


@report_part
def late_table(setting, results):
    last = setting.scale["ranks"] - 1
    things = [(when, overlap, results[late_name(when, overlap)])
              for when in (ON_TIME, LATE) for overlap in (False, True)]
    return tabulate("late", "A ring with a rank that comes late", LECTURE, things, [
        ("ranks", "ranks", lambda when, *_: when),
        ("sent", "sent", lambda _, overlap, __: "during backward" if overlap else "after backward"),
        ("total", "median iteration (s)", lambda *thing: thing[2].median_iteration(), 4),
        ("others", "exposed communication of the others (s)",
         lambda *thing: waited(setting, thing[2]), 4),
        ("late", f"and of rank {last} (s)", lambda *thing: exposed_of(thing[2], [last]), 4)],
        late_paragraph(setting, results))


def late_paragraph(setting, results):
    scale = setting.scale
    times = {(when, overlap): results[late_name(when, overlap)].median_iteration()
             for when in (ON_TIME, LATE) for overlap in (False, True)}
    before, after = (waited(setting, results[late_name(when, True)]) for when in (ON_TIME, LATE))
    saved = [times[when, False] - times[when, True] for when in (ON_TIME, LATE)]
    return (f"Computation is emulated here on any machine: each rank sleeps "
            f"{scale['sleeps'][0]:g} s in forward and {scale['sleeps'][1]:g} s in backward, and "
            f"the late one {scale['late']:g} s more in forward. With overlap an iteration takes "
            f"{times[ON_TIME, True]:.3f} s if all are on time and {times[LATE, True]:.3f} s if one "
            "is late. The others wait in the ring: their exposed communication goes from "
            f"{before:.3f} s to {after:.3f} s, because no sum can pass the late rank. Overlap "
            f"saves {saved[0]:.3f} s if all are on time and {saved[1]:.3f} s if one is late. So an "
            "engine that does not run all tasks at the same time delays every ring by its last "
            "task, and one that starts a task only after another has ended cannot run a ring.")


def found(setting, results):
    return [shuffle_table(setting, results), late_table(setting, results)]


@report_part
def tree_claim(setting, results):
    difference = largest_difference(results[groups_name(RING, 1)], results[TREE_LOSSES], FEW_STEPS)
    return decide(TREE_LOSS, difference <= TOLERANCE, f"{difference:.1e}, relative, over all ranks")


@report_part
def shuffle_claim(setting, results):
    times = {way: result.median_iteration() for way, result in shuffles(setting, results).items()
             if way != OVERLAP}
    return decide_time(setting, SHUFFLE, min(times, key=times.get) == AT_END,
                       ", ".join(f"{way} {seconds:.4f} s" for way, seconds in times.items()))


@report_part
def output_claim(setting, results):
    during, after = (results[shuffle_name(setting, way)].phase(EXPOSED)
                     for way in (OVERLAP, AT_END))
    return decide_time(setting, AT_ONCE, during < after,
                       f"during {during:.4f} s, after {after:.4f} s")


@report_part
def waits_claim(setting, results):
    grown = {overlap: waited(setting, results[late_name(LATE, overlap)]) -
             waited(setting, results[late_name(ON_TIME, overlap)]) for overlap in (True, False)}
    delay = setting.scale["late"]
    return decide(WAITS, all(seconds > HALF * delay for seconds in grown.values()),
                  f"by {grown[True]:.4f} s with overlap and {grown[False]:.4f} s without, of "
                  f"{delay:g} s; all ranks sleep in place of computing", setting.disturbed)


@report_part
def still_claim(setting, results):
    during, after = (results[late_name(LATE, overlap)].median_iteration()
                     for overlap in (True, False))
    return decide_time(setting, STILL, during < after,
                       f"during {during:.4f} s, after {after:.4f} s")


def claims(setting, results):
    return [claim(setting, results) for claim in (
        tree_claim, shuffle_claim, output_claim, waits_claim, still_claim)]
