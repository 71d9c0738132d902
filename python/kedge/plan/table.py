"""A table of results: written as text for a terminal, as HTML for a page."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

Cell = str | float | int | bool | None


@dataclass(frozen=True)
class Table:
    """``rows`` of equal length under ``header``; numbers are written with five significant digits."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""


def cell_text(cell: Cell) -> str:
    """How one cell reads: empty for None, yes or no, numbers short."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        if math.isfinite(cell) and cell == int(cell) and abs(cell) < 1e9:
            return str(int(cell))
        return f"{cell:.5g}"
    return str(cell)


def duration_text(seconds: float) -> str:
    """Seconds as a person says them: 42.5 s, 1 h 08 min, 12.3 days."""
    if not math.isfinite(seconds):
        return "never"
    if seconds < 120.0:
        return f"{seconds:.3g} s"
    if seconds < 7200.0:
        return f"{seconds:.0f} s ({seconds / 60.0:.0f} min)"
    if seconds < 172800.0:
        return f"{seconds:.0f} s ({seconds / 3600.0:.1f} hours)"
    return f"{seconds:.0f} s ({seconds / 86400.0:.1f} days)"


def text_table(table: Table) -> str:
    """Columns aligned, numbers to the right, the title above and the note below."""
    rows = [[cell_text(cell) for cell in row] for row in table.rows]
    widths = [max(len(row[column]) for row in [list(table.header), *rows]) for column in range(len(table.header))]
    numeric = [
        all(isinstance(row[column], (int, float, type(None))) for row in table.rows)
        for column in range(len(table.header))
    ]

    def line(cells: Sequence[str]) -> str:
        parts = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(cells, widths, numeric, strict=True)
        ]
        return "  ".join(parts).rstrip()

    head = [line(table.header), line(["-" * width for width in widths])] if any(table.header) else []
    lines = [*head, *(line(row) for row in rows)]
    return "\n".join([table.title, *(f"  {text}" for text in lines), *([f"  {table.note}"] if table.note else [])])


def html_table(table: Table) -> str:
    """The same as an HTML table with a caption."""
    names = "".join(f"<th>{html.escape(name)}</th>" for name in table.header)
    head = f"<thead><tr>{names}</tr></thead>" if any(table.header) else ""
    body = "\n".join(
        "<tr>"
        + "".join(
            f"<td{' class=number' if isinstance(cell, (int, float)) and not isinstance(cell, bool) else ''}>"
            f"{html.escape(cell_text(cell))}</td>"
            for cell in row
        )
        + "</tr>"
        for row in table.rows
    )
    note = f"<p class=note>{html.escape(table.note)}</p>" if table.note else ""
    caption = f"<caption>{html.escape(table.title)}</caption>"
    return f"<table>{caption}{head}<tbody>\n{body}\n</tbody></table>{note}"
