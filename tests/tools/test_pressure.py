"""Memory pressure as the kernel tells it (PSI): what is not owed goes back at once, and the job goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tool import kedge_json
from waiting import until

pytestmark = [
    pytest.mark.usefixtures("run_folder"),
    pytest.mark.skipif(os.getuid() != 0, reason="only root mounts"),
    pytest.mark.skipif(not Path("/proc/pressure/memory").exists(), reason="this kernel does not tell of pressure"),
]

IMAGE_BYTES = 32 << 20
CALM = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
HIGH = "some avg10=42.00 avg60=9.00 avg300=2.00 total=7\n"

# Takes a version whenever it is told a number and a level, and says when it has it.
APPLICATION = f"""
import sys
import numpy
from kedge import Context, Level
context = Context("climate", settings={{"agent.idle_timeout": "1h"}})
state = numpy.zeros({IMAGE_BYTES}, dtype=numpy.uint8)
context.protect(0, state)
for line in sys.stdin:
    version, level = line.split()
    state[:] = int(version)
    context.checkpoint("heat", int(version))
    context.wait("heat", int(version), Level[level])
    print("taken", flush=True)
"""


class Application:
    """A job whose agent, started by it, reads a file of ours where the kernel tells of pressure."""

    def __init__(self, told: Path, **settings: str) -> None:
        self.told = told
        self.tell(CALM)
        environment = os.environ | {"PYTHONPATH": str(Path(os.environ["BUILD_FOLDER"]) / "python")} | settings
        mount_and_run = 'mount --bind "$0" /proc/pressure/memory && exec "$@"'
        command = ["unshare", "--mount", "--propagation", "private", "bash", "-c", mount_and_run, str(told), sys.executable, "-c", APPLICATION]
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, pressure: str) -> None:
        self.told.write_text(pressure)

    def take(self, version: int, level: str) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{version} {level}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "taken\n"

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def application(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Application]:
    job = Application(tmp_path / "pressure", **getattr(request, "param", {}))
    yield job
    job.end()


def memory() -> Any:
    return kedge_json("status")["memory"]


def test_what_the_store_has_goes_back_at_once(application: Application) -> None:
    application.take(1, "STORE")
    application.take(2, "STORE")
    assert memory()["backed_bytes"] >= IMAGE_BYTES and memory()["bound"] != "memory pressure"
    application.tell(HIGH)
    until(lambda: memory()["backed_bytes"] < IMAGE_BYTES // 8)
    assert memory()["bound"] == "memory pressure"
    application.take(3, "STORE")  # for want of room it is written through
    assert memory()["backed_bytes"] < IMAGE_BYTES
    application.tell(CALM)
    until(lambda: memory()["bound"] != "memory pressure")
    application.take(4, "STORE")
    until(lambda: memory()["backed_bytes"] >= IMAGE_BYTES)
    assert [version["version"] for version in kedge_json("ls", "climate/heat")["versions"]][0] == 4


@pytest.mark.parametrize("application", [{"KEDGE_SCHEDULE_STORE": "0"}], indirect=True)
def test_an_only_copy_stays(application: Application) -> None:
    application.take(1, "LOCAL")
    application.tell(HIGH)
    until(lambda: memory()["bound"] == "memory pressure" and memory()["spare_bytes"] == 0)
    assert memory()["backed_bytes"] >= IMAGE_BYTES
    ((version,),) = [job["versions"] for job in kedge_json("status")["jobs"]]
    assert version["level"] == "local"
