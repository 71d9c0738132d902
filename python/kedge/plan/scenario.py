"""What a simulation adds to a system: how failures come, how they hit nodes, what a relaunch takes.

Without any of it, every level's failures form a Poisson process of its rate and each failure demands its level: the
assumptions of the models. A system file's ``[simulation]`` table says more::

    [simulation]
    distribution = "weibull"          # of the failures of all levels: exponential, weibull (shape), lognormal (sigma)
    shape = 0.7
    flush_after_failure = "restart"   # what a failure does to a background copy whose source survives it
    second_failure = "escalate"       # what one during a restart does, where no placement decides it
    time_variation = 0.2              # coefficient of variation of every checkpoint, copy and restart time
    relaunch_seconds = 60             # before every restart: detection, allocation, launch
    spares = 8                        # spare nodes; left out: there always is one
    repair_seconds = 86400            # until a broken node is a spare again
    trace = "failures.csv"            # replay these instead of drawing failures

    [[simulation.protection]]         # one per level, the fastest first; then nodes decide what a failure demands
    group_nodes = 16                  # 0: one group of all nodes
    tolerance = 1                     # losses in a group that the level survives; left out: all
    layout = "spread"                 # neighbours in different groups; or "adjacent"

    [[simulation.failure]]            # what fails together, instead of the levels' rates
    name = "power supply"
    domain_nodes = 4                  # consecutive nodes; 0: processes only
    failure_rate_per_second = 3.999e-7  # of all such domains together
    level = "pfs"                     # by decree at least this level; left out: the nodes decide

[Sato 2.2, 3.4.1, 3.4.2]
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kedge.plan import checks
from kedge.plan.distributions import GapDistribution, make_distribution
from kedge.plan.errors import PlanError
from kedge.plan.failures import FailureKind, FailureSource, RandomFailures
from kedge.plan.placement import Placement, Protection
from kedge.plan.system import System
from kedge.plan.trace import load_trace

FLUSH_RULES = ("continue", "restart", "rewind")
SECOND_FAILURE_RULES = ("escalate", "retry")

SIMULATION_KEYS = (
    "distribution",
    "shape",
    "sigma",
    "flush_after_failure",
    "second_failure",
    "time_variation",
    "relaunch_seconds",
    "spares",
    "repair_seconds",
    "trace",
    "trace_span_seconds",
    "trace_random_phase",
    "protection",
    "failure",
)
PROTECTION_KEYS = ("group_nodes", "tolerance", "layout")
FAILURE_KEYS = ("name", "domain_nodes", "failure_rate_per_second", "level", "distribution", "shape", "sigma")


@dataclass(frozen=True)
class Scenario:
    """Failures and behaviour of one simulation.

    ``flush_after_failure``: a background copy whose source survives a failure goes on meanwhile ("continue": staging
    nodes or agents that outlive the application), starts again after the restart ("restart"), or resumes with the
    progress that it had at the point of the work that the run went back to ("rewind": the models' assumption).
    ``second_failure``: a failure during a restart, of the level being read or above, makes that level useless
    ("escalate": the models' pessimistic assumption), or demands its own level ("retry"); where ``placement`` is
    given, the nodes lost decide instead. ``time_variation``: standard deviation over mean of each time, drawn
    log-normal; the means stay. ``spares`` None: never a wait. Raises PlanError for values out of range.
    """

    failures: FailureSource
    placement: Placement | None = None
    flush_after_failure: str = "rewind"
    second_failure: str = "escalate"
    time_variation: float = 0.0
    relaunch_seconds: float = 0.0
    spares: int | None = None
    repair_seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.flush_after_failure not in FLUSH_RULES:
            raise PlanError("flush_after_failure", self.flush_after_failure, f"one of {', '.join(FLUSH_RULES)}")
        if self.second_failure not in SECOND_FAILURE_RULES:
            raise PlanError("second_failure", self.second_failure, f"one of {', '.join(SECOND_FAILURE_RULES)}")
        checks.check_number(self.time_variation, "time_variation", high=3.0)
        checks.check_number(self.relaunch_seconds, "relaunch_seconds")
        checks.check_number(self.repair_seconds, "repair_seconds")
        if self.spares is not None and self.spares < 0:
            raise PlanError("spares", self.spares, "a whole number of at least 0")


def model_scenario(system: System) -> Scenario:
    """The models' assumptions: Poisson failures at the levels' rates, "rewind" and "escalate", constant times."""
    return Scenario(level_failures(system))


def level_failures(
    system: System, distribution: str = "exponential", shape: float | None = None, sigma: float | None = None
) -> RandomFailures:
    """One renewal process per level of ``system`` at its rate; a failure demands its level, by decree."""
    kinds = tuple(
        FailureKind(level.name, _gap(distribution, level.failure_rate_per_second, shape, sigma), index)
        for index, level in enumerate(system.levels)
    )
    return RandomFailures(kinds)


def _gap(distribution: str, rate: float, shape: float | None, sigma: float | None) -> GapDistribution:
    return make_distribution(distribution, 1.0 / rate if rate > 0.0 else math.inf, shape, sigma)


def parse_scenario(system: System, base: Path | None = None) -> Scenario:
    """The scenario of a system's ``[simulation]`` table; a relative trace path is taken from the folder ``base``.

    Raises PlanError that names the key, the value and the range.
    """
    table = system.simulation
    prefix = "simulation"
    checks.refuse_unknown(table, SIMULATION_KEYS, prefix)
    placement = parse_placement(system)
    try:
        return Scenario(
            failures=_parse_failures(system, table, placement, base),
            placement=placement,
            flush_after_failure=checks.text(table, "flush_after_failure", "", default="rewind"),
            second_failure=checks.text(table, "second_failure", "", default="escalate"),
            time_variation=checks.number(table, "time_variation", "", default=0.0),
            relaunch_seconds=checks.number(table, "relaunch_seconds", "", default=0.0),
            spares=checks.whole(table, "spares", "", low=0) if "spares" in table else None,
            repair_seconds=checks.number(table, "repair_seconds", "", default=0.0),
        )
    except PlanError as error:
        if error.key.startswith(prefix) or error.key in ("nodes", "trace"):
            raise
        raise PlanError(checks.path_of(prefix, error.key), error.value, error.allowed) from None


def parse_placement(system: System) -> Placement | None:
    """The groups of a system's ``[[simulation.protection]]`` tables; None where it has none."""
    entries = checks.tables(system.simulation, "protection", "simulation")
    if not entries:
        return None
    if len(entries) != len(system.levels):
        raise PlanError(
            "simulation.protection", f"{len(entries)} tables", f"one table for each of the {len(system.levels)} levels"
        )
    if system.nodes is None:
        raise PlanError("nodes", None, "a whole number of at least 1; with [[simulation.protection]] it must be given")
    protections = []
    for index, entry in enumerate(entries):
        prefix = f"simulation.protection[{index}]"
        checks.refuse_unknown(entry, PROTECTION_KEYS, prefix)
        tolerance = checks.whole(entry, "tolerance", prefix, low=0) if "tolerance" in entry else None
        try:
            protections.append(
                Protection(
                    checks.whole(entry, "group_nodes", "", default=0, low=0),
                    tolerance,
                    checks.text(entry, "layout", "", default="spread"),
                )
            )
        except PlanError as error:
            raise PlanError(checks.path_of(prefix, error.key), error.value, error.allowed) from None
    return Placement(system.nodes, tuple(protections))


def _parse_failures(
    system: System, table: Mapping[str, object], placement: Placement | None, base: Path | None
) -> FailureSource:
    distribution = checks.text(table, "distribution", "", default="exponential")
    shape = checks.number(table, "shape", "", low_open=True) if "shape" in table else None
    sigma = checks.number(table, "sigma", "", low_open=True) if "sigma" in table else None
    entries = checks.tables(table, "failure", "simulation")
    if "trace" in table:
        if entries:
            raise PlanError("simulation.failure", f"{len(entries)} tables", "absent where a trace is replayed")
        path = Path(checks.text(table, "trace", ""))
        span = checks.number(table, "trace_span_seconds", "", low_open=True) if "trace_span_seconds" in table else None
        trace = load_trace(path if path.is_absolute() or base is None else base / path)
        names = [level.name for level in system.levels]
        nodes = placement.nodes if placement is not None else None
        return trace.source(names, nodes, span, checks.flag(table, "trace_random_phase", "", default=True))
    if not entries:
        if placement is not None:
            raise PlanError(
                "simulation.failure", None, "one [[simulation.failure]] table per kind: with protections nodes decide"
            )
        return level_failures(system, distribution, shape, sigma)
    kinds = tuple(
        _parse_kind(system, entry, f"simulation.failure[{index}]", distribution, shape, sigma, placement)
        for index, entry in enumerate(entries)
    )
    return RandomFailures(kinds, placement.nodes if placement is not None else 0)


def _parse_kind(
    system: System,
    entry: Mapping[str, object],
    prefix: str,
    distribution: str,
    shape: float | None,
    sigma: float | None,
    placement: Placement | None,
) -> FailureKind:
    checks.refuse_unknown(entry, FAILURE_KEYS, prefix)
    names = [level.name for level in system.levels]
    level = 0
    if "level" in entry:
        name = checks.text(entry, "level", prefix)
        if name not in names:
            raise PlanError(f"{prefix}.level", name, f"the name of a level: {', '.join(names)}")
        level = names.index(name)
    elif placement is None:
        raise PlanError(
            f"{prefix}.level", None, f"the name of a level ({', '.join(names)}), or [[simulation.protection]]"
        )
    own = "distribution" in entry
    try:
        gap = _gap(
            checks.text(entry, "distribution", "", default=distribution),
            checks.number(entry, "failure_rate_per_second", ""),
            checks.number(entry, "shape", "", low_open=True) if "shape" in entry else (None if own else shape),
            checks.number(entry, "sigma", "", low_open=True) if "sigma" in entry else (None if own else sigma),
        )
        return FailureKind(
            checks.text(entry, "name", ""), gap, level, checks.whole(entry, "domain_nodes", "", default=0, low=0)
        )
    except PlanError as error:
        raise PlanError(checks.path_of(prefix, error.key), error.value, error.allowed) from None
