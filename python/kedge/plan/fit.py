"""From a log of failures to what the planner needs: rates per level with confidence limits, and how failures come.

Rates are those of a Poisson process, count over exposure, with Garwood's exact limits. Whether the process is one is
tested in three ways: Laplace's test for a rate that changes over the time observed; for each of the exponential,
Weibull and log-normal distributions, fitted by maximum likelihood to the gaps between failures, the
Kolmogorov-Smirnov distance with its significance from a parametric bootstrap (the parameters are fitted, so that the
tables for known ones do not hold: Lilliefors 1969); and Akaike's criterion between the three.
The gap under way at the end of the log is left out of the fits; it counts in the exposure.
[Sato 2.2: tables 2.3 and 2.4 are such rates]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special  # type: ignore[import-untyped]

from kedge.plan.distributions import DISTRIBUTION_NAMES, Exponential, GapDistribution, LogNormal, Weibull
from kedge.plan.errors import PlanError
from kedge.plan.placement import Damage, Placement
from kedge.plan.statistics import Estimate, rate_estimate
from kedge.plan.trace import FailureLog

FloatArray = NDArray[np.float64]

GAPS_MIN = 5
BOOTSTRAP_SAMPLES = 400
BOOTSTRAP_NUMBERS_MAX = 2_000_000
WEIBULL_STEPS = 60


@dataclass(frozen=True)
class GapFit:
    """One distribution fitted to n gaps. ``p_value``: probability of a worse Kolmogorov-Smirnov ``distance`` if the
    gaps do come from it (small: they do not). ``aic``: Akaike's criterion, the smaller the better.
    """

    distribution: GapDistribution
    aic: float
    distance: float
    p_value: float


@dataclass(frozen=True)
class LevelFit:
    """Failures of one level. ``gaps``: the fits, best first; empty for fewer than GAPS_MIN different gaps.

    ``trend_p_value``: two-sided, Laplace's test; NaN where there are too few failures.
    """

    name: str
    count: int
    rate_per_second: Estimate
    trend_p_value: float
    gaps: tuple[GapFit, ...]

    @property
    def mtbf_seconds(self) -> Estimate:
        """Mean time between failures, with limits; infinite where no failure was seen."""
        rate = self.rate_per_second
        values = [1.0 / value if value > 0.0 else math.inf for value in (rate.value, rate.high, rate.low)]
        return Estimate(*values)


@dataclass(frozen=True)
class Fit:
    """``exposure_seconds``: time observed. ``node_seconds``: of all nodes together, None where unknown."""

    exposure_seconds: float
    node_seconds: float | None
    levels: tuple[LevelFit, ...]
    total: LevelFit
    notes: tuple[str, ...]


def classify_by_count(log: FailureLog, limits: Sequence[tuple[str, int | None]]) -> FailureLog:
    """Name levels by how many nodes a failure took: the first of ``limits`` that allows as many (None: any)."""
    if not limits or limits[-1][1] is not None:
        raise PlanError("--levels", list(limits), "NAME:NODES,...,NAME, the last one without a number of nodes")
    levels = []
    for nodes in log.nodes:
        levels.append(next(name for name, most in limits if most is None or len(nodes) <= most))
    return log.with_levels(levels)


def classify_by_placement(log: FailureLog, placement: Placement, names: Sequence[str]) -> FailureLog:
    """Name levels by where the lost nodes lie in the groups of ``placement``, each failure taken alone."""
    source = log.source(names, placement.nodes, None, random_phase=False)
    damage = Damage(placement, len(log.nodes))
    rows = np.repeat(np.arange(len(log.nodes)), [nodes.size for nodes in source.nodes])
    damage.strike(rows, np.concatenate([*source.nodes, np.empty(0, dtype=np.int64)]).astype(np.int64))
    lowest = damage.lowest_surviving_level(np.arange(len(log.nodes)))
    return log.with_levels([own or names[level] for own, level in zip(log.levels, lowest, strict=True)])


def fit(
    log: FailureLog,
    *,
    level_names: Sequence[str] = (),
    span_seconds: float | None = None,
    nodes: int | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> Fit:
    """Rates and distributions of the failures of ``log``, per level and of all together.

    ``level_names``: those to report even without a failure, in this order; others follow. ``span_seconds``: time
    observed; None: as the log says, else until its last failure (which is then not counted as seen by chance: with n
    failures n - 1 gaps were observed). Raises PlanError for values out of range or fewer failures than that needs.
    """
    if not 0.5 <= confidence < 1.0:
        raise PlanError("confidence", confidence, "a number from 0.5 to below 1")
    last = float(log.seconds[-1]) if log.seconds.size else 0.0
    span = span_seconds if span_seconds is not None else log.span_seconds
    if span is not None and not (span > 0.0 and span >= last):
        raise PlanError("span_seconds", span, f"a number above 0 and at least the last failure's time, {last:g} s")
    notes = []
    counted = np.ones(log.seconds.size, dtype=np.bool_)
    if span is None:
        span = last
        # The window was cut by a failure at its end, and the clock may start at one: that one is no observation.
        counted[-1] = log.from_first
        counted[0] &= not log.from_first
        notes.append("the time observed is not given; it is taken to end with the last failure, which is not counted")
        if log.from_first:
            notes[-1] = (
                "the time observed is not given; it is taken to reach from the first failure, not counted, to the last"
            )
    if not span > 0.0:
        raise PlanError("span_seconds", span, "given: the log holds one moment only")
    rng = np.random.default_rng(seed)
    names = [*level_names, *sorted(set(log.levels) - set(level_names) - {""})]
    if "" in log.levels and names:
        notes.append(f"{log.levels.count('')} failures without a level are in the total only")
    of_level = np.array(log.levels)

    def one(name: str, chosen: NDArray[np.bool_]) -> LevelFit:
        seconds = log.seconds[chosen]
        count = int((chosen & counted).sum())
        return LevelFit(
            name,
            count,
            rate_estimate(count, span, confidence),
            trend_p_value(seconds[counted[chosen]], span),
            fit_gaps(np.diff(seconds), rng),
        )

    levels = tuple(one(name, of_level == name) for name in names)
    total = one("all", np.ones(log.seconds.size, dtype=np.bool_))
    node_seconds = log.node_seconds if nodes is None else nodes * span
    return Fit(span, node_seconds, levels, total, tuple(notes))


def trend_p_value(seconds: FloatArray, span: float) -> float:
    """Laplace's test: under a constant rate the times are uniform over the span, their mean nearly normal."""
    if seconds.size < GAPS_MIN:
        return math.nan
    score = (float(seconds.mean()) / span - 0.5) * math.sqrt(12.0 * seconds.size)
    return float(2.0 * special.ndtr(-abs(score)))


