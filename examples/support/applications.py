"""The applications of the main job: how each is started, how big it is, and what must be equal at its end."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

THERMO_LINE = re.compile(r"^ +(\d+) ((?:\S+ ){4}\S+)\s*$")


@dataclasses.dataclass(frozen=True)
class Application:
    """One program with its size. `interval` is in steps; a checkpoint's version is its step."""

    title: str
    program: str
    cells: int
    steps: int
    interval: int

    def arguments(self, log: Path) -> list[str]:
        return [str(self.cells), str(self.steps), str(self.interval)]

    def versions(self) -> list[int]:
        return list(range(self.interval, self.steps + 1, self.interval))

    def result(self, output: str, logs: list[Path]) -> dict[str, str]:
        """What a finished run is compared by, as named texts; empty when the run has not printed it."""
        found = re.search(r"step (\d+), checksum ([0-9A-F]{16})", output)
        return {f"checksum of the field at step {found[1]}": found[2]} if found else {}

    def criterion(self) -> str:
        return "every bit of the field"


@dataclasses.dataclass(frozen=True)
class Lammps(Application):
    """The thermodynamic output is compared as text, with 17 digits: examples/lammps/README.md says why that holds."""

    potential: str = ""

    def arguments(self, log: Path) -> list[str]:
        return [*super().arguments(log), self.potential, str(log)]

    def result(self, output: str, logs: list[Path]) -> dict[str, str]:
        """The last thermo line of each step; later launches replace what an earlier one printed of the same step."""
        lines: dict[int, str] = {}
        for log in logs:
            for line in log.read_text(errors="replace").splitlines() if log.exists() else []:
                if found := THERMO_LINE.match(line):
                    lines[int(found[1])] = found[2]
        if "finished at step" not in output:
            return {}
        return {f"thermo output of step {step}": line for step, line in sorted(lines.items())}

    def criterion(self) -> str:
        return "temperature, energies and pressure of every printed step, to all 17 digits"


def differences(reference: dict[str, str], found: dict[str, str]) -> list[str]:
    """A line for each difference between two results; none means equal."""
    problems = [
        f"{name}: expected {reference.get(name, 'nothing')}, found {found.get(name, 'nothing')}"
        for name in {**reference, **found}
        if reference.get(name) != found.get(name)
    ]
    if not reference:
        problems.append("the uninterrupted run printed no result to compare with")
    return problems
