"""A figure or table of the literature, computed anew: our numbers, the printed ones, and what differs.

Modules that compute figures hold ``FIGURES: dict[str, Callable[[], Figure]]``, keyed like ``sato-3.20``.
``plan figures`` runs them all and writes JSON, tables, PNG and HTML. No plotting library is imported here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Series:
    """One line or group of points: `x` and `y` of equal length; None in `y` where there is no value.

    ``low`` and ``high`` are confidence limits, empty where there are none.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float | None]
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(f"series {self.label!r}: {len(self.x)} x values, {len(self.y)} y values")


@dataclass(frozen=True)
class Claim:
    """A number that the source prints, beside ours.

    ``tolerance`` is relative to the printed number; None says that the source's inputs do not suffice to
    expect a match, and ``note`` says which is missing. ``met`` is then None.
    """

    what: str
    printed: float
    ours: float
    tolerance: float | None = None
    note: str = ""
    unit: str = ""

    @property
    def met(self) -> bool | None:
        """Whether ours lies within the tolerance; None where no match is expected."""
        if self.tolerance is None:
            return None
        return math.isfinite(self.ours) and abs(self.ours - self.printed) <= self.tolerance * abs(self.printed)


@dataclass(frozen=True)
class Grid:
    """A map over two axes: ``values[row][column]`` for ``y[row]`` and ``x[column]``; None where infeasible."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    values: Sequence[Sequence[float | None]]


@dataclass(frozen=True)
class Figure:
    """A recomputed figure: what to draw, what to compare, and the assumptions behind it."""

    key: str
    title: str
    source: str
    x_label: str
    y_label: str
    series: Sequence[Series] = ()
    claims: Sequence[Claim] = ()
    notes: Sequence[str] = ()
    x_log: bool = False
    y_log: bool = False
    bars: bool = False
    categories: Sequence[str] = field(default_factory=tuple)
    grid: Grid | None = None


FigureMaker = Callable[[], Figure]
