"""Collectives of small tensors, with the bytes of each link, as the course's sheet advises to write
first; and all-reduce of tensors of many sizes, for the lecture's cost of latency + bytes /
bandwidth."""
from cli.experiment.study import (HOSTS, Experiment, Findings, Picture, Statement, Table, decide,
                                  line, lines, report_part, tabulate_curves)
from cli.experiment.work import Averages, Showing
from cli.runs.quantiles import median
from cli.runs.tables import Column

SOURCE = "the course's sheet (write small programs first) and the lecture on all-reduce"
# A choice: the operations that expected_outputs defines.
OPS = ("send-recv", "broadcast", "scatter", "gather", "reduce", "all-gather", "reduce-scatter",
       "all-reduce")
# A choice: the lecture's two ways to reduce, drawn side by side.
SHOWN = ("ring", "tree")
SHOWN_RANKS = 4  # with an element for each in the tensor
PARAMETERS = 60_000_000  # of the lecture's model, exchanged in pieces
FLOAT_BYTES = 4
MOST_BLOCK = 64 << 10  # bytes in which an average is cut for the ring
SCALES = {
    "quick": {"about": "4 ranks, 4 B to 16 MB.", "ranks": 4, "iterations": 20, "seconds": 4,
              "sizes": (4, 4 << 10, 256 << 10, 4 << 20, 16 << 20)},
    "full": {"about": "4 ranks, 4 B to 240 MB, which are 60 million parameters.", "ranks": 4,
             "iterations": 50, "seconds": 60,
             "sizes": (4, 4000, 40000, 400000, 4000000, 40000000, 240000000)},
    "tiny": {"about": "For tests.", "hidden": True, "ranks": 2, "iterations": 3, "seconds": 1,
             "sizes": (4, 4096, 65536)}}

OUTPUTS = Statement(
    "outputs", "Each collective gives every rank what its definition says, on ring and tree.",
    "the sheet's small programs", f"outputs of {SHOWN_RANKS} ranks, {len(OPS)} collectives",
    "all values are those of the definition")
RING_BYTES = Statement(
    "ring-bytes", "On the ring every rank sends 2(N−1)/N of the tensor, to its right neighbor.",
    "Patarasuk and Yuan 2009", "bytes that each rank sends for the largest tensor",
    f"2(N−1)/N of it, within a block of the sum ({MOST_BLOCK >> 10} KiB)")
TREE_BYTES = Statement(
    "tree-bytes", "On the tree the root sends the tensor to each of its log2(N) children.",
    "reduce as a shuffle engine does it", "bytes that rank 0 sends for the largest tensor",
    "the tensor once for each child")
VALUES = Statement(
    "values", "Every rank gets the mean of all ranks' tensors.", "the sheet",
    "values of each back end and size", "none is wrong")
PIECES = Statement(
    "pieces", "Few large pieces take less time than many small ones, on each back end.",
    "lecture's figure of 60 M parameters in pieces",
    "time of 60 million parameters, one piece after the other",
    "less in the largest pieces than in the smallest, on all back ends", HOSTS)


def name_of(backend, size):
    return f"{backend}-{size}"


def shown_name(op, backend):
    return f"{op}-{backend}"


def runs(setting):
    scale = setting.scale
    showings = [Showing(shown_name(op, backend), f"{op} of {SHOWN_RANKS} floats, {backend}",
                        SHOWN_RANKS, op, backend, SHOWN_RANKS) for op in OPS for backend in SHOWN]
    return showings + [
        Averages(name_of(backend, size), f"{backend}, {size:,} bytes", scale["ranks"], size,
                 backend, scale["iterations"], scale["seconds"])
        for backend in setting.backends() for size in scale["sizes"]]


def expected_outputs(op, inputs):
    """Returns the outputs of each rank: sums are means, None is no output."""
    ranks = range(len(inputs))
    means = [sum(column) / len(inputs) for column in zip(*inputs)]
    parts = [inputs[part][part] for part in ranks]  # an element for each rank
    nothing = [None] * len(inputs[0])

    def only(values, kept):
        return [value if kept(place) else None for place, value in enumerate(values)]
    return [{"send-recv": inputs[0] if rank == ranks[-1] else nothing,
             "broadcast": inputs[0],
             "scatter": only(inputs[0], lambda part, rank=rank: part == rank),
             "gather": parts if rank == 0 else nothing,
             "reduce": means if rank == 0 else nothing,
             "all-gather": parts,
             "reduce-scatter": only(means, lambda part, rank=rank: part == rank),
             "all-reduce": means}[op] for rank in ranks]


