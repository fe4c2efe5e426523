"""The HPC lab's sweep over devices and batches, in two ways: DataParallel in one process, which the
lab is about, and a rank for each device."""
import dataclasses

from cli.experiment import emulation
from cli.experiment.devices import NEEDS_CORES
from cli.experiment.disturbance import apart, below_zero, too_fast, unsteady
from cli.experiment.study import counted, report_part
from cli.experiment.work import (COSTS, DDP, LOCAL_BYTES_PER_SECOND, SECONDS_TO_START, Averages,
                                 Sizes, Training, fits, options_text, samples_of, whole_epochs)
from cli.runs.quantiles import mean, median
from cli.runs.training import steps_per_epoch

LOADERS = ("--loaders", 2)  # as many as the lab has
SIZES = "sizes"
RING = "ring"  # the back end whose formula the lab asks for
EXCHANGES, MOST_EXCHANGE_SECONDS = 10, 10


@dataclasses.dataclass(frozen=True)
class Way:
    """A way to train on several devices."""
    name: str
    title: str
    together: bool  # all devices are in one process


DEVICES = Way("data-parallel", "DataParallel", True)
RANKS = Way("ranks", "DDP ranks", False)
WAYS = (DEVICES, RANKS)


@dataclasses.dataclass(frozen=True)
class OneProcess(Training):
    """A process whose devices divide each batch, of `batch_size` in all. It needs no network, so
    it has all cores of this machine even if the ranks have hosts on it."""
    devices: int = 1

    def run(self, setting):
        return dataclasses.replace(super().run(setting), here=setting.hosts_are_here)

    def seconds(self, setting):
        cores = min(setting.cores, self.devices * device_threads(setting))
        cost = COSTS[self.model]
        computing = self.batch_size * cost.seconds_per_sample / cores
        copying = 2 * self.devices * cost.bytes / LOCAL_BYTES_PER_SECOND
        return SECONDS_TO_START + self.iterations * (computing + copying)

    def _common(self, setting):
        count = ["--epochs", self.epochs] if self.epochs else ["--iterations", self.iterations]
        return options_text([
            "--sync", "data-parallel", "--devices", self.devices,
            "--threads", device_threads(setting), *self._model_and_data(setting),
            "--batch-size", self.batch_size, *count])


