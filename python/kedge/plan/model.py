"""Expected time and efficiency of a system under a schedule: the multilevel model, in both solutions.

[Sato] 3.4 and appendix A, generalised to any number of levels, each synchronous or asynchronous; with all
levels synchronous it is the model of Moody et al. (SC10). The run is taken as a long sequence of periods:
the first and last checkpoint of a job are not treated apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from kedge.plan.merge import Merger
from kedge.plan.schedule import Rules, Schedule, check_feasible, whole_segment_background
from kedge.plan.system import System

Method = Literal["merge", "chain"]
Completion = Literal["exact", "segment"]


@dataclass(frozen=True)
class Evaluation:
    """What a schedule is expected to cost.

    ``efficiency`` is work over expected time, 0 to 1; ``expected_seconds`` that of the whole job. The shares
    are parts of the expected time: computing (also again, and slowed down), blocked in checkpoints, restarting;
    ``background_share`` of it passes with a copy in the background. ``joules_per_useful_hour`` is None where
    the system says nothing about power.
    """

    interval_seconds: float
    counts: tuple[int, ...]
    efficiency: float
    expected_seconds: float
    period_seconds: float
    compute_share: float
    checkpoint_share: float
    restart_share: float
    background_share: float
    joules_per_useful_hour: float | None

    def as_dict(self) -> dict[str, object]:
        """All fields, for JSON."""
        return {**asdict(self), "counts": list(self.counts)}


def period_rules(system: System, schedule: Schedule, completion: Completion = "exact") -> Rules:
    """When copies become complete: at their time, or at the end of the segment, as the thesis rounds it."""
    check_feasible(system, schedule)
    if completion == "segment":
        return Rules(system, whole_segment_background(system, schedule))
    return Rules(system, [level.background_seconds for level in system.levels])


def expected_period_seconds(
    system: System, schedule: Schedule, *, method: Method = "merge", completion: Completion = "exact"
) -> float:
    """Expected seconds of W(k), one period of the highest level; infinite where no progress can be expected.

    Raises InfeasibleError where a copy cannot be complete before the next of its level begins.
    """
    rules = period_rules(system, schedule, completion)
    if method == "chain":
        from kedge.plan.chain import Chain  # SciPy takes longer to load than the answer of `plan advise` takes

        return Chain(system, schedule, rules).solve()
    return math.fsum(Merger(system, schedule, rules).period().times[:3])


def evaluate(
    system: System, interval_seconds: float, counts: Sequence[int], *, completion: Completion = "exact"
) -> Evaluation:
    """The expected cost of checkpointing every `interval_seconds` with `counts` (length: levels - 1).

    Raises PlanError for values out of range and InfeasibleError as expected_period_seconds does.
    """
    schedule = Schedule(float(interval_seconds), tuple(counts))
    rules = period_rules(system, schedule, completion)
    compute, checkpoint, restart, background = Merger(system, schedule, rules).period().times
    period = compute + checkpoint + restart
    useful = schedule.interval_seconds * schedule.segments
    efficiency = useful / period if math.isfinite(period) else 0.0
    possible = efficiency > 0.0
    return Evaluation(
        interval_seconds=schedule.interval_seconds,
        counts=schedule.counts,
        efficiency=efficiency,
        expected_seconds=system.work_seconds / efficiency if possible else math.inf,
        period_seconds=period,
        compute_share=compute / period if possible else math.nan,
        checkpoint_share=checkpoint / period if possible else math.nan,
        restart_share=restart / period if possible else math.nan,
        background_share=background / period if possible else math.nan,
        joules_per_useful_hour=_joules(system, compute, checkpoint, restart, background, useful) if possible else None,
    )


def _joules(
    system: System, compute: float, checkpoint: float, restart: float, background: float, useful: float
) -> float | None:
    """Energy of one period per 3600 s of useful work, from the power of each state ([Sato] 6.2.2)."""
    power = system.power
    if power is None:
        return None
    joules = (
        power.compute_watts * compute
        + power.checkpoint_watts * checkpoint
        + power.restart_watts * restart
        + power.background_watts * background
    )
    return joules / useful * 3600.0
