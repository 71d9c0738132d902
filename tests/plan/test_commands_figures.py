"""`kedge plan figures`: the registry, the files it writes and its verdict."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kedge.plan.cli import main
from kedge.plan.commands import figures
from kedge.plan.figure import Claim, Figure, FigureMaker, Series


def sample(ours: float, tolerance: float | None = 0.1) -> FigureMaker:
    """A maker of a small figure with one printed number."""

    def make() -> Figure:
        return Figure(
            key="test-1.1",
            title="A figure <of> a test",
            source="nowhere",
            x_label="x",
            y_label="y",
            series=[Series("line", [1.0, 2.0], [0.5, None], [0.4, None], [0.6, None])],
            claims=[Claim("a number", 1.0, ours, tolerance, "note")],
        )

    return make


def use(monkeypatch: pytest.MonkeyPatch, maker: FigureMaker) -> None:
    monkeypatch.setattr(figures, "registry", lambda: {"test-1.1": maker})


def test_the_registry_holds_the_simulated_figures_in_order() -> None:
    keys = list(figures.registry())
    for key in ("sato-3.16", "sato-3.17", "sato-3.18", "sato-3.20-simulated", "sato-5.18-simulated"):
        assert key in keys
    assert keys.index("sato-3.17") < keys.index("sato-3.18") < keys.index("sato-3.20-simulated")
    assert figures._order("sato-4.9") < figures._order("sato-4.10")


def test_list_says_what_each_figure_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figures", "--list"]) == 0
    assert re.search(r"^sato-3\.16 +Figure 3\.16: error of the model", capsys.readouterr().out, re.MULTILINE)


def test_all_files_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, sample(1.05))
    folder = tmp_path / "made" / "here"
    assert main(["figures", "--output", str(folder), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((folder / "figures.json").read_text())
    claim = printed["figures"]["test-1.1"]["claims"][0]
    assert (claim["printed"], claim["ours"], claim["met"]) == (1.0, 1.05, True)
    assert (folder / "test-1.1.png").read_bytes().startswith(b"\x89PNG")
    assert "a number" in (folder / "figures.txt").read_text()
    page = (folder / "index.html").read_text()
    assert "A figure &lt;of&gt; a test" in page and "1.05" in page
    assert "data:image/png;base64," in page
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:|/|\./)", page)


def test_the_exit_code_is_the_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, sample(1.2))
    assert main(["figures", "--output", str(tmp_path)]) == 1
    use(monkeypatch, sample(1.2, None))
    assert main(["figures", "--output", str(tmp_path)]) == 0
    use(monkeypatch, sample(float("nan")))
    assert main(["figures", "--output", str(tmp_path)]) == 1


def test_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figures", "sato-9.9", "--output", str(tmp_path)]) == 2
    assert "KEY = 'sato-9.9': allowed is one of" in capsys.readouterr().err
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert main(["figures", "sato-3.17", "--output", str(blocked / "folder")]) == 2
    assert "--output" in capsys.readouterr().err


@pytest.mark.slow
def test_every_figure_can_be_made(tmp_path: Path) -> None:
    """All registries, and every printed number that is expected to be met is."""
    assert main(["figures", "--output", str(tmp_path), "--processes", "2"]) == 0
    assert len(list(tmp_path.glob("*.png"))) == len(figures.registry())
