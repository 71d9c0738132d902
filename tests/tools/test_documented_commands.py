"""Each command line of the documents does what it is there for, but for those of `kedge run` (tests/run/test_documented_runs.py)."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from buffers import Buffer
from documented import PAGES, commands
from kedge import Context, Level
from tool import KEDGE

# What stands for something of the reader's, or of an earlier command.
PLACES = {"JOB/NAME@VERSION": "climate/heat@120", "JOB": "climate", "NAME": "climate", "climate-42": "climate", "/archive": "archive",
          " state": " heat"}  # fmt: skip
SMALLER = {"kedge calibrate": "--writers 2 --time 1s"}  # what measures for minutes is asked for less
MEASURED = "kedge calibrate --show"
WHILE_IT_RUNS = "kedge halt"
WRITES_FOR_OTHERS = "kedge agent --staging"
GOES_ON = ("kedge top", WRITES_FOR_OTHERS)
# 1 as well: agents of other tests are in use on this machine.
ALLOWED = {"kedge clean": {0, 1}, "kedge clean --dry-run": {0, 1}}
SHOWN = sorted({shown for page in PAGES for shown in commands(page) if not shown.startswith("kedge run ")})
SYSTEM = Path(__file__).resolve().parents[2] / "python" / "kedge" / "plan" / "systems" / "coastal.toml"


@contextlib.contextmanager
def job_of_the_documents() -> Iterator[None]:
    """While it runs; its agent has its last version still."""
    temperature = np.arange(24.0)
    with Context("climate", settings={"job.lease": "1s"}) as context:
        context.protect(0, temperature, "temperature")
        for version in (119, 120):
            context.checkpoint("heat", version)
            context.wait("heat", version, Level.STORE)
        yield


@contextlib.contextmanager
def burst_buffer_of_the_documents(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """While it runs, with a file."""
    buffer = Buffer(Path("buffer").absolute())
    Path("result.h5").write_bytes(b"result")
    with buffer.server():
        for key, value in buffer.environment().items():
            monkeypatch.setenv(key, value)
        assert buffer.kedge("cp", "result.h5", "bb://fast/run7/result.h5").code == 0
        yield


def outcome(command: str) -> tuple[int, str]:
    """Exit code and output of a command at a terminal, where everything is answered with yes, and q ends what goes on."""
    # By exec where one program is all: a shell in between would die of the Ctrl-C that the program answers.
    alone = command if re.search("[|&;>]", command) else f"exec {command}"
    at_terminal = ["script", "--quiet", "--return", "--command", alone, "/dev/null"]
    with subprocess.Popen(at_terminal, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True) as process:
        try:
            time.sleep(2 if command.startswith(GOES_ON) else 0.2)
            keys = "\x03" if "--web" in command or command == WRITES_FOR_OTHERS else "q" if command.startswith(GOES_ON) else "y\n"
            output, _ = process.communicate(keys, timeout=120)  # a command that has ended by now asks nothing
        finally:
            process.kill()
    return process.returncode, output


@pytest.mark.usefixtures("run_folder")
@pytest.mark.parametrize("shown", SHOWN)
def test_it_does_what_it_says(shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{KEDGE.parent}:{os.environ['PATH']}")
    Path("archive").mkdir()
    shutil.copy(SYSTEM, "system.toml")
    command = re.sub("|".join(map(re.escape, PLACES)), lambda place: PLACES[place[0]], shown)
    with job_of_the_documents():
        for node in ("n1", "n2"):
            Path(f"looks.{node}.jsonl").write_bytes(subprocess.check_output([KEDGE, "status", "--json"], timeout=60))
        if shown.startswith(WHILE_IT_RUNS):
            assert outcome(command)[0] == 0
            return
    if "bb://" in shown:
        with burst_buffer_of_the_documents(monkeypatch):
            code, output = outcome(command)
        assert code == 0, f"{command}: {code}\n{output}"
        return
    if shown == WRITES_FOR_OTHERS:  # on a node of its own
        for key, folder in {"KEDGE_STAGING_FOLDER": "staging", "KEDGE_NODE_RUN_FOLDER": "run-staging"}.items():
            monkeypatch.setenv(key, str(Path(folder).absolute()))
    if shown.startswith(MEASURED):
        assert outcome("kedge calibrate " + SMALLER["kedge calibrate"])[0] == 0
    else:
        command += "".join(f" {more}" for begin, more in SMALLER.items() if command.startswith(begin))
    code, output = outcome(command)
    assert code in ALLOWED.get(shown, {0}), f"{command}: {code}\n{output}"
