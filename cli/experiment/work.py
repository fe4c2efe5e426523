"""The kinds of runs that experiments consist of. Each has

    name       of its file in --out/runs
    title      for people
    ranks      how many start together
    run(setting)             returns a Run of cli/runs/runner.py
    read(setting, texts)     returns what to keep of the ranks' output: a list, one for each rank
    part_done(printed)       returns the part that is done, 0 to 1, from rank 0's output so far
    seconds(setting)         estimates how long it takes
    sweep                    its series of rising sizes, which ends when memory ends; "" for none
    leaves                   a file that other runs need, without which it runs again; "" for none
    layout(setting)          returns options with which gradwire-layout checks its data
"""
import dataclasses
import json

from cli.runs.failure import Failure
from cli.runs.runner import Run
from cli.runs.training import (alone, collective_ranks, parse_ranks, ranks_of, steps_per_epoch,
                               training_peers_of)

SECONDS_TO_START = 3
TIMES, LOSSES = "times", "losses"
TEST_SAMPLES = 10000
LOCAL_BYTES_PER_SECOND = 1e9
# DistributedDataParallel as courses know it: over a ring, and an iteration ends with its update.
DDP = ("--sync", "ddp", "--backend", "ring", "--barrier")


@dataclasses.dataclass(frozen=True)
class Cost:
    """The cost of a model, for estimates before the first run."""
    seconds_per_sample: float  # of training on a core of 2020, roughly
    bytes: int  # of its parameters
    memory_per_sample: int  # bytes of a batch in training, roughly


# A choice: the models that experiments train.
# Those of torchvision take images of 224×224.
COSTS = {"vgg11": Cost(0.03, 36924456, 4 << 20), "lenet": Cost(0.0005, 248024, 1 << 18),
         "mlp": Cost(0.0001, 1578536, 1 << 17),
         "resnet50": Cost(0.03, 94114088, 8 << 20), "bert_tiny": Cost(0.01, 17547304, 4 << 20),
         "bert_small": Cost(0.1, 115075112, 16 << 20),
         "bert_base": Cost(2, 437935104, 128 << 20), "alexnet": Cost(0.3, 228179240, 30 << 20),
         "squeezenet1_0": Cost(0.3, 2962216, 60 << 20), "vgg16": Cost(3, 537206056, 200 << 20),
         "resnet18": Cost(0.6, 44726568, 60 << 20), "densenet121": Cost(2, 27856424, 200 << 20)}


# Of an epoch of training.
SAMPLES = {"cifar10": 50000, "cifar100": 50000, "synthetic": 50000, "synthetic-tokens": 50000,
           "mnist": 60000, "fashion-mnist": 60000}


def samples_of(images):
    """Returns the samples of an epoch of the data set that these options name."""
    return SAMPLES[images[1]]


def fits(setting, model, ranks, batch, together=False):
    """Whether batches of that size fit in the memory of this machine, or of hosts like it.
    `together`: the ranks are parts of one process."""
    apart = setting.hosts_are_elsewhere and not together
    ranks_here = 1 if apart else ranks
    return ranks_here * batch * COSTS[model].memory_per_sample < setting.memory


def whole_epochs(scale, samples, ranks, batch):
    """Returns the epochs of a scale, 0 if it trains for iterations, and the iterations."""
    epochs = scale.get("epochs", 0)
    return epochs, epochs * steps_per_epoch(samples, ranks, batch) or scale["iterations"]


# The sources' ranks have a network between them.
BY_NETWORK = ("--shared-memory", "off")
STOPS = ("--on-loss", "stop")  # of the coordinator


def options_text(options):
    return [str(option) for option in options]


def without(options, names):
    """Returns `options` without those in `names` and their values."""
    kept = []
    for place, option in enumerate(options):
        before = options[place - 1] if place else None
        if option not in names and before not in names:
            kept.append(option)
    return tuple(kept)


