"""The table that closes the main job, in the terms of the documentation, and its figures as text."""

from __future__ import annotations

from typing import Any

COLUMNS = (
    "launch", "ended", "checkpoints", "blocked, s", "durable, s", "to pool", "to directory", "through",
    "restored", "from", "restore, s",
)
TIERS = ("pool", "directory", "through")
LEGEND = (
    "blocked: in checkpoint calls, on the slowest rank, all of the launch; durable: from the call to the version record in the store, median; "
    "to: bytes of all ranks\ncaptured into each kind of tier, through: straight to the store; from: where the restored bytes were read; "
    "restore: on the slowest rank."
)


def size(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.2f} GiB"


def written(count: float) -> str:
    return size(count) if count else "-"


def seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}" if value < 1 else f"{value:.2f}"


def sources(restored: dict[str, int]) -> str:
    """Where the restored bytes came from, the largest share first."""
    total = sum(restored.values())
    parts = sorted(((count, name) for name, count in restored.items() if count), reverse=True)
    return ", ".join(name if count == total else f"{name} {size(count)}" for count, name in parts) or "-"


def cells(row: dict[str, Any], name: str) -> tuple[str, ...]:
    checkpoints = str(row["checkpoints"]) + (f" ({row['checkpoints_inline']} inline)" if row["checkpoints_inline"] else "")
    version = "-" if row["restored_version"] is None else str(row["restored_version"])
    return (
        name, row["end"], checkpoints, seconds(row["blocked_seconds"]), seconds(row["durable_seconds"]),
        *(written(row["bytes"][tier]) for tier in TIERS),
        version, sources(row["restored_bytes"]), seconds(row["restart_seconds"]),
    )


def render(title: str, rows: list[dict[str, Any]]) -> str:
    """A plain table: the uninterrupted run first, then the launches, then their sums."""
    lines: list[tuple[str, ...]] = [COLUMNS]
    for row in rows:
        lines.append(cells(row, str(row["launch"]) if row["launch"] else "uninterrupted"))
    launches = rows[1:]
    lines.append((
        "all", f"{sum(row['killed'] for row in launches)} killed", str(sum(row["checkpoints"] for row in launches)),
        seconds(sum(row["blocked_seconds"] for row in launches)), "",
        *(written(sum(row["bytes"][tier] for row in launches)) for tier in TIERS), "", "",
        seconds(sum(row["restart_seconds"] or 0 for row in launches)),
    ))
    widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
    rule = "-" * len(text[0])
    return "\n".join([title, text[0], rule, *text[1:-1], rule, text[-1]])
