"""A system as every model and the simulator read it: the work to be done and the levels that protect it.

What the words mean, so that models and simulator describe one process:

- Levels are numbered from 1, the fastest, to N. A failure of level i needs a copy of level i or above.
- The work is cut into segments of T seconds of computation, each ended by one checkpoint. `counts` holds
  v_1 ... v_(N-1): v_i checkpoints of level i lie between two of level i+1 or above ([Sato] 4.5.3), so a
  period of level N has n = (v_1 + 1) ... (v_(N-1) + 1) segments and segment j (from 1) ends with a checkpoint
  of the highest level k for which (v_1 + 1) ... (v_(k-1) + 1) divides j.
- A checkpoint of level c blocks for O_c. A synchronous one leaves a copy of level c alone. An asynchronous
  one starts from the copies that a checkpoint of level c-1 leaves, and adds the copy of level c once its
  background time (latency - overhead) has passed. Background times must not fall from one asynchronous
  level to the next, and a copy must be complete before the next of its level begins.
- While any copy is in the background, computing takes (1 + alpha) times as long.
- Failures strike at any time, also during checkpoints and restarts. After a failure of level i the run goes
  back to the newest checkpoint with a complete copy of level i or above and restarts from the lowest such
  copy, level l, in R_l seconds. A failure of level i < l during that restart repeats it; one of level i >= l
  is taken as a failure of level max(i, l + 1), or repeats it where l = N ([Sato] 3.4.2).
- After a restart from level l the checkpoint's own copies up to l are there again. A copy still in the background when the
  run goes back resumes with the progress it had at that point of the work ([Sato] 3.4.3); a copy that was
  complete stays complete.
"""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kedge.plan import checks
from kedge.plan.errors import PlanError
from kedge.plan.level import Level, parse_level
from kedge.plan.storage import Storage, parse_storage

__all__ = ["Level", "Power", "Staging", "Storage", "System", "load_system", "parse_system"]

SYSTEM_KEYS = (
    "name",
    "source",
    "notes",
    "work_seconds",
    "alpha",
    "nodes",
    "level",
    "storage",
    "staging",
    "power",
    "simulation",
)
STAGING_KEYS = ("nodes", "store_write_bytes_per_second", "alpha_seconds_per_gigabyte")
POWER_KEYS = ("compute_watts", "checkpoint_watts", "restart_watts", "background_watts")


@dataclass(frozen=True)
class Staging:
    """Staging nodes between the compute nodes and the store ([Sato] 3.5.2).

    Each of ``nodes`` reads checkpoints at its share of ``store_write_bytes_per_second`` (aggregate); computing
    slows down by ``alpha_seconds_per_gigabyte`` (c, 0.008768 for a stencil code) times that rate in GB/s.
    """

    nodes: int
    store_write_bytes_per_second: float
    alpha_seconds_per_gigabyte: float

    @property
    def read_bytes_per_second(self) -> float:
        """The rate at which one staging node reads."""
        return self.store_write_bytes_per_second / self.nodes

    @property
    def alpha(self) -> float:
        """The overhead factor: c times the read rate of one staging node in GB/s."""
        return self.alpha_seconds_per_gigabyte * self.read_bytes_per_second / 1e9


@dataclass(frozen=True)
class Power:
    """What the whole job draws in each state, in watts; ``background_watts`` comes on top while a copy is made."""

    compute_watts: float
    checkpoint_watts: float
    restart_watts: float
    background_watts: float = 0.0

    def __post_init__(self) -> None:
        for key in POWER_KEYS:
            checks.check_number(getattr(self, key), f"power.{key}")


