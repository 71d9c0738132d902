"""The systems that are shipped with the planner, and how a name or a path on a command line is found."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from kedge.plan.checks import Table
from kedge.plan.errors import PlanError
from kedge.plan.system import System, load_system, load_table, parse_system


def shipped_names() -> list[str]:
    """The names of the shipped systems, in order."""
    folder = resources.files("kedge.plan") / "systems"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def shipped_system(name: str) -> System:
    """A shipped system by name."""
    with resources.as_file(resources.files("kedge.plan") / "systems" / f"{name}.toml") as path:
        return load_system(path)


def find_table(name_or_path: str) -> Table:
    """The parsed TOML of the file of that path, or else of the shipped system of that name.

    Raises PlanError with the shipped names where there is neither.
    """
    if Path(name_or_path).is_file():
        return load_table(name_or_path)
    names = shipped_names()
    if name_or_path not in names:
        raise PlanError("system", name_or_path, f"a TOML file that exists, or one of {', '.join(names)}")
    with resources.as_file(resources.files("kedge.plan") / "systems" / f"{name_or_path}.toml") as path:
        return load_table(path)


def find_system(name_or_path: str) -> System:
    """The system in the file of that path, or else the shipped one of that name; PlanError as find_table."""
    if Path(name_or_path).is_file():
        return load_system(name_or_path)
    return parse_system(find_table(name_or_path))
