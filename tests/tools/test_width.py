"""What people read fits a terminal of 80 columns."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile

import numpy as np
import pytest

from kedge import Context
from tool import KEDGE

PLAN = ("advise", "compare", "curves", "figures", "fit", "groups", "simulate", "staging", "sweep", "watch")
COMMANDS = (
    "", "ls", "inspect", "verify", "export", "copy", "gc", "rm", "clean", "pin", "unpin", "status", "top", "wait", "rebuild", "drain", "config",
    "doctor", "agent", "halt", "calibrate", "report", "run", "plan", *(f"plan {command}" for command in PLAN),
)  # fmt: skip


def widest(*arguments: str) -> str:
    done = subprocess.run([KEDGE, *arguments], capture_output=True, text=True, timeout=120, check=True, env=os.environ | {"COLUMNS": "80"})
    return max(done.stdout.splitlines(), key=len)


@pytest.mark.parametrize("command", COMMANDS)
def test_help(command: str) -> None:
    assert len(widest(*command.split(), "--help")) <= 80


@pytest.mark.usefixtures("run_folder")
def test_what_the_agent_does(monkeypatch: pytest.MonkeyPatch) -> None:
    # No path is broken: where one is longer than a line, so is the line.
    with tempfile.TemporaryDirectory(prefix="k") as folder, contextlib.ExitStack() as stack:
        monkeypatch.setenv("KEDGE_TIER", f'[{{name="burst-buffer", path="{folder}", capacity="64MiB"}}]')
        context = stack.enter_context(Context("climate-of-a-long-name", settings={"pool.size": "4MiB", "chunk.size": "1MiB"}))
        context.protect(0, np.random.default_rng(1).random(2 << 20), "state")
        for version in (1_000_000_001, 1_000_000_002):
            context.checkpoint("a-checkpoint-name", version)
        context.wait("a-checkpoint-name", version)
        for command in ("status", "status --groups", "top --once"):
            assert len(widest(*command.split())) <= 80


@pytest.mark.parametrize("command", ["config --docs", "plan advise --list"])
def test_lists(command: str) -> None:
    assert len(widest(*command.split())) <= 80