def device_threads(setting):
    """Returns the threads of a device, the same for any number of devices, and for a rank without a
    host of its own: the one device to which speed-ups refer is the same in both ways."""
    return setting.request["threads"] or max(1, setting.cores // max(setting.scale["devices"]))


def counts_with_cores(setting):
    """Returns the numbers of devices that have cores of their own in one process here."""
    return [count for count in setting.scale["devices"]
            if setting.hosts_are_elsewhere or count * device_threads(setting) <= setting.cores]


def most_with_cores(setting):
    return max(counts_with_cores(setting), default=1)


def name_of(way, devices, batch):
    return f"{way.name}-{devices}-devices-batch-{batch}"


def batches(setting):
    """Returns the batches that fit in the memory of one device."""
    return [batch for batch in setting.scale["batches"]
            if fits(setting, setting.scale["model"], 1, batch)]


def pairs(setting, way):
    return [(devices, batch) for devices in setting.scale["devices"] for batch in batches(setting)
            if fits(setting, setting.scale["model"], devices, batch, way.together)]


def run_of(setting, way, devices, batch):
    scale = setting.scale
    epochs, iterations = whole_epochs(scale, samples_of(setting.images()), devices, batch)
    same = {"name": name_of(way, devices, batch), "iterations": iterations, "epochs": epochs,
            "title": f"{way.title}, {counted(devices, 'device')}, batch {batch} each",
            "model": scale["model"], "sweep": f"{way.name}, {devices} devices"}
    if way.together:
        return OneProcess(ranks=1, batch_size=devices * batch, devices=devices, options=LOADERS,
                          **same)
    sync, alone = (("--sync", "none"), "") if devices == 1 else (DDP, name_of(way, 1, batch))
    return Training(ranks=devices, batch_size=batch, options=(*sync, *LOADERS), alone=alone,
                    threads=0 if setting.has_hosts else device_threads(setting), **same)


def exchange_name(ranks):
    return f"all-reduce-of-{ranks}-ranks"


def exchange_run(setting, ranks):
    """Returns all-reduces of the gradient, one after the other, with no computation beside them."""
    size = COSTS[setting.scale["model"]].bytes
    return Averages(exchange_name(ranks), f"all-reduce of {size:,} bytes alone, {ranks} ranks",
                    ranks, size, RING, EXCHANGES, MOST_EXCHANGE_SECONDS)


def runs(setting):
    return [Sizes(SIZES, "sizes of model and data", 1, setting.scale["model"], setting.images()),
            *(run_of(setting, way, *pair) for way in WAYS for pair in pairs(setting, way))]


def exchange_runs(setting):
    return [exchange_run(setting, ranks) for ranks in setting.scale["devices"] if ranks > 1]


def second_epoch(rank):
    return [record for record in rank.records if record.get("epoch") == 1]


def last_records(rank):
    """Returns records of the 2nd epoch; if there is none, all except the first iteration."""
    return second_epoch(rank) or rank.records[1:]


def middle_of(result, seconds_of):
    """Returns the mean of the 2nd epoch; if there is none, the median of a few iterations, in which one
    slow iteration would decide the mean. seconds_of(record): of an iteration."""
    middle = mean if second_epoch(result.ranks[0]) else median
    return middle([seconds_of(record) for rank in result.ranks for record in last_records(rank)])


def phases_of(result, *names):
    """Returns the seconds of an iteration that these phases take together."""
    return middle_of(result, lambda record: sum(record["phase_seconds"][name] for name in names))


def iteration_of(result):
    return middle_of(result, lambda record: record["iteration_seconds"])


def ring_bytes(devices, size):
    """Returns what each of `devices` sends to average `size` bytes (Patarasuk and Yuan, 2009)."""
    return 2 * (devices - 1) / devices * size


class Measured:
    """The times of one way, by devices and batch. Memory may have ended a sweep early; then the
    larger batches have no results."""

    def __init__(self, setting, results, way):
        self.way, self.scale = way, setting.scale
        # Why its times cannot be judged, and why not those of several devices; "" if they can.
        self.disturbed = setting.disturbed
        self.unjudged = self.disturbed or ("" if way.together else setting.needs_hosts)
        # Numbers of devices whose times can be judged.
        self.judged_counts = counts_with_cores(setting) if way.together else setting.scale["devices"]
        self.sizes, self._all = results[SIZES], results
        self.batches = [batch for batch in batches(setting) if name_of(way, 1, batch) in results]
        self.results = {pair: results[name_of(way, *pair)] for pair in pairs(setting, way)
                        if pair[1] in self.batches and name_of(way, *pair) in results}
        self.seconds = {pair: self.steps(*pair) * iteration_of(result)
                        for pair, result in self.results.items()}  # of an epoch
        self.computation = {batch: self.without_loading(batch) for batch in self.batches}

    def steps(self, devices, batch):
        """Returns the iterations of an epoch."""
        return steps_per_epoch(self.sizes.samples, devices, batch)

    def without_loading(self, batch):
        return self.seconds[1, batch] - self.steps(1, batch) * phases_of(self.results[1, batch],
                                                                         "data")

    def several(self):
        return [(devices, batch) for devices, batch in self.seconds if devices > 1]

    def speedup(self, devices, batch):
        return self.seconds[1, batch] / self.seconds[devices, batch]

    def rest(self, devices, batch):
        """Returns the seconds of an epoch that are not computation."""
        return self.seconds[devices, batch] - self.computation[batch] / devices

    def is_shorter_with_batch(self):
        """Returns whether an epoch on one device gets shorter with each larger batch."""
        values = [*self.computation.values()]
        return all(later < earlier for earlier, later in zip(values, values[1:]))

    def is_longer_with_batch(self):
        values = [*self.computation.values()]
        return all(later > earlier for earlier, later in zip(values, values[1:]))

    def transfer_seconds(self, *pair):
        """Returns seconds of an iteration in which a transfer was under way, or waited for another
        rank."""
        return phases_of(self.results[pair], "communication")

    def exchange_seconds(self, devices, batch):
        """Returns seconds of one exchange of the gradient: between ranks, of an all-reduce alone; in
        one process, of the iteration that has the least."""
        if not self.way.together:
            return median(self._all[exchange_name(devices)].seconds)
        return min(record["phase_seconds"]["communication"]
                   for rank in self.results[devices, batch].ranks for record in last_records(rank))

    def strong_pairs(self):
        """Returns pairs whose total batch was also measured on one device."""
        return [(devices, batch) for devices, batch in self.several()
                if (1, devices * batch) in self.seconds]

    def signs(self):
        """Looks for times that are impossible; see disturbance.py."""
        return [sign for devices, batch in self.several()
                for name in [name_of(self.way, devices, batch)]
                for sign in [*too_fast(name, self.speedup(devices, batch), devices),
                             *below_zero(name, self.rest(devices, batch),
                                         self.seconds[devices, batch])]]


@report_part
def signs_of_way(setting, results, way):
    return Measured(setting, results, way).signs()


@report_part
def signs_of_baselines(setting, results):
    """Compares one device of both ways, which are equal if they have the same threads here."""
    of_rank = device_threads(setting) if not setting.has_hosts else setting.threads(1)
    if setting.hosts_are_elsewhere or of_rank != device_threads(setting):
        return []
    devices, ranks = (Measured(setting, results, way) for way in WAYS)
    return [sign for batch in devices.batches if batch in ranks.batches
            for sign in apart(f"an epoch on one device, batch {batch}",
                              *((of.way.title, of.seconds[1, batch]) for of in (devices, ranks)))]


def signs(setting, works, results):
    """Looks for signs that other processes used the cores; see disturbance.py."""
    sweep = [work for work in works if work.name.startswith(tuple(f"{way.name}-" for way in WAYS))]
    return [*signs_of_baselines(setting, results),
            *(sign for way in WAYS for sign in signs_of_way(setting, results, way)),
            *emulation.signs(setting, sweep, results), *unsteady(sweep, results)]