@dataclasses.dataclass(frozen=True)
class Training:
    """A training."""
    name: str
    title: str
    ranks: int
    batch_size: int  # of each rank
    iterations: int  # expected, if `epochs` is given
    options: tuple  # of the worker
    epochs: int = 0  # in place of iterations
    tests: bool = False  # all ranks evaluate at the end
    peer_mode: str = ""  # --mode of PyTorch + Gloo, which then runs in place of our worker
    model: str = "vgg11"
    images: tuple = ()  # options that name them; empty: the setting's
    sweep: str = ""
    rate: str = ""  # of links that are shaped for it; "": the setting's
    gbit: float | None = None  # of that rate
    only: str = ""  # TIMES or LOSSES: nothing else is wanted of it; see emulation.py
    leaves: str = ""
    threads: int = 0  # of each rank; 0: the setting's
    alone: str = ""  # name of a planned run of one rank that computes as each rank does; "": none
    recovers: bool = True  # if a rank is lost; else it stops, and ranks keep nothing to recover with

    def layout(self, setting):
        return options_text(self._model_and_data(setting) + (["--evaluate"] if self.tests else []))

    def run(self, setting):
        return dataclasses.replace(self._run(setting), rate=self.rate)

    def _run(self, setting):
        argv, learning = self._common(setting), setting.learning()
        options = options_text((*without(self.options, learning[::2]), *learning))
        if self.peer_mode:
            return training_peers_of(setting.request, [*argv, "--mode", self.peer_mode, *options],
                                     self.ranks)
        argv += options + list(BY_NETWORK if self.ranks > 1 else ())
        argv += ["--evaluate"] if self.tests else []
        if self.ranks == 1:
            return alone(setting.request, argv)
        run = ranks_of(setting.request, argv, self.ranks)
        if self.recovers:
            return run
        return dataclasses.replace(run, coordinator_options=(*run.coordinator_options, *STOPS))

    def read(self, _setting, texts):
        return [{"summary": output.summary, "records": output.records}
                for output in parse_ranks(texts)]

    def part_done(self, printed):
        return min(1.0, printed.count(b'{"step"') / self.iterations)

    def seconds(self, setting):
        threads = self._threads(setting) or setting.cores
        apart = setting.hosts_are_elsewhere
        at_once = threads if apart else min(setting.cores, threads * self.ranks)
        per_sample = COSTS[self.model].seconds_per_sample / at_once
        computing = self.batch_size * (1 if apart else self.ranks) * per_sample
        if "--compute-seconds" in self.options:  # it sleeps
            slept = self.options[self.options.index("--compute-seconds") + 1]
            computing = sum(map(float, slept.split(",")))
        tests = TEST_SAMPLES * per_sample / 3 if self.tests else 0
        return (SECONDS_TO_START + tests +
                self.iterations * (computing + self._exchange_seconds(setting)))

    def _model_and_data(self, setting):
        return ["--model", self.model, *(self.images or setting.images())]

    def _threads(self, setting):
        return self.threads or setting.threads(self.ranks)

    def _common(self, setting):
        threads = self._threads(setting)
        count = ["--epochs", self.epochs] if self.epochs else ["--iterations", self.iterations]
        argv = [*self._model_and_data(setting), "--batch-size", self.batch_size, *count]
        return options_text(argv + (["--threads", threads] if threads else []))

    def _exchange_seconds(self, setting):
        if self.ranks == 1:
            return 0
        size, gbit = COSTS[self.model].bytes, self.gbit or setting.request["link_gbit"]
        if setting.has_hosts and gbit:
            return 2 * size * 8 / (gbit * 1e9)
        return 2 * self.ranks * size / LOCAL_BYTES_PER_SECOND


@dataclasses.dataclass(frozen=True)
class Late(Training):
    """A training whose ranks sleep in place of computing, on any machine, and in which some come
    late."""
    sleeps: tuple = ()  # seconds of forward and of backward
    late: tuple = ()  # ranks whose forward pass takes longer
    late_seconds: float = 0.0  # by that

    def _run(self, setting):
        run = super()._run(setting)
        forward, backward = self.sleeps
        return dataclasses.replace(run, ranks=[
            [*argv, "--compute-seconds", f"{forward:g},{backward:g}",
             *(["--late-seconds", f"{self.late_seconds:g}"] if rank in self.late else [])]
            for rank, argv in enumerate(run.ranks)])

    def seconds(self, setting):
        return SECONDS_TO_START + self.iterations * (
            sum(self.sleeps) + self.late_seconds * bool(self.late) +
            self._exchange_seconds(setting))


