"""Medians, quantiles and their 95 % intervals, reproducible and with the standard library only."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
RESAMPLES = 2_000
_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and the interval that holds the true one with 95 % confidence."""

    value: float
    low: float
    high: float
    count: int


def quantile(values: Sequence[float], q: float) -> float:
    """Return the ``q`` quantile, interpolated between neighbours.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("nothing was measured")
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def median(values: Sequence[float]) -> Estimate:
    """Return the median with the interval that its order statistics give, for any distribution.

    With fewer than six values no pair of them reaches 95 %: then it is the whole range.
    """
    ordered = sorted(values)
    count = len(ordered)
    middle = quantile(ordered, 0.5)
    # The number of values below the true median is binomial(count, 1/2).
    rank, missed = 0, 0.0
    for below in range(count // 2):
        missed += math.comb(count, below) / 2**count
        if 2 * missed > 1 - _CONFIDENCE:
            break
        rank = below
    return Estimate(middle, ordered[rank], ordered[count - 1 - rank], count)


def median_ratio(pairs: Sequence[tuple[float, float]]) -> Estimate:
    """Return the median of the ratios of the first to the second value of each pair."""
    return median([ours / theirs for ours, theirs in pairs])


def quantile_ratio(pairs: Sequence[tuple[float, float]], q: float) -> Estimate:
    """Return the ratio of the ``q`` quantiles of first and second values.

    The interval comes from resampling whole pairs.
    """

    def ratio(chosen: Sequence[tuple[float, float]]) -> float:
        return quantile([ours for ours, _ in chosen], q) / quantile([each for _, each in chosen], q)

    return bootstrap(pairs, ratio)


def quantile_estimate(values: Sequence[float], q: float) -> Estimate:
    """Return the ``q`` quantile with an interval from resampling the values."""
    return bootstrap(values, lambda chosen: quantile(chosen, q))


def bootstrap(
    values: Sequence[T], statistic: Callable[[Sequence[T]], float], *, resamples: int = RESAMPLES
) -> Estimate:
    """Return the statistic with its percentile interval; the samples are the same in every run."""
    draw = random.Random(20_260)
    found = sorted(statistic(draw.choices(values, k=len(values))) for _ in range(resamples))
    tail = (1 - _CONFIDENCE) / 2
    return Estimate(
        statistic(values), quantile(found, tail), quantile(found, 1 - tail), len(values)
    )