def values_text(values):
    return " ".join("·" if value is None else f"{value:g}" for value in values)


def of_ops(results, ops=OPS, backends=SHOWN):
    """Yields (operation, back end, Shown)."""
    for op in ops:
        for backend in backends:
            yield op, backend, results[shown_name(op, backend)]


@report_part
def links_table(results):
    rows = [{"op": op, "backend": backend, "link": f"{sender} → {receiver}", "bytes": sent}
            for op, backend, shown in of_ops(results)
            for (sender, receiver), sent in sorted(shown.links.items())]
    return Table("links", "What goes over which link", "the sheet's small programs",
                 [Column("op", "collective"), Column("backend", "back end"),
                  Column("link", "from → to"), Column("bytes", "bytes")], rows,
                 f"Tensors of {SHOWN_RANKS} floats, {4 * SHOWN_RANKS} bytes, on {SHOWN_RANKS} "
                 "ranks; rank 0 is the root and sends to the last one. Sums of less than 16 KB go "
                 "around the ring in one piece.")


@report_part
def values_table(results, key="values", ops=OPS, backends=SHOWN):
    rows = [{"op": op, "backend": backend, "rank": rank,
             "input": values_text(shown.inputs[rank]), "output": values_text(shown.outputs[rank])}
            for op, backend, shown in of_ops(results, ops, backends) for rank in range(SHOWN_RANKS)]
    return Table(key, "What each rank puts in and gets", "the sheet's small programs",
                 [Column("op", "collective"), Column("backend", "back end"),
                  Column("rank", "rank"), Column("input", "input"), Column("output", "output")],
                 rows, "Sums are means. A rank has no output where there is a ·.")


@report_part
def op_picture(results, op):
    panels = []
    for backend in SHOWN:
        shown = results[shown_name(op, backend)]
        panels.append({"name": backend,
                       "ranks": [{"input": values_text(given), "output": values_text(got)}
                                 for given, got in zip(shown.inputs, shown.outputs)],
                       "links": [{"from": sender, "to": receiver, "label": f"{sent} B"}
                                 for (sender, receiver), sent in sorted(shown.links.items())]})
    return Picture(op, f"{op}: inputs, what goes over which link, outputs",
                   "the sheet's small programs", {"kind": "ranks", "panels": panels},
                   "Above each rank what it puts in, below it what it gets.")


@report_part
def outputs_claim(results):
    wrong = [shown_name(op, backend) for op, backend, shown in of_ops(results)
             if shown.outputs != expected_outputs(op, shown.inputs)]
    return decide(OUTPUTS, not wrong, f"wrong: {', '.join(wrong)}" if wrong else
                  f"{len(OPS) * len(SHOWN)} runs, all values right")


@report_part
def ring_bytes_claim(setting, results):
    ranks, size = setting.scale["ranks"], setting.scale["sizes"][-1]
    sent = results[name_of("ring", size)].sent
    planned = 2 * (ranks - 1) * size // ranks
    return decide(RING_BYTES, all(abs(of_rank - planned) <= MOST_BLOCK for of_rank in sent),
                  f"{', '.join(f'{of_rank:,}' for of_rank in sent)} bytes of {size:,}, planned "
                  f"{planned:,}, except for a block of the sum")


@report_part
def tree_bytes_claim(setting, results):
    ranks, size = setting.scale["ranks"], setting.scale["sizes"][-1]
    sent = results[name_of("tree", size)].sent
    children = (ranks - 1).bit_length()
    return decide(TREE_BYTES, sent[0] == children * size,
                  f"rank 0 sends {sent[0]:,} bytes of {size:,} to {children} children")