def fit_gaps(gaps: FloatArray, rng: np.random.Generator) -> tuple[GapFit, ...]:
    """The three distributions fitted to ``gaps`` (seconds, shape (n,); zeros are left out), best AIC first."""
    gaps = gaps[gaps > 0.0]
    if np.unique(gaps).size < GAPS_MIN:
        return ()
    fits = []
    for name in DISTRIBUTION_NAMES:
        try:
            fits.append(_fit_one(name, gaps, rng))
        except PlanError:  # a shape outside what the distribution allows: it is no candidate
            continue
    return tuple(sorted(fits, key=lambda found: found.aic))


def _fit_one(name: str, gaps: FloatArray, rng: np.random.Generator) -> GapFit:
    parameters = _ESTIMATORS[name](gaps[None, :])
    distribution = _distribution(name, parameters[0])
    distance = float(_distances(name, gaps[None, :], parameters)[0])
    samples = max(min(BOOTSTRAP_SAMPLES, BOOTSTRAP_NUMBERS_MAX // gaps.size), 50)
    drawn = distribution.sample(rng, samples * gaps.size).reshape(samples, gaps.size)
    worse = _distances(name, drawn, _ESTIMATORS[name](drawn)) >= distance
    free = parameters.shape[1]
    return GapFit(
        distribution,
        aic=2.0 * free - 2.0 * float(distribution.log_density(gaps).sum()),
        distance=distance,
        p_value=(1.0 + float(worse.sum())) / (1.0 + samples),
    )


def _distribution(name: str, parameters: FloatArray) -> GapDistribution:
    if name == "weibull":
        scale, shape = parameters
        return Weibull(float(scale * special.gamma(1.0 + 1.0 / shape)), float(shape))
    if name == "lognormal":
        location, sigma = parameters
        return LogNormal(float(np.exp(location + sigma**2 / 2.0)), float(sigma))
    return Exponential(float(parameters[0]))


def _estimate_exponential(samples: FloatArray) -> FloatArray:
    return np.asarray(samples.mean(axis=1, keepdims=True), dtype=np.float64)


def _estimate_lognormal(samples: FloatArray) -> FloatArray:
    logs = np.log(samples)
    return np.stack([logs.mean(axis=1), logs.std(axis=1)], axis=1)


def _estimate_weibull(samples: FloatArray) -> FloatArray:
    """Scale and shape; the likelihood's root in the shape by bisection in its logarithm, all samples at once.

    sum(x^k log x) / sum(x^k) - 1/k - mean(log x) = 0 rises with k, so that bisection cannot miss it.
    """
    logs = np.log(samples)
    logs = logs - logs.max(axis=1, keepdims=True)
    mean = logs.mean(axis=1)
    low, high = np.full(mean.shape, math.log(0.02)), np.full(mean.shape, math.log(200.0))
    for _ in range(WEIBULL_STEPS):
        middle = (low + high) / 2.0
        shape = np.exp(middle)
        powers = np.exp(logs * shape[:, None])
        above = (powers * logs).sum(axis=1) / powers.sum(axis=1) - 1.0 / shape - mean > 0.0
        high = np.where(above, middle, high)
        low = np.where(above, low, middle)
    shape = np.exp((low + high) / 2.0)
    largest = samples.max(axis=1)
    scale = largest * np.exp(logs * shape[:, None]).mean(axis=1) ** (1.0 / shape)
    return np.stack([scale, shape], axis=1)


_ESTIMATORS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "exponential": _estimate_exponential,
    "weibull": _estimate_weibull,
    "lognormal": _estimate_lognormal,
}


def _distances(name: str, samples: FloatArray, parameters: FloatArray) -> FloatArray:
    """Kolmogorov-Smirnov distances of samples (b, n) from the distributions of parameters (b, k); shape (b,)."""
    ordered = np.sort(samples, axis=1)
    if name == "exponential":
        below = -np.expm1(-ordered / parameters[:, :1])
    elif name == "weibull":
        below = -np.expm1(-((ordered / parameters[:, :1]) ** parameters[:, 1:]))
    else:
        below = special.ndtr((np.log(ordered) - parameters[:, :1]) / parameters[:, 1:])
    count = samples.shape[1]
    steps = np.arange(1, count + 1) / count
    return np.asarray(np.maximum(steps - below, below - (steps - 1.0 / count)).max(axis=1), dtype=np.float64)
