"""The program and the commands of docs/fmi.md."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from conftest import BUILD

ROOT = Path(__file__).resolve().parents[2]


def test_the_program_of_the_page_runs(run_folder: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "fmi.md").read_text()
    (tmp_path / "app.c").write_text(re.findall(r"^```c\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[0])
    commands = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[0]
    # The page's folder is Kedge's, the test's is its own.
    (tmp_path / "include").symlink_to(ROOT / "include")
    (tmp_path / "build").symlink_to(BUILD)
    done = subprocess.run(["sh", "-ec", commands], cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"after step 1000: [\d.e+]+\n", done.stdout)
