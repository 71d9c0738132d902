"""The kedge command against real stores, agents and damage."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kedge import Context, Level

KEDGE = Path(os.environ["BUILD_FOLDER"]) / "bin" / "kedge"

pytestmark = pytest.mark.usefixtures("run_folder")


def kedge(*arguments: str, expect: int = 0) -> subprocess.CompletedProcess[str]:
    """Runs the command; the exit code must be `expect`."""
    done = subprocess.run([KEDGE, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == expect, f"kedge {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def kedge_json(*arguments: str, expect: int = 0) -> Any:
    return json.loads(kedge(*arguments, "--json", expect=expect).stdout)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with three versions of "heat" (two are kept) and one of "other"."""
    temperature = np.asfortranarray(np.arange(24.0).reshape(2, 3, 4))
    flags = np.array([True, False, True])
    with Context("climate", settings={"job.lease": "1s"}) as context:
        context.protect(0, temperature, "temperature")
        context.protect(1, flags, "flags")
        for version in (10, 20, 30):
            temperature[0, 0, 0] = version
            with context.checkpoint_parts("heat", version) as checkpoint:
                checkpoint.part()
                checkpoint.annotate("step", str(version))
            context.wait("heat", version, Level.STORE)
        context.checkpoint("other", 1)
    return tmp_path / "store"


def image_object(store: Path, version: int) -> Path:
    """The data file of the newest generation of a version."""
    folders = sorted(path for path in (store / "jobs" / "climate" / "names" / "heat").iterdir() if path.name.startswith(f"{version}-"))
    objects = list((folders[-1] / "data").iterdir())
    assert len(objects) == 1
    return objects[0]


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x01
    path.chmod(0o600)
    path.write_bytes(data)


def test_help_lists_every_command_with_examples() -> None:
    listing = kedge("--help").stdout
    for command in "ls inspect verify export copy gc pin unpin status top wait config doctor agent".split():
        assert f"\n  {command} " in listing
        assert command in kedge(command, "--help").stdout
    assert "no kedge-no-such-command" in kedge("no-such-command", expect=2).stderr
    assert "tsubame2" in kedge("plan", "advise", "--list").stdout
    simulated = kedge_json("plan", "simulate", "tsubame2", "--transitions", "1200000", "--processes", "2")  # with processes of its own
    assert simulated["transitions"] >= 1_200_000
    kedge(expect=2)
    assert kedge("--version").stdout.strip()


def test_ls(store: Path) -> None:
    listing = kedge_json("ls")
    assert [(v["name"], v["version"]) for v in listing["versions"]] == [("heat", 30), ("heat", 20), ("other", 1)]
    assert all(v["complete"] and v["ranks"] == 1 and v["bytes"] == 195 for v in listing["versions"])
    text = kedge("ls").stdout
    assert "heat" in text and "complete" in text
    assert kedge_json("ls", "other")["versions"][0]["name"] == "other"


def test_no_store_no_job_no_version(store: Path, tmp_path: Path) -> None:
    assert "holds no Kedge store" in kedge("ls", "--store", str(tmp_path / "nowhere"), expect=1).stderr
    assert '"nobody"' in kedge("ls", "--job", "nobody", expect=1).stderr
    kedge("inspect", "heat@99", expect=1)
    kedge("inspect", "heat@x", expect=2)
    kedge("inspect", "heat", "--rank", "5", expect=1)


def test_inspect(store: Path) -> None:
    image = kedge_json("inspect", "heat@20")["images"][0]
    temperature, flags = image["regions"]
    assert temperature["type"] == "float64" and temperature["shape"] == [2, 3, 4] and temperature["column_major"]
    assert flags["type"] == "bool" and flags["bytes"] == 3
    assert image["annotations"] == {"step": "20"}
    assert sum(extent["bytes"] for extent in image["extents"]) == 195
    text = kedge("inspect", "heat", "--extents").stdout
    assert "temperature" in text and "2 x 3 x 4 (column major)" in text and "CRC32C" in text


def test_verify_finds_a_flipped_byte(store: Path) -> None:
    assert kedge_json("verify")["bad"] == 0
    flip(image_object(store, 20), 100)
    report = kedge_json("verify", expect=1)
    assert report["bad"] == 1
    bad = next(version for version in report["versions"] if not version["good"])
    assert bad["version"] == 20 and bad["problems"]
    assert "BAD" in kedge("verify", "heat@20", expect=1).stdout
    kedge("verify", "heat@30")


