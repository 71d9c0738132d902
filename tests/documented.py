"""The command lines that the documents show, for tests that execute them."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = ("fmi.md", "guide.md", "how-to.md", "operations.md", "reference.md", "tutorial.md")
_COMMAND = re.compile(r"(?:\w+=\S+ )*(?:build/bin/)?(kedge [a-z]+( .*)?)")


def commands(page: str) -> list[str]:
    """Those that begin with kedge, each once: lines of shell, and code within a sentence that has more than the command's name."""
    found = []
    in_shell = is_fenced = False
    for line in (DOCS / page).read_text().splitlines():
        if line.startswith("```"):
            is_fenced = not is_fenced
            in_shell = is_fenced and line == "```sh"
        elif in_shell and (shown := _COMMAND.fullmatch(line.split("#")[0].strip())):
            found.append(shown[1])
        elif not is_fenced:
            found += [shown[1] for span in re.findall("`([^`]+)`", line) if (shown := _COMMAND.fullmatch(span)) and shown[2]]
    return list(dict.fromkeys(found))
