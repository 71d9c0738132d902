"""``kedge plan figures``: computes the literature's figures anew and shows them beside what was printed.

Every module ``kedge.plan.figures_*`` holds a registry FIGURES of functions; all of them, or those named, are run in
parallel. The folder gets figures.json (everything), figures.txt (tables), one PNG per figure and index.html, one page
that holds it all.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import inspect
import json
import pkgutil
from collections.abc import Sequence
from pathlib import Path

import kedge.plan
from kedge.plan import cli
from kedge.plan.errors import PlanError
from kedge.plan.figure import Figure, FigureMaker
from kedge.plan.parallel import Progress, map_parallel, processors
from kedge.plan.report import Section, figure_tables, html_page, png_bytes, write_file
from kedge.plan.table import Table, text_table

DESCRIPTION = """\
Compute the figures and tables of the literature anew, each beside the printed numbers. Writes figures.json,
figures.txt, index.html and a PNG per figure to a folder. The exit code is 1 where a number that should be met is not.
"""


def add(subparsers: cli.Subparsers) -> None:
    """Add the parser of this command."""
    parser = subparsers.add_parser(
        "figures",
        help="the literature's figures, computed anew",
        description=DESCRIPTION,
        epilog="example:\n  kedge plan figures --output figures",
        formatter_class=cli.Formatter,
    )
    parser.add_argument("key", nargs="*", metavar="KEY", help="figures to compute (default: all; see --list)")
    parser.add_argument("--list", action="store_true", help="list the figures")
    parser.add_argument("--output", metavar="DIR", default="kedge-figures", help="folder (default %(default)s)")
    parser.add_argument("--processes", type=int, default=processors(), metavar="N", help="default: all processors")
    cli.add_json_argument(parser)
    parser.set_defaults(run=run)


def registry() -> dict[str, FigureMaker]:
    """All figures by key, in the order of their numbers."""
    makers: dict[str, FigureMaker] = {}
    for module in pkgutil.iter_modules(kedge.plan.__path__):
        if module.name.startswith("figures_"):
            found: dict[str, FigureMaker] = importlib.import_module(f"kedge.plan.{module.name}").FIGURES
            twice = sorted(makers.keys() & found.keys())
            if twice:
                raise RuntimeError(f"figure {twice[0]} is registered twice, the second time in {module.name}")
            makers.update(found)
    return dict(sorted(makers.items(), key=lambda item: _order(item[0])))


def _order(key: str) -> tuple[tuple[int, int | str], ...]:
    """Sorts 4.9 before 4.10."""
    parts = key.replace(".", "-").split("-")
    return tuple((0, int(part)) if part.isdigit() else (1, part) for part in parts)


def make(key: str) -> Figure:
    """Compute one figure; runs in a process of its own."""
    return registry()[key]()


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out; returns the exit code."""
    makers = registry()
    if arguments.list:
        for key, maker in makers.items():
            summary = (inspect.getdoc(maker) or "").split("\n")[0]
            print(f"{key:<22} {summary}")
        return 0
    for key in arguments.key:
        if key not in makers:
            raise PlanError("KEY", key, f"one of {', '.join(makers)}")
    if arguments.processes < 1:
        raise PlanError("--processes", arguments.processes, "a whole number of at least 1")
    folder = _folder(arguments.output)
    keys = list(dict.fromkeys(arguments.key)) or list(makers)
    progress = None if arguments.json else Progress("figures")
    figures = map_parallel(make, keys, processes=arguments.processes, progress=progress)
    _write(folder, figures)
    if arguments.json:
        cli.print_json(_answer(figures))
    else:
        print(_claims(figures))
        print(f"\n{len(figures)} figures in {folder}: index.html, figures.json, figures.txt, and a PNG each")
    return 0 if all(claim.met is not False for figure in figures for claim in figure.claims) else 1


def _folder(path: str) -> Path:
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PlanError("--output", path, f"a folder that can be made ({error.strerror})") from None
    return folder


def _answer(figures: Sequence[Figure]) -> dict[str, object]:
    answer: dict[str, object] = {}
    for figure in figures:
        entry = dataclasses.asdict(figure)
        for claim, described in zip(figure.claims, entry["claims"], strict=True):
            described["met"] = claim.met
        answer[figure.key] = entry
    return {"figures": answer}


def _tables(figures: Sequence[Figure]) -> str:
    parts = []
    for figure in figures:
        parts.append("\n\n".join(text_table(table) for table in figure_tables(figure)))
        parts.extend(f"  {note}" for note in figure.notes)
    return "\n\n".join(parts)


def _claims(figures: Sequence[Figure]) -> str:
    """Printed numbers beside ours, for the terminal; everything else is in the files."""
    parts = []
    for figure in figures:
        if figure.claims:
            rows = [
                (claim.what, claim.printed, claim.ours, claim.unit, claim.met, claim.note) for claim in figure.claims
            ]
            header = ("what", "printed", "ours", "unit", "met", "note")
            parts.append(text_table(Table(f"{figure.key}: {figure.title}", header, rows)))
    return "\n\n".join(parts)


def _write(folder: Path, figures: Sequence[Figure]) -> None:
    write_file(folder / "figures.json", json.dumps(cli.finite(_answer(figures)), indent=2) + "\n")
    write_file(folder / "figures.txt", _tables(figures) + "\n")
    for figure in figures:
        write_file(folder / f"{figure.key}.png", png_bytes(figure))
    sections = [Section(figure.title, figures=[figure]) for figure in figures]
    write_file(folder / "index.html", html_page("Kedge planner: the literature's figures, computed anew", sections))
