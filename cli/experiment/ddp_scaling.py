"""Sections 3.2.4, 3.3 and 5 of the DDP paper: round-robin groups, fewer exchanges, and scaling."""
from cli.experiment.ddp_setups import (NEEDS, PAPERS, RING, USUAL_MB, backends, listed, overlapped,
                                       training, usual, usual_name)
from cli.experiment.study import (Statement, counted, decide, decide_time, line, lines,
                                  report_part, tabulate, tabulate_curves)
from cli.experiment.work import TIMES

GROUPED_MB = 1  # so that there are buckets for all groups
SCALING = "Fig. 9, and the lecture's strong and weak scaling"
STRONG, WEAK = "strong", "weak"
LEAST_EFFICIENCY = 0.8  # a choice

SAME_BITS = Statement(
    "group-bits", "The number of groups changes no bit of the parameters.",
    "section 3.3, round-robin process groups", "SHA-256 of the parameters after training",
    "each back end has one hash over all numbers of groups and all ranks")
GROUPS = Statement(
    "groups", "Several groups in turn are quicker than one.", "Fig. 12",
    "median time of an iteration with buckets of 1 MB, by groups",
    "the best number is not 1, over ring and over gloo", NEEDS)
PASSES = Statement(
    "no-sync", "Under no_sync there is one exchange every N passes.", "section 3.2.4",
    "bytes sent in an iteration of N passes", "they are the same for every N")
PASSES_TIME = Statement(
    "no-sync-time", "Skipping exchanges makes a pass shorter.", "Fig. 10",
    "median time of an iteration, divided by its passes", "it falls with every larger N", NEEDS)
STRONGER = Statement(
    "strong", "It scales strongly: the same total batch takes less time on more ranks.", SCALING,
    "median time of an iteration", "it falls with each doubling of the ranks", NEEDS)
WEAKER = Statement(
    "weak", "It scales weakly: with the same batch on each rank, more ranks take about the same "
    "time.", SCALING, "time of one rank over that of the most",
    f"it is at least {LEAST_EFFICIENCY:g}", NEEDS)
STATEMENTS = (SAME_BITS, GROUPS, PASSES, PASSES_TIME, STRONGER, WEAKER)


def groups_name(backend, groups):
    return f"{backend}-{groups}-groups"


def passes_name(setting, passes):
    scale = setting.scale
    return usual_name(scale["ranks"], scale["batch"]) if passes == 1 else f"every-{passes}"


def batch_of(scale, kind, ranks):
    return scale[STRONG] // ranks if kind == STRONG else scale[WEAK]


def runs(setting):
    scale = setting.scale
    planned = [training(scale, groups_name(backend, groups),
                        f"{backend}, {counted(groups, 'group')} in turn",
                        (*overlapped(backend, GROUPED_MB), "--groups", groups))
               for backend in backends(setting) for groups in scale["groups"]]
    planned += [usual(scale, scale["ranks"], scale["batch"])]
    planned += [training(scale, passes_name(setting, passes), f"an exchange every {passes} passes",
                         (*overlapped(RING, USUAL_MB), "--accumulate", passes), only=TIMES)
                for passes in scale["passes"] if passes > 1]
    return planned + [usual(scale, ranks, batch_of(scale, kind, ranks))
                      for kind in (STRONG, WEAK) for ranks in scale["scaling"]]


def groups_times(setting, results, backend):
    """Returns the median time of an iteration by number of groups."""
    return {groups: results[groups_name(backend, groups)].median_iteration()
            for groups in setting.scale["groups"]}


@report_part
def by_groups(setting, results):
    """Returns a table and a figure."""
    title = "Time of an iteration by groups that buckets take turns on"
    source, x = "Fig. 12, round-robin process groups", setting.scale["groups"]
    times = {backend: [*groups_times(setting, results, backend).values()]
             for backend in backends(setting)}
    return (tabulate_curves("groups", title, source, ("groups", x),
                            [(backend, f"{backend} (s)", values)
                             for backend, values in times.items()], 4,
                            f"Medians, with buckets of {GROUPED_MB} MB."),
            lines("groups", title, source, ("groups", "median time of an iteration (s)"),
                  [line(backend, x, values) for backend, values in times.items()],
                  y_from_zero=True))


