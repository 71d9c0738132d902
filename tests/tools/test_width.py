"""What people read fits a terminal of 80 columns."""

from __future__ import annotations

import os
import subprocess

import pytest

from program import KEDGE

PLAN = ("advise", "compare", "curves", "figures", "fit", "groups", "simulate", "sweep", "watch")
COMMANDS = (
    "", "ls", "inspect", "verify", "export", "copy", "gc", "rm", "clean", "pin", "unpin", "status", "top", "wait", "rebuild", "drain", "config",
    "doctor", "agent", "halt", "calibrate", "run", "plan", *(f"plan {command}" for command in PLAN),
)  # fmt: skip


def widest(*arguments: str) -> str:
    done = subprocess.run([KEDGE, *arguments], capture_output=True, text=True, timeout=120, check=True, env=os.environ | {"COLUMNS": "80"})
    return max(done.stdout.splitlines(), key=len)


@pytest.mark.parametrize("command", COMMANDS)
def test_help(command: str) -> None:
    assert len(widest(*command.split(), "--help")) <= 80


@pytest.mark.parametrize("command", ["config --docs", "plan advise --list"])
def test_lists(command: str) -> None:
    assert len(widest(*command.split())) <= 80
