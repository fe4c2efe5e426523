"""Means, and percentiles as a summary's iteration_seconds has them."""
import math


def mean(values):
    """Returns the mean; None of no values, infinite if their sum is too large for a float."""
    try:
        return math.fsum(values) / len(values) if values else None
    except OverflowError:
        return math.inf


def quantile(values, fraction):
    """Interpolates between the two nearest values; None of no values."""
    if not values:
        return None
    ordered = sorted(values)
    below = math.floor(fraction * (len(ordered) - 1))
    above = min(below + 1, len(ordered) - 1)
    part = fraction * (len(ordered) - 1) - below
    return ordered[below] + part * (ordered[above] - ordered[below])


def median(values):
    return quantile(values, 0.5)
