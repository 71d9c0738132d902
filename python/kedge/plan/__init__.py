"""The planner: how often to checkpoint to which level, what efficiency to expect, which storage to buy.

Models of checkpoint/restart from the literature and from K. Sato's thesis ([Sato], chapters 3 to 5), a
simulator that checks them, and the command ``kedge plan``. Pure Python on NumPy and SciPy; nothing here
needs the compiled part of Kedge. ``docs/planner.md`` has the equations, assumptions and worked examples.
"""

from __future__ import annotations

from kedge.plan.catalog import find_system
from kedge.plan.errors import PlanError
from kedge.plan.system import Level, System, load_system

__all__ = ["Level", "PlanError", "System", "find_system", "load_system"]