@dataclasses.dataclass(frozen=True)
class Work:
    """A run that trains nothing and needs no data."""
    name: str
    title: str
    ranks: int
    sweep = ""
    leaves = ""

    def layout(self, _setting):
        return []

    def read(self, _setting, texts):
        """Returns what each rank printed."""
        try:
            return [json.loads(text) for text in texts]
        except ValueError:
            raise Failure("a rank printed no report") from None

    def part_done(self, _printed):
        return 0.0


@dataclasses.dataclass(frozen=True)
class Printed(Work):
    """A run of gradwire-layout, which prints sizes, names or order."""

    def run(self, setting):
        return Run([[setting.request["programs"]["layout"], *self.layout(setting)]],
                   coordinator=False)

    def seconds(self, _setting):
        return SECONDS_TO_START


@dataclasses.dataclass(frozen=True)
class Order(Printed):
    """The samples with which each rank begins two epochs, as gradwire-layout prints them."""
    options: tuple

    def layout(self, setting):
        return [*setting.images(), "--world-size", str(self.ranks), *self.options]

    def read(self, _setting, texts):
        """Returns indices by epoch and rank."""
        return json.loads(texts[0])["order"]


@dataclasses.dataclass(frozen=True)
class Sizes(Printed):
    """The sizes of a model and of a data set, as gradwire-layout prints them."""
    model: str
    images: tuple

    def layout(self, _setting):
        return ["--model", self.model, *self.images]

    def read(self, _setting, texts):
        """Returns samples of an epoch, and bytes of the gradient and of the buffers."""
        printed = json.loads(texts[0])
        sums = {averaged: sum(bucket["bytes"] for bucket in printed["buckets"]
                              if bucket["averaged"] == averaged) for averaged in (True, False)}
        return {"samples": printed["samples"], "gradient": sums[True], "buffers": sums[False]}


@dataclasses.dataclass(frozen=True)
class NamesOfBuckets(Printed):
    """The tensors of each bucket of a model, as gradwire-layout prints them."""
    model: str
    bucket_mb: float

    def layout(self, _setting):
        return ["--model", self.model, "--sync", "ddp", "--bucket-cap-mb", str(self.bucket_mb)]

    def read(self, setting, texts):
        layout, = super().read(setting, texts)
        return {"parameters": [tensor["name"] for tensor in layout["parameters"]],
                "buckets": layout["buckets"]}


@dataclasses.dataclass(frozen=True)
class Averages(Work):
    """The averages of one bucket over all ranks, one after the other."""
    bytes: int
    backend: str
    iterations: int
    seconds_at_most: float

    def run(self, setting):
        return collective_ranks(setting.request, self.ranks, [
            "--bytes", self.bytes, "--warmup", 3, "--iterations", self.iterations,
            "--seconds", f"{self.seconds_at_most:g}", "--backend", self.backend, "--wire", "fp32"])

    def seconds(self, setting):
        gbit = setting.request["link_gbit"] if setting.has_hosts else None
        speed = gbit * 1e9 / 8 if gbit else LOCAL_BYTES_PER_SECOND / self.ranks
        return SECONDS_TO_START / 3 + min(1.25 * self.seconds_at_most,
                                      self.iterations * 2 * self.bytes / speed)


@dataclasses.dataclass(frozen=True)
class Showing(Work):
    """One collective of a small tensor, once: element i of rank r is 10r + i. Keeps each rank's
    input, output (null where there is none), and sent: bytes by rank."""
    op: str
    backend: str
    elements: int

    def run(self, setting):
        return collective_ranks(setting.request, self.ranks, [
            "--op", self.op, "--show", "true", "--bytes", 4 * self.elements,
            "--backend", self.backend])

    def seconds(self, _setting):
        return SECONDS_TO_START / 6