def passes_times(setting, results):
    """Returns the median time of a pass by passes."""
    return {passes: results[passes_name(setting, passes)].median_iteration() / passes
            for passes in setting.scale["passes"]}


@report_part
def passes_table(setting, results):
    things = [(passes, results[passes_name(setting, passes)]) for passes in setting.scale["passes"]]
    return tabulate("no-sync", "An exchange every N passes (no_sync)",
                    "Fig. 10, skipping exchanges", things, [
        ("passes", "passes", lambda passes, _: passes),
        ("bytes", "bytes sent per exchange", lambda _, result: result.sent_per_iteration()),
        ("total", "median iteration (s)", lambda _, result: result.median_iteration(), 4),
        ("per_pass", "of it per pass (s)",
         lambda passes, result: result.median_iteration() / passes, 4)])


def scaling_times(setting, results, kind):
    """Returns the median time of an iteration by ranks."""
    return {ranks: results[usual_name(ranks, batch_of(setting.scale, kind, ranks))]
            .median_iteration() for ranks in setting.scale["scaling"]}


@report_part
def scaling(setting, results):
    """Returns a table and a figure."""
    x, titles = setting.scale["scaling"], {
        STRONG: f"strong, total batch {setting.scale[STRONG]} (s)",
        WEAK: f"weak, {setting.scale[WEAK]} for each rank (s)"}
    times = {kind: [*scaling_times(setting, results, kind).values()] for kind in titles}
    return (tabulate_curves("scaling", "Scaling", SCALING, ("ranks", x),
                            [(kind, title, times[kind]) for kind, title in titles.items()], 4,
                            "Medians of an iteration."),
            lines("scaling", "Time of an iteration by ranks", SCALING,
                  ("ranks", "median time of an iteration (s)"),
                  [line(f"{kind} scaling", x, values) for kind, values in times.items()],
                  y_from_zero=True))


def found(setting, results):
    return [passes_table(setting, results), *by_groups(setting, results),
            *scaling(setting, results)]


def falls(values):
    return all(after < before for before, after in zip(values, values[1:]))


@report_part
def same_groups_claim(setting, results):
    hashes = {backend: set().union(*(results[groups_name(backend, groups)].hashes()
                                     for groups in setting.scale["groups"]))
              for backend in backends(setting)}
    return decide(SAME_BITS, all(len(of_backend) == 1 for of_backend in hashes.values()),
                  "hashes over all groups and ranks: " + ", ".join(
                      f"{backend} {len(of_backend)}" for backend, of_backend in hashes.items()))


@report_part
def groups_claim(setting, results):
    times = {backend: groups_times(setting, results, backend) for backend in PAPERS}
    return decide_time(setting, GROUPS,
                       all(min(of_one, key=of_one.get) != 1 for of_one in times.values()),
                       "; ".join(f"{backend}: {listed(of_one)}"
                                 for backend, of_one in times.items()))


@report_part
def passes_claim(setting, results):
    sent = {passes: results[passes_name(setting, passes)].sent_per_iteration()
            for passes in setting.scale["passes"]}
    return decide(PASSES, len(set(sent.values())) == 1,
                  ", ".join(f"{size:,} bytes for {counted(passes, 'pass', 'passes')}"
                            for passes, size in sent.items()))


@report_part
def passes_time_claim(setting, results):
    times = passes_times(setting, results)
    return decide_time(setting, PASSES_TIME, falls([*times.values()]), listed(times))


@report_part
def strong_claim(setting, results):
    times = scaling_times(setting, results, STRONG)
    return decide_time(setting, STRONGER, falls([*times.values()]), listed(times))


@report_part
def weak_claim(setting, results):
    times = [*scaling_times(setting, results, WEAK).values()]
    efficiency = times[0] / times[-1]
    return decide_time(setting, WEAKER, efficiency >= LEAST_EFFICIENCY,
                       f"{times[0]:.4f} s over {times[-1]:.4f} s is {efficiency:.2f}")


def claims(setting, results):
    return [claim(setting, results) for claim in (
        same_groups_claim, groups_claim, passes_claim, passes_time_claim, strong_claim, weak_claim)]
