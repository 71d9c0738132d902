"""Programs that read and write files of a burst buffer: in C, C++, Fortran and Python, and the commands that list and remove."""

from __future__ import annotations

import errno
import gc
import io
import json
import os
import pickle
import resource
import subprocess
import threading
from pathlib import Path

import pytest
from buffers import BIN, MIB, Buffer
from waiting import until

LANGUAGES = ["c", "cpp", pytest.param("fortran", marks=pytest.mark.needs("FORTRAN"))]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_program(buffer: Buffer, language: str) -> None:
    with buffer.server():
        program = BIN.parent / "test" / f"buffer_steps_{language}"
        done = subprocess.run([program], env=buffer.environment(), capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        until(lambda: all(name.startswith("files/") for name in buffer.files()))


def test_the_commands(buffer: Buffer, content: Path, tmp_path: Path) -> None:
    with buffer.server("--capacity", "1GiB"):
        assert buffer.kedge("cp", content, "bb://fast/run7/a").code == 0
        small = tmp_path / "small"
        small.write_bytes(b"small")
        for path in ("run7/b", "run70", "other/c"):
            assert buffer.kedge("cp", small, f"bb://fast/{path}").code == 0
        listed = json.loads(buffer.kedge("ls", "bb://fast/run7/", "--json").output)
        assert [(file["path"], file["bytes"]) for file in listed["files"]] == [
            ("run7/a", content.stat().st_size),
            ("run7/b", 5),
        ]
        assert listed["capacity_bytes"] == 1 << 30 and listed["own_bytes"] == listed["used_bytes"] > content.stat().st_size
        text = buffer.kedge("ls", "bb://fast").output
        assert text.splitlines()[0].split() == ["PATH", "BYTES", "AGE"] and "4 files, " in text and "of 1.00 GiB are used" in text
        assert buffer.kedge("ls", "bb://fast", owner="bob").output.startswith("0 files")
        assert buffer.kedge("ls", "bb://fast/none").code == 1
        assert buffer.kedge("ls", "bb:///x").code == 2

        refused = buffer.kedge("rm", "bb://fast/run7/")
        assert refused.code == 2 and "--yes" in refused.error and "run7/a" in refused.output
        assert "nothing was changed" in buffer.kedge("rm", "bb://fast/run7/", "--dry-run").output
        assert len(buffer.files()) == 4
        assert buffer.kedge("rm", "bb://fast/run7", "--yes").code == 1  # neither a file nor, without a slash, a folder
        assert "removed 2 files" in buffer.kedge("rm", "bb://fast/run7/", "--yes").output
        assert buffer.files() == ["files/other/c", "files/run70"]
        assert json.loads(buffer.kedge("rm", "bb://fast/other/c", "--yes", "--json").output)["files"][0]["path"] == "other/c"
        assert buffer.kedge("cp", "bb://fast/other/c", tmp_path / "gone").code == 1


def test_a_command_without_configuration_says_what_is_missing(content: Path) -> None:
    done = subprocess.run([BIN / "kedge", "cp", content, "bb://fast/x"], capture_output=True, text=True)
    assert done.returncode == 2 and "buffer.folder is not set" in done.stderr and "KEDGE_BUFFER_FOLDER" in done.stderr


@pytest.mark.needs("PYTHON")
class TestPython:
    """kedge.BurstBuffer."""

    @pytest.fixture(autouse=True)
    def configured(self, buffer: Buffer, monkeypatch: pytest.MonkeyPatch) -> None:
        buffer.configure(monkeypatch)

    def test_arrays_and_objects(self, buffer: Buffer) -> None:
        import numpy as np
        from kedge import BurstBuffer

        field = np.random.default_rng(1).random((1500, 1000))
        with buffer.server(), BurstBuffer("fast") as fast:
            with fast.open("py/field.npy", "wb", sync=True) as file:
                np.save(file, field)
            with fast.open("py/object", "wb") as file:
                pickle.dump({"step": 7}, file)
            with fast.open("py/field.npy") as file:
                assert (np.load(file) == field).all()
                assert file.seek(-8, os.SEEK_END) == file.tell() and file.read() == field[-1, -1].tobytes()
                assert file.seek(10**9) == file.seek(0, os.SEEK_END) and file.read(1) == b""
                with pytest.raises(ValueError):
                    file.seek(-1)
            with fast.open("py/object") as file:
                assert pickle.load(file) == {"step": 7}
            assert [entry.path for entry in fast.list("py/")] == ["py/field.npy", "py/object"]
            assert fast.room().own > field.nbytes
            fast.rename("py/object", "py/deeper/renamed")
            with fast.open("py/deeper/renamed") as file:
                assert pickle.load(file) == {"step": 7}
            fast.remove("py/deeper/renamed")
            assert len(list(fast.list())) == 1

    def test_what_an_exception_leaves_does_not_appear(self, buffer: Buffer) -> None:
        from kedge import BurstBuffer

        with buffer.server(), BurstBuffer("fast") as fast:
            with fast.open("file", "wb") as file:
                file.write(b"former")
            with pytest.raises(RuntimeError), fast.open("file", "wb") as file:
                file.write(b"half")
                raise RuntimeError("in the middle")
            forgotten = fast.open("file", "wb")
            forgotten.write(b"x")
            del forgotten
            gc.collect()
            with fast.open("file") as file:
                assert file.read() == b"former"
            until(lambda: buffer.state()["being_written"] == 0)

    def test_errors_are_exceptions(self, buffer: Buffer) -> None:
        import kedge
        from kedge import BurstBuffer

        with pytest.raises(kedge.NotFoundError):
            BurstBuffer("fast")
        with buffer.server("--capacity", "8MiB"), BurstBuffer("fast") as fast:
            with pytest.raises(kedge.NotFoundError, match="has no file none"):
                fast.open("none")
            with pytest.raises(kedge.InvalidArgumentError):
                fast.open("../x", "wb")
            with pytest.raises(ValueError, match="mode"):
                fast.open("x", "r+")
            with pytest.raises(kedge.SpaceError), fast.open("large", "wb") as file:
                for _ in range(64):
                    file.write(bytes(MIB))
            until(lambda: buffer.files() == [])
            file = fast.open("closed", "wb")
            file.close()
            with pytest.raises(ValueError):
                file.write(b"x")
            fast.close()
            with pytest.raises(kedge.InvalidArgumentError):
                fast.remove("closed")

    def test_an_error_of_the_disk_has_its_errno(self, buffer: Buffer) -> None:
        """The server's kernel says it; the owner's quota is one, too."""
        import kedge
        from kedge import BurstBuffer

        def write(fast: BurstBuffer) -> None:
            with fast.open("large", "wb") as file:
                for _ in range(64):
                    file.write(bytes(MIB))

        with buffer.server(before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8 * MIB, 8 * MIB))), BurstBuffer("fast") as fast:
            with pytest.raises(kedge.StorageError, match="File too large") as failed:
                write(fast)
            assert failed.value.errno == errno.EFBIG and isinstance(failed.value, OSError)
        with buffer.server(quota="8MiB"), BurstBuffer("fast") as fast:
            with pytest.raises(kedge.SpaceError, match="^[^\\[].*remove files") as full:
                write(fast)
            assert full.value.errno == errno.EDQUOT
            with pytest.raises(kedge.InvalidArgumentError) as refused:
                fast.open("../x", "wb")
            assert refused.value.errno is None

    def test_threads_share_a_connection(self, buffer: Buffer) -> None:
        from kedge import BurstBuffer

        with buffer.server(), BurstBuffer("fast") as fast:
            contents = [os.urandom(3 * MIB + i) for i in range(4)]
            read: list[bytes] = [b""] * len(contents)

            def work(i: int) -> None:
                with fast.open(f"file{i}", "wb") as file:
                    written = io.BytesIO(contents[i])
                    while part := written.read(300_001):
                        file.write(part)
                with fast.open(f"file{i}") as file:
                    read[i] = file.read()

            threads = [threading.Thread(target=work, args=(i,)) for i in range(len(contents))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert read == contents

    def test_a_server_that_is_killed_is_told(self, buffer: Buffer) -> None:
        import kedge
        from kedge import BurstBuffer

        with buffer.server() as server, BurstBuffer("fast") as fast:
            file = fast.open("file", "wb")
            file.write(bytes(20 * MIB))
            server.kill()
            server.wait()
            with pytest.raises((kedge.UnavailableError, kedge.TimeoutExpiredError)):
                while True:
                    file.write(bytes(MIB))
            file.discard()
