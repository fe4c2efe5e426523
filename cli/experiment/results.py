"""What was measured in one run of an experiment."""
import math

from cli.runs.quantiles import median
from cli.runs.training import RankOutput

COUNTED = slice(1, 40)  # iterations 2 to 40 of those counted from 1
EXPOSED = "exposed_communication"


def mean(values):
    return math.fsum(values) / len(values) if values else None


class Trained:
    """Of a Training. Ranks are as they were kept."""

    def __init__(self, ranks):
        self.ranks = [RankOutput(rank["records"], rank["summary"]) for rank in ranks]
        self.summary = self.ranks[0].summary

    @property
    def iterations(self):
        return len(self.ranks[0].records)

    def counted_iterations(self):
        """How many the mean iteration time is over: 39, if the run was long enough."""
        return len(self.ranks[0].records[COUNTED])

    def mean_iteration(self):
        """Seconds, as the course takes them: the mean of iterations 2 to 40, over the ranks."""
        return mean([seconds for rank in self.ranks for seconds in rank.seconds[COUNTED]])

    def median_iteration(self):
        return median([seconds for rank in self.ranks for seconds in rank.seconds[1:]])

    def iteration_seconds(self):
        """Of each iteration but the first, the mean over the ranks."""
        return [mean(of_ranks) for of_ranks in zip(*(rank.seconds for rank in self.ranks))][1:]

    def phase(self, name):
        """Mean seconds of a phase over ranks and iterations but the first; None if it was not
        measured."""
        return mean([seconds for rank in self.ranks
                     for seconds in RankOutput(rank.records[1:]).phase(name)])

    def losses(self, rank=0):
        return [record["loss"] for record in self.ranks[rank].records]

    def loss_at(self, iteration, rank=0):
        """Iterations count from 0; None if the run ended before."""
        losses = self.losses(rank)
        return losses[iteration] if iteration < len(losses) else None

    def hashes(self):
        return {rank.summary.get("parameters_sha256") for rank in self.ranks}


class Averaged:
    """Of an Averages."""

    def __init__(self, ranks):
        self.wrong = sum(rank["wrong"] for rank in ranks)
        self.seconds = [max(of_ranks) for of_ranks in zip(*(rank["seconds"] for rank in ranks))]