def fit(points):
    """Fits latency (s) and seconds per byte: least squares of the points' relative errors."""
    weights = [1 / seconds**2 for _, seconds in points]
    total = sum(weights)
    middle_x = sum(w * x for w, (x, _) in zip(weights, points)) / total
    middle_y = sum(w * y for w, (_, y) in zip(weights, points)) / total
    above = sum(w * (x - middle_x) * (y - middle_y) for w, (x, y) in zip(weights, points))
    slope = above / sum(w * (x - middle_x)**2 for w, (x, _) in zip(weights, points))
    return middle_y - slope * middle_x, slope


def times_of(setting, results, backend):
    return [(size, median(results[name_of(backend, size)].seconds))
            for size in setting.scale["sizes"]]


@report_part
def fit_table(setting, results):
    rows = []
    for backend in setting.backends():
        latency, slope = fit(times_of(setting, results, backend))
        rows.append({"backend": backend, "latency": 1e3 * latency,
                     "bandwidth": 1 / slope / 1e9 if slope > 0 else None})
    return Table("fit", "Latency and bandwidth, fitted", "latency + bytes / bandwidth",
                 [Column("backend", "back end"), Column("latency", "latency (ms)", 3),
                  Column("bandwidth", "bandwidth (GB/s)", 3)], rows,
                 "Least squares of the relative errors over all sizes.")


def pieces(setting, results, backend):
    """Returns (parameters of a piece, seconds of all PARAMETERS one piece after the other)."""
    return [(size // FLOAT_BYTES, seconds * PARAMETERS * FLOAT_BYTES / size)
            for size, seconds in times_of(setting, results, backend) if size >= 1000 * FLOAT_BYTES]


@report_part
def times(setting, results):
    """Returns a table and a figure."""
    title, sizes = "Median time of an all-reduce", setting.scale["sizes"]
    found = {backend: [1e3 * seconds for _, seconds in times_of(setting, results, backend)]
             for backend in setting.backends()}
    return (tabulate_curves("times", title, "the sheet's all-reduce of a tensor", ("bytes", sizes),
                            [(backend, f"{backend} (ms)", values)
                             for backend, values in found.items()], 3),
            lines("times", title, "latency + bytes / bandwidth", ("bytes", "time (ms)"),
                  [line(backend, sizes, values) for backend, values in found.items()],
                  x_log=10, y_log=10))


@report_part
def pieces_picture(setting, results):
    return lines("pieces", "60 million parameters, piece by piece",
                 "lecture's figure of 60 M parameters in pieces",
                 ("parameters of a piece", "time (s)"),
                 [line(backend, *zip(*pieces(setting, results, backend)))
                  for backend in setting.backends()],
                 "The time of one piece, times their number.", x_log=10, y_log=10)


@report_part
def values_claim(setting, results):
    names = [name_of(backend, size) for backend in setting.backends()
             for size in setting.scale["sizes"]]
    wrong = sum(results[name].wrong for name in names)
    return decide(VALUES, wrong == 0, f"{wrong} wrong values in {len(names)} runs")


@report_part
def pieces_claim(setting, results):
    ends = {backend: (points[0], points[-1]) for backend in setting.backends()
            for points in [pieces(setting, results, backend)]}
    numbers = [f"{backend} {slow:.2f} s in pieces of {least:,} parameters, {fast:.2f} s of {most:,}"
               for backend, ((least, slow), (most, fast)) in ends.items()]
    return decide(PIECES, all(fast < slow for (_, slow), (_, fast) in ends.values()),
                  "; ".join(numbers), setting.needs_hosts, setting.disturbed)


def find(setting, results):
    return Findings(
        [outputs_claim(results), ring_bytes_claim(setting, results),
         tree_bytes_claim(setting, results),
         values_claim(setting, results), pieces_claim(setting, results)],
        [values_table(results), links_table(results), *(op_picture(results, op) for op in OPS),
         *times(setting, results), fit_table(setting, results), pieces_picture(setting, results)],
        ["An all-reduce here gives the mean; its time is the longest of all ranks'."])


EXPERIMENT = Experiment("collectives", "Collectives of small and large tensors", SOURCE, SCALES,
                        runs, find, 4,
                        statements=(OUTPUTS, RING_BYTES, TREE_BYTES, VALUES, PIECES))
