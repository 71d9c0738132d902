"""One level of checkpoints: Young, Daly, Vaidya, and the exact expected time for exponential failures.

All take seconds and failures per second and return seconds. The interval is computation between checkpoints,
without the checkpoint. The exact expected time is the reference that the approximations are tested against.
"""

from __future__ import annotations

import math

from kedge.plan.checks import check_number
from kedge.plan.errors import PlanError


def young_interval(overhead_seconds: float, failure_rate_per_second: float) -> float:
    """First-order optimum sqrt(2 O M), M = 1 / lambda [Young 1974]; infinite without failures."""
    check_number(overhead_seconds, "overhead_seconds")
    check_number(failure_rate_per_second, "failure_rate_per_second")
    if failure_rate_per_second == 0.0:
        return math.inf
    return math.sqrt(2.0 * overhead_seconds / failure_rate_per_second)


def daly_interval(overhead_seconds: float, failure_rate_per_second: float) -> float:
    """Daly's higher-order optimum [Daly 2006, eq. 37].

    sqrt(2 O M) (1 + sqrt(O / (2 M)) / 3 + (O / (2 M)) / 9) - O for O < 2 M, else M.
    """
    first = young_interval(overhead_seconds, failure_rate_per_second)
    if math.isinf(first):
        return first
    mtbf = 1.0 / failure_rate_per_second
    if overhead_seconds >= 2.0 * mtbf:
        return mtbf
    ratio = overhead_seconds / (2.0 * mtbf)
    return first * (1.0 + math.sqrt(ratio) / 3.0 + ratio / 9.0) - overhead_seconds


def exact_period_seconds(
    interval_seconds: float,
    overhead_seconds: float,
    restart_seconds: float,
    failure_rate_per_second: float,
    latency_seconds: float | None = None,
) -> float:
    """Expected time of one interval and its checkpoint under exponential failures, exact.

    Synchronous (latency = overhead): exp(lambda R) (exp(lambda (T + O)) - 1) / lambda. With a longer latency L
    [Vaidya 1995], a failure within L - O of the start of a period costs the period before it as well, so
    exp(lambda (R + L - O)) (exp(lambda (T + O)) - 1) / lambda; exact while L <= T + O. Computing is not slowed
    down (alpha = 0). Limits: T + O without failures. Raises PlanError where the latency exceeds the period.
    """
    check_number(interval_seconds, "interval_seconds", low_open=True)
    check_number(overhead_seconds, "overhead_seconds")
    check_number(restart_seconds, "restart_seconds")
    check_number(failure_rate_per_second, "failure_rate_per_second")
    latency = overhead_seconds if latency_seconds is None else latency_seconds
    check_number(latency, "latency_seconds", low=overhead_seconds)
    period = interval_seconds + overhead_seconds
    if latency > period:
        raise PlanError("latency_seconds", latency, f"at most interval and overhead, {period:g}")
    if failure_rate_per_second * period < 1e-12:
        return period
    exposed = restart_seconds + latency - overhead_seconds
    try:
        grown = math.expm1(failure_rate_per_second * period) / failure_rate_per_second
        return math.exp(failure_rate_per_second * exposed) * grown
    except OverflowError:
        return math.inf


def exact_interval(overhead_seconds: float, failure_rate_per_second: float) -> float:
    """The interval that minimises exact_period_seconds per second of work, in closed form.

    The derivative vanishes at lambda T = 1 + W(-exp(-1 - lambda O)), W the principal Lambert function. Restart
    and latency do not move it, as Vaidya found: they only scale the expected time.
    """
    check_number(overhead_seconds, "overhead_seconds")
    check_number(failure_rate_per_second, "failure_rate_per_second")
    if failure_rate_per_second == 0.0:
        return math.inf
    from scipy.special import lambertw  # type: ignore[import-untyped]  # here, because SciPy is slow to load

    argument = -math.exp(-1.0 - failure_rate_per_second * overhead_seconds)
    return (1.0 + float(lambertw(argument).real)) / failure_rate_per_second


def vaidya_interval(overhead_seconds: float, latency_seconds: float, failure_rate_per_second: float) -> float:
    """The optimal interval with latency [Vaidya 1995]: exact_interval, but long enough for the latency to fit."""
    check_number(latency_seconds, "latency_seconds", low=overhead_seconds)
    return max(exact_interval(overhead_seconds, failure_rate_per_second), latency_seconds - overhead_seconds)


def exact_efficiency(
    interval_seconds: float,
    overhead_seconds: float,
    restart_seconds: float,
    failure_rate_per_second: float,
    latency_seconds: float | None = None,
) -> float:
    """Work per expected time, from 0 to 1, of exact_period_seconds."""
    expected = exact_period_seconds(
        interval_seconds, overhead_seconds, restart_seconds, failure_rate_per_second, latency_seconds
    )
    return interval_seconds / expected
