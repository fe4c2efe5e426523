"""Section 3.2.2 and Figs. 7 and 8 of the DDP paper: what is in each bucket, and time by size."""
import dataclasses

from cli.experiment.ddp_setups import (PAPERS, USUAL_MB, WHOLE_MB, backends, exact_backends,
                                       of_network, overlapped, widths, widths_of)
from cli.experiment.noise import compared_medians
from cli.experiment.results import EXPOSED
from cli.experiment.study import bars, report_part, tabulate
from cli.experiment.work import LOSSES, TIMES, NamesOfBuckets
from cli.runs.quantiles import mean, quantile

SOURCE = "Figs. 7 and 8"


def bucket_name(network, backend, size, ranks):
    return f"{network.key}-{backend}-{size}-mb-{ranks}-ranks"


def names_name(network):
    return f"{network.key}-tensors"


def size_title(size):
    return {0: "each parameter", WHOLE_MB: "all in one"}.get(size, f"{size} MB")


def timed_backends(setting):
    return [name for name in backends(setting)
            if name in PAPERS or setting.scale["all_backends"]]


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Times of a network over a back end, by size."""
    network: object
    backend: str
    ranks: int
    sizes: tuple

    def result(self, results, size):
        return results[bucket_name(self.network, self.backend, size, self.ranks)]

    def medians(self, results):
        return {size: self.result(results, size).median_iteration() for size in self.sizes}

    def best(self, results):
        times = self.medians(results)
        return min(times, key=times.get)

    def compared(self, results, before, after):
        """Compares the times of two sizes."""
        return compared_medians(*(self.result(results, size) for size in (before, after)))

    def level(self, results):
        """Returns the best size, and those whose times are equal to its within the noise."""
        best = self.best(results)
        return [best, *(size for size in self.sizes
                        if size != best and self.compared(results, size, best).is_equal)]

    def exposed(self, results):
        return {size: self.result(results, size).phase(EXPOSED) for size in self.sizes}

    def spread(self, results):
        """Returns the mean over the sizes of (p90 - p10) / p50."""
        times = [self.result(results, size).iteration_seconds() for size in self.sizes]
        return mean([(quantile(of_size, 0.9) - quantile(of_size, 0.1)) / quantile(of_size, 0.5)
                     for of_size in times])


def sweeps(setting):
    """Returns those of the first width first."""
    scale, first = setting.scale, widths(setting)[0]
    return [Sweep(network, backend, ranks,
                  scale["buckets"] if ranks == first else network.wide_buckets)
            for ranks in widths(setting) for network in scale["networks"]
            if ranks in widths_of(setting, network) for backend in timed_backends(setting)]


def compared(setting):
    """Returns (network, back end, size, ranks) of the runs whose parameters are compared."""
    first = widths(setting)[0]
    return [(network, backend, size, first) for network in setting.scale["networks"]
            if first in widths_of(setting, network) for backend in exact_backends(setting)
            for size in setting.scale["compared"]]


def runs(setting):
    timed = [(sweep.network, sweep.backend, size, sweep.ranks)
             for sweep in sweeps(setting) for size in sweep.sizes]
    kept = compared(setting)
    planned = [NamesOfBuckets(names_name(network), f"{network.title}, tensors of buckets", 1,
                              network.model, USUAL_MB) for network in setting.scale["networks"]]
    for network, backend, size, ranks in dict.fromkeys(timed + kept):
        run = (network, backend, size, ranks)
        only = "" if run in timed and run in kept else TIMES if run in timed else LOSSES
        planned.append(of_network(
            setting.scale, network, bucket_name(*run),
            f"{ranks} ranks, {backend}, buckets: {size_title(size)}",
            overlapped(backend, size), ranks=ranks, only=only))
    return planned


@report_part
def names_table(setting, results):
    things = [(network, number, bucket) for network in setting.scale["networks"]
              for number, bucket in enumerate(results[names_name(network)].buckets)]
    return tabulate(
        "tensors", f"Tensors by bucket, at {USUAL_MB} MB", "section 3.2.3, parameters to buckets",
        things, [
            ("network", "model", lambda network, *_: network.title),
            ("bucket", "bucket", lambda _, number, __: number),
            ("bytes", "bytes", lambda *thing: thing[2]["bytes"]),
            ("count", "tensors", lambda *thing: len(thing[2]["tensors"])),
            ("first", "first", lambda *thing: thing[2]["tensors"][0]),
            ("last", "last", lambda *thing: thing[2]["tensors"][-1])],
        "Buckets in the order in which backward completes them. The last one of a network with "
        "batch normalization has rank 0's buffers. gradwire plan --model NAME names all tensors.")


@report_part
def times_table(setting, results):
    things = [(sweep, size, sweep.result(results, size).iteration_seconds())
              for sweep in sweeps(setting) for size in sweep.sizes]
    return tabulate("buckets", "Time of an iteration by size of buckets", SOURCE, things, [
        ("network", "model", lambda sweep, *_: sweep.network.title),
        ("backend", "back end", lambda sweep, *_: sweep.backend),
        ("ranks", "ranks", lambda sweep, *_: sweep.ranks),
        ("mb", "bucket (MB)", lambda _, size, __: size),
        *((f"p{percent}", f"p{percent} (s)",
           lambda *thing, percent=percent: quantile(thing[-1], percent / 100), 4)
          for percent in (10, 50, 90)),
        ("exposed", "exposed communication (s)",
         lambda sweep, size, _: sweep.result(results, size).phase(EXPOSED), 4)],
        f"0 MB: a bucket for each parameter. {WHOLE_MB} MB: above the model, so one bucket has all "
        "but the first tensors. The first bucket has 1 MB or one parameter more.")


def pictures(setting, results):
    """Returns a figure for each network and back end, with all widths."""
    first = [sweep for sweep in sweeps(setting) if sweep.ranks == widths(setting)[0]]
    return [picture(one, [other for other in sweeps(setting)
                          if (other.network, other.backend) == (one.network, one.backend)], results)
            for one in first]


@report_part
def picture(one, by_ranks, results):
    boxes = {f"{size_title(size)}, {sweep.ranks} ranks":
             sweep.result(results, size).iteration_seconds()
             for sweep in by_ranks for size in sweep.sizes}
    return bars(f"buckets-{one.network.key}-{one.backend}",
                f"Time of an iteration by size of buckets, {one.network.title}, {one.backend}",
                SOURCE, "time of an iteration (s)", boxes, [{"values": [*boxes.values()]}],
                "Boxes hold the middle half, and are cut by the median; whiskers: 10th and "
                "90th percentile.", kind="box")


def found(setting, results):
    return [names_table(setting, results), times_table(setting, results),
            *pictures(setting, results)]
