"""The measurements of one run of an experiment. A loss that is not finite, which a worker writes as
null, is infinite here, and so higher than all others."""
import math

from cli.experiment.work import Averages, NamesOfBuckets, Order, Showing, Sizes, Training
from cli.runs.quantiles import mean, median
from cli.runs.training import RankOutput

COUNTED = slice(1, 40)  # iterations 2 to 40 of those counted from 1
EXPOSED = "exposed_communication"
FILLED = "filled"  # in a record whose times are the mean of others, which were measured


def improvement(before, after):
    """Returns per cent; None without `before`."""
    return None if before is None else 100 * (before - after) / before


def loss_of(record):
    return math.inf if record["loss"] is None else record["loss"]


def relative_difference(first, second):
    """Returns infinity if one of two losses is infinite, or if only the first one is zero."""
    if first == 0:
        return math.inf if second else 0.0
    return math.inf if math.inf in (first, second) else abs(first - second) / abs(first)


def largest_difference(first, second, steps):
    """Returns the largest relative difference of all ranks' losses in the first `steps`."""
    return max(relative_difference(a, b) for rank in range(len(first.ranks))
               for a, b in zip(first.losses(rank)[:steps], second.losses(rank)[:steps]))


class Trained:
    """The results of a Training. `ranks`: as the folder keeps them; `coordinator`: its mean
    iteration, None if it averaged no gradients."""

    def __init__(self, ranks, coordinator=None):
        self.coordinator = coordinator
        self.ranks = [RankOutput(rank["records"], rank["summary"]) for rank in ranks]
        self.summary = self.ranks[0].summary

    @property
    def iterations(self):
        return len(self.ranks[0].records)

    def counted_iterations(self):
        """Returns how many measured iterations the mean is over: 39, if the run was long enough."""
        return len(self.counted_seconds())

    def counted_seconds(self):
        """Returns the mean over the ranks of each measured iteration in the mean."""
        return self.iteration_seconds()[:COUNTED.stop - COUNTED.start]

    def mean_iteration(self):
        """Returns seconds as the course measures: the mean of iterations 2 to 40, over the ranks."""
        return mean([seconds for rank in self.ranks for seconds in rank.seconds[COUNTED]])

    def median_iteration(self):
        return median(self.iteration_seconds())

    def iteration_seconds(self):
        """Returns the mean over the ranks of each measured iteration except the first."""
        measured = sum(FILLED not in record for record in self.ranks[0].records)  # they come first
        return [mean(of_ranks) for of_ranks
                in zip(*(rank.seconds for rank in self.ranks))][1:measured]

    def phase(self, name):
        """Returns mean seconds of a phase without the first iteration; None if not measured."""
        return mean([seconds for rank in self.ranks
                     for seconds in RankOutput(rank.records[1:]).phase(name)])

    def losses(self, rank=0):
        return [loss_of(record) for record in self.ranks[rank].records]

    def loss_at(self, iteration, rank=0):
        """Returns the loss of an iteration, counted from 0; None if the run ended earlier."""
        losses = self.losses(rank)
        return losses[iteration] if iteration < len(losses) else None

    def bytes_by_rank(self, *ways):
        """Returns the bytes of each rank in an iteration of training: those that it "sent", those that it
        "received", or both."""
        return [sum(record[f"bytes_{way}"] for record in rank.records
                    for way in ways or ("sent", "received")) // self.iterations
                for rank in self.ranks]

    def peaks(self):
        """Returns the largest resident set of each rank's process, in bytes; 0: unknown."""
        return [rank.summary.get("peak_memory_bytes", 0) for rank in self.ranks]

    def sent_per_iteration(self):
        """Returns bytes of training, of all ranks."""
        return sum(record["bytes_sent"] for rank in self.ranks
                   for record in rank.records) // self.iterations

    def epochs(self):
        """Returns "loss" and "accuracy" (0 to 1) of each in training, over the ranks."""
        return [{"loss": mean([loss_of(epoch) for epoch in of_ranks]),
                 "accuracy": mean([epoch["accuracy"] for epoch in of_ranks])}
                for of_ranks in zip(*(rank.summary["epochs"] for rank in self.ranks))]

    def hashes(self):
        return {rank.summary.get("parameters_sha256") for rank in self.ranks}


class Shown:
    """The results of a Showing."""

    def __init__(self, ranks):
        self.inputs = [rank["input"] for rank in ranks]
        self.outputs = [rank["output"] for rank in ranks]  # None without an output
        self.links = {(sender, int(receiver)): sent for sender, rank in enumerate(ranks)
                      for receiver, sent in rank["sent"].items()}  # bytes


class Averaged:
    """The results of an Averages."""

    def __init__(self, ranks):
        self.wrong = sum(rank["wrong"] for rank in ranks)
        self.sent = [rank["bytes_sent"] // len(rank["seconds"]) for rank in ranks]  # an iteration
        self.seconds = [max(of_ranks) for of_ranks in zip(*(rank["seconds"] for rank in ranks))]


class Ordered:
    """The results of an Order: indices, by epoch and rank."""

    def __init__(self, epochs):
        self.epochs = epochs


class Sized:
    """The results of a Sizes."""

    def __init__(self, sizes):
        self.samples = sizes["samples"]  # of an epoch
        self.gradient = sizes["gradient"]  # bytes
        self.buffers = sizes["buffers"]  # bytes


class NamedBuckets:
    """The results of a NamesOfBuckets. `buckets`: "bytes", "averaged" and names of "tensors"."""

    def __init__(self, layout):
        self.parameters, self.buckets = layout["parameters"], layout["buckets"]

    def averaged_tensors(self):
        """Returns the names in all buckets of gradients, one bucket after the other."""
        return [name for bucket in self.buckets if bucket["averaged"]
                for name in bucket["tensors"]]


RESULTS = {Training: Trained, Averages: Averaged, Order: Ordered, Showing: Shown, Sizes: Sized,
           NamesOfBuckets: NamedBuckets}


def result_of(work, kept, coordinator=None):
    """Returns the results of `kept`, which the work's read() gave. `coordinator`: see Trained."""
    result = next(result for kind, result in RESULTS.items() if isinstance(work, kind))
    return result(kept, coordinator) if result is Trained else result(kept)