@dataclass(frozen=True)
class System:
    """Work, slowdown and levels (see the top of this file).

    ``work_seconds``: the job's computation without failures and checkpoints. ``alpha``: slowdown of computing
    while a copy is made in the background. ``levels``: from the fastest up, at least one. ``simulation`` holds
    the table of that name as parsed; the simulator checks it. Raises PlanError with the key and the range.
    """

    work_seconds: float
    alpha: float
    levels: tuple[Level, ...]
    name: str = "system"
    source: str = ""
    notes: str = ""
    nodes: int | None = None
    storage: Storage | None = None
    staging: Staging | None = None
    power: Power | None = None
    simulation: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checks.check_number(self.work_seconds, "work_seconds", low_open=True)
        checks.check_number(self.alpha, "alpha")
        if not self.levels:
            raise PlanError("level", [], "at least one [[level]] table, the fastest level first")
        names = [level.name for level in self.levels]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise PlanError(f"level[{index}].name", name, "a name that no other level has")
        for index, (below, level) in enumerate(zip(self.levels, self.levels[1:], strict=False), start=1):
            chained = below.asynchronous and level.asynchronous
            rounding = 1e-9 * level.latency_seconds
            if chained and level.background_seconds < below.background_seconds - rounding:
                raise PlanError(
                    f"level[{index}].latency_seconds",
                    level.latency_seconds,
                    f"at least {level.overhead_seconds + below.background_seconds:g}: the copy of level "
                    f"{level.name!r} is made after that of {below.name!r}",
                )

    @property
    def total_rate(self) -> float:
        """lambda, the sum of all failure rates, per second."""
        return math.fsum(level.failure_rate_per_second for level in self.levels)

    @property
    def mtbf_seconds(self) -> float:
        """Mean time between failures of any level, seconds; infinite without failures."""
        return 1.0 / self.total_rate if self.total_rate > 0.0 else math.inf

    def replace_level(self, index: int, **changes: object) -> System:
        """The same system with fields of level `index` (from 0) changed."""
        levels = list(self.levels)
        levels[index] = dataclasses.replace(levels[index], **changes)  # type: ignore[arg-type]
        return dataclasses.replace(self, levels=tuple(levels), storage=None)

    def scaled(self, failure_factor: float = 1.0, cost_factors: Sequence[float] | None = None) -> System:
        """Failure rates times `failure_factor`; level i's costs times `cost_factors[i]`.

        A synchronous level's overhead and latency scale together. Of an asynchronous level, latency and restart
        scale; the overhead (the local copy that starts it) stays, or falls to the latency where that is shorter.
        """
        checks.check_number(failure_factor, "failure_factor")
        factors = [1.0] * len(self.levels) if cost_factors is None else list(cost_factors)
        if len(factors) != len(self.levels):
            raise PlanError("cost_factors", factors, f"one factor for each of the {len(self.levels)} levels")
        levels = []
        for level, factor in zip(self.levels, factors, strict=True):
            checks.check_number(factor, "cost_factors")
            latency = level.latency_seconds * factor
            levels.append(
                dataclasses.replace(
                    level,
                    overhead_seconds=min(level.overhead_seconds, latency) if level.asynchronous else latency,
                    latency_seconds=latency,
                    restart_seconds=level.restart_seconds * factor,
                    failure_rate_per_second=level.failure_rate_per_second * failure_factor,
                )
            )
        return dataclasses.replace(self, levels=tuple(levels), storage=None)


def _parse_staging(table: checks.Table) -> Staging:
    checks.refuse_unknown(table, STAGING_KEYS, "staging")
    return Staging(
        nodes=checks.whole(table, "nodes", "staging"),
        store_write_bytes_per_second=checks.number(table, "store_write_bytes_per_second", "staging", low_open=True),
        alpha_seconds_per_gigabyte=checks.number(table, "alpha_seconds_per_gigabyte", "staging"),
    )


def _parse_power(table: checks.Table) -> Power:
    checks.refuse_unknown(table, POWER_KEYS, "power")
    return Power(
        compute_watts=checks.number(table, "compute_watts", "power"),
        checkpoint_watts=checks.number(table, "checkpoint_watts", "power"),
        restart_watts=checks.number(table, "restart_watts", "power"),
        background_watts=checks.number(table, "background_watts", "power", default=0.0),
    )


def _parse_levels(table: checks.Table) -> tuple[tuple[Level, ...], Storage | None]:
    entries = checks.tables(table, "level", "")
    storage_table = checks.subtable(table, "storage", "")
    if entries and storage_table is not None:
        raise PlanError("storage", "[storage]", "absent where [[level]] tables are given: one or the other")
    if storage_table is None:
        if not entries:
            raise PlanError("level", None, "one [[level]] table per level, the fastest first, or a [storage] table")
        return tuple(parse_level(entry, f"level[{index}]") for index, entry in enumerate(entries)), None
    storage = parse_storage(storage_table)
    return storage.levels(), storage


def parse_system(table: checks.Table) -> System:
    """A System from the parsed TOML; raises PlanError that names key, value and range."""
    checks.refuse_unknown(table, SYSTEM_KEYS, "")
    levels, storage = _parse_levels(table)
    staging_table = checks.subtable(table, "staging", "")
    staging = _parse_staging(staging_table) if staging_table is not None else None
    if staging is not None and "alpha" in table:
        raise PlanError("alpha", table["alpha"], "absent where [staging] is given, which it follows from")
    power_table = checks.subtable(table, "power", "")
    nodes = checks.whole(table, "nodes", "") if "nodes" in table else None
    return System(
        work_seconds=checks.number(table, "work_seconds", "", low_open=True),
        alpha=staging.alpha if staging is not None else checks.number(table, "alpha", "", default=0.0),
        levels=levels,
        name=checks.text(table, "name", "", default="system"),
        source=checks.text(table, "source", "", default=""),
        notes=checks.text(table, "notes", "", default=""),
        nodes=nodes if nodes is not None or storage is None else storage.nodes,
        storage=storage,
        staging=staging,
        power=_parse_power(power_table) if power_table is not None else None,
        simulation=checks.subtable(table, "simulation", "") or {},
    )


def load_table(path: str | Path) -> checks.Table:
    """The parsed TOML of a system file, named after the file where it has no name; PlanError as load_system."""
    try:
        with open(path, "rb") as stream:
            return {"name": Path(path).stem, **tomllib.load(stream)}
    except OSError as error:
        raise PlanError("system", str(path), f"a file that can be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PlanError("system", str(path), f"a TOML file ({error})") from None


def load_system(path: str | Path) -> System:
    """Read a system from a TOML file; PlanError names the file, the key, the value and the range."""
    table = load_table(path)
    try:
        return parse_system(table)
    except PlanError as error:
        raise type(error)(error.key, error.value, error.allowed, where=str(path)) from None
