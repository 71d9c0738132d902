"""Command lines of the launchers: Open MPI's mpirun, MPICH's mpiexec, SLURM's srun, and fmirun of FMI."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass, field

from kedge.run.shells import kedge_variables, named_by_slurm

_PROGRAMS = {"openmpi": ("mpirun.openmpi", "mpirun"), "mpich": ("mpiexec.mpich", "mpiexec.hydra", "mpiexec"), "srun": ("srun",)}
LAUNCHERS = tuple(_PROGRAMS)
# Lines in which a launcher says that it starts nothing (LaunchErrors).
_REFUSALS = {
    "openmpi": rb"(There are not enough slots available .*)|\S*: Error: (unknown option .*)|\S+ was (unable to launch the specified application).*",
    "mpich": rb"\[mpiexec@.*\] match_arg .*: (unrecognized argument .*)|\[proxy.*\] HYDU_create_process .*: (execvp error .*)",
    "srun": rb"srun: error: (Unable to (?:create step|allocate) .*|Invalid .* specification.*)|srun: fatal: (.*)|srun: (unrecognized option .*)"
            rb"|slurmstepd: error: (execve.*)",
    "fmi": rb"fmirun: (unknown option .*|--?[a-z]+ .*|\d+ nodes, .*|rank \d+: start .*)",
}


@dataclass(frozen=True)
class Launcher:
    """One way to start ranks. `virtual`: the nodes are virtual ones on this machine. `ssh`: how hosts are reached; empty: its own way.

    `nodes`, of fmirun: so many have ranks, and the others are its spares. `state`, of fmirun: where it leaves what a successor needs.
    `more`, of fmirun: a command that is asked for another node.
    """

    kind: str
    program: str
    virtual: bool = False
    options: list[str] = field(default_factory=list)
    ssh: list[str] = field(default_factory=list)
    nodes: int = 0
    state: str = ""
    more: str = ""

    @property
    def replaces_nodes(self) -> bool:
        """Whether a launch goes on when a node dies."""
        return self.kind == "fmi"

    def command(self, nodes: list[str], ranks: int, application: list[str]) -> list[str]:
        """Starts `ranks` ranks, in order, spread evenly over `nodes`."""
        if self.kind == "fmi":
            return self._fmirun(nodes, ranks, application)
        counts = spread(ranks, len(nodes))
        shares = [(node, count) for node, count in zip(nodes, counts, strict=True) if count > 0]
        if self.kind == "srun":
            return self._srun(shares, ranks, application)
        return self._openmpi(shares, application) if self.kind == "openmpi" else self._mpich(shares, application)

    def successor(self) -> list[str]:
        """Goes on with a launch whose launcher has died; nothing where its ranks have died, too."""
        return [self.program, "--take-over", self.state] if self.kind == "fmi" else []

    def refusals(self) -> re.Pattern[bytes]:
        """For LaunchErrors."""
        return re.compile(_REFUSALS[self.kind])

    def environment(self) -> dict[str, str]:
        """For the command. MPICH's takes options of ssh from nowhere else."""
        if self.kind != "mpich" or not self.ssh[1:]:
            return dict(os.environ)
        extra = [os.environ.get("HYDRA_LAUNCHER_EXTRA_ARGS", ""), *self.ssh[1:]]
        return os.environ | {"HYDRA_LAUNCHER_EXTRA_ARGS": " ".join(filter(None, extra))}

    def _variables(self) -> list[str]:
        """What the ranks are to inherit; each part of a launch on virtual nodes names its node itself."""
        return sorted(name for name in kedge_variables() if not (self.virtual and name == "KEDGE_NODE"))

    def _srun(self, shares: list[tuple[str, int]], ranks: int, application: list[str]) -> list[str]:
        head = [self.program, "--overlap", f"--nodes={len(shares)}", f"--ntasks={ranks}", "--kill-on-bad-exit=1"]
        # A list in this order, each node as often as it has ranks, would need a host file; block distribution does the same.
        head += [f"--nodelist={','.join(node for node, _ in shares)}", "--distribution=block", "--input=none"]
        head += [f"--ntasks-per-node={max(count for _, count in shares)}", *self.options]
        return [*head, *(named_by_slurm(application) if self.virtual else application)]

    def _openmpi(self, shares: list[tuple[str, int]], application: list[str]) -> list[str]:
        # Virtual nodes may well be more than the processors of their machine, which Open MPI takes for its number of slots.
        head = [self.program, *(["--oversubscribe"] if self.virtual else [])]
        head += [*(["--mca", "plm_rsh_agent", " ".join(self.ssh)] if self.ssh else []), *self.options]
        for name in self._variables():
            head += ["-x", name]
        if self.virtual:
            parts = [["-x", f"KEDGE_NODE={node}", "-np", str(count), *application] for node, count in shares]
            return [*head, *_joined(parts)]
        hosts = ",".join(f"{node}:{count}" for node, count in shares)
        return [*head, "--host", hosts, "-np", str(sum(count for _, count in shares)), *application]

    def _mpich(self, shares: list[tuple[str, int]], application: list[str]) -> list[str]:
        variables = self._variables()
        head = [self.program, *(["-launcher", "ssh", "-launcher-exec", self.ssh[0]] if self.ssh else []), *self.options]
        head += [*(["-genvlist", ",".join(variables)] if variables else [])]
        if self.virtual:
            parts = [["-n", str(count), "-env", "KEDGE_NODE", node, *application] for node, count in shares]
            return [*head, *_joined(parts)]
        hosts = ",".join(f"{node}:{count}" for node, count in shares)
        return [*head, "-hosts", hosts, "-n", str(sum(count for _, count in shares)), *application]

    def _fmirun(self, nodes: list[str], ranks: int, application: list[str]) -> list[str]:
        head = [self.program, "-n", str(ranks), "--virtual" if self.virtual else "--hosts", ",".join(nodes)]
        head += ["--more", self.more] if self.more else []
        head += ["--spares", str(max(0, len(nodes) - self.nodes)), *(["--shell", shlex.join(self.ssh)] if self.ssh else [])]
        return [*head, "--state", self.state, *self.options, *application]


