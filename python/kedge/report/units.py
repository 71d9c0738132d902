"""Numbers as people read them."""

from __future__ import annotations

import time

NO_BREAK = "\u00a0"  # a blank at which no line ends
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def size(count: float) -> str:
    """Three digits, as the tools print them: 1.25 GiB."""
    unit = 0
    while count >= 1023.5 and unit < len(_SIZES) - 1:
        count /= 1024
        unit += 1
    return f"{count:.0f} B" if unit == 0 else f"{digits(count)} {_SIZES[unit]}"


def digits(value: float) -> str:
    """Three of them, without zeros behind the point."""
    text = f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def rate(bytes_per_second: float) -> str:
    return f"{size(bytes_per_second)}/s"


def span(seconds: float) -> str:
    """A duration: 35 ms, 4.2 s, 12 min, 3.5 h, 2.1 d."""
    for factor, unit, limit in ((1e6, "µs", 1e-3), (1e3, "ms", 1.0), (1.0, "s", 120.0), (1 / 60, "min", 7200.0), (1 / 3600, "h", 172800.0)):
        if seconds < limit:
            return f"{digits(seconds * factor)} {unit}" if seconds else "0 s"
    return f"{digits(seconds / 86400)} d"


def instant(wall_time_ns: int) -> str:
    """UTC, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(wall_time_ns / 1e9)) + " UTC"


def day(wall_time_ns: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(wall_time_ns / 1e9))


def exact(wall_time_ns: int) -> str:
    """UTC, to the millisecond: of tables."""
    milliseconds = wall_time_ns // 1_000_000 % 1000
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(wall_time_ns // 1_000_000_000)) + f".{milliseconds:03d}"


def short(name: str, letters: int = 36) -> str:
    """For a label: the middle of a long name is left out, because names that are alike differ at their ends."""
    head = letters // 2 - 1
    return name if len(name) <= letters else f"{name[:head]}…{name[head + 1 - letters:]}"


def count(number: int, noun: str, plural: str = "") -> str:
    """1 rank, 2 ranks."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}".replace(",", "\u202f")
