"""Kedge for Python: checkpoint and restart of arrays and buffers, and the planner.

``import kedge`` loads nothing compiled. ``kedge.plan`` (models and advice) is pure Python and works
where the extension was never built; names that need the extension are looked up on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from kedge.errors import (
    BusyError,
    CorruptError,
    Error,
    IncompleteError,
    InvalidArgumentError,
    LostError,
    MismatchError,
    NotFoundError,
    PermissionDeniedError,
    SpaceError,
    StorageError,
    TimeoutExpiredError,
    UnavailableError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from kedge import plan
    from kedge.buffer import BurstBuffer
    from kedge.context import Checkpoint, Communicator, Context, Level, Rendezvous, Restart, SavedRegion, Statistics

_COMPILED = ("Checkpoint", "Communicator", "Context", "Level", "Rendezvous", "Restart", "SavedRegion", "Statistics")

__all__ = [
    "BurstBuffer",
    "BusyError",
    "Checkpoint",
    "Communicator",
    "Context",
    "CorruptError",
    "Error",
    "IncompleteError",
    "InvalidArgumentError",
    "Level",
    "LostError",
    "MismatchError",
    "NotFoundError",
    "PermissionDeniedError",
    "Rendezvous",
    "Restart",
    "SavedRegion",
    "SpaceError",
    "Statistics",
    "StorageError",
    "TimeoutExpiredError",
    "UnavailableError",
    "UnsupportedError",
    "plan",
]


def __getattr__(name: str) -> Any:
    """Imports ``kedge.plan`` and what needs the extension on first use, so that ``import kedge`` stays light."""
    if name == "plan":
        return importlib.import_module("kedge.plan")
    if name == "BurstBuffer":
        return importlib.import_module("kedge.buffer").BurstBuffer
    if name in _COMPILED:
        return getattr(importlib.import_module("kedge.context"), name)
    raise AttributeError(f"module 'kedge' has no attribute {name!r}")
