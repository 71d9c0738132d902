"""Virtual nodes of a test's own, and ``kedge run`` on them; whatever still runs on one afterwards is ended, by process id."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from processes import kill, kill_all, processes_with, ranks_that_sleep

BUILD = Path(os.environ["BUILD_FOLDER"])
KEDGE = BUILD / "bin" / "kedge"
NUMBERS = itertools.count()


def descendants(ancestor: int) -> list[int]:
    """Children, their children and so on."""
    parents: dict[int, int] = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            parents[int(entry)] = int(Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()[1])
    found = [ancestor]
    for process in found:
        found += [child for child, parent in parents.items() if parent == process]
    return found[1:]


class Machine:
    """Virtual nodes with names of their own on this machine, and a store that they share."""

    def __init__(self, nodes: int = 4) -> None:
        # Short: daemons put sockets there, whose paths must not be long.
        self.folder = folder = Path(tempfile.mkdtemp(prefix="kr-"))
        self.names = [f"kr{os.getpid()}-{next(NUMBERS)}" for _ in range(nodes)]
        self.run_folders = Path("/dev/shm") / f"kedge-{os.getuid()}"
        self.store = folder / "store"
        self.where = ["--virtual"]  # how kedge run is told to reach the nodes
        self.hosts = [f"--hosts={','.join(self.names)}"]
        self.enter: list[str] = []  # what starts kedge run elsewhere
        self.settings = {
            "KEDGE_STORE_PATH": str(self.store), "KEDGE_POOL_SIZE": "32MiB", "KEDGE_SCHEDULE_INTERVAL": "200ms",
            "MACHINE_OF_TEST": folder.name, "KEDGE_AGENT_IDLE_TIMEOUT": "20s", "KEDGE_WAIT_TIMEOUT": "60s",
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_btl_vader_backing_directory": str(folder), "OMPI_MCA_orte_tmpdir_base": str(folder),
            **ranks_that_sleep(),
        }

    def environment(self) -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if not name.startswith(("KEDGE_", "SLURM_"))} | self.settings

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """``kedge run`` with these arguments on all nodes; see finish()."""
        log = (self.folder / f"run-{next(NUMBERS)}.log").open("w+")
        command = [*self.enter, str(KEDGE), "run", "--json", *self.where, *self.hosts, "--heartbeat=1s", "--back-off=0.2s", *arguments]
        process = subprocess.Popen(command, env=self.environment(), cwd=self.folder, stdout=subprocess.PIPE, stderr=log, text=True)
        process.log = log  # type: ignore[attr-defined]
        return process

    def log(self, process: subprocess.Popen[str]) -> str:
        return Path(process.log.name).read_text()  # type: ignore[attr-defined, no-any-return]

    def end_of(self, process: subprocess.Popen[str], expect: int) -> tuple[str, str]:
        """What was printed by the time it ended with this code: to standard output, and beside it."""
        try:
            output, _ = process.communicate(timeout=240)
        except subprocess.TimeoutExpired:
            self.kill_all()  # ranks have the pipe too, and outlive kedge run
            process.communicate()
            raise AssertionError(f"kedge run does not end\n{self.log(process)}") from None
        log = self.log(process)
        assert process.returncode == expect, f"exit code {process.returncode}\n{output}\n{log}"
        return output, log

    def finish(self, process: subprocess.Popen[str], expect: int = 0) -> tuple[dict[str, Any], str]:
        """The report, and everything that was printed beside it."""
        output, log = self.end_of(process, expect)
        return json.loads(output.splitlines()[-1]), log

    def run(self, *arguments: str, expect: int = 0) -> tuple[dict[str, Any], str]:
        return self.finish(self.start(*arguments), expect)

    def versions(self) -> list[int]:
        """Complete versions in the store, newest first."""
        done = subprocess.run([KEDGE, "ls", "--json"], env=self.environment(), capture_output=True, text=True, timeout=60)
        return [entry["version"] for entry in json.loads(done.stdout)["versions"] if entry["complete"]] if done.returncode == 0 else []

    def sessions(self, node: str) -> int:
        """How many processes its agent serves."""
        command = [KEDGE, "status", "--json", "--set", f"node.name={node}"]
        done = subprocess.run(command, env=self.environment(), capture_output=True, text=True, timeout=60)
        return len(json.loads(done.stdout)["sessions"]) if done.returncode == 0 else 0

    def protected(self, node: str) -> list[int]:
        """The versions of its agent that survive the loss of a node."""
        return self.reached(node, "node")

    def reached(self, node: str, level: str) -> list[int]:
        """The versions of its agent that are at this level."""
        command = [KEDGE, "status", "--json", "--set", f"node.name={node}"]
        done = subprocess.run(command, env=self.environment(), capture_output=True, text=True, timeout=60)
        versions = [version for job in json.loads(done.stdout)["jobs"] for version in job["versions"]] if done.returncode == 0 else []
        return [entry["version"] for entry in versions if {"level": level, "reached": True} in entry["levels"]]

    def endless(self, program: Path, cells: int) -> list[str]:
        """heat3d, which goes on until a launch begins after end_after(); slowly, so that what disturbs it gets the processors."""
        return ["sh", "-c", f"exec {program} {cells} $(cat {self.folder}/steps 2>/dev/null || echo 10000000) 0 2"]

    def end_after(self, versions: list[int]) -> None:
        """The next launch of what endless() returned goes some way past these versions, and ends."""
        (self.folder / "steps").write_text(str(max(versions) + 500))

    def ranks_on(self, node: str, program: str) -> list[int]:
        found = processes_with([f"KEDGE_NODE={node}".encode()])
        return [process for process in found if name_of(process).startswith(program[:15])]

    def probe(self) -> str:
        return f"sh -c 'test ! -e {self.folder}/dead.$KEDGE_NODE'"

    def lose(self, node: str) -> None:
        """The node is gone: its processes, its memory; and the health probe sees it."""
        (self.folder / f"dead.{node}").touch()
        self.reboot(node)

    def reboot(self, node: str) -> None:
        """Its processes and its memory are gone, and the node is there."""
        found = processes_with([f"KEDGE_NODE={node}".encode()])
        # Ranks first: one that lives would start another agent.
        for process in sorted(found, key=lambda process: name_of(process).startswith("kedge-agent")):
            kill(process)
        shutil.rmtree(self.run_folders / node, ignore_errors=True)

    def kill_all(self) -> None:
        kill_all([f"MACHINE_OF_TEST={self.folder.name}".encode()])

    def clean(self) -> None:
        self.kill_all()
        for folder in [self.folder, *(self.run_folders / node for node in self.names)]:
            shutil.rmtree(folder, ignore_errors=True)


def name_of(process: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/comm").read_text().strip()
    return ""


def result(text: str) -> tuple[int, str]:
    """The last step and the checksum that heat3d printed at its end."""
    found = re.findall("step ([0-9]+), checksum ([0-9A-F]{16})", text)
    assert found, f"heat3d has not come to its end\n{text}"
    return int(found[-1][0]), str(found[-1][1])
