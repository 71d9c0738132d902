"""Hosts that real sshds serve: keys, configuration and daemons of a test's own, for the user who runs it and for nobody else."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from cluster import free_ports, program
from machine import Machine, descendants
from processes import kill, kill_all, processes_with, ranks_that_sleep
from waiting import until

_DAEMON = """\
ListenAddress {address}
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/authorized
AllowUsers {user}
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
PidFile none
# The folder of the keys is in the one for temporary files, which everybody may write to.
StrictModes no
SetEnv {variables}
"""
_CLIENT = """\
Host {name}
  HostName {address}
  Port {port}
"""
_CLIENT_FOR_ALL = """\
Host *
  User {user}
  IdentityFile {folder}/identity
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known
  GlobalKnownHostsFile none
  # The default one against quantum computers takes more time of a processor than all the rest.
  KexAlgorithms curve25519-sha256
"""


class Ssh:
    """The keys, and the client's configuration, with which ``kedge run`` of a machine reaches every host that was added."""

    def __init__(self, machine: Machine) -> None:
        self._machine, self.folder = machine, (folder := machine.folder / "ssh")
        self.config = folder / "config"
        self._user = pwd.getpwuid(os.getuid()).pw_name
        machine.where = ["--ssh", f"ssh -F {self.config} -o ConnectTimeout=2"]
        # Open MPI's daemons have a folder each, as on different machines.
        del machine.settings["OMPI_MCA_orte_tmpdir_base"]
        machine.settings["TMPDIR"] = str(machine.folder)
        folder.mkdir(mode=0o700)
        for key in ("host", "identity"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True, timeout=60)
        shutil.copy(folder / "identity.pub", folder / "authorized")
        (folder / "known").write_text("* " + (folder / "host.pub").read_text())
        self.config.write_text(_CLIENT_FOR_ALL.format(user=self._user, folder=folder))
        if os.getuid() == 0:
            # Where an sshd of root locks up what has not logged in yet. Debian's service makes it and leaves it there, too.
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)

    def add(self, name: str, address: str, port: int, variables: Mapping[str, str]) -> list[str]:
        """A host, with what its commands find in their environment; the command line of its sshd, which logs to standard error."""
        path, temporary = self.folder / f"sshd.{name}", self._machine.folder / f"tmp.{name}"
        temporary.mkdir(mode=0o700, exist_ok=True)
        marks = {"MACHINE_OF_TEST": self._machine.folder.name, "HOST_OF_TEST": name}
        # Not the user's home: a shell reads there what may do anything and take any time.
        places = dict.fromkeys(("HOME", "TMPDIR"), str(temporary))
        settings = " ".join(f"{key}={value}" for key, value in {**marks, **places, **ranks_that_sleep(), **variables}.items())
        path.write_text(_DAEMON.format(address=address, port=port, folder=self.folder, user=self._user, variables=settings))
        # The first value counts: what holds for all stands at the end.
        self.config.write_text(_CLIENT.format(name=name, address=address, port=port) + self.config.read_text())
        return [program("sshd"), "-D", "-e", "-f", str(path)]


class SshHosts:
    """The nodes of a machine as hosts on the loopback device, each behind an sshd of its own. Use as a context manager."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> SshHosts:
        machine = self._machine
        self._ssh = Ssh(machine)
        try:
            for name in machine.names:
                self._start(name)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._daemons):
            self._kill(name)

    def lose(self, name: str) -> None:
        """The host is gone: its sshd, all that runs there, and its local storage."""
        self._kill(name)
        shutil.rmtree(self._machine.run_folders / name, ignore_errors=True)

    def hang(self, name: str) -> None:
        """Its kernel answers, and nothing else there does."""
        for process in [self._daemons[name].pid, *descendants(self._daemons[name].pid), *processes_on(name)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGSTOP)

    def _start(self, name: str) -> None:
        log = self._machine.folder / f"sshd.{name}.log"
        while True:
            (port,) = free_ports(1)
            command = self._ssh.add(name, "127.0.0.1", port, {"KEDGE_NODE": name})
            with log.open("wb") as output:
                daemon = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
            self._daemons[name] = daemon
            until(lambda: "Server listening" in log.read_text() or daemon.poll() is not None)
            if daemon.poll() is None:
                return
            assert "Address already in use" in log.read_text(), log.read_text()  # somebody was faster: another port

    def _kill(self, name: str) -> None:
        daemon = self._daemons.pop(name)
        served = descendants(daemon.pid)
        daemon.kill()
        daemon.wait()
        for process in served:
            kill(process)
        # Daemons that have left their session are known by what the sshd gave them.
        kill_all([_mark(name)])


def processes_on(host: str) -> list[int]:
    """What its sshd has started, and what came of that."""
    return processes_with([_mark(host)])


def _mark(host: str) -> bytes:
    return f"HOST_OF_TEST={host}".encode()
