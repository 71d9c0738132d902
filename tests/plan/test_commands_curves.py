"""``kedge plan curves``: a picture from the numbers of ``kedge calibrate``, and what it says of other input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kedge.plan.cli import main


def numbers() -> dict[str, object]:
    samples = [{"writers": writers, "bytes_per_second": 5e8 + writers, "rounds": 5, "spread": 0.02} for writers in (1, 11, 21)]
    curve = [{"writers": writers, "bytes_per_second": 5e8 + writers} for writers in range(1, 22)]
    ssd = {"name": "ssd", "device": "ext4, Example SSD", "calibrated": True, "origin": "measured", "samples": samples, "curve": curve}
    return {"folder": "/f", "tiers": [{"name": "pool", "calibrated": False, "reason": "none"}, ssd]}


def test_a_picture_of_the_calibrated_tiers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "numbers.json").write_text(json.dumps(numbers()))
    picture = tmp_path / "picture.png"
    assert main(["curves", str(tmp_path / "numbers.json"), str(picture), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"picture": str(picture), "tiers": ["ssd"]}
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main(["curves", str(tmp_path / "numbers.json"), str(picture)]) == 0
    assert "ssd" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "[]", '{"tiers": []}', '{"tiers": [{"name": "x"}]}', '{"tiers": [{"calibrated": true}]}'])
def test_other_input_is_refused_by_name(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "numbers.json").write_text(text)
    assert main(["curves", str(tmp_path / "numbers.json"), str(tmp_path / "picture.png")]) == 2
    assert "kedge calibrate" in capsys.readouterr().err
    assert not (tmp_path / "picture.png").exists()


def test_a_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["curves", str(tmp_path / "nothing.json"), str(tmp_path / "picture.png")]) == 2
    assert "nothing.json" in capsys.readouterr().err
