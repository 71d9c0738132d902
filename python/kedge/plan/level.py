"""One protection level of a system, as the models see it: what it costs and which failures it answers."""

from __future__ import annotations

from dataclasses import dataclass

from kedge.plan import checks
from kedge.plan.errors import PlanError

KEYS = (
    "name",
    "overhead_seconds",
    "latency_seconds",
    "restart_seconds",
    "failure_rate_per_second",
    "asynchronous",
)


@dataclass(frozen=True)
class Level:
    """A checkpoint level ([Sato] 3.3.3, 4.5.2).

    ``overhead_seconds`` (O): how long the application is blocked by one checkpoint of this level, all
    included. ``latency_seconds`` (L): from the call until the checkpoint can be restored after a failure of
    this level; equal to the overhead where the level is synchronous. ``restart_seconds`` (R): reading it
    back. ``failure_rate_per_second`` (lambda): failures of the whole job that need this level and no higher.
    Raises PlanError for values out of range; the position of the level is not known here, so the key is bare.
    """

    name: str
    overhead_seconds: float
    latency_seconds: float
    restart_seconds: float
    failure_rate_per_second: float
    asynchronous: bool

    def __post_init__(self) -> None:
        if not self.name:
            raise PlanError("name", self.name, "a text, not empty")
        for key in KEYS[1:5]:
            checks.check_number(getattr(self, key), key)
        if self.asynchronous and self.latency_seconds < self.overhead_seconds:
            raise PlanError(
                "latency_seconds", self.latency_seconds, f"at least overhead_seconds = {self.overhead_seconds:g}"
            )
        if not self.asynchronous and self.latency_seconds != self.overhead_seconds:
            raise PlanError(
                "latency_seconds",
                self.latency_seconds,
                f"overhead_seconds = {self.overhead_seconds:g} (a synchronous level blocks until it is complete), "
                "or any longer time with asynchronous = true",
            )

    @property
    def background_seconds(self) -> float:
        """Seconds between the end of the blocked part and the moment the copy counts; 0 when synchronous."""
        return self.latency_seconds - self.overhead_seconds


def parse_level(table: checks.Table, prefix: str) -> Level:
    """A level from its ``[[level]]`` table; ``latency_seconds`` may be left out where the level is synchronous."""
    checks.refuse_unknown(table, KEYS, prefix)
    asynchronous = checks.flag(table, "asynchronous", prefix, default=False)
    overhead = checks.number(table, "overhead_seconds", prefix)
    latency = checks.number(table, "latency_seconds", prefix, default=None if asynchronous else overhead)
    restart = checks.number(table, "restart_seconds", prefix)
    rate = checks.number(table, "failure_rate_per_second", prefix)
    name = checks.text(table, "name", prefix)
    try:
        return Level(name, overhead, latency, restart, rate, asynchronous)
    except PlanError as error:
        raise PlanError(checks.path_of(prefix, error.key), error.value, error.allowed) from None
