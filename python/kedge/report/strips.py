"""What the pictures are made of: rows of a label, a strip of SVG and a value, over one axis.

Strips are drawn in per cent of their width, so that they fit any window while text keeps its size.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Sequence

from kedge.report.markup import Content, Markup, tag
from kedge.report.units import digits, exact

_STEPS_OF_TIME = (
    1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200,
    1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000, 864000, 2592000, 7776000, 31536000,
)  # fmt: skip
_UNITS_OF_TIME = (("d", 86400.0, 86400.0), ("h", 3600.0, 3600.0), ("min", 60.0, 60.0), ("s", 1.0, 0.1), ("ms", 1e-3, 1e-4))  # from which step on
_TICKS_MAX = 6


@dataclasses.dataclass(frozen=True)
class Axis:
    """From `begin` to `end`; `name` writes a tick."""

    begin: float
    end: float
    step: float
    name: Callable[[float], str]

    def at(self, value: float) -> float:
        """In per cent of the width."""
        return 100.0 * (min(max(value, self.begin), self.end) - self.begin) / (self.end - self.begin)

    def ticks(self) -> list[float]:
        first = math.ceil(self.begin / self.step - 1e-9)
        return [number * self.step for number in range(first, first + _TICKS_MAX + 2) if number * self.step <= self.end + 1e-9 * self.step]


def axis_of_spans(longest: float) -> Axis:
    """Seconds from 0 on, for durations."""
    longest = max(longest, 1e-6)
    step = next((step for step in _STEPS_OF_TIME if longest / step <= _TICKS_MAX), longest / 4)
    unit, factor = next(((unit, factor) for unit, factor, least in _UNITS_OF_TIME if step >= least), ("µs", 1e-6))
    return Axis(0.0, longest * 1.02, step, lambda value: f"{digits(value / factor)} {unit}" if value else "0")


def axis_of_instants(begin_ns: int, end_ns: int) -> Axis:
    """Wall time (UTC) in seconds since `begin_ns`, whose ticks stand at round times of day."""
    length = max((end_ns - begin_ns) / 1e9, 1.0)
    step = next((step for step in _STEPS_OF_TIME if step >= 1 and length / step <= _TICKS_MAX - 1), length / 4)
    begin = begin_ns / 1e9
    form = "%H:%M:%S" if step < 60 else "%H:%M" if step < 86400 else "%m-%d"
    return Axis(begin, begin + length, step, lambda value: time.strftime(form, time.gmtime(round(value))))


def axis_of_amounts(largest: float, name: Callable[[float], str]) -> Axis:
    """Sizes and rates from 0 on, with ticks at halves."""
    return Axis(0.0, max(largest, 1.0) * 1.02, max(largest, 1.0) / 2, name)


def when(wall_time_ns: int) -> Markup:
    return tag("time", exact(wall_time_ns))


def percent(value: float) -> str:
    return f"{value:.3f}%".replace(".000%", "%")


def bar(axis: Axis, begin: float, end: float, class_: str, title: str, *, top: float = 6, height: float = 14, kind: str = "bar") -> Markup:
    """At least a hairline, whatever its length."""
    left, right = axis.at(begin), axis.at(end)
    width = max(right - left, 0.15)
    left = min(left, 100.0 - width)
    return tag("rect", tag("title", title), class_=f"{kind} {class_}", x=percent(left), y=top, width=percent(width), height=height, rx=min(2.0, height / 4))


def end_cap(axis: Axis, value: float, class_: str, title: str) -> Markup:
    """Where something came to a bad end: across the end of its bar."""
    return tag("rect", tag("title", title), class_=f"cap {class_}", x=percent(max(axis.at(value) - 0.2, 0.0)), y=10, width=4, height=16, rx=1)


def mark(axis: Axis, value: float, class_: str, title: str, *, middle: float = 13, radius: float = 5, stands_for: int = 1) -> Markup:
    """A circle, for node a diamond, for buffer an upright bar, for store a square."""
    shape = f"mark {class_}"
    if class_ in ("node", "buffer", "store", "back"):
        side = 2 * radius * (0.78 if class_ in ("node", "back") else 0.86)
        turned = " diamond" if class_ in ("node", "back") else ""
        width = side / 2 if class_ == "buffer" else side
        # A rectangle that is moved by half its width stands centred at a place in per cent.
        inner = tag("rect", tag("title", title), class_=shape + turned, x=-width / 2, y=middle - side / 2, width=width, height=side, data_count=stands_for)
        return tag("svg", inner, x=percent(axis.at(value)), y=0, width=1, height=1, overflow="visible", class_="at")
    return tag("circle", tag("title", title), class_=shape, cx=percent(axis.at(value)), cy=middle, r=radius, data_count=stands_for)


def row(label: Content, axis: Axis, drawn: Iterable[Content], value: Content = "", *, height: int = 26, thin: bool = False) -> Markup:
    lines = [tag("line", class_="grid", x1=percent(axis.at(tick)), x2=percent(axis.at(tick)), y1=0, y2=height) for tick in axis.ticks()]
    strip = tag("svg", lines, list(drawn), height=height, aria_hidden="true", focusable="false")
    return tag("div", tag("div", label, class_="label"), strip, tag("div", value, class_="value"), class_="row thin" if thin else "row")


def axis_row(axis: Axis, *, thin: bool = False) -> Markup:
    """The names of the ticks, at their places; on narrow windows every second one."""
    texts = []
    for number, tick in enumerate(axis.ticks()):
        at = axis.at(tick)
        anchor = "start" if at < 6 else "end" if at > 94 else "middle"
        texts.append(tag("text", axis.name(tick), x=percent(at), y=15, text_anchor=anchor, class_="wide" if number % 2 else None))
    strip = tag("svg", texts, height=20, aria_hidden="true", focusable="false")
    return tag("div", tag("div", class_="label"), strip, tag("div", class_="value"), class_="row axis thin" if thin else "row axis")


def key(*entries: tuple[str, str]) -> Markup:
    """What marks and bars mean: (class, text); a class that begins with "bar " is a bar."""

    def sample(class_: str) -> Markup:
        if class_.startswith("bar "):
            return tag("rect", class_=class_.removeprefix("bar "), x=1, y=2, width=12, height=10, rx=2)
        middle = Axis(0, 1, 1, str)
        return mark(middle, 0.5, class_, "", middle=7)

    items = [tag("li", tag("svg", sample(class_), height=14, aria_hidden="true", focusable="false"), tag("span", text)) for class_, text in entries]
    return tag("ul", items, class_="key")


def figure(name: str, description: str, rows: Iterable[Content], keys: Content = "") -> Markup:
    """A picture with its description, for who sees it and who does not; its table follows it."""
    return tag("figure", tag("figcaption", description), tag("div", list(rows), class_="chart", id=name, role="img", aria_label=description), keys)


def table(
    head: list[str], rows: Iterable[Sequence[Content]], numbers: Iterable[int] = (), summary: str = "Numbers", *, is_open: bool = False
) -> Markup:
    """What the picture shows, as a table that opens; columns in `numbers` go right."""
    right = set(numbers)
    classes = ["number" if at in right else None for at in range(len(head))]
    body = [tag("tr", [tag("td", cell, class_=classes[at]) for at, cell in enumerate(cells)]) for cells in rows]
    heads = tag("tr", [tag("th", cell, class_=classes[at], scope="col") for at, cell in enumerate(head)])
    whole = tag("table", tag("thead", heads), tag("tbody", body))
    scroll = tag("div", whole, class_="scroll", tabindex="0", role="region", aria_label=summary)
    return tag("details", tag("summary", summary), scroll, open="open" if is_open else None)
