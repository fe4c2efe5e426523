"""The HPC lab's sweep over devices and batches, in two ways: DataParallel in one process, which the
lab is about, and a rank for each device."""
import dataclasses

from cli.experiment.devices import NEEDS_CORES
from cli.experiment.study import counted
from cli.experiment.work import (COSTS, DDP, LOCAL_BYTES_PER_SECOND, SECONDS_TO_START, Sizes,
                                 Training, fits, options_text, samples_of, whole_epochs)
from cli.runs.quantiles import mean
from cli.runs.training import steps_per_epoch

LOADERS = ("--loaders", 2)  # as many as the lab has
SIZES = "sizes"


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
    sync = ("--sync", "none") if devices == 1 else DDP
    return Training(ranks=devices, batch_size=batch, options=(*sync, *LOADERS),
                    threads=0 if setting.has_hosts else device_threads(setting), **same)


def runs(setting):
    return [Sizes(SIZES, "sizes of model and data", 1, setting.scale["model"], setting.images()),
            *(run_of(setting, way, *pair) for way in WAYS for pair in pairs(setting, way))]


def last_records(rank):
    """Returns records of the 2nd epoch; if there is none, all except the first iteration."""
    return [record for record in rank.records if record.get("epoch") == 1] or rank.records[1:]


def phases_of(result, *names):
    """Returns the mean seconds of an iteration that these phases take together."""
    return mean([sum(record["phase_seconds"][name] for name in names)
                 for rank in result.ranks for record in last_records(rank)])


def iteration_of(result):
    return mean([record["iteration_seconds"] for rank in result.ranks
                 for record in last_records(rank)])


def ring_bytes(devices, size):
    """Returns what each of `devices` sends to average `size` bytes (Patarasuk and Yuan, 2009)."""
    return 2 * (devices - 1) / devices * size


class Measured:
    """The times of one way, by devices and batch. Memory may have ended a sweep early; then the
    larger batches have no results."""

    def __init__(self, setting, results, way):
        self.way, self.scale = way, setting.scale
        self.sizes = results[SIZES]
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

    def transfer_seconds(self, *pair):
        """Returns seconds of an iteration in which a transfer was under way."""
        return phases_of(self.results[pair], "communication")

    def strong_pairs(self):
        """Returns pairs whose total batch was also measured on one device."""
        return [(devices, batch) for devices, batch in self.several()
                if (1, devices * batch) in self.seconds]
