"""The nodes of a machine as hosts with a network each, behind an sshd each, and links that a test cuts."""

from __future__ import annotations

from hosts import Hosts
from machine import Machine, descendants, name_of
from processes import kill
from sshd import Ssh

_PORT = 2222


class Network:
    """``kedge run`` runs on one more host, where the links of the nodes end. Use as a context manager."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def __enter__(self) -> Network:
        machine = self._machine
        ssh = Ssh(machine)
        daemons = {name: ssh.add(name, f"10.77.0.{number}", _PORT, {}) for number, name in enumerate(machine.names, 2)}
        self._hosts = Hosts(machine.folder / "net", [f"{machine.names[0]}-front", *machine.names], daemons)
        self.cut, self.mend, self.part, self.join = self._hosts.cut, self._hosts.mend, self._hosts.part, self._hosts.join
        try:
            for name in machine.names:
                self._hosts.await_line("Server listening", f"{name}.out")
        except BaseException:
            self.__exit__()
            raise
        machine.enter = self._hosts.entered()
        return self

    def __exit__(self, *_: object) -> None:
        # Those that serve somebody would wait for an answer over a link that is cut.
        for process in descendants(self._hosts.process.pid):
            if name_of(process) == "sshd":
                kill(process)
        self._hosts.end()
