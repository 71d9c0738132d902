"""`kedge-bench levels`: bad calls are refused by name, and nothing is left behind."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

BENCH = Path(os.environ["BUILD_FOLDER"]) / "bin" / "kedge-bench"
pytestmark = pytest.mark.needs("MPI")


def levels(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KEDGE_")}
    environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return subprocess.run([BENCH, "levels", "--repetitions", "1", *arguments], env=environment, capture_output=True, text=True, timeout=200)


def test_bad_calls_are_refused() -> None:
    for arguments, named in ((("--lose", "4"), "--lose"), (("--scheme", "raid"), "--scheme"), (("--bytes", "x"), "--bytes"),
                             (("--nodes", "2", "--lose", "0,1"), "--lose")):
        done = levels(*arguments)
        assert done.returncode != 0
        assert named in done.stderr


def test_nothing_stays() -> None:
    arguments = [BENCH, "levels", "--nodes", "2", "--launcher", "false", "--bytes", "1MiB"]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert process.wait(60) == 1
    assert not Path(f"/dev/shm/kedge-levels-{process.pid}").exists()
