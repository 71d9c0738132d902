"""Distributions of the time between two failures of one kind.

Each is described by its mean and one shape number, and gives samples of three things: a whole gap between
failures, the residual gap seen by an observer who begins to watch at an arbitrary moment (so that a simulation
starts in the steady state, not at a failure), and, for the fits, its log-density and log-survival.
The residual of a renewal process is U x L, with U uniform and L a length-biased gap (Cox, Renewal Theory, 1962,
section 5.2); length-biased Weibull and log-normal gaps have closed forms.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special  # type: ignore[import-untyped]

from kedge.plan.errors import PlanError

FloatArray = NDArray[np.float64]

DISTRIBUTION_NAMES = ("exponential", "weibull", "lognormal")


@dataclass(frozen=True)
class GapDistribution(ABC):
    """Time between failures, in seconds. ``mean_seconds`` may be infinite: it never fails."""

    mean_seconds: float

    def __post_init__(self) -> None:
        if not self.mean_seconds > 0:
            raise PlanError("mean_seconds", self.mean_seconds, "a number above 0")

    @property
    @abstractmethod
    def name(self) -> str:
        """One of DISTRIBUTION_NAMES."""

    @abstractmethod
    def unit_gaps(self, rng: np.random.Generator, count: int) -> FloatArray:
        """``count`` gaps of a distribution of this shape whose mean is 1; shape (count,)."""

    @abstractmethod
    def unit_length_biased(self, rng: np.random.Generator, count: int) -> FloatArray:
        """``count`` gaps of mean-1 shape, each drawn with a probability proportional to its length."""

    @abstractmethod
    def log_density(self, gaps: FloatArray) -> FloatArray:
        """Logarithm of the density at ``gaps`` (seconds, > 0); same shape."""

    @abstractmethod
    def log_survival(self, gaps: FloatArray) -> FloatArray:
        """Logarithm of the probability that a gap is longer than ``gaps`` (seconds, > 0); same shape."""

    def sample(self, rng: np.random.Generator, count: int) -> FloatArray:
        """``count`` gaps in seconds; shape (count,). Infinite where the mean is."""
        return self._scaled(self.unit_gaps(rng, count))

    def sample_residual(self, rng: np.random.Generator, count: int) -> FloatArray:
        """``count`` times in seconds from an arbitrary moment to the next failure; shape (count,)."""
        return self._scaled(rng.random(count) * self.unit_length_biased(rng, count))

    def _scaled(self, unit: FloatArray) -> FloatArray:
        if np.isinf(self.mean_seconds):
            return np.full(unit.shape, np.inf)
        return np.asarray(unit * self.mean_seconds, dtype=np.float64)


@dataclass(frozen=True)
class Exponential(GapDistribution):
    """Memoryless: the Poisson process of the Markov models."""

    @property
    def name(self) -> str:
        return "exponential"

    def unit_gaps(self, rng: np.random.Generator, count: int) -> FloatArray:
        return np.asarray(rng.standard_exponential(count), dtype=np.float64)

    def unit_length_biased(self, rng: np.random.Generator, count: int) -> FloatArray:
        return rng.standard_gamma(2.0, count)

    def log_density(self, gaps: FloatArray) -> FloatArray:
        return np.asarray(-gaps / self.mean_seconds - np.log(self.mean_seconds), dtype=np.float64)

    def log_survival(self, gaps: FloatArray) -> FloatArray:
        return -gaps / self.mean_seconds


@dataclass(frozen=True)
class Weibull(GapDistribution):
    """Weibull of given mean; shape below 1: failures come in clusters (the usual finding on large machines)."""

    shape: float = 0.7

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.1 <= self.shape <= 20:
            raise PlanError("shape", self.shape, "a Weibull shape from 0.1 to 20")

    @property
    def name(self) -> str:
        return "weibull"

    @property
    def scale_seconds(self) -> float:
        """The scale parameter: mean / Gamma(1 + 1/shape)."""
        return float(self.mean_seconds / special.gamma(1 + 1 / self.shape))

    def unit_gaps(self, rng: np.random.Generator, count: int) -> FloatArray:
        return np.asarray(rng.weibull(self.shape, count) / special.gamma(1 + 1 / self.shape), dtype=np.float64)

    def unit_length_biased(self, rng: np.random.Generator, count: int) -> FloatArray:
        # x f(x) with x = scale g^(1/shape) makes g a Gamma(1 + 1/shape) variable.
        gamma = rng.standard_gamma(1 + 1 / self.shape, count)
        return np.asarray(gamma ** (1 / self.shape) / special.gamma(1 + 1 / self.shape), dtype=np.float64)

    def log_density(self, gaps: FloatArray) -> FloatArray:
        ratio = gaps / self.scale_seconds
        log = np.log(self.shape / self.scale_seconds) + (self.shape - 1) * np.log(ratio) - ratio**self.shape
        return np.asarray(log, dtype=np.float64)

    def log_survival(self, gaps: FloatArray) -> FloatArray:
        return np.asarray(-((gaps / self.scale_seconds) ** self.shape), dtype=np.float64)


@dataclass(frozen=True)
class LogNormal(GapDistribution):
    """Log-normal of given mean; ``sigma`` is the standard deviation of the gap's logarithm."""

    sigma: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.sigma <= 5:
            raise PlanError("sigma", self.sigma, "a log-normal sigma above 0 and at most 5")

    @property
    def name(self) -> str:
        return "lognormal"

    @property
    def log_mean(self) -> float:
        """Mean of the gap's logarithm (of seconds)."""
        return float(np.log(self.mean_seconds) - self.sigma**2 / 2)

    def unit_gaps(self, rng: np.random.Generator, count: int) -> FloatArray:
        return np.asarray(rng.lognormal(-(self.sigma**2) / 2, self.sigma, count), dtype=np.float64)

    def unit_length_biased(self, rng: np.random.Generator, count: int) -> FloatArray:
        return rng.lognormal(self.sigma**2 / 2, self.sigma, count)

    def log_density(self, gaps: FloatArray) -> FloatArray:
        z = (np.log(gaps) - self.log_mean) / self.sigma
        log = -0.5 * z**2 - np.log(gaps * self.sigma * np.sqrt(2 * np.pi))
        return np.asarray(log, dtype=np.float64)

    def log_survival(self, gaps: FloatArray) -> FloatArray:
        return np.asarray(special.log_ndtr(-(np.log(gaps) - self.log_mean) / self.sigma), dtype=np.float64)


def make_distribution(
    name: str, mean_seconds: float, shape: float | None = None, sigma: float | None = None
) -> GapDistribution:
    """The distribution called ``name``; ``shape`` belongs to weibull, ``sigma`` to lognormal.

    Raises PlanError where the name is unknown or a parameter is missing or belongs to another distribution.
    """
    if name not in DISTRIBUTION_NAMES:
        raise PlanError("distribution", name, f"one of {', '.join(DISTRIBUTION_NAMES)}")
    if shape is not None and name != "weibull":
        raise PlanError("shape", shape, f"left out: only the weibull distribution has a shape, not {name}")
    if sigma is not None and name != "lognormal":
        raise PlanError("sigma", sigma, f"left out: only the lognormal distribution has a sigma, not {name}")
    if name == "weibull":
        if shape is None:
            raise PlanError("shape", None, "a Weibull shape from 0.1 to 20; the key is missing")
        return Weibull(mean_seconds, shape)
    if name == "lognormal":
        if sigma is None:
            raise PlanError("sigma", None, "a log-normal sigma above 0 and at most 5; the key is missing")
        return LogNormal(mean_seconds, sigma)
    return Exponential(mean_seconds)
