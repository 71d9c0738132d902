"""A server and its clients that have a store in common, and no buffer.folder; and who may read what a server leaves."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from buffers import BIN, MIB, Buffer, Ended
from tool import kedge_json, kedge_text
from waiting import until

from kedge import Context, Level


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@contextmanager
def serving(buffer: Buffer, store: Path, *options: object) -> Iterator[None]:
    """It says in the store alone where it is, whatever the umask."""
    command = buffer.command()
    at = command.index("--folder")
    command[at : at + 2] = ["--store", store]
    process = subprocess.Popen([*map(str, [*command, "--interface", "127.0.0.1", *options])], umask=0)
    try:
        until((store / "buffers/fast.buffer").exists)
        yield
    finally:
        process.kill()
        process.wait()


def environment(buffer: Buffer, store: object) -> dict[str, str]:
    """Of a client that has the store in common with the server, and nothing else."""
    environment = buffer.environment()
    del environment["KEDGE_BUFFER_FOLDER"]
    return environment | {"KEDGE_STORE_PATH": str(store), "KEDGE_NET_INTERFACE": "127.0.0.1"}


def kedge(buffer: Buffer, store: object, *words: object) -> Ended:
    done = subprocess.run(
        [BIN / "kedge", *map(str, words)], env=environment(buffer, store), capture_output=True, text=True, timeout=120
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def closed(path: Path) -> bool:
    """Whether nobody but this user may enter or read it."""
    found = path.stat()
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IRWXG | stat.S_IRWXO)


def open_to_others(buffer: Buffer, *names: str) -> list[Path]:
    """Of all that the server keeps, in which these are."""
    kept = list(buffer.data.rglob("*"))
    assert {path.name for path in kept} >= set(names)
    return [path for path in (buffer.data, *kept, buffer.root / "alice", buffer.root / "bob") if not closed(path)]


def test_files_are_found_by_the_store_alone(buffer: Buffer, store: Path, content: Path, tmp_path: Path) -> None:
    before = kedge(buffer, store, "cp", content, "bb://fast/file")
    assert before.code == 2 and "buffer.folder is not set" in before.error and "--store" in before.error
    with serving(buffer, store):
        put = kedge(buffer, store, "cp", content, "bb://fast/file")
        assert put.code == 0, put.error
        # Another server of the store has another name.
        other = kedge(buffer, store, "cp", content, "bb://slow/file")
        assert other.code == 1 and "no burst buffer called slow" in other.error and str(store / "buffers") in other.error
        # What the configuration says goes before what the store has.
        elsewhere = kedge(buffer, store, "cp", "--folder", tmp_path, content, "bb://fast/file")
        assert elsewhere.code == 1 and str(tmp_path / "fast.buffer") in elsewhere.error
    with serving(buffer, store):
        assert kedge(buffer, store, "cp", "bb://fast/file", tmp_path / "back").code == 0
    assert (tmp_path / "back").read_bytes() == content.read_bytes()
    # A store elsewhere says nothing of it.
    assert kedge(buffer, tmp_path / "another", "ls", "bb://fast").code == 2
    assert kedge(buffer, "bb://fast/ckpt", "ls", "bb://fast").code == 2


def test_a_store_behind_the_server_leads_to_it_and_is_a_store_as_ever(
    buffer: Buffer, store: Path, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end_own_agent: Callable[[], None]
) -> None:
    """Commands that list, verify, copy and collect see the versions, and nothing of the server's."""
    settings = environment(buffer, f"bb://fast/ckpt?drain={store}")
    monkeypatch.delenv("KEDGE_BUFFER_FOLDER", raising=False)
    for key in ("KEDGE_BUFFER_OWNER", "KEDGE_BUFFER_SECRET", "KEDGE_STORE_PATH", "KEDGE_NET_INTERFACE"):
        monkeypatch.setenv(key, settings[key])
    array = np.zeros(MIB)
    with serving(buffer, store, "--drain", f"alice:{store}"):
        with Context("climate", settings={"job.lease": "2s"}) as context:
            context.protect(0, array)
            context.checkpoint("heat", 1)
            context.wait("heat", 1, Level.STORE)
        end_own_agent()
        assert open_to_others(buffer, "stores", "drains", "version") == []
        said = (store / "buffers/fast.buffer").read_bytes()
        words = ("--store", str(store))
        assert [version["version"] for version in kedge_json("ls", *words)["versions"]] == [1]
        for command in ("verify", "gc", "inspect"):
            assert "buffers" not in kedge_text(command, *(["heat@1"] if command == "inspect" else []), *words)
        copied = tmp_path / "copied"
        assert "buffers" not in kedge_text("copy", "heat@1", str(copied), *words)
        assert sorted(path.name for path in copied.iterdir()) == ["jobs", "kedge-store"]
        assert (store / "buffers/fast.buffer").read_bytes() == said
        assert sorted(path.name for path in store.iterdir()) == ["buffers", "jobs", "kedge-store"]


def test_only_whoever_may_read_the_store_sees_the_server(buffer: Buffer, store: Path) -> None:
    with serving(buffer, store):
        assert all(closed(path) for path in (store, store / "buffers", store / "buffers/fast.buffer"))
    shared = store.with_name("shared")
    shared.mkdir()
    shared.chmod(0o2770)
    with serving(buffer, shared):
        assert stat.S_IMODE((shared / "buffers").stat().st_mode) == 0o2770
        assert stat.S_IMODE((shared / "buffers/fast.buffer").stat().st_mode) == 0o660


def test_nobody_else_can_read_what_a_server_keeps(buffer: Buffer, store: Path, content: Path, tmp_path: Path) -> None:
    """Files, what is being written, the socket and the secrets, whatever the umask."""
    folder = tmp_path / "addresses"
    folder.mkdir()
    with serving(buffer, store, "--folder", folder, "--drain", f"alice:{tmp_path}"):
        assert kedge(buffer, store, "cp", content, "bb://fast/run/file").code == 0
        writing = subprocess.Popen(
            [BIN / "kedge", "with-buffers", "sh", "-c", "exec cat > bb:/fast/writing"],
            env=environment(buffer, store), stdin=subprocess.PIPE,
        )
        try:
            until(lambda: list((buffer.data / "owners/alice/incoming").iterdir()))
            assert open_to_others(buffer, "lock", "address", "status.sock", "incoming", "file") == []
        finally:
            writing.kill()
            writing.wait()
        # Anybody may know where it is. That is all that is said there.
        said = folder / "fast.buffer"
        assert stat.S_IMODE(said.stat().st_mode) == 0o644
        assert sorted(json.loads(said.read_text())) == ["address", "name"]
        assert [path.name for path in folder.iterdir()] == ["fast.buffer"]
