"""Devices of a chosen speed on this machine, for the comparisons of bench/devices and bench/applications.

A control group limits what its members write to a disk (around the page cache: the limit does not hold for what passes through it). A
virtual node has a small pool, a directory tier on that disk, and an agent outside of the group, which flushes at flush.rate.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("BUILD_FOLDER", ROOT / "build"))
BIN = BUILD / "bin"
MEGABYTE = 1_000_000
MPIRUN = shutil.which("mpirun.openmpi") or "mpirun"  # mpirun may be MPICH's
CGROUPS = Path("/sys/fs/cgroup")


class Skipped(Exception):
    """This machine has no way to throttle a disk."""


def _disk_of(folder: Path) -> str:
    number = os.stat(folder).st_dev
    if os.major(number) == 0:
        raise Skipped(f"{folder} lies on no block device")
    disk = f"{os.major(number)}:{os.minor(number)}"
    if (Path("/sys/dev/block") / disk / "partition").exists():  # limits are the whole disk's
        disk = (Path("/sys/dev/block") / disk).resolve().parent.joinpath("dev").read_text().strip()
    return disk


def _limit_of(disk: str, bytes_per_second: int) -> tuple[Path, str, str]:
    """Where groups are made, the file that holds the limit, and what is to be written there."""
    if (CGROUPS / "blkio").is_dir():
        return CGROUPS / "blkio", "blkio.throttle.write_bps_device", f"{disk} {bytes_per_second}"
    if (CGROUPS / "cgroup.controllers").exists() and "io" in (CGROUPS / "cgroup.subtree_control").read_text().split():
        return CGROUPS, "io.max", f"{disk} wbps={bytes_per_second}"
    raise Skipped("no blkio (cgroup v1) or io (cgroup v2) controller is there")


def cpu_seconds_of(process: int) -> float:
    """User and system time of a living process."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def end_on_termination() -> None:
    """SIGTERM ends the program as an error does: what it has made is removed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))


@contextlib.contextmanager
def throttled_group(name: str, folder: Path, bytes_per_second: int) -> Iterator[Path]:
    """A control group whose members write to the folder's disk no faster; yields the file that processes join by."""
    above, file, limit = _limit_of(_disk_of(folder), bytes_per_second)
    group = above / f"kedge-bench-{os.getpid()}-{name}"
    try:
        group.mkdir()
    except OSError as error:
        raise Skipped(f"a control group cannot be made: {error}") from error
    try:
        try:
            (group / file).write_text(limit)
        except OSError as error:
            raise Skipped(f"{group / file} cannot be written: {error}") from error
        yield group / "cgroup.procs"
    finally:
        for _ in range(50):
            for member in (group / "cgroup.procs").read_text().split():  # ranks whose launcher was ended
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(member), signal.SIGKILL)
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.1)


class Node:
    """A virtual node: `folder` on the disk (tier, store, calibrations), `memory` for its pool, and a placement policy."""

    def __init__(self, folder: Path, memory: Path, policy: str, pool_mib: int, chunk_mib: int, store_mb: int) -> None:
        self.store = folder / "store"
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("KEDGE_")} | {
            "KEDGE_NODE": memory.name,
            "KEDGE_NODE_RUN_FOLDER": str(memory / "node"),
            "KEDGE_POOL_SIZE": f"{pool_mib}MiB",
            "KEDGE_CHUNK_SIZE": f"{chunk_mib}MiB",
            "KEDGE_CHUNK_PIECE": "2MiB",
            "KEDGE_TIER": f'[{{name="ssd", path="{folder / "ssd"}", capacity="4GiB"}}]',
            "KEDGE_STORE_PATH": str(self.store),
            "KEDGE_FLUSH_RATE": f"{store_mb}MB",
            "KEDGE_PLACEMENT_POLICY": policy,
            "KEDGE_PLACEMENT_CALIBRATIONS": str(folder / "calibrations"),
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
            "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_btl_vader_backing_directory": str(memory),
        }

    def run(self, *command: str | Path, group: Path | None = None, **environment: str) -> str:
        """The command's standard output; in the control group when one is given. Ends the program when the command fails."""
        words = [str(word) for word in command]
        if group is not None:
            words = ["sh", "-c", f'echo $$ > "{group}" && exec "$@"', "sh", *words]
        done = subprocess.run(words, env=self.environment | environment, stdout=subprocess.PIPE, text=True, timeout=900)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(words)} ended with {done.returncode}")
        return done.stdout

    @contextlib.contextmanager
    def agent(self) -> Iterator[int]:
        """The node's agent, outside of any control group; yields its process id."""
        agent = subprocess.Popen([BIN / "kedge", "agent"], env=self.environment | {"KEDGE_LOG": "warning"})
        try:
            socket = Path(self.environment["KEDGE_NODE_RUN_FOLDER"]) / "agent.sock"
            deadline = time.monotonic() + 20
            while not socket.exists():
                if agent.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"the agent has not come up: no {socket}")
                time.sleep(0.05)
            yield agent.pid
            self.run(BIN / "kedge", "agent", "--stop")
        finally:
            agent.terminate()
            agent.wait(30)
