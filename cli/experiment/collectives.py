"""All-reduce of tensors of many sizes: what the course's sheet advises to write first, and the
lecture's cost of latency + bytes / bandwidth."""
from cli.experiment.study import NEEDS_HOSTS, Experiment, Findings, Picture, Table, judge
from cli.experiment.work import Averages
from cli.runs.quantiles import median
from cli.runs.tables import Column

SOURCE = "the course's sheet (write small programs first) and the lecture on all-reduce"
BACKENDS = ("coordinator", "sharded", "ring", "gloo")
PARAMETERS = 60_000_000  # of the lecture's model, exchanged in pieces
FLOAT_BYTES = 4
SCALES = {
    "quick": {"about": "4 ranks, 4 B to 16 MB.", "ranks": 4, "iterations": 20, "seconds": 4,
              "sizes": (4, 4 << 10, 256 << 10, 4 << 20, 16 << 20)},
    "full": {"about": "4 ranks, 4 B to 240 MB, which are 60 million parameters.", "ranks": 4,
             "iterations": 50, "seconds": 60,
             "sizes": (4, 4000, 40000, 400000, 4000000, 40000000, 240000000)},
    "tiny": {"about": "For tests.", "hidden": True, "ranks": 2, "iterations": 3, "seconds": 1,
             "sizes": (4, 4096, 65536)}}


def name_of(backend, size):
    return f"{backend}-{size}"


def runs(setting):
    scale = setting.scale
    return [Averages(name_of(backend, size), f"{backend}, {size:,} bytes", scale["ranks"], size,
                     backend, scale["iterations"], scale["seconds"])
            for backend in BACKENDS for size in scale["sizes"]]


def fit(points):
    """Latency (s) and seconds per byte of `points` (bytes, seconds): least squares of the relative
    errors."""
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


def times_table(setting, results):
    times = {backend: dict(times_of(setting, results, backend)) for backend in BACKENDS}
    rows = [{"bytes": size, **{backend: 1e3 * times[backend][size] for backend in BACKENDS}}
            for size in setting.scale["sizes"]]
    return Table("times", "Median time of an all-reduce", "the sheet's all-reduce of a tensor",
                 [Column("bytes", "bytes"),
                  *(Column(backend, f"{backend} (ms)", 3) for backend in BACKENDS)], rows)


def fit_table(setting, results):
    rows = []
    for backend in BACKENDS:
        latency, slope = fit(times_of(setting, results, backend))
        rows.append({"backend": backend, "latency": 1e3 * latency,
                     "bandwidth": 1 / slope / 1e9 if slope > 0 else None})
    return Table("fit", "Latency and bandwidth, fitted", "latency + bytes / bandwidth",
                 [Column("backend", "back end"), Column("latency", "latency (ms)", 3),
                  Column("bandwidth", "bandwidth (GB/s)", 3)], rows,
                 "Least squares of the relative errors over all sizes.")


def pieces(setting, results, backend):
    """(parameters of a piece, seconds of all PARAMETERS one piece after the other)."""
    return [(size // FLOAT_BYTES, seconds * PARAMETERS * FLOAT_BYTES / size)
            for size, seconds in times_of(setting, results, backend) if size >= 1000 * FLOAT_BYTES]


def times_picture(setting, results):
    return Picture("times", "Median time of an all-reduce", "latency + bytes / bandwidth",
                   {"kind": "lines", "x_label": "bytes", "y_label": "time (ms)", "x_log": 10,
                    "y_log": 10,
                    "series": [{"name": backend,
                                "x": [size for size, _ in times_of(setting, results, backend)],
                                "y": [1e3 * seconds for _, seconds in
                                      times_of(setting, results, backend)]}
                               for backend in BACKENDS]})


def pieces_picture(setting, results):
    return Picture("pieces", "60 million parameters, piece by piece",
                   "lecture's figure of 60 M parameters in pieces",
                   {"kind": "lines", "x_label": "parameters of a piece", "y_label": "time (s)",
                    "x_log": 10, "y_log": 10,
                    "series": [{"name": backend,
                                "x": [size for size, _ in pieces(setting, results, backend)],
                                "y": [seconds for _, seconds in
                                      pieces(setting, results, backend)]}
                               for backend in BACKENDS]},
                   "The time of one piece, times their number.")


def values_claim(results):
    wrong = sum(result.wrong for result in results.values())
    return judge("Every rank gets the mean of all ranks' tensors.", "the sheet", wrong == 0,
                 f"{wrong} wrong values in {len(results)} runs")


def pieces_claim(setting, results, backend):
    times = pieces(setting, results, backend)
    (least, slow), (most, fast) = times[0], times[-1]
    return judge(f"Few large pieces take less time than many small ones, {backend}.",
                 "lecture's figure of 60 M parameters in pieces", fast < slow,
                 f"{slow:.2f} s in pieces of {least:,} parameters, {fast:.2f} s of {most:,}",
                 "" if setting.has_hosts else NEEDS_HOSTS)


def find(setting, results):
    return Findings(
        [values_claim(results),
         *(pieces_claim(setting, results, backend) for backend in BACKENDS)],
        [times_table(setting, results), fit_table(setting, results)],
        [times_picture(setting, results), pieces_picture(setting, results)],
        ["An all-reduce here gives the mean; its time is the longest of all ranks'."])


EXPERIMENT = Experiment("collectives", "All-reduce of small and large tensors", SOURCE, SCALES,
                        runs, find, 4)
