"""What people read fits a terminal of 80 columns."""

from __future__ import annotations

import contextlib
import itertools
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
    "doctor", "agent", "halt", "calibrate", "report", "run", "with-buffers", "plan", *(f"plan {command}" for command in PLAN),
)  # fmt: skip


def said(*arguments: str) -> str:
    """What a command prints, whatever it finds."""
    done = subprocess.run([KEDGE, *arguments], capture_output=True, text=True, timeout=120, env=os.environ | {"COLUMNS": "80"})
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def widest(*arguments: str) -> str:
    return max(said(*arguments).splitlines(), key=len)


def ends_early(line: str, following: str) -> bool:
    """Whether a sentence at the margin goes on below though the next word had room: it was broken twice. Some lines end by column 78."""
    is_prose = bool(line and following) and line[0].isalpha() and following[0].islower()
    return is_prose and not line.endswith((".", ":", ")", "]")) and len(line) + 1 + len(following.split()[0]) <= 78


@pytest.mark.parametrize("command", COMMANDS)
def test_help(command: str) -> None:
    lines = said(*command.split(), "--help").splitlines()
    assert max(map(len, lines)) <= 80
    assert not [pair for pair in itertools.pairwise(lines) if ends_early(*pair)]


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


@pytest.mark.usefixtures("run_folder")
def test_what_is_in_the_store_and_on_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """And why it stays."""
    array = np.zeros((64, 500))
    with tempfile.TemporaryDirectory(prefix="k") as folder, contextlib.ExitStack() as stack:
        monkeypatch.setenv("KEDGE_STORE_PATH", f"{folder}/store")
        context = stack.enter_context(Context("climate", settings={"pool.size": "4MiB", "chunk.size": "1MiB"}))
        context.protect(0, array, "temperature-of-the-air", global_shape=(256, 500), global_offset=(0, 0))
        context.checkpoint("heat", 1)
        context.wait("heat", 1)
        for command in ("inspect heat", "rm climate --dry-run", "ls", "ls --attempts", "clean --dry-run", "doctor"):
            assert len(widest(*command.split())) <= 80, command
        assert ", 1 rank, " in said("inspect", "heat")
        lines = said("rm", "climate", "--dry-run").splitlines()
        assert "STAYS: the newest of a" in lines[1] and "--live" in "".join(lines[2:]), "it goes on below"


@pytest.mark.parametrize("command", ["config --docs", "plan advise --list"])
def test_lists(command: str) -> None:
    assert len(widest(*command.split())) <= 80
