"""Burst buffers as processes: the server is killed at each step of a write, the client in the middle of one, the network ends,
secrets are wrong, the disk lies. A file is there whole or not at all, and nothing else is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from buffers import BIN, MIB, Buffer
from waiting import until

# Each step of writing a file of some chunks, and whether the file may be there when the server has died at it.
POINTS = {
    "buffer-created": False,
    "buffer-chunk": False,
    "buffer-chunk:2": False,
    "buffer-table": False,
    "buffer-rename": False,
    "buffer-renamed": True,
}


def test_a_file_goes_there_and_comes_back(buffer: Buffer, content: Path, tmp_path: Path) -> None:
    with buffer.server() as server:
        copied = buffer.cp(content, "bb://fast/run/result", "--json", "--sync")
        assert copied.code == 0, copied.error
        assert json.loads(copied.output)["bytes"] == content.stat().st_size
        assert buffer.get("run/result") == content.read_bytes()
        assert buffer.get("run/result", owner="bob") is None
        state = buffer.state()
        assert state["used_bytes"] >= content.stat().st_size and state["being_written"] == 0
        server.terminate()
        assert server.wait(30) == 0
    with buffer.server():
        assert buffer.get("run/result") == content.read_bytes()
    assert buffer.files() == ["files/run/result"]


@pytest.mark.parametrize("point", POINTS)
def test_the_server_is_killed_while_a_file_is_written(buffer: Buffer, content: Path, point: str) -> None:
    former = content.with_name("former")
    former.write_bytes(b"what was there before")
    with buffer.server():
        assert buffer.cp(former, "bb://fast/file").code == 0
    with buffer.server(kill_point=point) as server:
        copied = buffer.cp(content, "bb://fast/file", "--sync")
        assert copied.code in (3, 4), copied.error
        assert server.wait(30) == -signal.SIGKILL
    with buffer.server():
        expected = content if POINTS[point] else former
        assert buffer.get("file") == expected.read_bytes()
        assert buffer.files() == ["files/file"]


@pytest.mark.parametrize("point", ["buffer-sent", "buffer-sent:3"])
def test_the_client_is_killed_while_it_writes(buffer: Buffer, content: Path, point: str) -> None:
    with buffer.server():
        assert buffer.cp(content, "bb://fast/file", kill=point).code == -signal.SIGKILL
        until(lambda: buffer.files() == [])
        assert buffer.get("file") is None
        until(lambda: buffer.state()["used_bytes"] == 0)
        assert buffer.cp(content, "bb://fast/file").code == 0
        assert buffer.get("file") == content.read_bytes()


def test_a_wrong_secret_gets_nothing(buffer: Buffer, content: Path) -> None:
    with buffer.server():
        assert buffer.cp(content, "bb://fast/file").code == 0
        copied = buffer.cp("bb://fast/file", content.with_name("stolen"), secret="bob")
        assert copied.code == 4 and "secret" in copied.error
        assert buffer.cp(content, "bb://fast/other", owner="carol", secret="bob").code == 4
        (buffer.root / "alice").chmod(0o644)
        copied = buffer.cp("bb://fast/file", content.with_name("stolen"))
        assert copied.code == 3 and "chmod 600" in copied.error
        assert not content.with_name("stolen").exists()
    assert buffer.files() == ["files/file"] and buffer.files("bob") == []


def test_a_flipped_byte_is_told(buffer: Buffer, content: Path) -> None:
    with buffer.server():
        assert buffer.cp(content, "bb://fast/file").code == 0
        stored = buffer.root / "data" / "owners" / "alice" / "files" / "file"
        with stored.open("r+b") as file:
            file.seek(9 * MIB + 5)
            byte = file.read(1)
            file.seek(9 * MIB + 5)
            file.write(bytes([byte[0] ^ 1]))
        target = content.with_name("target")
        target.write_bytes(b"as it was")
        copied = buffer.cp("bb://fast/file", target)
        assert copied.code == 1 and "fails its checksum" in copied.error
        assert target.read_bytes() == b"as it was"
        assert [path.name for path in content.parent.glob("*.tmp")] == []


def test_what_exceeds_the_capacity_is_refused(buffer: Buffer, content: Path) -> None:
    with buffer.server("--capacity", "30MiB"):
        copied = buffer.cp(content, "bb://fast/file")
        assert copied.code == 3 and "capacity" in copied.error and "remove files" in copied.error
        until(lambda: buffer.files() == [])
        small = content.with_name("small")
        small.write_bytes(os.urandom(20 * MIB))
        assert buffer.cp(small, "bb://fast/file").code == 0


@pytest.mark.parametrize("path", ["../bob/files/x", "a//b", ".x", "a/../../x"])
def test_a_name_does_not_leave_the_owners_folder(buffer: Buffer, content: Path, path: str) -> None:
    with buffer.server():
        copied = buffer.cp(content, f"bb://fast/{path}")
        assert copied.code == 2 and "cannot name a file" in copied.error
        assert buffer.files() == [] and buffer.files("bob") == []


def test_wrong_calls_say_what_is_wrong(buffer: Buffer, content: Path, tmp_path: Path) -> None:
    assert buffer.cp(content, tmp_path / "other").code == 2
    (buffer.root / "alice").write_text("no secret")
    (buffer.root / "alice").chmod(0o600)
    copied = buffer.cp(content, "bb://fast/file")
    assert copied.code == 1 and "64 hexadecimal digits" in copied.error
    done = subprocess.run([BIN / "kedge-buffer", "--name", "fast"], capture_output=True, text=True)
    assert done.returncode == 1 and "--path" in done.stderr
    assert "usage:" in subprocess.run([BIN / "kedge-buffer", "--help"], capture_output=True, text=True, check=True).stdout
