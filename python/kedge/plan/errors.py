"""What the planner says when an input cannot be used.

Every message names the key, the value that was found and the range that is allowed, so that the reader
can correct the file or the command line without reading the source.
"""

from __future__ import annotations


class PlanError(ValueError):
    """An input that the planner cannot use.

    Attributes: ``key`` (dotted, with the index of a level, as in ``level[1].latency_seconds``), ``value``
    (what was found) and ``allowed`` (the range or the choices, in words).
    """

    def __init__(self, key: str, value: object, allowed: str, *, where: str = "") -> None:
        self.key = key
        self.value = value
        self.allowed = allowed
        prefix = f"{where}: " if where else ""
        found = "is not given" if value is None else f"= {value!r}"
        super().__init__(f"{prefix}{key} {found}: allowed is {allowed}")


class InfeasibleError(PlanError):
    """A schedule that no run can follow: an asynchronous copy would not be complete before the next begins."""