def test_export(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    kedge("export", "heat@20", "-o", str(out))
    temperature = np.load(out / "temperature.npy")
    assert temperature.flags.f_contiguous and temperature.shape == (2, 3, 4) and temperature[0, 0, 0] == 20
    assert np.load(out / "flags.npy").tolist() == [True, False, True]
    kedge("export", "heat@20", "-o", str(out), expect=1)  # there already
    kedge("export", "heat@20", "-o", str(out), "--force", "--raw", "--region", "flags")
    assert (out / "flags.raw").read_bytes() == b"\x01\x00\x01"
    flip(image_object(store, 20), 3)
    assert "CRC32C" in kedge("export", "heat@20", "-o", str(tmp_path / "bad"), expect=1).stderr


def test_copy_to_another_store(store: Path, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    kedge("copy", "heat@20", str(archive))
    listing = kedge_json("ls", "--store", str(archive))
    assert [v["version"] for v in listing["versions"]] == [20]
    assert listing["store_id"] != kedge_json("ls")["store_id"]
    kedge("verify", "--store", str(archive))
    kedge("copy", "heat@20", str(archive), expect=1)


def test_pin_outlives_retention(store: Path) -> None:
    kedge("pin", "heat@20")
    assert "pinned" in kedge("ls").stdout
    array = np.zeros(4)
    with Context("climate") as context:
        context.protect(0, array)
        for version in (40, 50, 60):
            context.checkpoint("heat", version)
            context.wait("heat", version, Level.STORE)
    versions = [v["version"] for v in kedge_json("ls", "heat")["versions"]]
    assert 20 in versions and 30 not in versions and versions[0] == 60
    kedge("unpin", "heat@20")


def test_gc_shows_then_removes(store: Path) -> None:
    abandoned = store / "jobs" / "climate" / "names" / "heat" / "99-1-1" / "data"
    abandoned.mkdir(parents=True)
    (abandoned / "r0").write_bytes(b"never finished")
    time.sleep(1.5)  # the attempt falls silent
    assert not kedge_json("gc")["items"]  # newer than the newest complete version: may still be carried there
    shown = kedge_json("gc", "--incomplete-age", "0")
    assert any("99" in item["what"] for item in shown["items"]) and not shown["removed"]
    assert abandoned.exists()
    kedge("gc", "--yes", "--incomplete-age", "0")
    assert not abandoned.exists()
    assert [v["version"] for v in kedge_json("ls", "heat")["versions"]] == [30, 20]


def test_config_says_where_values_come_from(tmp_path: Path) -> None:
    (tmp_path / "kedge.toml").write_text('[keep]\nversions = 7\n')
    keys = {entry["key"]: entry for entry in kedge_json("config", "--set", "flush.workers=3")["keys"]}
    assert keys["keep.versions"]["value"] == "7" and "kedge.toml:2" in keys["keep.versions"]["origin"]
    assert keys["store.path"]["origin"] == "KEDGE_STORE_PATH"
    assert keys["flush.workers"]["value"] == "3"
    (tmp_path / "kedge.toml").write_text('[keep]\nversion = 7\n')
    assert "keep.versions" in kedge("config", expect=2).stderr


def test_doctor(tmp_path: Path) -> None:
    findings = {finding["subject"]: finding for finding in kedge_json("doctor")["findings"]}
    assert findings["store"]["state"] != "BAD" and "io_uring" in findings and "userfaultfd" in findings
    (tmp_path / "file").write_text("")
    bad = kedge_json("doctor", "--set", f"store.path={tmp_path / 'file' / 'store'}", expect=1)
    assert bad["bad"]


def test_wait_and_status_with_an_agent(store: Path) -> None:
    assert kedge_json("wait", "--timeout", "60s")["finished"]
    status = kedge_json("status")
    assert status["tiers"][0]["slots"] > 0
    assert "pool" in kedge("status").stdout
    assert "pool" in kedge("top", "--once").stdout


def test_the_agent_leaves_when_it_is_told_to(store: Path, run_folder: Path) -> None:
    assert kedge_json("status")["pid"]
    kedge("agent", "--stop")
    kedge("status", expect=3)
    assert not run_folder.exists(), "everything was in the store"
    assert "no agent runs" in kedge("agent", "--stop", expect=3).stderr
    assert len(kedge_json("ls")["versions"]) == 3


def test_status_without_an_agent() -> None:
    assert "no agent runs" in kedge("status", expect=3).stderr
    kedge("wait")


def test_an_external_program_is_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "kedge-greet"
    program.write_text('#!/bin/sh\necho "hello $1"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert kedge("greet", "world").stdout == "hello world\n"
