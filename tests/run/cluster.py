"""A SLURM cluster of several virtual nodes on this machine, wholly inside one folder: munged, slurmctld, and a slurmd for each node.

Everything runs as the present user, on free ports of the loopback device, and is ended by process id. Commands are run with
environment(): SLURM_CONF points at the cluster.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

START_SECONDS = 120.0
PROGRAMS = ("munged", "slurmctld", "slurmd", "scontrol", "sinfo", "sbatch")


def program(name: str) -> str:
    """Debian has daemons in sbin, which is not on every user's PATH."""
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    assert found, f"{name} is not installed (scripts/setup lists its package)"
    return found


def free_ports(count: int) -> list[int]:
    """Below those that outgoing connections are given: none takes them before the daemons listen there."""
    first_given = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports: list[int] = []
    for port in random.sample(range(10000, first_given), first_given - 10000):
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
        ports.append(port)
        if len(ports) == count:
            return ports
    raise AssertionError(f"no {count} ports are free")


class Cluster:
    """Use as a context manager. `names` are the nodes; each has `cpus` processors, whatever the machine has."""

    def __init__(self, folder: Path, names: list[str], cpus: int = 2) -> None:
        self.folder, self.names, self._cpus = folder, names, cpus
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Cluster:
        try:
            self._configure()
            self._start_munge()
            self._start("slurmctld", ["-D", "-c"])
            for name in self.names:
                self._start(name, ["-D", "-N", name], "slurmd")
            self.until(lambda: self.states() == dict.fromkeys(self.names, "idle"), "all nodes are idle")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if "slurmctld" in self._daemons:
            with contextlib.suppress(subprocess.SubprocessError, OSError):
                self.run("scancel", "--full", "--signal=KILL", f"--user={getpass.getuser()}", check=False)
                self.until(lambda: not self.run("squeue", "-h", check=False).strip(), "jobs are gone", seconds=10, need=False)
        for daemon in self._daemons.values():
            daemon.terminate()
        for daemon in self._daemons.values():
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self._daemons.clear()
        self._end_steps()

    def environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "SBATCH_"))}
        return inherited | {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def run(self, *command: str, check: bool = True) -> str:
        done = subprocess.run([program(command[0]), *command[1:]], env=self.environment(), capture_output=True, text=True, timeout=60)
        assert not check or done.returncode == 0, f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}\n{self.logs()}"
        return done.stdout

    def states(self) -> dict[str, str]:
        lines = self.run("sinfo", "-N", "-h", "-o", "%N %T", check=False).splitlines()
        return dict(line.split()[:2] for line in lines)

    def kill_node(self, name: str, told: bool = True) -> None:
        """What a crash of the node looks like: its daemon and all that ran on it are gone, and with `told` the controller knows."""
        daemon = self._daemons.pop(name)
        daemon.kill()
        daemon.wait()
        self._end_steps(name)
        if told:
            self.run("scontrol", "update", f"nodename={name}", "state=down", "reason=killed by the test")

    def until(self, condition: Callable[[], bool], what: str, seconds: float = START_SECONDS, need: bool = True) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                assert not need, f"not within {seconds:g} s: {what}\n{self.states()}\n{self.logs()}"
                return
            time.sleep(0.1)

    def logs(self) -> str:
        return "\n".join(f"== {path.name}\n{path.read_text(errors='replace')[-2000:]}" for path in sorted(self.folder.glob("*.log")))

    def _configure(self) -> None:
        host = socket.gethostname().split(".")[0]
        controller, *nodes = free_ports(1 + len(self.names))
        for folder in ("state", *(f"spool.{name}" for name in self.names), *(f"tmp.{name}" for name in self.names)):
            (self.folder / folder).mkdir(mode=0o755)
        lines = [
            "ClusterName=kedge-test", f"SlurmctldHost={host}(127.0.0.1)", f"SlurmctldPort={controller}", f"SlurmUser={getpass.getuser()}",
            f"SlurmdUser={getpass.getuser()}", "AuthType=auth/munge", "CredType=cred/munge", f"AuthInfo=socket={self.folder}/munge.sock",
            "SlurmdParameters=config_overrides", "SelectType=select/cons_tres", "SelectTypeParameters=CR_CPU", "TaskPlugin=task/none",
            "ProctrackType=proctrack/linuxproc", "JobAcctGatherType=jobacct_gather/none", "MpiDefault=none", "SwitchType=switch/none",
            "ReturnToService=0", "KillWait=5", "SlurmdTimeout=30", "SlurmctldTimeout=30", "SchedulerParameters=sched_interval=1",
            f"StateSaveLocation={self.folder}/state", f"SlurmctldPidFile={self.folder}/slurmctld.pid",
            f"SlurmdPidFile={self.folder}/slurmd.%n.pid", f"SlurmdSpoolDir={self.folder}/spool.%n", f"TmpFS={self.folder}/tmp.%n",
            f"SlurmctldLogFile={self.folder}/slurmctld.log", f"SlurmdLogFile={self.folder}/slurmd.%n.log",
        ]
        lines += [
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={self._cpus} RealMemory=100 State=UNKNOWN"
            for name, port in zip(self.names, nodes, strict=True)
        ]
        lines.append(f"PartitionName=all Nodes={','.join(self.names)} Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO")
        (self.folder / "slurm.conf").write_text("\n".join(lines) + "\n")
        # Without it slurmd would look for one in its own place, and constrain nothing anyway.
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")

    def _start_munge(self) -> None:
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        arguments = ["--foreground", "--force", f"--key-file={key}", f"--socket={self.folder}/munge.sock", "--num-threads=2"]
        arguments += [f"--{kind}-file={self.folder}/munge.{kind}" for kind in ("pid", "seed", "log")]
        self._start("munge", arguments, "munged")
        self.until(lambda: (self.folder / "munge.sock").exists(), "munged listens")

    def _start(self, key: str, arguments: list[str], name: str | None = None) -> None:
        with (self.folder / f"{key}.out.log").open("ab") as output:
            self._daemons[key] = subprocess.Popen(
                [program(name or key), *arguments], env=self.environment(), stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True, cwd=self.folder,
            )

    def _end_steps(self, node: str | None = None) -> None:
        """Step managers and their tasks outlive a slurmd that was killed: they are known by this cluster's SLURM_CONF."""
        marks = [f"SLURM_CONF={self.folder}/slurm.conf".encode()]
        if node is not None:
            marks.append(f"SLURMD_NODENAME={node}".encode())
        for _ in range(3):
            found = [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and _has_all(int(entry), marks)]
            for process in found:
                _kill(process)
            if not found:
                return


def _has_all(process: int, marks: list[bytes]) -> bool:
    if process == os.getpid():
        return False
    with contextlib.suppress(OSError):
        variables = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
        return all(mark in variables for mark in marks)
    return False


def _kill(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(process)
        try:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            select.select([handle], [], [], 5)
        finally:
            os.close(handle)
