"""Varying inputs of a system: each combination is parsed and optimised like a system of its own.

An axis names a key of the TOML by its path (``alpha``, ``level[1].latency_seconds``, a level also by name as in
``level[store].restart_seconds``, ``storage.tier[1].write_bytes_per_second``), or ``failures`` (factor on all
failure rates) or ``cost[NAME]`` (factor on the costs of a level). Values are listed, or a range low:high:count,
spaced evenly on a logarithmic scale where both ends are positive.
"""

from __future__ import annotations

import copy
import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kedge.plan.checks import Table, check_number
from kedge.plan.errors import InfeasibleError, PlanError
from kedge.plan.model import Evaluation, evaluate
from kedge.plan.optimum import optimum
from kedge.plan.system import System, parse_system

MOST_POINTS = 10_000
PART = re.compile(r"^([A-Za-z_]+)(?:\[([^\]]+)\])?$")


@dataclass(frozen=True)
class Axis:
    """What is varied, and its values."""

    key: str
    values: tuple[float, ...]


@dataclass(frozen=True)
class Point:
    """One combination (a value per axis) and its result; None where no schedule is feasible."""

    values: tuple[float, ...]
    result: Evaluation | None


def parse_axis(text: str) -> Axis:
    """``KEY=1,2,4`` or ``KEY=LOW:HIGH:COUNT``; PlanError where it is neither."""
    key, separator, values = text.partition("=")
    allowed = "KEY=V1,V2,... or KEY=LOW:HIGH:COUNT, values being numbers"
    if not separator or not key:
        raise PlanError("--vary", text, allowed)
    try:
        if values.count(":") == 2:
            low_text, high_text, count_text = values.split(":")
            return Axis(key, _spread(float(low_text), float(high_text), int(count_text), text))
        return Axis(key, tuple(float(value) for value in values.split(",")))
    except PlanError:
        raise
    except ValueError:
        raise PlanError("--vary", text, allowed) from None


def _spread(low: float, high: float, count: int, text: str) -> tuple[float, ...]:
    if count < 2 or count > MOST_POINTS:
        raise PlanError("--vary", text, f"a COUNT from 2 to {MOST_POINTS}")
    if not (math.isfinite(low) and math.isfinite(high)):
        raise PlanError("--vary", text, "a LOW and a HIGH that are finite")
    if low > 0.0 and high > 0.0:
        return tuple(low * (high / low) ** (index / (count - 1)) for index in range(count))
    return tuple(low + (high - low) * index / (count - 1) for index in range(count))


def changed_system(table: Table, axes: Sequence[Axis], values: Sequence[float]) -> System:
    """The system of `table` with each axis at its value; PlanError where a key does not exist or does not fit."""
    changed: dict[str, Any] = copy.deepcopy(dict(table))
    failures = 1.0
    costs: dict[str, float] = {}
    for axis, value in zip(axes, values, strict=True):
        cost = PART.match(axis.key)
        if axis.key == "failures":
            check_number(value, "failures")
            failures *= value
        elif cost is not None and cost[1] == "cost" and cost[2]:
            check_number(value, axis.key)
            costs[cost[2]] = value
        else:
            _set(changed, axis.key, value)
    system = parse_system(changed)
    names = [level.name for level in system.levels]
    for name in costs:
        if name not in names:
            raise PlanError("--vary", f"cost[{name}]", f"a level: {', '.join(names)}")
    if failures == 1.0 and not costs:
        return system
    return system.scaled(failures, [costs.get(name, 1.0) for name in names])


def _set(table: dict[str, Any], key: str, value: float) -> None:
    """Set the number at a dotted path; whole numbers stay whole, so that counts are accepted."""
    parts = key.split(".")
    place: Any = table
    for depth, part in enumerate(parts):
        found = PART.match(part)
        if found is None or not isinstance(place, dict):
            raise PlanError("--vary", key, "a key like alpha, level[0].restart_seconds or storage.tier[1].shared_by")
        name, selector = found[1], found[2]
        if depth == len(parts) - 1 and selector is None:
            place[name] = int(value) if value == int(value) and isinstance(place.get(name), int) else value
            return
        if name not in place:
            raise PlanError("--vary", key, f"a key of the system, which has no {'.'.join(parts[: depth + 1])}")
        place = place[name]
        if selector is not None:
            place = _entry(place, selector, key)
    raise PlanError("--vary", key, "the path of a number, not of a table")


def _entry(entries: Any, selector: str, key: str) -> Any:
    """An entry of an array of tables by index or by its name."""
    if isinstance(entries, list):
        for index, entry in enumerate(entries):
            if selector == str(index) or (isinstance(entry, dict) and entry.get("name") == selector):
                return entry
        names = [str(entry.get("name")) for entry in entries if isinstance(entry, dict)]
        raise PlanError("--vary", key, f"an index from 0 to {len(entries) - 1} or a name: {', '.join(names)}")
    raise PlanError("--vary", key, "an index only after an array of tables")


def sweep(
    table: Table,
    axes: Sequence[Axis],
    *,
    interval_seconds: float | None = None,
    counts: Sequence[int] | None = None,
) -> list[Point]:
    """Every combination of the axes, the last axis fastest; with T and V given they are evaluated, not optimised.

    Raises PlanError for a key or value that does not fit, and for more than 10,000 combinations.
    """
    total = math.prod(len(axis.values) for axis in axes)
    if total > MOST_POINTS:
        raise PlanError("--vary", total, f"at most {MOST_POINTS} combinations")
    points: list[Point] = []
    for values in itertools.product(*(axis.values for axis in axes)):
        system = changed_system(table, axes, values)
        try:
            if interval_seconds is not None and counts is not None:
                result = evaluate(system, interval_seconds, counts)
            else:
                result = optimum(system, interval_seconds=interval_seconds, counts=counts)
        except InfeasibleError:
            points.append(Point(values, None))
            continue
        points.append(Point(values, result))
    return points
