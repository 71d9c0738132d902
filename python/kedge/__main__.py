"""``python -m kedge ...`` runs the kedge command that was installed with the package."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    """Replaces this process with the tool; beside the package first, then on PATH."""
    installed = Path(__file__).parent / "bin" / "kedge"
    program = str(installed) if installed.exists() else "kedge"
    try:
        os.execvp(program, ["kedge", *sys.argv[1:]])
    except FileNotFoundError:
        sys.exit("kedge: the kedge command is neither beside the Python package nor on PATH; build it with `make build`")


if __name__ == "__main__":
    main()
