"""Confidence limits of what a simulation or a log of failures gives."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special  # type: ignore[import-untyped]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A value with its two-sided confidence limits."""

    value: float
    low: float
    high: float

    def covers(self, value: float) -> bool:
        """Whether ``value`` lies within the limits."""
        return self.low <= value <= self.high


def ratio_estimate(numerators: FloatArray, denominators: FloatArray, confidence: float) -> Estimate:
    """The ratio of two sums over independent runs; arrays of shape (runs,), at least 2 runs.

    Delta method: the variance of sum(n) / sum(d) is that of the residuals n - ratio d, over sum(d)^2; Student's t.
    """
    runs = numerators.size
    ratio = float(numerators.sum() / denominators.sum())
    residuals = numerators - ratio * denominators
    error = math.sqrt(runs / (runs - 1) * float(np.square(residuals).sum())) / float(denominators.sum())
    half = float(special.stdtrit(runs - 1, (1 + confidence) / 2)) * error
    return Estimate(ratio, ratio - half, ratio + half)


def mean_estimate(values: FloatArray, confidence: float) -> Estimate:
    """The mean of independent values; Student's t."""
    return ratio_estimate(values, np.ones_like(values), confidence)


def proportion_estimate(hits: int, trials: int, confidence: float) -> Estimate:
    """A proportion with its exact (Clopper-Pearson) limits."""
    tail = (1 - confidence) / 2
    low = 0.0 if hits == 0 else float(special.betaincinv(hits, trials - hits + 1, tail))
    high = 1.0 if hits == trials else float(special.betaincinv(hits + 1, trials - hits, 1 - tail))
    return Estimate(hits / trials, low, high)


def rate_estimate(count: int, exposure: float, confidence: float) -> Estimate:
    """A Poisson rate from ``count`` events in ``exposure`` (seconds) with exact limits (Garwood 1936)."""
    tail = (1 - confidence) / 2
    low = 0.0 if count == 0 else float(special.gammaincinv(count, tail))
    high = float(special.gammaincinv(count + 1, 1 - tail))
    return Estimate(count / exposure, low / exposure, high / exposure)
