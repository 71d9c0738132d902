"""The runtime's ``[schedule]`` section for a schedule, and the one place that knows its keys.

``interval`` is the computation between two checkpoints; ``levels`` says to which level every how many
checkpoints go: "xor:1, store:5" means every checkpoint to xor, every fifth to the store as well.
"""

from __future__ import annotations

from kedge.plan.schedule import Schedule
from kedge.plan.system import System


def level_periods(system: System, schedule: Schedule) -> list[tuple[str, int]]:
    """(name, every how many checkpoints) of the levels that are used, the fastest first.

    A level whose count is 0 is never taken on its own, so it is left out; the highest always stays.
    """
    used = []
    for number, level in enumerate(system.levels, start=1):
        if number == len(system.levels) or schedule.counts[number - 1] > 0:
            used.append((level.name, schedule.lengths[number - 1]))
    return used


def section_toml(system: System, schedule: Schedule) -> str:
    """The section as TOML text."""
    levels = ", ".join(f"{name}:{every}" for name, every in level_periods(system, schedule))
    return f'[schedule]\ninterval = "{schedule.interval_seconds:.6g}s"\nlevels = "{levels}"\n'