def _joined(parts: list[list[str]]) -> list[str]:
    joined = list(parts[0])
    for part in parts[1:]:
        joined += [":", *part]
    return joined


def spread(ranks: int, nodes: int) -> list[int]:
    """Ranks for each node: blocks of equal size, the last nodes with the rest, as srun's block distribution has it."""
    return [ranks // nodes + (1 if node < ranks % nodes else 0) for node in range(nodes)]


def find_launcher(kind: str, in_slurm: bool, virtual: bool, options: list[str], ssh: list[str]) -> Launcher:
    """The launcher of that name; "auto" is srun inside an allocation, else what mpirun on PATH is. ValueError: there is none."""
    # Both MPIs take words apart at blanks, and Open MPI alternatives at colons, whatever the quotes.
    if wrong := [word for word in ssh if set(word) & set(" \t:")]:
        raise ValueError(f"--ssh: launchers cannot be told '{wrong[0]}' (it has a blank or a colon); write it in a file for ssh -F")
    if kind == "auto":
        kind = "srun" if in_slurm else _kind_of_mpirun()
    for name in _PROGRAMS[kind]:
        if program := shutil.which(name):
            return Launcher(kind, program, virtual, options, ssh)
    raise ValueError(f"the launcher of {kind} is not there: looked for {', '.join(_PROGRAMS[kind])} on PATH")


def _kind_of_mpirun() -> str:
    for name in ("mpirun", "mpiexec"):
        if program := shutil.which(name):
            told = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30)
            return "openmpi" if "Open MPI" in told.stdout + told.stderr else "mpich"
    raise ValueError("neither mpirun nor mpiexec is on PATH, and this is no SLURM allocation; name one with --launcher")
