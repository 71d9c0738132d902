"""Where the Python programs (``kedge run``, ``kedge report``) find the kedge command that they ask."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def find_tool() -> str:
    """The kedge command that belongs to this program: KEDGE_TOOL (set by kedge-NAME), the package's, or the one on PATH."""
    installed = Path(__file__).resolve().parent / "bin" / "kedge"
    candidates = [os.environ.pop("KEDGE_TOOL", ""), str(installed) if installed.exists() else "", shutil.which("kedge") or ""]
    tool = next(filter(None, candidates), "")
    if not tool:
        raise ValueError("the kedge command is neither beside this program nor on PATH")
    return str(Path(tool).resolve())
