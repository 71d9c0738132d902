"""scripts/setup on machines made for the test: dpkg, apt-get, sudo and Python are small stand-ins that record their calls."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BORROWED = ("bash", "env", "dirname", "comm", "sed", "sort", "cat", "rm", "mkdir", "chmod")

DPKG_QUERY = """
while [[ $1 == --* ]]; do [[ $1 == *=* || $1 == --show ]] && shift || shift 2; done
for name in "$@"; do
  if ! grep -qx "$name" "$MACHINE/missing"; then echo "installed $name"; fi
done
"""
APT_GET = """
echo "apt-get $*" >> "$MACHINE/calls"
if [[ -e $MACHINE/no-network ]]; then echo "E: no network" >&2; exit 100; fi
for word in "$@"; do if [[ $word == install ]]; then : > "$MACHINE/missing"; fi; done
"""
PYTHON = """
if [[ $2 == - && -e $MACHINE/python-lacks-packages ]]; then exit 1; fi
if [[ $1 == -m ]]; then echo "pip $*" >> "$MACHINE/calls"; rm -f "$MACHINE/python-lacks-packages"; fi
"""


@dataclass
class Machine:
    """A folder that stands for a machine: its programs, what it lacks, and the calls made so far."""

    folder: Path

    def program(self, name: str, body: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(f"#!{shutil.which('bash')}\n{body}\n")
        path.chmod(0o755)

    def lacks(self, *packages: str) -> None:
        (self.folder / "missing").write_text("".join(f"{package}\n" for package in packages))

    def set_up(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "calls").write_text("")
        environment = {"PATH": str(self.folder / "bin"), "MACHINE": str(self.folder)}
        script = self.folder / "project" / "scripts" / "setup"
        return subprocess.run([str(script), *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False)

    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()

    def installs(self) -> list[str]:
        return [call for call in self.calls() if " install " in call and call.startswith("apt-get")]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine with root and everything installed."""
    made = Machine(tmp_path)
    (tmp_path / "bin").mkdir()
    for name in (*BORROWED, "grep"):
        found = shutil.which(name)
        assert found is not None
        os.symlink(found, tmp_path / "bin" / name)
    made.program("dpkg-query", DPKG_QUERY)
    made.program("apt-get", APT_GET)
    made.program("id", "echo 0")
    made.program("sleep", "true")
    (tmp_path / "project" / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "setup", tmp_path / "project" / "scripts" / "setup")
    (tmp_path / "project" / ".venv" / "bin").mkdir(parents=True)
    made.program("../project/.venv/bin/python", PYTHON)
    made.lacks()
    return made


def test_nothing_missing_means_nothing_done(machine: Machine) -> None:
    result = machine.set_up()
    assert (result.returncode, result.stdout, machine.calls()) == (0, "", [])


def test_only_what_is_missing_is_installed_after_one_update(machine: Machine) -> None:
    machine.lacks("liburing-dev", "mpich")
    result = machine.set_up()
    assert result.returncode == 0, result.stderr
    assert sum(call.endswith(" update") for call in machine.calls()) == 1
    assert len(machine.installs()) == 1
    assert machine.installs()[0].endswith(" liburing-dev mpich")


def test_the_main_job_takes_neither_what_tests_need_nor_a_python_of_its_own(machine: Machine) -> None:
    machine.lacks("mpich", "chromium-headless-shell")
    (machine.folder / "python-lacks-packages").touch()
    assert (machine.set_up("run").returncode, machine.calls()) == (0, [])
    machine.lacks("mpich", "liblammps-dev")
    assert machine.set_up("run").returncode == 0
    assert machine.installs()[0].endswith(" liblammps-dev")
    assert machine.set_up("runs").returncode == 1


def test_a_package_removed_later_is_noticed(machine: Machine) -> None:
    assert machine.set_up().returncode == 0
    machine.lacks("lammps")
    assert machine.set_up().returncode == 0
    assert machine.installs()[0].endswith(" lammps")


def test_a_user_gets_root_through_sudo(machine: Machine) -> None:
    machine.lacks("lammps")
    machine.program("id", "echo 1000")
    machine.program("sudo", 'echo "sudo $*" >> "$MACHINE/calls"; exec "$@"')
    assert machine.set_up().returncode == 0
    assert any(call.startswith("sudo ") for call in machine.calls())


def test_a_user_without_sudo_is_told_what_is_missing(machine: Machine) -> None:
    machine.lacks("lammps")
    machine.program("id", "echo 1000")
    result = machine.set_up()
    assert result.returncode == 1
    assert "root or sudo: lammps" in result.stderr
    assert machine.calls() == []


def test_apt_is_tried_three_times_and_its_message_shown(machine: Machine) -> None:
    machine.lacks("lammps")
    (machine.folder / "no-network").touch()
    result = machine.set_up()
    assert result.returncode == 1
    assert result.stderr.count("E: no network") == 3
    assert "check the network" in result.stderr


def test_apt_that_claims_success_is_not_believed(machine: Machine) -> None:
    machine.lacks("lammps")
    machine.program("apt-get", "true")
    result = machine.set_up()
    assert result.returncode == 1
    assert "not installed: lammps" in result.stderr


def test_another_system_is_told_which_packages_are_needed(machine: Machine) -> None:
    (machine.folder / "bin" / "dpkg-query").unlink()
    result = machine.set_up()
    assert result.returncode == 1
    assert "not a Debian-like system" in result.stderr
    assert "libfabric-dev" in result.stderr


def test_missing_python_packages_are_installed_into_the_environment(machine: Machine) -> None:
    (machine.folder / "python-lacks-packages").touch()
    result = machine.set_up()
    assert result.returncode == 0, result.stderr
    assert machine.calls()[0].startswith("pip -m pip install")
    assert "nanobind>=2" in machine.calls()[0]
