"""The paper on PyTorch's DistributedDataParallel (Li et al., VLDB 2020): where an iteration goes,
the size of buckets, fewer exchanges, and scaling."""
from cli.experiment.results import EXPOSED
from cli.experiment.study import NEEDS_HOSTS, Experiment, Findings, Picture, Table, judge
from cli.experiment.work import Training
from cli.runs.quantiles import median, quantile
from cli.runs.tables import Column

SOURCE = "PyTorch Distributed: Experiences on Accelerating Data Parallel Training, VLDB 2020"
BACKENDS = ("ring", "sharded", "gloo")
EXACT = "sharded"  # adds in the order of the ranks, however the bytes are cut
USUAL_MB = 25
OVERLAPS = {  # how the exchange lies to the computation: options of the worker
    "no overlap": ("--sync", "all-reduce", "--backend", "ring", "--bucket-cap-mb", USUAL_MB),
    "overlap": ("--sync", "ddp", "--backend", "ring", "--bucket-cap-mb", USUAL_MB, "--barrier"),
    "also with next forward": ("--sync", "ddp", "--backend", "ring", "--bucket-cap-mb", USUAL_MB)}
PHASES = {"forward": "#56b4e9", "backward": "#0072b2", EXPOSED: "#d55e00", "optimizer": "#009e73"}
TITLES = {EXPOSED: "exposed communication", "optimizer": "optimiser"}
HATCHES = {EXPOSED: "////"}
SCALES = {
    "quick": {"about": "2 ranks with batches of 8 and 8 iterations; the paper has 16 and 32 GPUs.",
              "ranks": 2, "batch": 8, "iterations": 8, "buckets": (0, 5, 10, 25, 50),
              "passes": (1, 2, 4), "scaling": (1, 2, 4), "strong": 16},
    "full": {"about": "4 ranks with batches of 64 and 40 iterations; the paper has 16 and 32 GPUs.",
             "ranks": 4, "batch": 64, "iterations": 40, "buckets": (0, 5, 10, 25, 50),
             "passes": (1, 2, 4, 8), "scaling": (1, 2, 4), "strong": 256},
    "tiny": {"about": "For tests.", "hidden": True, "ranks": 2, "batch": 2, "iterations": 3,
             "buckets": (0, 25), "passes": (1, 2), "scaling": (1, 2), "strong": 4}}


def bucket_name(backend, size):
    return f"{backend}-{size}-mb"


def overlap_name(title):
    return title.replace(" ", "-")


def passes_name(passes):
    return f"every-{passes}"


def scaling_name(kind, ranks):
    return f"{kind}-{ranks}-ranks"


def training(scale, name, title, options, **more):
    return Training(name, title, **{"ranks": scale["ranks"], "batch_size": scale["batch"],
                                    "iterations": scale["iterations"], "options": options, **more})


def scaling_run(scale, kind, ranks):
    batch = scale["strong"] // ranks if kind == "strong" else scale["batch"]
    options = ("--sync", "none") if ranks == 1 else OVERLAPS["overlap"]
    return training(scale, scaling_name(kind, ranks), f"{kind} scaling, {ranks} × {batch}",
                    options, ranks=ranks, batch_size=batch)


def runs(setting):
    scale = setting.scale
    planned = [training(scale, overlap_name(title), title, options)
               for title, options in OVERLAPS.items()]
    planned += [training(scale, bucket_name(backend, size), f"{backend}, buckets of {size} MB",
                         ("--sync", "ddp", "--backend", backend, "--bucket-cap-mb", size,
                          "--barrier"))
                for backend in BACKENDS for size in scale["buckets"]]
    planned += [training(scale, passes_name(passes), f"an exchange every {passes} passes",
                         (*OVERLAPS["overlap"], "--accumulate", passes))
                for passes in scale["passes"]]
    return planned + [scaling_run(scale, kind, ranks) for kind in ("strong", "weak")
                      for ranks in scale["scaling"]]


def breakdown_table(results):
    rows = [{"run": title, "total": results[overlap_name(title)].median_iteration(),
             **{phase: results[overlap_name(title)].phase(phase) for phase in PHASES}}
            for title in OVERLAPS]
    return Table("breakdown", "Where an iteration goes", "Fig. 6, latency breakdown",
                 [Column("run", "communication"),
                  *(Column(phase, f"{TITLES.get(phase, phase)} (s)", 4) for phase in PHASES),
                  Column("total", "median iteration (s)", 4)], rows,
                 "Phases are means without the first iteration, over the ranks.")


def breakdown_picture(results):
    series = [{"name": TITLES.get(phase, phase), "colour": colour, "hatch": HATCHES.get(phase),
               "values": [results[overlap_name(title)].phase(phase) for title in OVERLAPS]}
              for phase, colour in PHASES.items()]
    return Picture("breakdown", "Where an iteration goes", "Fig. 6, latency breakdown",
                   {"kind": "stacked", "x_label": "mean time of an iteration (s)",
                    "categories": list(OVERLAPS), "series": series},
                   "Communication that runs beside computation takes no time of its own.")


def buckets_table(setting, results):
    rows = []
    for backend in BACKENDS:
        for size in setting.scale["buckets"]:
            times = results[bucket_name(backend, size)].iteration_seconds()
            rows.append({"backend": backend, "mb": size, "p50": median(times),
                         "p10": quantile(times, 0.1), "p90": quantile(times, 0.9)})
    return Table("buckets", "Time of an iteration by size of buckets", "Figs. 7 and 8",
                 [Column("backend", "back end"), Column("mb", "bucket (MB)"),
                  Column("p10", "p10 (s)", 4), Column("p50", "p50 (s)", 4),
                  Column("p90", "p90 (s)", 4)], rows,
                 "0 MB: a bucket for each parameter. The first bucket is of 1 MB at most.")


