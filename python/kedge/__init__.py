"""Kedge for Python: checkpoint and restart of arrays and buffers, and the planner.

``import kedge`` loads nothing compiled. ``kedge.plan`` (models and advice) is pure Python and works
where the extension was never built; names that need the extension are looked up on first use.
"""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = ["plan"]


def __getattr__(name: str) -> ModuleType:
    """Import ``kedge.plan`` on first use, so that ``import kedge`` stays light."""
    if name == "plan":
        return importlib.import_module("kedge.plan")
    raise AttributeError(f"module 'kedge' has no attribute {name!r}")
