"""Figures as PNG, and a report as one self-contained HTML page: pictures inside, the numbers in tables.

Matplotlib is loaded only when something is drawn, with its file backend: no display is needed.
"""

from __future__ import annotations

import base64
import html
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kedge.plan.errors import PlanError
from kedge.plan.figure import Figure, Grid, Series
from kedge.plan.table import Cell, Table, html_table

STYLE = """\
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62em; margin: 2em auto; padding: 0 1em; color: #1a1a1a; }
h1 { font-size: 1.6em; } h2 { font-size: 1.25em; margin-top: 2.2em; border-bottom: 1px solid #ccc; }
img { max-width: 100%; display: block; margin: 1em 0; }
table { border-collapse: collapse; margin: 1em 0; font-size: 0.92em; }
caption { text-align: left; font-weight: 600; padding: 0.3em 0; }
th, td { padding: 0.2em 0.8em 0.2em 0; text-align: left; border-bottom: 1px solid #e4e4e4; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
pre { background: #f5f5f5; padding: 0.8em; overflow-x: auto; } .note { color: #555; }
"""


@dataclass(frozen=True)
class Section:
    """A part of a report: paragraphs, tables, figures with their tables, and text as it stands."""

    title: str
    paragraphs: Sequence[str] = ()
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    verbatim: str = ""
    notes: Sequence[str] = field(default_factory=tuple)


def figure_tables(figure: Figure) -> list[Table]:
    """The numbers of a figure: printed beside ours, then all series, then the map."""
    tables = []
    if figure.claims:
        rows: list[list[Cell]] = [
            [claim.what, claim.printed, claim.ours, claim.unit, _verdict(claim.met, claim.tolerance), claim.note]
            for claim in figure.claims
        ]
        header = ["what", "printed", "ours", "unit", "within", "note"]
        tables.append(Table(f"{figure.title}: the source's numbers and ours", header, rows))
    if figure.series:
        tables.append(_series_table(figure))
    if figure.grid is not None:
        tables.append(_grid_table(figure.grid, figure))
    return tables


def _verdict(met: bool | None, tolerance: float | None) -> str:
    if met is None or tolerance is None:
        return "not expected"
    return f"{tolerance:.0%}: {'yes' if met else 'NO'}"


def _series_table(figure: Figure) -> Table:
    """One row per x value, one column per series (two more for its confidence limits)."""
    positions = sorted({x for series in figure.series for x in series.x})
    header = [figure.x_label]
    columns: list[dict[float, float | None]] = []
    for series in figure.series:
        header.append(series.label)
        columns.append(dict(zip(series.x, series.y, strict=True)))
        for name, values in (("low", series.low), ("high", series.high)):
            if values:
                header.append(f"{series.label}, {name}")
                columns.append(dict(zip(series.x, values, strict=True)))
    rows: list[list[Cell]] = []
    for x in positions:
        shown: Cell = figure.categories[round(x)] if figure.categories else x
        rows.append([shown, *(column.get(x) for column in columns)])
    return Table(f"{figure.title}: {figure.y_label}", header, rows)


def _grid_table(grid: Grid, figure: Figure) -> Table:
    header = [f"{figure.y_label} / {figure.x_label}", *(f"{x:g}" for x in grid.x)]
    rows: list[list[Cell]] = [[y, *values] for y, values in zip(grid.y, grid.values, strict=True)]
    return Table(grid.label, header, rows, "empty: the schedule is not feasible")


def png_bytes(figure: Figure) -> bytes:
    """The figure as PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(8.0, 4.8), dpi=110, layout="constrained")
    FigureCanvasAgg(canvas)
    axes: Any = canvas.add_subplot()
    axes.set(title=figure.title, xlabel=figure.x_label, ylabel=figure.y_label)
    if figure.grid is not None:
        _draw_grid(canvas, axes, figure.grid)
    elif figure.bars:
        _draw_bars(axes, figure)
    else:
        for series in figure.series:
            _draw_line(axes, series)
        if figure.x_log:
            axes.set_xscale("log")
        if figure.y_log:
            axes.set_yscale("log")
        axes.grid(True, alpha=0.3)
    if figure.series:
        axes.legend(fontsize="small")
    buffer = io.BytesIO()
    canvas.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _draw_line(axes: Any, series: Series) -> None:
    values = [math.nan if y is None else y for y in series.y]
    (line,) = axes.plot(series.x, values, marker="o" if len(series.x) <= 12 else None, markersize=4, label=series.label)
    if series.low and series.high:
        low = [math.nan if y is None else y for y in series.low]
        high = [math.nan if y is None else y for y in series.high]
        axes.fill_between(series.x, low, high, alpha=0.2, color=line.get_color())


def _draw_bars(axes: Any, figure: Figure) -> None:
    """Grouped bars over figure.categories; x of a series are indices into them."""
    width = 0.8 / max(1, len(figure.series))
    for index, series in enumerate(figure.series):
        offsets = [x + (index - (len(figure.series) - 1) / 2.0) * width for x in series.x]
        axes.bar(offsets, [math.nan if y is None else y for y in series.y], width=width, label=series.label)
    axes.set_xticks(range(len(figure.categories)), figure.categories, rotation=30 if len(figure.categories) > 6 else 0)
    axes.grid(True, axis="y", alpha=0.3)


def _draw_grid(canvas: Any, axes: Any, grid: Grid) -> None:
    """A map; infeasible cells are left dark, as in the thesis."""
    values = [[math.nan if value is None else value for value in row] for row in grid.values]
    axes.set_facecolor("0.2")
    picture = axes.imshow(values, origin="lower", aspect="auto", cmap="viridis")
    axes.set_xticks(range(len(grid.x)), [f"{x:g}" for x in grid.x], rotation=60, fontsize="small")
    axes.set_yticks(range(len(grid.y)), [f"{y:g}" for y in grid.y], fontsize="small")
    canvas.colorbar(picture, ax=axes, label=grid.label)


def html_page(title: str, sections: Sequence[Section]) -> str:
    """One page that needs nothing beside it."""
    parts = [f"<!doctype html><html lang=en><head><meta charset=utf-8><title>{html.escape(title)}</title>"]
    parts.append(f"<style>{STYLE}</style></head><body><h1>{html.escape(title)}</h1>")
    for section in sections:
        parts.append(f"<h2>{html.escape(section.title)}</h2>")
        parts += [f"<p>{html.escape(text)}</p>" for text in section.paragraphs]
        parts += [html_table(table) for table in section.tables]
        for figure in section.figures:
            parts.append(_figure_html(figure))
        if section.verbatim:
            parts.append(f"<pre>{html.escape(section.verbatim)}</pre>")
        parts += [f"<p class=note>{html.escape(text)}</p>" for text in section.notes]
    parts.append("</body></html>\n")
    return "\n".join(parts)


def _figure_html(figure: Figure) -> str:
    picture = base64.b64encode(png_bytes(figure)).decode("ascii")
    parts = [f'<img alt="{html.escape(figure.title)}" src="data:image/png;base64,{picture}">']
    if figure.source:
        parts.append(f"<p class=note>Source: {html.escape(figure.source)}</p>")
    parts += [f"<p class=note>{html.escape(note)}</p>" for note in figure.notes]
    parts += [html_table(table) for table in figure_tables(figure)]
    return "\n".join(parts)


def write_file(path: str | Path, data: str | bytes, option: str = "output") -> None:
    """Write a result; PlanError names the option and the path where that fails."""
    try:
        Path(path).write_bytes(data.encode() if isinstance(data, str) else data)
    except OSError as error:
        raise PlanError(option, str(path), f"a path that can be written ({error.strerror})") from None