def buckets_picture(setting, results, backend):
    sizes = setting.scale["buckets"]
    values = [results[bucket_name(backend, size)].iteration_seconds() for size in sizes]
    return Picture(f"buckets-{backend}", f"Time of an iteration by size of buckets, {backend}",
                   "Figs. 7 and 8",
                   {"kind": "box", "x_label": "time of an iteration (s)",
                    "categories": [f"{size} MB" for size in sizes],
                    "series": [{"values": values}]},
                   "Boxes hold the middle half, and are cut by the median; whiskers: 10th and "
                   "90th percentile.")


def sent_per_iteration(result):
    """Bytes, of all ranks."""
    return sum(rank.summary["bytes_sent"] for rank in result.ranks) // result.iterations


def passes_table(setting, results):
    rows = []
    for passes in setting.scale["passes"]:
        result = results[passes_name(passes)]
        rows.append({"passes": passes, "bytes": sent_per_iteration(result),
                     "total": result.median_iteration(),
                     "per_pass": result.median_iteration() / passes})
    return Table("no-sync", "An exchange every N passes (no_sync)", "Fig. 10, skipping exchanges",
                 [Column("passes", "passes"), Column("bytes", "bytes sent per exchange"),
                  Column("total", "median iteration (s)", 4),
                  Column("per_pass", "of it per pass (s)", 4)], rows)


def scaling_times(setting, results, kind):
    return [results[scaling_name(kind, ranks)].median_iteration()
            for ranks in setting.scale["scaling"]]


def scaling_table(setting, results):
    times = {kind: scaling_times(setting, results, kind) for kind in ("strong", "weak")}
    rows = [{"ranks": ranks, "strong": times["strong"][index], "weak": times["weak"][index]}
            for index, ranks in enumerate(setting.scale["scaling"])]
    return Table("scaling", "Scaling", "Fig. 9, and the lecture's strong and weak scaling",
                 [Column("ranks", "ranks"),
                  Column("strong", f"strong, total batch {setting.scale['strong']} (s)", 4),
                  Column("weak", f"weak, {setting.scale['batch']} for each rank (s)", 4)], rows,
                 "Medians of an iteration.")


def scaling_picture(setting, results):
    return Picture("scaling", "Time of an iteration by ranks",
                   "Fig. 9, and the lecture's strong and weak scaling",
                   {"kind": "lines", "x_label": "ranks",
                    "y_label": "median time of an iteration (s)", "y_from_zero": True,
                    "series": [{"name": f"{kind} scaling", "x": list(setting.scale["scaling"]),
                                "y": scaling_times(setting, results, kind)}
                               for kind in ("strong", "weak")]})


def overlap_claim(setting, results):
    without, overlapped = (results[overlap_name(title)].median_iteration()
                           for title in ("no overlap", "overlap"))
    return judge("An iteration is shorter when communication overlaps with backward.", "Fig. 6",
                 overlapped < without, f"{overlapped:.4f} s with, {without:.4f} s without",
                 "" if setting.has_hosts else NEEDS_HOSTS)


def buckets_claim(setting, results, backend):
    sizes = setting.scale["buckets"]
    times = {size: results[bucket_name(backend, size)].median_iteration() for size in sizes}
    best = min(times, key=times.get)
    return judge(f"Neither no buckets nor the largest are best, {backend}.", "Figs. 7 and 8",
                 best not in (sizes[0], sizes[-1]),
                 ", ".join(f"{size} MB {seconds:.4f} s" for size, seconds in times.items()),
                 "" if setting.has_hosts else NEEDS_HOSTS)


def same_parameters_claim(setting, results):
    hashes = set().union(*(results[bucket_name(EXACT, size)].hashes()
                           for size in setting.scale["buckets"]))
    return judge(f"The size of buckets changes no bit of the parameters, {EXACT}.",
                 "section 3.2, bucketing keeps the result", len(hashes) == 1,
                 f"{len(hashes)} hash(es) of the parameters, over all sizes and ranks")


def passes_claim(setting, results):
    sent = [sent_per_iteration(results[passes_name(passes)])
            for passes in setting.scale["passes"]]
    return judge("Under no_sync there is one exchange every N passes.", "section 3.2.4",
                 len(set(sent)) == 1, ", ".join(
                     f"{size:,} bytes for {passes} pass(es)"
                     for passes, size in zip(setting.scale["passes"], sent)))


def find(setting, results):
    notes = ["The model is VGG-11; the paper's, ResNet-50 and BERT, are not measured here.",
             "The paper's round-robin groups and NCCL are not measured here."]
    if not setting.has_hosts:
        notes.append("All ranks shared this machine, so times are no measure of a cluster's.")
    return Findings(
        [same_parameters_claim(setting, results), passes_claim(setting, results),
         overlap_claim(setting, results),
         *(buckets_claim(setting, results, backend) for backend in BACKENDS)],
        [breakdown_table(results), buckets_table(setting, results), passes_table(setting, results),
         scaling_table(setting, results)],
        [breakdown_picture(results),
         *(buckets_picture(setting, results, backend) for backend in BACKENDS),
         scaling_picture(setting, results)], notes)


EXPERIMENT = Experiment("ddp-paper", "Buckets, overlap and scaling of DistributedDataParallel",
                        SOURCE, SCALES, runs, find, 4)
