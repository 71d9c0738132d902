"""Exponential failures during one uninterrupted phase: the four quantities of [Sato] 3.4.2.

A phase lasts `duration` seconds and ends early at the first failure; failures of level i arrive at
rates[i - 1] per second, independently. p0 and t0 are the probability and the time of passing through, p_i
and t_i those of leaving by a failure of level i. Their sum over all ways out is the expected time in the
phase, (1 - exp(-lambda d)) / lambda, which the models use where only the sum matters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def pass_probability(total_rate: float, duration: float) -> float:
    """p0(d) = exp(-lambda d)."""
    return math.exp(-total_rate * duration)


def fail_probability(total_rate: float, duration: float) -> float:
    """1 - p0(d), exact also where it is tiny."""
    return -math.expm1(-total_rate * duration)


def pass_seconds(duration: float) -> float:
    """t0(d) = d."""
    return duration


def level_fail_probability(rates: Sequence[float], level: int, duration: float) -> float:
    """p_i(d) = lambda_i / lambda (1 - exp(-lambda d)); 0 without failures."""
    total = math.fsum(rates)
    return rates[level - 1] / total * fail_probability(total, duration) if total > 0.0 else 0.0


def fail_seconds(total_rate: float, duration: float) -> float:
    """t_i(d) = (1 - (lambda d + 1) exp(-lambda d)) / (lambda (1 - exp(-lambda d))), the same for every level.

    Below lambda d = 1e-4 the series d/2 - lambda d^2/12 replaces the quotient, which cancels there.
    """
    x = total_rate * duration
    if x < 1e-4:
        return duration * (0.5 - x / 12.0)
    if x > 700.0:
        return 1.0 / total_rate
    return duration * (1.0 / x - 1.0 / math.expm1(x))


def expected_seconds(total_rate: float, duration: float) -> float:
    """Expected time in the phase, p0 t0 + sum p_i t_i = (1 - exp(-lambda d)) / lambda."""
    if total_rate * duration < 1e-12:
        return duration
    return fail_probability(total_rate, duration) / total_rate
