"""Whether two measurements differ by more than their noise: two standard errors of the difference of
two means over iterations."""
import dataclasses
import math

from cli.runs.quantiles import mean

ERRORS = 2
EQUAL = "equal within the noise"


def standard_error(values):
    """Returns that of the mean; 0 of less than two values."""
    if len(values) < 2:
        return 0.0
    middle = mean(values)
    return math.sqrt(sum((value - middle)**2 for value in values) / (len(values) - 1) / len(values))


def noise_of(first, second):
    return ERRORS * math.hypot(standard_error(first), standard_error(second))


@dataclasses.dataclass(frozen=True)
class Compared:
    """Two measurements in seconds."""
    before: float
    after: float
    noise: float

    @property
    def is_less(self):
        """Whether `after` is less, by more than the noise."""
        return self.after < self.before - self.noise

    @property
    def is_equal(self):
        return abs(self.after - self.before) <= self.noise

    @property
    def text(self):
        """Returns words to put behind the numbers."""
        return f", {EQUAL} of {self.noise:.4f} s" if self.is_equal else ""


def compared(before, after):
    """Compares the mean iterations of two runs."""
    return Compared(before.mean_iteration(), after.mean_iteration(),
                    noise_of(before.counted_seconds(), after.counted_seconds()))


def compared_medians(before, after):
    """Compares the median iterations of two runs. The noise is that of the means."""
    return Compared(before.median_iteration(), after.median_iteration(),
                    noise_of(before.iteration_seconds(), after.iteration_seconds()))


def condition_of(pairs):
    """Returns EQUAL if nothing but the noise is against the statement that each of `pairs` has
    less; else ""."""
    all_or_equal = all(pair.is_less or pair.is_equal for pair in pairs)
    return EQUAL if all_or_equal and not all(pair.is_less for pair in pairs) else ""
