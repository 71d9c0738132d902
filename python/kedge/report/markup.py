"""HTML that is well formed and escaped by construction: text becomes markup here, and nowhere else."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

# Characters that no page may have, and those that turn the direction of what follows.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff\ud800-\udfff]")
_VOID = frozenset(("meta", "link", "br", "hr"))


class Markup(str):
    """Text that is markup already."""


Content = str | Iterable["Content"] | None


def text(content: str) -> Markup:
    """What people see is what the string has, whatever that is."""
    return content if isinstance(content, Markup) else Markup(html.escape(_UNPRINTABLE.sub("\ufffd", content)))


def join(content: Content) -> Markup:
    """One after the other; strings are escaped."""
    if content is None:
        return Markup("")
    if isinstance(content, str):
        return text(content)
    return Markup("".join(map(join, content)))


def tag(name: str, /, *content: Content, **attributes: str | float | None) -> Markup:
    """<name attribute="...">content</name>. `class_` is class, a_b is a-b; None leaves the attribute out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value if isinstance(value, str) else f"{value:.6g}")}"'
        for key, value in attributes.items() if value is not None
    )  # fmt: skip
    return Markup(f"<{name}{written}>" if name in _VOID else f"<{name}{written}>{join(content)}</{name}>")
